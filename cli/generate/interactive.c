/* A text that is written by turns.  Between the turns it is a saved memory, from which each turn
 * starts.  So if a turn fails, the text is as before, and the last turn can be undone. */
#include "generation.h"

#include "cli/io/clean.h"
#include "cli/io/line_reader.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/options/options.h"
#include "lib/base/white_space.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* States that /undo can go back to: at most so many, and those before the last take at most so much
 * memory. */
enum { MOST_PAST = 100 };
static const uint64_t PAST_BYTES = (uint64_t)1 << 30;

/* The text at one time: the model's memory of it, and the text as shown, by both sides. */
struct state {
    txl_memory *memory; /* NULL: the beginning */
    struct buffer text;
};

struct interaction {
    struct generate *g;
    const struct command *command;
    struct generate_options *options; /* the command line's, which /set changes */
    char turn[16];                    /* what /set turn was given, which outlives its line */
    struct line_reader reader;
    struct buffer text;           /* together with g->memory the current state */
    struct state past[MOST_PAST]; /* what /undo goes back to, the last one last */
    size_t n_past, most_past;
    struct buffer added; /* what the last turn's line added to the text: /retry adds it again */
    bool can_retry;      /* the last past state is that before the last turn */
    txl_status
        ended; /* why a command ended the session, with the error printed; TXL_OK: it goes on */
    int64_t texts;
    uint64_t prompt_tokens, unknown;
};

/* ---- The text ----------------------------------------------------------------------------- */

static void forget_state(struct state *state) {
    txl_memory_free(state->memory);
    buffer_free(&state->text);
    *state = (struct state){0};
}

/* Makes `memory`, which may be NULL, and `text` the current state, taking both; keeps the old state
 * for /undo. */
static void replace_state(struct interaction *i, txl_memory *memory, struct buffer *text) {
    if (i->n_past == i->most_past) {
        forget_state(&i->past[0]);
        memmove(i->past, i->past + 1, --i->n_past * sizeof *i->past);
    }
    i->past[i->n_past++] = (struct state){i->g->memory, i->text};
    i->g->memory = memory;
    i->text = *text;
    *text = (struct buffer){0};
    i->can_retry = false;
}

static bool equal_settings(const txl_settings *a, const txl_settings *b) {
    return a->tgt_len == b->tgt_len && a->mem_len == b->mem_len && a->clamp_len == b->clamp_len &&
           a->same_length == b->same_length && a->memory_type == b->memory_type;
}

/* Opens a session with the settings of the saved memory, unless there is one. */
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
    settings.compute = g->settings.compute;
    if (!session_open(&g->model, &settings, &session))
        return false;
    txl_session_free(g->sample.session);
    g->sample.session = session;
    txl_session_settings(session, &g->settings);
    return true;
}

/* The text after a turn: the text before, what was added, what the model generated. */
static bool join_turn(const struct interaction *i, struct buffer *text) {
    const struct buffer *const parts[] = {&i->text, &i->added, &i->g->transcript};
    bool good = true;
    for (size_t k = 0; k < 3 && good; k++)
        good = buffer_append(text, parts[k]->data, parts[k]->length);
    return good || terminal_error("out of memory");
}

/* Feeds the prompt's input and lets the model continue.  After a failure the text is as before. */
static txl_status take_turn(struct interaction *i) {
    struct generate *g = i->g;
    struct buffer text = {0};
    txl_memory *memory;
    g->prompt.memory = g->memory;
    g->transcript.length = 0;
    txl_status status = continue_prompt(g, 1);
    i->texts++;
    i->prompt_tokens += g->prompt.tokens;
    i->unknown += g->prompt.unknown.n;
    bool shown = output_start_line() && output_flush();
    if (!status && join_turn(i, &text) && sample_save(g, &g->sample, &memory)) {
        replace_state(i, memory, &text);
        i->can_retry = true;
    }
    buffer_free(&text);
    if (!shown || (signals_stopped() && !signals_forget_interrupt()))
        return TXL_STOPPED;
    return TXL_OK;
}

/* Begins with the text of --prompt, which the echo shows. */
static txl_status take_prompt(struct interaction *i) {
    struct prompt *prompt = &i->g->prompt;
    i->added.length = 0;
    prompt->transcript = &i->added;
    txl_status status = take_turn(i);
    prompt->transcript = NULL;
    return status;
}

