/* A text that is written by turns.  Between the turns it is a saved memory, from which each turn
 * starts.  So if a turn fails, the text is as before, and turns can be undone and done again. */
#include "generate.h"

#include "cli/io/clean.h"
#include "cli/io/line_reader.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/options/options.h"
#include "lib/base/white_space.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* States that /undo can go back to: at most so many, and those before the last take at most so much
 * memory. */
enum { MOST_UNDO = 100 };
static const uint64_t UNDO_BYTES = (uint64_t)1 << 30;

enum { MOST_WAYS = 9 };                         /* of /3 and its like */
enum { CANDIDATES = 10, CANDIDATE_TOKENS = 5 }; /* of /candidates; tokens after each */

/* The text at one time: the model's memory of it, and the text as shown, by both sides. */
struct state {
    txl_memory *memory; /* NULL: the beginning */
    struct buffer text;
    bool turn;           /* a turn made it of the state before */
    struct buffer added; /* what that turn's line added to the text: /retry adds it again */
};

struct interaction {
    struct generate *g;
    const struct command *command;
    struct generate_options *options; /* the command line's, which /set changes */
    char turn[16];                    /* what /set turn was given, which outlives its line */
    struct line_reader reader;
    struct state states[MOST_UNDO + 1]; /* [n_state], the oldest first */
    size_t n_state, most_undo;
    size_t at;           /* the current one; g->memory is its memory.  Those after it were undone */
    struct buffer added; /* what the turn being made adds to the text first */
    struct state ways[MOST_WAYS]; /* [n_ways], of which the next line may take one */
    size_t n_ways;
    txl_status
        ended; /* why a command ended the session, with the error printed; TXL_OK: it goes on */
    bool quits;
    int64_t texts;
    uint64_t prompt_tokens, unknown;
};

/* ---- The text ----------------------------------------------------------------------------- */

static void forget_state(struct state *state) {
    txl_memory_free(state->memory);
    buffer_free(&state->text);
    buffer_free(&state->added);
    *state = (struct state){0};
}

static void go_to(struct interaction *i, size_t at) {
    i->at = at;
    i->g->memory = i->states[at].memory;
}

/* Makes `state` the current one, taking what it has; keeps the old one for /undo. */
static void push_state(struct interaction *i, struct state *state) {
    while (i->n_state > i->at + 1)
        forget_state(&i->states[--i->n_state]);
    if (i->n_state > i->most_undo) {
        forget_state(&i->states[0]);
        memmove(i->states, i->states + 1, --i->n_state * sizeof *i->states);
    }
    i->states[i->n_state++] = *state;
    *state = (struct state){0};
    go_to(i, i->n_state - 1);
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
    if (equal_settings(&settings, &g->rules.settings))
        return true;
    settings.threads = g->rules.settings.threads;
    settings.compute = g->rules.settings.compute;
    if (!session_open(&g->model, &settings, &session))
        return false;
    txl_session_free(g->sample.text.session);
    g->sample.text.session = session;
    txl_session_settings(session, &g->rules.settings);
    return true;
}

/* The text after a turn: the text before, what was added, what the model generated. */
static bool join_turn(const struct interaction *i, struct state *state) {
    const struct buffer *const parts[] = {&i->states[i->at].text, &i->added, &i->g->transcript};
    bool good = buffer_append(&state->added, i->added.data, i->added.length);
    for (size_t k = 0; k < 3 && good; k++)
        good = buffer_append(&state->text, parts[k]->data, parts[k]->length);
    return good || terminal_error("out of memory");
}

/* Feeds the prompt's input and lets the model continue: `state` receives the text after it, if
 * `*made`. */
static txl_status make_turn(struct interaction *i, struct state *state, bool *made) {
    struct generate *g = i->g;
    g->prompt.memory = g->memory;
    g->transcript.length = 0;
    txl_error error;
    txl_status status = continue_prompt(g, 1);
    i->texts++;
    i->prompt_tokens += g->prompt.tokens;
    i->unknown += g->prompt.unknown.n;
    bool shown = output_start_line() && output_flush();
    *state = (struct state){.turn = true};
    *made = !status && join_turn(i, state) &&
            terminal_report(text_save(&g->sample.text, &state->memory, &error), &error);
    if (!*made)
        forget_state(state);
    return shown ? TXL_OK : TXL_STOPPED;
}

