/* txl completion: scripts that let a shell complete command lines of txl, from the tables of all
 * commands.  The scripts call nothing, so that completing needs neither txl nor a model. */
#include "cli/commands.h"
#include "cli/io/output.h"

#include <string.h>

static void print_choices(const struct option_row *row) {
    const char *choice;
    for (size_t i = 0; (choice = options_choice(row, i)); i++)
        printf("%s%s", i > 0 ? " " : "", choice);
}

static void print_commands(void) {
    for (size_t i = 0; commands[i]; i++)
        printf("%s%s", i > 0 ? " " : "", commands[i]->name);
}

/* Whether the operand is one of certain words, and no file. */
static bool has_words(const struct operand_row *row) {
    return row->commands || row->choices;
}

static void print_words(const struct operand_row *row) {
    if (row->commands)
        print_commands();
    for (size_t i = 0; row->choices && row->choices[i]; i++)
        printf("%s%s", i > 0 ? " " : "", row->choices[i]);
}

/* ---- bash --------------------------------------------------------------------------------- */

static void print_bash_names(const struct option_row *row) {
    printf("--%s", row->name);
    if (row->letter != 0)
        printf("|-%c", row->letter);
}

/* Completes an option's argument: choices, a file's name, or nothing. */
static void print_bash_arguments(const struct option_row *rows) {
    fputs("        case $before in\n", stdout);
    for (const struct option_row *row = rows; row->name; row++) {
        if (row->kind == OPTION_FLAG)
            continue;
        fputs("        ", stdout);
        print_bash_names(row);
        fputs(") argument=yes", stdout);
        if (row->kind == OPTION_CHOICE) {
            fputs(" words='", stdout);
            print_choices(row);
            putchar('\'');
        }
        if (row->file == FILE_MODEL)
            fputs(" words='" BUILT_IN "'", stdout);
        fputs(row->file != FILE_NONE ? " files=yes;;\n" : ";;\n", stdout);
    }
    fputs("        esac\n", stdout);
}

static void print_bash_operands(const struct operand_row *row) {
    if (!row || !row->name)
        return;
    fputs("        [[ $argument ]] || ", stdout);
    if (has_words(row)) {
        fputs("words='", stdout);
        print_words(row);
        fputs("'\n", stdout);
    } else {
        fputs(row->model ? "files=yes words='" BUILT_IN "'\n" : "files=yes\n", stdout);
    }
}