/* Continues the current text with the added text, which may be a line end alone. */
static txl_status take_added(struct interaction *i) {
    struct prompt *prompt = &i->g->prompt;
    const struct buffer *added = &i->added;
    bool begun = i->g->memory != NULL, ends_line = added->length == 1 && added->data[0] == '\n';
    size_t length = ends_line ? 0 : added->length;
    prompt->input = (struct input){.name = "the line",
                                   .handle = -1,
                                   .string = added->data ? added->data : "",
                                   .left = length,
                                   .size = length};
    prompt->blank = begun && length > 0 && is_space_byte(added->data[0]);
    /* Models of bytes have a symbol for the blank. */
    prompt->blank = prompt->blank && !txl_kind_takes_bytes(txl_model_kind(i->g->model.handle));
    prompt->ends_line = ends_line;
    prompt->echo = false;
    return take_turn(i);
}

/* A typed line continues the text, after a blank unless either side has one; an empty line ends the
 * current line. */
static txl_status take_line(struct interaction *i, const char *line, size_t length) {
    char tail = i->text.length > 0 ? i->text.data[i->text.length - 1] : 0;
    if (i->text.length == 0 && i->g->memory) {
        txl_resume resume;
        txl_memory_resume(i->g->memory, &resume);
        tail = resume.tail;
    }
    bool parted = tail == 0 || is_space_byte(tail) || (length > 0 && is_space_byte(line[0]));
    i->added.length = 0;
    bool good = length == 0 ? buffer_append(&i->added, "\n", 1)
                            : (parted || buffer_append(&i->added, " ", 1)) &&
                                  buffer_append(&i->added, line, length);
    return good ? take_added(i) : terminal_lacks_memory();
}

/* ---- Commands ----------------------------------------------------------------------------- */

static void print_help(struct interaction *i, char *argument);

static void reset_text(struct interaction *i, char *argument) {
    struct buffer text = {0};
    (void)argument;
    replace_state(i, NULL, &text);
}

/* Returns to the state `n` turns before; false with the reason printed. */
static bool go_back(struct interaction *i, size_t n) {
    const size_t to = i->n_past - n;
    if (!need_session(i, i->past[to].memory))
        return false;
    struct state now = {i->g->memory, i->text};
    forget_state(&now);
    i->g->memory = i->past[to].memory;
    i->text = i->past[to].text;
    while (--i->n_past > to)
        forget_state(&i->past[i->n_past]);
    i->past[to] = (struct state){0};
    i->can_retry = false;
    return true;
}

/* Shows where the text stands: its last line, or the end of that. */
static void note_end(const struct interaction *i) {
    enum { SHOWN = 60 };
    const char *text = i->text.data;
    size_t end = i->text.length, begin = end;
    while (begin > 0 && text[begin - 1] != '\n' && end - begin < SHOWN)
        begin--;
    while (begin < end && ((unsigned char)text[begin] & 0xc0) == 0x80)
        begin++;
    if (end == 0)
        terminal_note("the text is empty");
    else
        terminal_note("the text ends: %s%.*s", begin > 0 && text[begin - 1] != '\n' ? "..." : "",
                      (int)(end - begin), text + begin);
}

static void undo_turns(struct interaction *i, char *argument) {
    size_t digits = strspn(argument, "0123456789");
    unsigned long n = *argument ? strtoul(argument, NULL, 10) : 1;
    if (argument[digits] != '\0' || n == 0)
        terminal_error("/undo '%s': a number of turns is expected", argument);
    else if (i->n_past == 0)
        terminal_error("/undo: there is nothing to undo");
    else if (n > i->n_past)
        terminal_error("/undo %s: only %zu can be taken back", argument, i->n_past);
    else if (go_back(i, n))
        note_end(i);
}

static void go_on(struct interaction *i, char *argument) {
    (void)argument;
    i->added.length = 0;
    i->ended = take_added(i);
}

/* Repeats the last turn with other random numbers. */
static void retry_turn(struct interaction *i, char *argument) {
    (void)argument;
    if (!i->can_retry) {
        terminal_error("/retry: there is no turn to try again");
    } else if (go_back(i, 1)) {
        i->g->retries++;
        i->ended = take_added(i);
    }
}