/* After Ctrl-C only a terminal goes on. */
static txl_status end_turn(txl_status status) {
    return status || (signals_stopped() && !signals_forget_interrupt()) ? TXL_STOPPED : TXL_OK;
}

/* Makes the text after the turn the current one.  After a failure the text is as before. */
static txl_status take_turn(struct interaction *i) {
    struct state state;
    bool made;
    txl_status status = make_turn(i, &state, &made);
    if (made)
        push_state(i, &state);
    return end_turn(status);
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

/* Makes the added text, which may be a line end alone, the prompt. */
static void prompt_added(struct interaction *i) {
    struct prompt *prompt = &i->g->prompt;
    const struct buffer *added = &i->added;
    bool begun = i->g->memory != NULL;
    bool ends_line = added->length > 0 && added->data[added->length - 1] == '\n';
    /* A prompt's own last line end is dropped. */
    size_t length = ends_line && added->length == 1 ? 0 : added->length;
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
}

/* Continues the current text with it. */
static txl_status take_added(struct interaction *i) {
    prompt_added(i);
    return take_turn(i);
}

/* Adds the typed line, after a blank unless either side has one; an empty line ends the current
 * line. */
static bool add_line(struct interaction *i, const char *line, size_t length) {
    const struct buffer *text = &i->states[i->at].text;
    char tail = text->length > 0 ? text->data[text->length - 1] : 0;
    if (text->length == 0 && i->g->memory) {
        txl_resume resume;
        txl_memory_resume(i->g->memory, &resume);
        tail = resume.tail;
    }
    bool parted = tail == 0 || is_space_byte(tail) || (length > 0 && is_space_byte(line[0]));
    i->added.length = 0;
    return length == 0 ? buffer_append(&i->added, "\n", 1)
                       : (parted || buffer_append(&i->added, " ", 1)) &&
                             buffer_append(&i->added, line, length);
}

static txl_status take_line(struct interaction *i, const char *line, size_t length) {
    return add_line(i, line, length) ? take_added(i) : terminal_lacks_memory();
}

/* ---- Commands ----------------------------------------------------------------------------- */

static void print_help(struct interaction *i, char *argument);

static void reset_text(struct interaction *i, char *argument) {
    struct state beginning = {0};
    (void)argument;
    push_state(i, &beginning);
}

/* Shows where the text stands: its last line, or the end of that. */
static void note_end(const struct interaction *i) {
    enum { SHOWN = 60 };
    const char *text = i->states[i->at].text.data;
    size_t end = i->states[i->at].text.length, begin = end;
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

/* Goes back or forward by the number of turns in the argument, by default one, of `most`. */
static void move_turns(struct interaction *i, const char *name, const char *argument, bool back) {
    size_t most = back ? i->at : i->n_state - 1 - i->at;
    size_t digits = strspn(argument, "0123456789");
    unsigned long n = *argument ? strtoul(argument, NULL, 10) : 1;
    if (argument[digits] != '\0' || n == 0) {
        terminal_error("/%s '%s': a number of turns is expected", name, argument);
    } else if (most == 0) {
        terminal_error("/%s: there is nothing to %s", name, name);
    } else if (n > most) {
        terminal_error("/%s %s: only %zu can be %s", name, argument, most,
                       back ? "taken back" : "done again");
    } else {
        size_t to = back ? i->at - n : i->at + n;
        if (!need_session(i, i->states[to].memory))
            return;
        go_to(i, to);
        note_end(i);
    }
}

static void undo_turns(struct interaction *i, char *argument) {
    move_turns(i, "undo", argument, true);
}

static void redo_turns(struct interaction *i, char *argument) {
    move_turns(i, "redo", argument, false);
}

static void go_on(struct interaction *i, char *argument) {
    (void)argument;
    i->added.length = 0;
    i->ended = take_added(i);
}

/* Repeats the last turn of the text as it stands with other random numbers. */
static void retry_turn(struct interaction *i, char *argument) {
    const struct state *now = &i->states[i->at];
    (void)argument;
    i->added.length = 0;
    if (!now->turn || i->at == 0) {
        terminal_error("/retry: there is no turn to try again%s",
                       i->at + 1 < i->n_state ? "; /redo brings back what /undo took" : "");
    } else if (!buffer_append(&i->added, now->added.data, now->added.length)) {
        i->ended = terminal_lacks_memory();
    } else if (need_session(i, i->states[i->at - 1].memory)) {
        go_to(i, i->at - 1);
        i->g->retries++;
        i->ended = take_added(i);
    }
}

/* ---- What could come next ------------------------------------------------------------------ */

/* Appends the text as standard error shows it, harmless.  False when memory is short. */
static bool add_clean(struct buffer *out, const char *text, size_t length) {
    struct clean_text clean = {.n = 0};
    if (!buffer_reserve(out, CLEAN_TEXT_ROOM(length) + CLEAN_TEXT_ROOM(0)))
        return false;
    out->length += clean_text(&clean, text, length, out->data + out->length);
    out->length += clean_text_end(&clean, out->data + out->length);
    return true;
}

/* The same within a line, with \n for a line end. */
static bool add_shown(struct buffer *line, const char *text, size_t length) {
    struct buffer clean = {0};
    bool good = add_clean(&clean, text, length);
    for (size_t k = 0; k < clean.length && good; k++)
        good = clean.data[k] == '\n' ? buffer_append(line, "\\n", 2)
                                     : buffer_append(line, clean.data + k, 1);
    buffer_free(&clean);
    return good;
}

static void forget_ways(struct interaction *i) {
    while (i->n_ways > 0)
        forget_state(&i->ways[--i->n_ways]);
}

/* Where in the text of a turn from the current state the model's part begins. */
static size_t model_begins(const struct interaction *i, const struct state *state) {
    return i->states[i->at].text.length + state->added.length;
}

static bool show_way(const struct interaction *i, const struct state *way, size_t number) {
    struct buffer line = {0};
    size_t begin = model_begins(i, way);
    bool good = add_shown(&line, way->text.data + begin, way->text.length - begin) &&
                buffer_append(&line, "", 1);
    if (good)
        fprintf(stderr, "%zu %s\n", number, line.data);
    buffer_free(&line);
    return good;
}

/* Makes several turns from the current text, each with other random numbers, and shows them. */
static void make_ways(struct interaction *i, size_t n, const char *line) {
    txl_status status = TXL_OK;
    bool made = true, good = *line == '\0' || add_line(i, line, strlen(line));
    if (*line == '\0')
        i->added.length = 0;
    i->g->unprinted = true;
    for (size_t k = 0; k < n && good && made && !status && !signals_stopped(); k++) {
        prompt_added(i);
        status = make_turn(i, &i->ways[k], &made);
        i->g->retries++;
        i->n_ways += made;
        good = !made || show_way(i, &i->ways[k], k + 1);
    }
    i->g->unprinted = false;
    i->ended = good ? end_turn(status) : terminal_lacks_memory();
    if (i->n_ways > 0)
        terminal_note("type 1 to %zu to take one; any other line leaves them", i->n_ways);
}

static txl_status take_way(struct interaction *i, size_t n) {
    struct state *way = &i->ways[n - 1];
    size_t begin = model_begins(i, way);
    bool shown = output_text(way->text.data + begin, way->text.length - begin) &&
                 output_start_line() && output_flush();
    push_state(i, way);
    forget_ways(i);
    return shown ? TXL_OK : TXL_STOPPED;
}

/* A likely next token, and the text from there on. */
static bool print_candidate(const struct text *text, const struct text_end *before, size_t number,
                            int32_t id, double probability) {
    struct buffer own = {0}, token = {0}, all = {0};
    bool good = text_of_token(text->rules->scratch, before, id, &own) &&
                add_shown(&token, own.data, own.length) && buffer_append(&token, "", 1) &&
                add_shown(&all, text->output.data, text->output.length) &&
                buffer_append(&all, "", 1);
    if (good)
        fprintf(stderr, "%3zu %6.2f %%  %-12s  %s\n", number, 100 * probability, token.data,
                all.data);
    buffer_free(&own);
    buffer_free(&token);
    buffer_free(&all);
    return good;
}

/* Shows the likeliest token that is not banned with its probability and the likeliest text from
 * there on, and bans it.  `g` takes the likeliest tokens, after a prompt that was fed. */
static txl_status show_candidate(const struct generate *g, size_t number, struct id_list *banned) {
    struct sample sample = {.number = 0};
    struct text *text = &sample.text;
    struct texts texts = {.n = 0};
    txl_error error;
    if (!terminal_report(text_copy(text, &g->sample.text, &error), &error) ||
        !sample_start(g, &sample, 1)) {
        sample_close(&sample);
        return TXL_MEMORY;
    }
    text->rules = &g->rules;
    text->first_banned = banned;
    texts_add(&texts, text);
    texts_draw(&texts);
    const struct text_end before = text->before;
    const int32_t id = text->id;
    const double probability = exp((double)text->logprob);
    while (!texts_take(&texts)) {
        texts_feed(&texts);
        texts_draw(&texts);
    }
    txl_status status = text->status;
    terminal_report(status, &text->error);
    if (!status &&
        !(id_list_add(banned, id) && print_candidate(text, &before, number, id, probability)))
        status = terminal_lacks_memory();
    sample_close(&sample);
    return status;
}

/* Lists the likeliest next tokens; the text stays as it is. */
static void show_candidates(struct interaction *i, char *argument) {
    struct generate *g = i->g;
    struct id_list banned = {0};
    (void)argument;
    i->added.length = 0;
    prompt_added(i);
    g->prompt.memory = g->memory;
    txl_status status = prompt_feed(&g->prompt);
    struct generate likeliest = *g;
    likeliest.rules.turn = TURN_NONE;
    likeliest.rules.n = 1 + CANDIDATE_TOKENS;
    likeliest.rules.sampling.temperature = 0;
    for (size_t k = 0; k < g->rules.banned.n && !status; k++)
        if (!id_list_add(&banned, g->rules.banned.ids[k]))
            status = terminal_lacks_memory();
    size_t most = (size_t)txl_model_n_token(g->model.handle) - banned.n;
    for (size_t k = 0; k < CANDIDATES && k < most && !status && !signals_stopped(); k++)
        status = show_candidate(&likeliest, k + 1, &banned);
    id_list_free(&banned);
    i->ended = end_turn(status == TXL_MEMORY || status == TXL_STOPPED ? status : TXL_OK);
}

/* False with the error printed. */
static bool has_text(const struct interaction *i, const char *command) {
    return i->states[i->at].text.length > 0 || terminal_error("/%s: there is no text yet", command);
}

/* Shows the whole text; standard output has only the model's part. */
static void show_text(struct interaction *i, char *argument) {
    const struct buffer *text = &i->states[i->at].text;
    (void)argument;
    if (!has_text(i, "show"))
        return;
    struct buffer shown = {0};
    if (add_clean(&shown, text->data, text->length)) {
        fwrite(shown.data, 1, shown.length, stderr);
        fputs(shown.length == 0 || shown.data[shown.length - 1] != '\n' ? "\n" : "", stderr);
    } else {
        i->ended = terminal_lacks_memory();
    }
    buffer_free(&shown);
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
    const struct named_file output = {FILE_STREAM, "/", "write", argument};
    struct outfile file;
    if (!has_text(i, "write") ||
        options_check_output(i->command, i->options, &output) != OPTIONS_RUN ||
        !outfile_open(&file, argument))
        return;
    const struct buffer *text = &i->states[i->at].text;
    fwrite(text->data, 1, text->length, file.stream);
    if (text->data[text->length - 1] != '\n')
        putc('\n', file.stream);
    if (outfile_commit(&file))
        terminal_note("%s: written", argument);
}

static void write_text(struct interaction *i, char *argument) {
    if (i->states[i->at].text.length == 0 || may_write(i, argument))
        write_over(i, argument);
}

static void save_session(struct interaction *i, char *argument) {
    const struct named_file output = {FILE_WHOLE, "/",           "save",
                                      argument,   "load-memory", OUTPUT_MEMORY};
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
    struct state loaded = {0};
    if (!terminal_report(txl_memory_read(argument, i->g->model.handle, &loaded.memory, &error),
                         &error))
        return;
    if (!may_load(i, argument, loaded.memory) || !need_session(i, loaded.memory)) {
        forget_state(&loaded);
        return;
    }
    push_state(i, &loaded);
    terminal_note("%s: loaded; /show and /write have only what follows", argument);
}

/* The options that can change between turns: how a token is drawn, and some.  NULL: no more. */
static const char *settable(size_t k) {
    static const struct option_row drawn[] = {
        SAMPLING_ROWS(struct generate_options, own.sampling, NULL)};
    static const char *const others[] = {"tokens", "seed", "eos", "turn"};
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++)
        if (drawn[i].kind != OPTION_FLAG && k-- == 0)
            return drawn[i].name;
    return k < sizeof others / sizeof *others ? others[k] : NULL;
}

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
    const char *other;
    for (size_t k = 0; (other = settable(k)); k++) {
        if (strcmp(other, name) == 0)
            return true;
        nearest_try(&nearest, other);
    }
    refuse_name("/set: unknown setting", "", &nearest);
    return false;
}