static void print_bash(void) {
    fputs("# bash completion of txl; made by: txl completion bash\n"
          "_txl() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local options= words= files= argument=\n"
          "    COMPREPLY=()\n"
          "    if [[ $word == = ]]; then\n"
          "        word=\n"
          "    elif [[ $before == = ]]; then\n"
          "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W '",
          stdout);
    print_commands();
    fputs(" --help --version -V' -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]} in\n",
          stdout);
    for (size_t i = 0; commands[i]; i++) {
        printf("    %s)\n", commands[i]->name);
        print_bash_arguments(commands[i]->options);
        print_bash_operands(commands[i]->operands);
        fputs("        options='", stdout);
        for (const struct option_row *row = commands[i]->options; row->name; row++)
            printf("%s--%s", row > commands[i]->options ? " " : "", row->name);
        fputs("';;\n", stdout);
    }
    fputs("    esac\n"
          "    if [[ $word == -* && ! $argument ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "    elif [[ $words || $files ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "        [[ $files ]] || return\n"
          "        compopt -o filenames\n"
          "        local IFS=$'\\n'\n"
          "        COMPREPLY+=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -F _txl txl\n",
          stdout);
}

/* ---- zsh ---------------------------------------------------------------------------------- */

/* Brackets and colons have a meaning in specifications of _arguments. */
static void print_zsh_help(const char *text) {
    for (; *text != '\0'; text++) {
        if (strchr("[]:\\", *text))
            putchar('\\');
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
}

/* What completes a file's name, or a model's. */
static const char *zsh_files(bool model) {
    return model ? "{compadd " BUILT_IN "; _files}" : "_files";
}

static void print_zsh_option(const char *dashes, const char *name, const struct option_row *row) {
    /* --text raw and --text=raw */
    bool joins = row->kind != OPTION_FLAG && strcmp(dashes, "--") == 0;
    printf("            '%s%s%s%s[", row->kind == OPTION_LIST ? "*" : "", dashes, name,
           joins ? "=" : "");
    print_zsh_help(row->help);
    putchar(']');
    if (row->kind != OPTION_FLAG) {
        putchar(':');
        const char *argument = options_placeholder(row);
        print_zsh_help(argument ? argument : row->name);
        putchar(':');
        if (row->kind == OPTION_CHOICE) {
            putchar('(');
            print_choices(row);
            putchar(')');
        } else if (row->file != FILE_NONE) {
            fputs(zsh_files(row->file == FILE_MODEL), stdout);
        }
    }
    fputs("' \\\n", stdout);
}

static void print_zsh_operand(const struct operand_row *row) {
    printf("            '%s:%s:", row->repeats ? "*" : "", row->name);
    if (has_words(row)) {
        putchar('(');
        print_words(row);
        putchar(')');
    } else {
        fputs(zsh_files(row->model), stdout);
    }
    fputs("' \\\n", stdout);
}

static void print_zsh_command(const struct command *command) {
    printf("        %s)\n            _arguments \\\n", command->name);
    for (const struct option_row *row = command->options; row->name; row++) {
        print_zsh_option("--", row->name, row);
        if (row->letter != 0) {
            const char letter[] = {row->letter, '\0'};
            print_zsh_option("-", letter, row);
        }
    }
    const struct operand_row *row = command->operands;
    for (; row && row->name; row++)
        print_zsh_operand(row);
    fputs("            && return;;\n", stdout);
}

static void print_zsh(void) {
    fputs("#compdef txl\n"
          "# zsh completion of txl; made by: txl completion zsh\n"
          "_txl() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          stdout);
    for (size_t i = 0; commands[i]; i++) {
        printf("        '%s:", commands[i]->name);
        print_zsh_help(commands[i]->summary);
        fputs("'\n", stdout);
    }
    fputs("    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe command commands\n"
          "        _arguments '--help[print help]' '(-V --version)'{-V,--version}'[print the "
          "version]'\n"
          "        return\n"
          "    fi\n"
          "    local command=$words[2]\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $command in\n",
          stdout);
    for (size_t i = 0; commands[i]; i++)
        print_zsh_command(commands[i]);
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _txl ]]; then\n"
          "    _txl \"$@\"\n"
          "else\n"
          "    compdef _txl txl\n"
          "fi\n",
          stdout);
}

/* ---- fish --------------------------------------------------------------------------------- */

static void print_fish_quoted(const char *text) {
    putchar('\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

/* The command is the first word: later its name may be an argument, as in txl help ppl. */
static void print_fish_condition(const char *command) {
    printf("complete -c txl -n 'contains %s (commandline -opc)[2]'", command);
}

static void print_fish_option(const char *command, const struct option_row *row) {
    print_fish_condition(command);
    if (row->letter != 0)
        printf(" -s %c", row->letter);
    printf(" -l %s", row->name);
    if (row->kind != OPTION_FLAG)
        fputs(row->file != FILE_NONE ? " -r -F" : " -x", stdout);
    if (row->kind == OPTION_CHOICE) {
        fputs(" -a '", stdout);
        print_choices(row);
        putchar('\'');
    }
    if (row->file == FILE_MODEL)
        fputs(" -a " BUILT_IN, stdout);
    fputs(" -d ", stdout);
    print_fish_quoted(row->help);
    putchar('\n');
}

static void print_fish_operand(const char *command, const struct operand_row *row) {
    print_fish_condition(command);
    if (has_words(row)) {
        fputs(" -a '", stdout);
        print_words(row);
        fputs("'\n", stdout);
    } else {
        fputs(row->model ? " -F -a " BUILT_IN "\n" : " -F\n", stdout);
    }
}

static void print_fish(void) {
    fputs("# fish completion of txl; made by: txl completion fish\n"
          "complete -c txl -f\n"
          "complete -c txl -n __fish_use_subcommand -l help -d 'print help'\n"
          "complete -c txl -n __fish_use_subcommand -s V -l version -d 'print the version'\n",
          stdout);
    for (size_t i = 0; commands[i]; i++) {
        const struct command *command = commands[i];
        printf("complete -c txl -n __fish_use_subcommand -a %s -d ", command->name);
        print_fish_quoted(command->summary);
        putchar('\n');
        for (const struct option_row *row = command->options; row->name; row++)
            print_fish_option(command->name, row);
        const struct operand_row *row = command->operands;
        for (; row && row->name; row++)
            print_fish_operand(command->name, row);
    }
}

/* ---- The command -------------------------------------------------------------------------- */

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

static int run(const struct command *command, void *values, struct operands *operands) {
    static void (*const print[])(void) = {print_bash, print_zsh, print_fish};
    (void)values;
    for (size_t i = 0; shells[i]; i++) {
        if (strcmp(operands->items[0], shells[i]) == 0) {
            print[i]();
            return output_finish(STATUS_OK);
        }
    }
    return options_wrong(command, "'%s' is not one of bash, zsh, fish", operands->items[0]);
}

static const struct option_row options[] = {PLAIN_ROWS, {0}};

static const struct operand_row operands[] = {
    {.name = "SHELL", .help = "bash, zsh or fish", .choices = shells}, {0}};

static const struct example examples[] = {
    {"source <(txl completion bash)", "in ~/.bashrc"},
    {"source <(txl completion zsh)", "in ~/.zshrc, after compinit"},
    {"txl completion fish > ~/.config/fish/completions/txl.fish", "once"},
    {0}};

const struct command completion_command = {
    .name = "completion",
    .summary = "print a script that completes command lines",
    .description = "Prints the script that lets SHELL complete the commands, options and "
                   "arguments of txl.",
    .options = options,
    .operands = operands,
    .examples = examples,
    .run = run,
};