/* False with the error printed. */
static bool has_text(const struct interaction *i, const char *command) {
    return i->text.length > 0 || terminal_error("/%s: there is no text yet", command);
}

/* Shows the whole text; standard output has only the model's part. */
static void show_text(struct interaction *i, char *argument) {
    (void)argument;
    if (!has_text(i, "show"))
        return;
    struct clean_text clean = {.n = 0};
    char *shown = malloc(CLEAN_TEXT_ROOM(i->text.length) + CLEAN_TEXT_ROOM(0));
    if (!shown) {
        i->ended = terminal_lacks_memory();
        return;
    }
    size_t n = clean_text(&clean, i->text.data, i->text.length, shown);
    n += clean_text_end(&clean, shown + n);
    fwrite(shown, 1, n, stderr);
    fputs(n == 0 || shown[n - 1] != '\n' ? "\n" : "", stderr);
    free(shown);
}

/* Whether the file may be written: it is new, or no regular file, or the person agrees. */
static bool may_write(struct interaction *i, const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return true;
    if (!i->reader.edit)
        return terminal_error("%s: exists; /write! overwrites it", path);
    terminal_line("%s exists", path);
    bool may = line_reader_ask(&i->reader, "Overwrite it? (y/n) ");
    signals_forget_interrupt(); /* Ctrl-C is no */
    return may;
}

static void write_over(struct interaction *i, char *argument) {
    const struct named_file output = {FILE_STREAM, "/", "write", argument, NULL};
    struct outfile file;
    if (!has_text(i, "write") ||
        options_check_output(i->command, i->options, &output) != OPTIONS_RUN ||
        !outfile_open(&file, argument))
        return;
    fwrite(i->text.data, 1, i->text.length, file.stream);
    if (i->text.data[i->text.length - 1] != '\n')
        putc('\n', file.stream);
    if (outfile_commit(&file))
        terminal_note("%s: written", argument);
}

static void write_text(struct interaction *i, char *argument) {
    if (i->text.length == 0 || may_write(i, argument))
        write_over(i, argument);
}

static void save_session(struct interaction *i, char *argument) {
    const struct named_file output = {FILE_WHOLE, "/", "save", argument, "load-memory"};
    txl_error error;
    if (!i->g->memory)
        terminal_error("/save: there is no text yet");
    else if (options_check_output(i->command, i->options, &output) == OPTIONS_RUN &&
             terminal_report(txl_memory_write(i->g->memory, argument, &error), &error))
        terminal_note("%s: saved", argument);
}

/* A memory brings its own settings, except for the arithmetic, and for a type that the command line
 * gives. */
static bool may_load(const struct interaction *i, const char *name, const txl_memory *memory) {
    const struct session_options *given = &i->options->session;
    txl_settings saved;
    txl_memory_settings(memory, &saved);
    if (given->memory_type != CHOICE_UNSET && given->memory_type != (int)saved.memory_type)
        return terminal_error("%s: saved with --memory-type %s, not %s", name,
                              memory_types[saved.memory_type], memory_types[given->memory_type]);
    if (given->arithmetic != (int)saved.arithmetic)
        return terminal_error("%s: saved with --arithmetic %s, not %s", name,
                              arithmetics[saved.arithmetic], arithmetics[given->arithmetic]);
    return true;
}

static void load_session(struct interaction *i, char *argument) {
    txl_error error;
    txl_memory *memory;
    struct buffer text = {0};
    if (!terminal_report(txl_memory_read(argument, i->g->model.handle, &memory, &error), &error))
        return;
    if (!may_load(i, argument, memory) || !need_session(i, memory)) {
        txl_memory_free(memory);
        return;
    }
    replace_state(i, memory, &text);
    terminal_note("%s: loaded; /show and /write have only what follows", argument);
}

/* The options that can change between turns. */
static const char *const settable[] = {
    "temperature", "top-k",  "top-p",           "min-p", "typical", "repetition-penalty",
    "repeat-last", "tokens", "no-repeat-ngram", "seed",  "eos",     "turn"};

enum { N_SETTABLE = sizeof settable / sizeof settable[0] };

