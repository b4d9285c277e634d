/* txl help: the list of commands, or the help of one; and txl man: the same as a manual page, for
 * the build to install.  Both are made of the commands' tables. */
#include "cli/commands.h"
#include "cli/io/output.h"
#include "cli/options/combinations.h"
#include "cli/options/topics.h"
#include "txl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row explain_options[] = {PLAIN_ROWS, {0}};

static const struct operand_row explain_operands[] = {
    {.name = "COMMAND", .help = "the command to explain", .optional = true, .commands = true}, {0}};

static const struct operand_row help_operands[] = {{.name = "TOPIC",
                                                    .help = "the command or topic to explain",
                                                    .optional = true,
                                                    .commands = true},
                                                   {0}};

/* Runs `command`: calls `one` to print the command that the command line names, or `all` if it
 * names none.  Returns the exit status. */
static int explain(const struct command *command, const struct operands *operands,
                   void (*all)(void), void (*one)(const struct command *topic)) {
    const struct command *topic = operands->n > 0 ? command_find(operands->items[0]) : NULL;
    if (topic)
        one(topic);
    else if (operands->n > 0)
        return command_unknown(command, operands->items[0]);
    else
        all();
    return output_finish(STATUS_OK);
}

/* ---- txl help ----------------------------------------------------------------------------- */

static void print_overview(void) {
    fputs("Usage: txl COMMAND [OPTION]... [ARGUMENT]...\n"
          "       txl --version | -V\n\n"
          "Runs Transformer-XL and XLNet language models: generates text of any length,\n"
          "fills gaps, measures bits per character and perplexity, and trains. A model is\n"
          "built in; txl convert makes others from published checkpoints.\n\n"
          "Commands:\n",
          stdout);
    for (size_t i = 0; commands[i]; i++)
        printf("  %-12s%s\n", commands[i]->name, commands[i]->summary);
    printf("  %-12s%s\n", manual_command.name, manual_command.summary);
    fputs("\nExamples:\n"
          "  echo \"It was a dark and stormy night\" | txl generate -n 300\n"
          "  txl ppl novel.txt\n\n"
          "'txl COMMAND -h' explains a command in brief, --help in full. The exit status\n"
          "is 0 for success, 1 for a failure, 2 for wrong usage, 130 after Ctrl-C.\n",
          stdout);
}

static void print_help(const struct command *topic) {
    options_help(topic, stdout);
}

/* Finds a topic of any command. */
static bool find_topic(const char *name, struct topic *topic) {
    for (size_t i = 0; commands[i]; i++)
        if (topic_find(commands[i]->topics, name, strlen(name), topic))
            return true;
    return topic_find(shared_topics, name, strlen(name), topic);
}

static int run_help(const struct command *command, void *values, struct operands *operands) {
    struct topic topic;
    (void)values;
    if (operands->n > 0 && !command_find(operands->items[0]) &&
        find_topic(operands->items[0], &topic)) {
        printf("%.*s:\n\n", (int)topic.n_title, topic.title);
        options_print_prose(stdout, topic.text, topic.n_text, 2);
        return output_finish(STATUS_OK);
    }
    return explain(command, operands, print_overview, print_help);
}

const struct command help_command = {
    .name = "help",
    .summary = "explain a command or a topic",
    .description =
        "Prints the help of a command, or one of the topics that its help names. Without "
        "either it lists the commands.",
    .options = explain_options,
    .operands = help_operands,
    .run = run_help,
};

/* ---- txl man ------------------------------------------------------------------------------ */

/* Of the release, TXL_VERSION. */
#define DATE "2026-11-28"