/* Makes a new history: an option may need another index, and every turn fills it again. */
static bool renew_history(struct generate *g) {
    txl_history_free(g->sample.text.history);
    g->sample.text.history = NULL;
    txl_error error;
    bool good = terminal_report(
        sampling_history(&g->options->own.sampling, &g->sample.text.history, &error), &error);
    g->prompt.history = g->sample.text.history;
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
        sampling_check(i->command, &options.own.sampling) != OPTIONS_RUN ||
        generate_check_turn(i->command, options.turn) != OPTIONS_RUN)
        return;
    if (options.turn != i->options->turn) {
        snprintf(i->turn, sizeof i->turn, "%s", options.turn);
        options.turn = i->turn;
    }
    *i->options = options;
    if (!generate_choose(i->g) || !renew_history(i->g))
        i->ended = TXL_MEMORY;
}

static void print_settings(struct interaction *i, char *argument) {
    const struct generate *g = i->g;
    char sampling[512], rest[8192];
    (void)argument;
    sampling_to_text(sampling, sizeof sampling, &i->options->own.sampling);
    const struct run_settings run = generate_settings(g);
    settings_to_text(rest, sizeof rest, &g->model, &g->rules.settings, &run);
    terminal_line("tokens=%" PRIu64 " seed=%" PRIu64 " %s eos=%s %s", g->rules.n, g->seed, sampling,
                  eos_ways[i->options->own.eos], rest);
}