/* Reports an unknown name, and the one that may have been meant. */
static void refuse_name(const char *what, const char *mark, const struct nearest *nearest) {
    const char *meant = nearest_name(nearest);
    if (meant)
        terminal_error("%s '%s%s'; did you mean '%s%s'? (see /help)", what, mark, nearest->typed,
                       mark, meant);
    else
        terminal_error("%s '%s%s' (see /help)", what, mark, nearest->typed);
}

/* False with the error printed. */
static bool is_settable(const char *name) {
    struct nearest nearest = nearest_to(name);
    for (size_t k = 0; k < N_SETTABLE; k++) {
        if (strcmp(settable[k], name) == 0)
            return true;
        nearest_try(&nearest, settable[k]);
    }
    refuse_name("/set: unknown setting", "", &nearest);
    return false;
}

/* Makes a new history: an option may need another index, and every turn fills it again. */
static bool renew_history(struct generate *g) {
    txl_history_free(g->sample.history);
    g->sample.history = NULL;
    bool good = sampling_history(&g->options->sampling, &g->sample.history);
    g->prompt.history = g->sample.history;
    return good;
}

/* Parses the value as on the command line. */
static void set_option(struct interaction *i, char *argument) {
    char *value = strchr(argument, ' ');
    if (!value) {
        terminal_error("/set: a name and a value are expected (see /help)");
        return;
    }
    *value++ = '\0';
    if (!is_settable(argument))
        return;
    char option[64];
    snprintf(option, sizeof option, "--%s", argument);
    char command[] = "generate", *arguments[] = {command, option, value + strspn(value, " "), NULL};
    struct generate_options options = *i->options;
    struct operands operands;
    optind = 0; /* restarts getopt */
    if (options_parse(i->command, 3, arguments, &options, &operands) != OPTIONS_RUN ||
        sampling_check(i->command, &options.sampling) != OPTIONS_RUN ||
        continue_check_turn(i->command, options.turn) != OPTIONS_RUN)
        return;
    if (options.turn != i->options->turn) {
        snprintf(i->turn, sizeof i->turn, "%s", options.turn);
        options.turn = i->turn;
    }
    *i->options = options;
    if (!continue_choose_sampling(i->g) || !renew_history(i->g))
        i->ended = TXL_MEMORY;
}

static void print_settings(struct interaction *i, char *argument) {
    const struct generate *g = i->g;
    char sampling[512], rest[8192];
    (void)argument;
    sampling_to_text(sampling, sizeof sampling, &i->options->sampling);
    const struct run_settings run = generation_settings(g);
    settings_to_text(rest, sizeof rest, &g->model, &g->settings, &run);
    terminal_line("tokens=%" PRIu64 " seed=%" PRIu64 " %s eos=%s %s", g->n, g->seed, sampling,
                  eos_ways[i->options->eos], rest);
}

