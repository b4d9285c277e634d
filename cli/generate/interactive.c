/* A text by turns.  Between the turns it is a saved memory, from which each turn starts, so that
 * whatever ends a turn, the text is still as it was before, and the last turn can be undone. */
#include "interactive.h"

#include "cli/system/line_reader.h"
#include "cli/system/output.h"
#include "cli/system/signals.h"
#include "cli/system/terminal.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct interaction {
    struct generate *g;
    const struct command *command;
    struct generate_options *options; /* the command line's, which /set changes */
    struct line_reader reader;
    txl_memory *before; /* what /undo goes back to; NULL: to the beginning */
    bool can_undo;
    int64_t texts;
    uint64_t prompt_tokens, unknown;
};

/* ---- The text ----------------------------------------------------------------------------- */

/* The text is now `memory`, which may be NULL; the one that it was can be had back. */
static void replace_memory(struct interaction *i, txl_memory *memory) {
    txl_memory_free(i->before);
    i->before = i->g->memory;
    i->g->memory = memory;
    i->can_undo = true;
}

static bool equal_settings(const txl_settings *a, const txl_settings *b) {
    return a->tgt_len == b->tgt_len && a->mem_len == b->mem_len && a->clamp_len == b->clamp_len &&
           a->same_length == b->same_length && a->memory_type == b->memory_type;
}

/* A session with the settings that the memory was saved with. */
static bool need_session(struct interaction *i, const txl_memory *memory) {
    struct generate *g = i->g;
    txl_settings settings;
    txl_session *session;
    if (!memory)
        return true;
    txl_memory_settings(memory, &settings);
    if (equal_settings(&settings, &g->settings))
        return true;
    settings.threads = g->settings.threads;
    if (!session_open(&g->model, &settings, &session))
        return false;
    txl_session_free(g->sample.session);
    g->sample.session = g->prompt.session = session;
    txl_session_settings(session, &g->settings);
    return true;
}

/* Feeds the prompt's input and lets the model go on.  What fails leaves the text as it was. */
static txl_status take_turn(struct interaction *i) {
    struct generate *g = i->g;
    txl_memory *memory;
    g->prompt.memory = g->memory;
    txl_status status = continue_prompt(g, 1);
    i->texts++;
    i->prompt_tokens += g->prompt.tokens;
    i->unknown += g->prompt.unknown.n;
    bool shown = output_start_line() && output_flush();
    g->sample.tail = '\n';
    if (status == TXL_OK && sample_save(&g->sample, &memory))
        replace_memory(i, memory);
    if (!shown || (signals_stopped() && !signals_forget_interrupt()))
        return TXL_STOPPED;
    return TXL_OK;
}

/* A typed line becomes one of the text's; an empty one adds nothing. */
static txl_status take_line(struct interaction *i, const char *line, size_t length) {
    struct prompt *prompt = &i->g->prompt;
    prompt->input = (struct input){
        .name = "the line", .handle = -1, .string = line, .left = length, .size = length};
    prompt->whole = length > 0;
    prompt->echo = false;
    return take_turn(i);
}

/* ---- Commands ----------------------------------------------------------------------------- */

static bool help(struct interaction *i, char *argument);

static bool reset(struct interaction *i, char *argument) {
    (void)argument;
    replace_memory(i, NULL);
    return true;
}

static bool undo(struct interaction *i, char *argument) {
    struct generate *g = i->g;
    (void)argument;
    if (!i->can_undo) {
        terminal_error("/undo: there is nothing to undo");
        return true;
    }
    if (!need_session(i, i->before))
        return true;
    txl_memory_free(g->memory);
    g->memory = i->before;
    i->before = NULL;
    i->can_undo = false;
    return true;
}

static bool save(struct interaction *i, char *argument) {
    const struct named_file output = {FILE_WHOLE, "/", "save", argument, "load-memory"};
    txl_error error;
    if (!i->g->memory)
        terminal_error("/save: there is no text yet");
    else if (options_check_output(i->command, i->options, &output) != OPTIONS_RUN)
        return true;
    else if (txl_memory_write(i->g->memory, argument, &error) != TXL_OK)
        terminal_error("%s", error.message);
    else
        terminal_note("%s: saved", argument);
    return true;
}

static bool load(struct interaction *i, char *argument) {
    txl_error error;
    txl_memory *memory;
    if (txl_memory_read(argument, i->g->model.handle, &memory, &error) != TXL_OK) {
        terminal_error("%s", error.message);
    } else if (!need_session(i, memory)) {
        txl_memory_free(memory);
    } else {
        replace_memory(i, memory);
        terminal_note("%s: loaded", argument);
    }
    return true;
}

/* The options that a turn takes anew. */
static const char *const settable[] = {
    "temperature", "top-k",  "top-p",           "min-p", "typical", "repetition-penalty",
    "repeat-last", "tokens", "no-repeat-ngram", "seed",  "eos"};

static bool is_settable(const char *name) {
    for (size_t k = 0; k < sizeof settable / sizeof settable[0]; k++)
        if (strcmp(settable[k], name) == 0)
            return true;
    return false;
}

/* An option may ask for another index of the history, which every turn fills anew. */
static bool renew_history(struct generate *g) {
    txl_history_free(g->sample.history);
    g->sample.history = NULL;
    bool good = sampling_history(&g->options->sampling, &g->sample.history);
    g->prompt.history = g->sample.history;
    return good;
}