/* Prints text, escaping what roff would interpret. */
static void print_plain(const char *text, size_t length) {
    static const char special[] = "\\-'^~";
    static const char *const escapes[] = {"\\e", "\\-", "\\(aq", "\\(ha", "\\(ti"};
    for (size_t i = 0; i < length; i++) {
        bool line_start = i == 0 || text[i - 1] == '\n';
        const char *found = text[i] ? strchr(special, text[i]) : NULL;
        if (line_start && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", stdout);
        if (found)
            fputs(escapes[found - special], stdout);
        else
            putchar(text[i]);
    }
}

static void print_text(const char *text) {
    print_plain(text, strlen(text));
}

static void print_upper(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        putchar(toupper((unsigned char)text[i]));
}

/* Prints paragraphs divided by empty lines; lines that start with a blank are kept as they are. */
static void print_paragraphs(const char *text, size_t length) {
    for (bool first = true; length > 0; first = false) {
        bool literal = *text == ' ';
        const char *end = memmem(text, length, "\n\n", 2);
        size_t n = end ? (size_t)(end - text) : length;
        fputs(first ? "" : ".PP\n", stdout);
        fputs(literal ? ".nf\n" : "", stdout);
        print_plain(text, n);
        fputs(literal ? "\n.fi\n" : "\n", stdout);
        while (n < length && text[n] == '\n')
            n++;
        text += n;
        length -= n;
    }
}

static void print_prose(const char *text) {
    print_paragraphs(text, strlen(text));
}

static void print_synopsis(const struct command *command) {
    printf(".SH SYNOPSIS\n.B txl %s\n[\\fIOPTION\\fR]...", command->name);
    for (const struct option_row *option = command->options; option->name; option++)
        if (option->required)
            printf(" \\fB\\-%c\\fR \\fI%s\\fR", option->letter, option->argument);
    const struct operand_row *row = command->operands;
    for (; row && row->name; row++) {
        printf(row->optional ? " [\\fI%s\\fR]%s" : " \\fI%s\\fR%s", row->name,
               row->repeats ? "..." : "");
    }
    putchar('\n');
}

/* Ends the line of a term, and prints what it means: the sentence, then the default. */
static void print_entry(const char *help, const char *standard) {
    putchar('\n');
    print_text(help);
    if (standard) {
        fputs(" (default: ", stdout);
        print_text(standard);
        putchar(')');
    }
    putchar('\n');
}

static void print_option(const struct option_row *row) {
    fputs(".TP\n\\fB", stdout);
    if (row->letter != 0)
        printf("\\-%c\\fR, \\fB", row->letter);
    fputs("\\-\\-", stdout);
    print_text(row->name);
    fputs("\\fR", stdout);
    if (row->kind != OPTION_FLAG) {
        fputs(" \\fI", stdout);
        options_print_argument(row, stdout);
        fputs("\\fR", stdout);
    }
    print_entry(row->help, row->standard);
}

static void print_options(const struct command *command) {
    fputs(".SH OPTIONS\n", stdout);
    for (const struct option_row *row = command->options; row->name; row++) {
        if (row->section)
            printf(".SS %s\n", row->section);
        print_option(row);
    }
}

static void print_arguments(const struct operand_row *row) {
    fputs(".SH ARGUMENTS\n", stdout);
    for (; row->name; row++) {
        printf(".TP\n\\fI%s\\fR", row->name);
        print_entry(row->help, options_operand_standard(row));
    }
}

static void print_examples(const struct example *example) {
    fputs(".SH EXAMPLES\n", stdout);
    for (; example->command; example++) {
        fputs(".TP\n\\fB", stdout);
        print_text(example->command);
        fputs("\\fR", stdout);
        print_entry(example->purpose, NULL);
    }
}

/* Every environment variable that txl reads, and the commands that read it; NULL: all. */
static const struct {
    const char *name, *commands, *help;
} variables[] = {
    {"TXL_MODEL", "generate ppl tokenize bench info compress decompress",
     "The weights file without --model. Without either it is the built-in model."},
    {"TXL_MODELS", "compress decompress",
     "Folders with the models of compressed texts, with colons between them."},
    {"TXL_CPU", "generate ppl train bench version compress decompress",
     "The kernels to use instead of the best that the processor has; txl version prints "
     "those in use. For a name that the processor cannot run, an error lists those it can."},
    {"OPENBLAS_CORETYPE", "generate ppl train bench version compress decompress",
     "The kernels of OpenBLAS, if it chooses badly: Haswell for processors with AVX2, SkylakeX "
     "with AVX-512. With kernels that are slower than the processor, txl multiplies with its own, "
     "and txl version says so."},
    {"NO_COLOR", "ppl", "If it is set and not empty, --heat prints no colours."},
    {"CLICOLOR_FORCE", "ppl",
     "If it is set to anything but 0, --heat prints colours into files and pipes too."},
    {"XDG_STATE_HOME, HOME", "generate",
     "The lines typed to --interactive are kept in $XDG_STATE_HOME/txl/history, else in "
     "~/.local/state/txl/history."},
    {"TERM", "generate", "The kind of terminal on which --interactive edits lines."},
};

static bool reads_variable(const char *command, const char *list) {
    size_t length = strlen(command);
    for (const char *at = list; (at = strstr(at, command)); at++)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* `command` NULL: of all commands. */
static void print_environment(const char *command) {
    bool begun = false;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (command && !reads_variable(command, variables[i].commands))
            continue;
        fputs(begun ? "" : ".SH ENVIRONMENT\n", stdout);
        begun = true;
        fputs(".TP\n.B ", stdout);
        print_text(variables[i].name);
        print_entry(variables[i].help, NULL);
    }
}

static void print_command(const struct command *command) {
    fputs(".TH TXL\\-", stdout);
    print_upper(command->name, strlen(command->name));
    printf(" 1 \"%s\" \"txl %s\" \"txl manual\"\n.SH NAME\ntxl\\-%s \\- ", DATE, TXL_VERSION,
           command->name);
    print_text(command->summary);
    putchar('\n');
    print_synopsis(command);
    fputs(".SH DESCRIPTION\n", stdout);
    print_prose(command->description);
    if (command->operands)
        print_arguments(command->operands);
    print_options(command);
    for (const struct note *note = command->notes; note && note->title; note++) {
        fputs(".SH ", stdout);
        print_upper(note->title, strlen(note->title));
        putchar('\n');
        print_prose(note->text);
    }
    struct topic_place place = {0};
    for (struct topic topic; topic_of_command(command, &place, &topic);) {
        fputs(".SH ", stdout);
        print_upper(topic.title, topic.n_title);
        putchar('\n');
        print_paragraphs(topic.text, topic.n_text);
    }
    char *combinations = combinations_text(command);
    if (!combinations)
        output_lacks_memory();
    else if (*combinations != '\0') {
        fputs(".SH NOT TOGETHER\n", stdout);
        print_prose(combinations);
    }
    free(combinations);
    if (command->examples)
        print_examples(command->examples);
    print_environment(command->name);
    fputs(".SH SEE ALSO\n.BR txl (1)\n", stdout);
}

static void print_index(void) {
    printf(".TH TXL 1 \"%s\" \"txl %s\" \"txl manual\"\n"
           ".SH NAME\ntxl \\- run Transformer\\-XL and XLNet language models\n"
           ".SH SYNOPSIS\n.B txl\n\\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...\n"
           ".SH DESCRIPTION\nGenerates text of any length, fills gaps, measures bits per character "
           "and perplexity, and trains.\nA model is built in;\n.BR txl\\-convert (1)\nmakes others "
           "from published "
           "checkpoints.\n"
           ".SH COMMANDS\n",
           DATE, TXL_VERSION);
    for (size_t i = 0; commands[i]; i++) {
        printf(".TP\n.BR txl\\-%s (1)", commands[i]->name);
        print_entry(commands[i]->summary, NULL);
    }
    print_environment(NULL);
    fputs(".SH EXIT STATUS\n0 for success, 1 for a failure, 2 for wrong usage, 130 after "
          "Ctrl\\-C.\n",
          stdout);
}

static int run_manual(const struct command *command, void *values, struct operands *operands) {
    (void)values;
    return explain(command, operands, print_index, print_command);
}

const struct command manual_command = {
    .name = "man",
    .summary = "print a manual page",
    .description = "Prints the manual page of COMMAND, or of txl, in the man macros of roff.",
    .options = explain_options,
    .operands = explain_operands,
    .run = run_manual,
};