static const struct {
    const char *name, *argument, *help; /* an argument in brackets may be left out */
    void (*run)(struct interaction *, char *argument);
} commands[] = {
    {"help", NULL, "print this help", print_help},
    {"go", NULL, "let the model go on, with nothing added", go_on},
    {"retry", NULL, "let the model try its last turn again", retry_turn},
    {"undo", "[N]", "take back the last turn, /reset or /load; or the last N", undo_turns},
    {"show", NULL, "print the text of both sides", show_text},
    {"write", "FILE", "write the text of both sides; ask before replacing FILE", write_text},
    {"write!", "FILE", "the same without asking", write_over},
    {"reset", NULL, "begin a new text", reset_text},
    {"save", "FILE", "save the model's memory, as --save-memory does", save_session},
    {"load", "FILE", "continue from a saved memory, as --load-memory does", load_session},
    {"set", "NAME VALUE", "change an option of generate", set_option},
    {"settings", NULL, "print all settings", print_settings},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

enum { HELP_COLUMNS = 79 };

static void print_help(struct interaction *i, char *argument) {
    (void)i;
    (void)argument;
    options_print_filled(
        stderr,
        "Type a line to continue the text; the model then goes on to the end of a sentence (/set "
        "turn changes that). An empty line ends the line. Ctrl-C ends the model's turn, Ctrl-D the "
        "program. To begin a line of text with /, type //.",
        0, HELP_COLUMNS);
    fputc('\n', stderr);
    for (size_t k = 0; k < N_COMMANDS; k++) {
        const char *named = commands[k].argument ? commands[k].argument : "";
        fprintf(stderr, "  /%-8s %-10s  %s\n", commands[k].name, named, commands[k].help);
    }
    char names[512];
    struct fixed_line line = fixed_line(names, sizeof names);
    fixed_line_add(&line, "Tab completes commands, settings and names of files. /set changes:");
    for (size_t k = 0; k < N_SETTABLE; k++)
        fixed_line_add(&line, "%s %s", k > 0 ? "," : "", settable[k]);
    fputc('\n', stderr);
    options_print_filled(stderr, names, 0, HELP_COLUMNS);
}

/* Runs the command after the line's /. */
static void run_command(struct interaction *i, char *line) {
    char *argument = line + strcspn(line, " \t\r");
    if (*argument != '\0') {
        *argument++ = '\0';
        argument += strspn(argument, " \t\r");
    }
    for (size_t end = strlen(argument); end > 0 && strchr(" \t\r", argument[end - 1]); end--)
        argument[end - 1] = '\0';
    struct nearest nearest = nearest_to(line);
    for (size_t k = 0; k < N_COMMANDS; k++) {
        nearest_try(&nearest, commands[k].name);
        if (strcmp(commands[k].name, line) != 0)
            continue;
        const char *wanted = commands[k].argument;
        if ((*argument && !wanted) || (!*argument && wanted && wanted[0] != '['))
            terminal_error("/%s: %s is expected (see /help)", line,
                           wanted ? wanted : "nothing more");
        else
            commands[k].run(i, argument);
        return;
    }
    refuse_name("unknown command", "/", &nearest);
}

/* Completes a command's name, and what stands after it. */
static void complete_line(struct candidates *c) {
    if (c->length == 0 || c->typed[0] != '/')
        return;
    const char *name = c->typed + 1;
    size_t length = strcspn(name, " ");
    if (name[length] == '\0') {
        c->typed++;
        c->length--;
        for (size_t k = 0; k < N_COMMANDS; k++)
            candidates_add(c, commands[k].name, commands[k].argument ? " " : "");
        return;
    }
    const char *argument = name + length + strspn(name + length, " ");
    for (size_t k = 0; k < N_COMMANDS; k++) {
        const char *wanted = commands[k].argument;
        if (strncmp(commands[k].name, name, length) != 0 || commands[k].name[length] != '\0')
            continue;
        c->length = strlen(argument);
        c->typed = argument;
        if (wanted && strcmp(wanted, "FILE") == 0)
            candidates_add_files(c);
        for (size_t m = 0; wanted && strcmp(wanted, "NAME VALUE") == 0 && m < N_SETTABLE; m++)
            candidates_add(c, settable[m], " ");
    }
}

/* ---- The turns ---------------------------------------------------------------------------- */

static txl_status answer_line(struct interaction *i, const char *line, size_t length) {
    if (length == 0 || line[0] != '/')
        return take_line(i, line, length);
    if (length > 1 && line[1] == '/')
        return take_line(i, line + 1, length - 1);
    char *command = strndup(line + 1, length - 1);
    if (!command)
        return terminal_lacks_memory();
    run_command(i, command);
    free(command);
    return i->ended;
}

/* Takes turns until the input ends.  At a terminal Ctrl-C clears the line that is being typed. */
static txl_status take_turns(struct interaction *i) {
    txl_status status = TXL_OK;
    while (!status) {
        size_t length;
        const char *line = line_reader_next(&i->reader, &length);
        if (line)
            status = answer_line(i, line, length);
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
    uint64_t fit = PAST_BYTES / txl_session_bytes(g->model.handle, &g->settings);
    i.most_past = fit > MOST_PAST ? MOST_PAST : fit > 0 ? (size_t)fit : 1;
    i.reader.complete = complete_line;
    if (i.reader.edit)
        terminal_brief("the model is %s; /help lists what you can do", g->model.name);
    if (options->prompt || options->prompt_text)
        status = take_prompt(&i);
    if (!status)
        status = take_turns(&i);
    line_reader_close(&i.reader);
    while (i.n_past > 0)
        forget_state(&i.past[--i.n_past]);
    buffer_free(&i.text);
    buffer_free(&i.added);
    buffer_free(&g->transcript);
    g->prompt.tokens = i.prompt_tokens;
    g->prompt.unknown.n = i.unknown;
    *texts = i.texts;
    return status;
}