/* The value is read as that of the option on the command line. */
static bool set(struct interaction *i, char *argument) {
    char *value = strchr(argument, ' ');
    if (!value) {
        terminal_error("/set: a name and a value are expected (see /help)");
        return true;
    }
    *value++ = '\0';
    if (!is_settable(argument)) {
        terminal_error("/set: '%s' is no setting of a turn (see /help)", argument);
        return true;
    }
    char option[64];
    snprintf(option, sizeof option, "--%s", argument);
    char command[] = "generate", *arguments[] = {command, option, value + strspn(value, " "), NULL};
    struct generate_options options = *i->options;
    struct operands operands;
    optind = 0; /* getopt is to begin anew */
    if (options_parse(i->command, 3, arguments, &options, &operands) != OPTIONS_RUN ||
        sampling_check(i->command, &options.sampling) != OPTIONS_RUN)
        return true;
    *i->options = options;
    return continue_choose_sampling(i->g) && renew_history(i->g);
}

static bool settings(struct interaction *i, char *argument) {
    const struct generate *g = i->g;
    char sampling[512], rest[8192];
    (void)argument;
    sampling_to_text(sampling, sizeof sampling, &i->options->sampling);
    settings_to_text(rest, sizeof rest, &g->model, &g->settings, 1);
    terminal_line("tokens=%" PRIu64 " seed=%" PRIu64 " %s eos=%s %s", g->n, g->seed, sampling,
                  eos_ways[i->options->eos], rest);
    return true;
}

/* `run` is false when there is no going on, with the error printed. */
static const struct {
    const char *name, *argument, *help;
    bool (*run)(struct interaction *, char *argument);
} commands[] = {
    {"help", NULL, "print this help", help},
    {"reset", NULL, "begin a new text", reset},
    {"undo", NULL, "go back to before the last turn, /reset or /load", undo},
    {"save", "FILE", "save the text's memory, as --save-memory does", save},
    {"load", "FILE", "go on with a saved text, as --load-memory does", load},
    {"set", "NAME VALUE", "change an option of generate from here on", set},
    {"settings", NULL, "print all settings", settings},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static bool help(struct interaction *i, char *argument) {
    (void)i;
    (void)argument;
    fputs(
        "A line is added to the text, and the model goes on with it; an empty line lets it go on\n"
        "as it is. Ctrl-C ends the model's turn, Ctrl-D the program. A line that begins with //\n"
        "is text from the second / on.\n\n",
        stderr);
    for (size_t k = 0; k < N_COMMANDS; k++) {
        const char *named = commands[k].argument ? commands[k].argument : "";
        fprintf(stderr, "  /%-8s %-10s  %s\n", commands[k].name, named, commands[k].help);
    }
    fputs("\nWhat can be set:", stderr);
    for (size_t k = 0; k < sizeof settable / sizeof settable[0]; k++)
        fprintf(stderr, " %s", settable[k]);
    fputs("\n", stderr);
    return true;
}

/* Runs what follows the / of the line.  False when there is no going on. */
static bool run_command(struct interaction *i, char *line) {
    char *argument = line + strcspn(line, " \t\r");
    if (*argument != '\0') {
        *argument++ = '\0';
        argument += strspn(argument, " \t\r");
    }
    for (size_t end = strlen(argument); end > 0 && strchr(" \t\r", argument[end - 1]); end--)
        argument[end - 1] = '\0';
    for (size_t k = 0; k < N_COMMANDS; k++) {
        if (strcmp(commands[k].name, line) != 0)
            continue;
        if (!commands[k].argument != !*argument) {
            terminal_error("/%s: %s is expected (see /help)", line,
                           commands[k].argument ? commands[k].argument : "nothing more");
            return true;
        }
        return commands[k].run(i, argument);
    }
    terminal_error("'/%s' is no command (see /help)", line);
    return true;
}

/* ---- The turns ---------------------------------------------------------------------------- */

static txl_status answer(struct interaction *i, const char *line, size_t length) {
    if (length == 0 || line[0] != '/')
        return take_line(i, line, length);
    if (length > 1 && line[1] == '/')
        return take_line(i, line + 1, length - 1);
    char *command = strndup(line + 1, length - 1);
    if (!command) {
        terminal_error("out of memory");
        return TXL_MEMORY;
    }
    bool good = run_command(i, command);
    free(command);
    return good ? TXL_OK : TXL_MEMORY;
}

/* Until the input ends.  At a terminal Ctrl-C empties the line that is being typed. */
static txl_status take_turns(struct interaction *i) {
    txl_status status = TXL_OK;
    while (status == TXL_OK) {
        size_t length;
        const char *line = line_reader_next(&i->reader, &length);
        if (line)
            status = answer(i, line, length);
        else if (!i->reader.edit || !signals_forget_interrupt())
            break;
    }
    return i->reader.failed ? TXL_IO : status;
}

txl_status interactive_run(struct generate *g, struct generate_options *options,
                           const struct command *command, int64_t *texts) {
    struct interaction i = {.g = g, .command = command, .options = options};
    txl_status status = TXL_OK;
    *texts = 0;
    if (!line_reader_open(&i.reader))
        return TXL_IO;
    if (options->prompt || options->prompt_text)
        status = take_turn(&i);
    if (status == TXL_OK)
        status = take_turns(&i);
    line_reader_close(&i.reader);
    txl_memory_free(i.before);
    g->prompt.tokens = i.prompt_tokens;
    g->prompt.unknown.n = i.unknown;
    *texts = i.texts;
    return status;
}