static void quit(struct interaction *i, char *argument) {
    (void)argument;
    i->quits = true;
}

static const struct {
    const char *name, *argument, *help;                /* an argument in brackets may be left out */
    void (*run)(struct interaction *, char *argument); /* NULL: make_ways */
} commands[] = {
    {"help", NULL, "print this help", print_help},
    {"go", NULL, "let the model go on, with nothing added", go_on},
    {"retry", NULL, "let the model try its last turn again", retry_turn},
    {"3", "[LINE]", "show three ways on, a number takes one; or /2 to /9", NULL},
    {"candidates", NULL, "list what the model expects next, with probabilities", show_candidates},
    {"undo", "[N]", "take back the last turn, /reset or /load; or N", undo_turns},
    {"redo", "[N]", "bring back what /undo took; or N turns", redo_turns},
    {"show", NULL, "print the text of both sides", show_text},
    {"write", "FILE", "write the text of both sides; ask to replace FILE", write_text},
    {"write!", "FILE", "the same without asking", write_over},
    {"reset", NULL, "begin a new text", reset_text},
    {"save", "FILE", "save the model's memory, as --save-memory does", save_session},
    {"load", "FILE", "continue from a saved memory, as --load-memory does", load_session},
    {"set", "NAME VALUE", "change an option of generate", set_option},
    {"settings", NULL, "print all settings", print_settings},
    {"quit", NULL, "end the program, as Ctrl-D does", quit},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

enum { HELP_COLUMNS = 79 };

static void print_help(struct interaction *i, char *argument) {
    (void)i;
    (void)argument;
    options_print_filled(
        stderr,
        "Type a line to continue the text; the model then continues to the end of a sentence (/set "
        "turn changes that). An empty line ends the line. Lines that are pasted are one turn, once "
        "you press Enter. Ctrl-C ends the model's turn, Ctrl-D the "
        "program. To begin a line of text with /, type //.",
        0, HELP_COLUMNS);
    fputc('\n', stderr);
    for (size_t k = 0; k < N_COMMANDS; k++) {
        const char *named = commands[k].argument ? commands[k].argument : "";
        fprintf(stderr, "  /%-10s %-10s  %s\n", commands[k].name, named, commands[k].help);
    }
    char names[512];
    struct fixed_line line = fixed_line(names, sizeof names);
    fixed_line_add(&line, "Tab completes commands, settings and names of files. /set changes:");
    for (size_t k = 0; settable(k); k++)
        fixed_line_add(&line, "%s %s", k > 0 ? "," : "", settable(k));
    fputc('\n', stderr);
    options_print_filled(stderr, names, 0, HELP_COLUMNS);
}

static bool is_number_of_ways(const char *name) {
    return name[0] >= '2' && name[0] <= '0' + MOST_WAYS && name[1] == '\0';
}

/* Runs the command after the line's /. */
static void run_command(struct interaction *i, char *line) {
    char *argument = line + strcspn(line, " \t\r\n");
    if (*argument != '\0') {
        *argument++ = '\0';
        argument += strspn(argument, " \t\r\n");
    }
    for (size_t end = strlen(argument); end > 0 && strchr(" \t\r\n", argument[end - 1]); end--)
        argument[end - 1] = '\0';
    struct nearest nearest = nearest_to(line);
    for (size_t k = 0; k < N_COMMANDS; k++) {
        nearest_try(&nearest, commands[k].name);
        bool ways = !commands[k].run && is_number_of_ways(line);
        if (strcmp(commands[k].name, line) != 0 && !ways)
            continue;
        const char *wanted = commands[k].argument;
        if ((*argument && !wanted) || (!*argument && wanted && wanted[0] != '['))
            terminal_error("/%s: %s is expected (see /help)", line,
                           wanted ? wanted : "nothing more");
        else if (ways)
            make_ways(i, (size_t)(line[0] - '0'), argument);
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
        for (size_t m = 0; wanted && strcmp(wanted, "NAME VALUE") == 0 && settable(m); m++)
            candidates_add(c, settable(m), " ");
    }
}

/* ---- The turns ---------------------------------------------------------------------------- */

/* Whether it has line ends elsewhere than at its end: several pasted lines. */
static bool is_several(const char *line, size_t length) {
    while (length > 0 && line[length - 1] == '\n')
        length--;
    return length > 0 && memchr(line, '\n', length);
}

/* Several lines are text, whatever they begin with. */
static txl_status answer_line(struct interaction *i, const char *line, size_t length) {
    if (i->n_ways > 0) {
        if (length == 1 && line[0] > '0' && line[0] <= '0' + (char)i->n_ways)
            return take_way(i, (size_t)(line[0] - '0'));
        forget_ways(i);
        terminal_note("no way was taken");
        if (length == 0)
            return TXL_OK;
    }
    if (length == 0 || line[0] != '/' || is_several(line, length))
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
    while (!status && !i->quits) {
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
    struct interaction i = {.g = g, .command = command, .options = options, .n_state = 1};
    i.states[0].memory = g->memory;
    txl_status status = TXL_OK;
    *texts = 0;
    if (!line_reader_open(&i.reader))
        return TXL_IO;
    uint64_t fit = UNDO_BYTES / txl_session_bytes(g->model.handle, &g->rules.settings);
    i.most_undo = fit > MOST_UNDO ? MOST_UNDO : fit > 0 ? (size_t)fit : 1;
    i.reader.complete = complete_line;
    if (i.reader.edit)
        terminal_brief("the model is %s; /help lists what you can do", g->model.name);
    if (options->prompt || options->prompt_text)
        status = take_prompt(&i);
    if (!status)
        status = take_turns(&i);
    line_reader_close(&i.reader);
    forget_ways(&i);
    i.states[i.at].memory = NULL; /* g->memory */
    while (i.n_state > 0)
        forget_state(&i.states[--i.n_state]);
    buffer_free(&i.added);
    buffer_free(&g->transcript);
    g->prompt.tokens = i.prompt_tokens;
    g->prompt.unknown.n = i.unknown;
    *texts = i.texts;
    return status;
}
