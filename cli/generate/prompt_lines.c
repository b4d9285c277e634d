/* Continues many prompts.  Up to 8 texts are made together, so that the weights are read once for
 * all of them; each is what it would be by itself.  A text that ends makes room for the next
 * prompt. Texts are printed in the order of their lines, so finished ones wait for those before
 * them. */
#include "cli/io/json_lines.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/options/options.h"
#include "generate.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- A line: an object, read by the rows of generate's options ----------------------------- */

/* Of text_option_rows: as many as an unsigned has bits. */
enum { MOST_ROWS = 32 };

static const char prompt_name[] = "prompt";

struct reader {
    const struct command *command;
    struct prompt_line *line;
    struct prompt_line_problem *problem;
    unsigned given; /* bit i: text_option_rows[i] */
};

__attribute__((format(printf, 2, 3))) static bool fail_line(struct reader *r, const char *format,
                                                            ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->problem->text, sizeof r->problem->text, format, arguments);
    va_end(arguments);
    return false;
}

/* A member of a line is called as the option is, with _ for -. */
struct member_name {
    char text[32];
};

static struct member_name member_name(const struct option_row *row) {
    struct member_name name;
    snprintf(name.text, sizeof name.text, "%s", row->name);
    for (char *c = name.text; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    return name;
}

static bool refuse_name(struct reader *r, const char *member) {
    struct member_name names[MOST_ROWS];
    struct nearest nearest = nearest_to(member);
    if (text_option_row(r->command->options, member))
        return fail_line(r, "'%.100s' cannot be set for a single prompt", member);
    nearest_try(&nearest, prompt_name);
    for (size_t i = 0; i < MOST_ROWS && text_option_rows[i].name; i++) {
        names[i] = member_name(&text_option_rows[i]);
        nearest_try(&nearest, names[i].text);
    }
    const char *meant = nearest_name(&nearest);
    return fail_line(r, "unknown member '%.100s'%s%s%s", member, meant ? "; did you mean '" : "",
                     meant ? meant : "", meant ? "'?" : "");
}

/* ---- Values ------------------------------------------------------------------------------- */

/* The string; NULL, with what is wrong, if the value is none or has a NUL. */
static const char *string_of(struct reader *r, const char *member, const json_t *value) {
    const char *text = json_string_value(value);
    if (!text)
        fail_line(r, "%s is no string", member);
    else if (strlen(text) != json_string_length(value))
        fail_line(r, "%s has a NUL", member);
    else
        return text;
    return NULL;
}

static bool add_stop(struct reader *r, const struct option_row *row, const json_t *value) {
    struct option_problem problem;
    const char *text = string_of(r, "stop", value);
    if (!text)
        return false;
    return options_set_value(row, text, &r->line->options.own, &problem) ||
           fail_line(r, "out of memory");
}

/* A string or a list of them, instead of the command line's. */
static bool set_stop(struct reader *r, const struct option_row *row, const json_t *value) {
    struct prompt_line *line = r->line;
    size_t n = json_array_size(value);
    bool good = true;
    line->options.own.stop = (struct string_list){0};
    if (!json_is_array(value))
        good = add_stop(r, row, value);
    for (size_t i = 0; i < n && good; i++)
        good = add_stop(r, row, json_array_get(value, i));
    line->stop = line->options.own.stop;
    return good;
}

/* Sets an option by the text that the command line would have for the number. */
static bool set_number(struct reader *r, const char *member, const struct option_row *row,
                       const json_t *value) {
    struct option_problem problem;
    if (json_is_string(value))
        return fail_line(r, "%s is a string, not a number", member);
    char *text = output_json_value(value);
    if (!text)
        return fail_line(r, "out of memory");
    bool good = options_set_value(row, text, &r->line->options.own, &problem) ||
                fail_line(r, "%s %s", member, problem.text);
    free(text);
    return good;
}

static bool set_value(struct reader *r, const char *member, const struct option_row *row,
                      const json_t *value) {
    struct option_problem problem;
    bool *flag = (bool *)((char *)&r->line->options.own + row->offset);
    if (row->kind == OPTION_LIST)
        return set_stop(r, row, value);
    if (row->kind == OPTION_FLAG && !json_is_boolean(value))
        return fail_line(r, "%s is neither true nor false", member);
    if (row->kind == OPTION_FLAG) {
        *flag = json_is_true(value);
        return true;
    }
    if (row->kind == OPTION_INTEGER || row->kind == OPTION_REAL)
        return set_number(r, member, row, value);
    const char *text = string_of(r, member, value);
    if (!text || options_set_value(row, text, &r->line->options.own, &problem))
        return text;
    return fail_line(r, "%s %s", member, problem.text);
}

static bool is_given(const struct reader *r, const struct option_row *row) {
    return r->given >> (row - text_option_rows) & 1;
}

static bool read_member(struct reader *r, const char *member, const json_t *value) {
    if (strcmp(member, prompt_name) == 0) {
        r->line->options.prompt_text = string_of(r, prompt_name, value);
        return r->line->options.prompt_text;
    }
    const struct option_row *row = text_option_row(text_option_rows, member);
    if (!row)
        return refuse_name(r, member);
    if (is_given(r, row))
        return fail_line(r, "%s is given twice", member);
    r->given |= 1U << (row - text_option_rows);
    return set_value(r, member, row, value);
}

/* ---- The line ----------------------------------------------------------------------------- */

static bool is_named(const struct reader *r, const char *name) {
    return is_given(r, text_option_row(text_option_rows, name));
}

/* What the rows cannot say. */
static bool check_line(struct reader *r) {
    struct generate_options *o = &r->line->options;
    if (!o->prompt_text)
        return fail_line(r, "there is no prompt");
    if (o->own.n == 0)
        return fail_line(r, "n 0: a text of --prompts must end");
    if (is_named(r, "temperature") && !is_named(r, "greedy"))
        o->own.sampling.greedy = false;
    if (o->own.sampling.greedy)
        o->own.sampling.temperature = 0;
    const char *wrong = text_options_wrong(&o->own, o->ids, o->interactive);
    return !wrong || fail_line(r, "%s", wrong);
}

bool prompt_line_read(struct prompt_line *line, json_t *object, const struct command *command,
                      const struct generate_options *options, struct prompt_line_problem *problem) {
    struct reader reader = {.command = command, .line = line, .problem = problem};
    const char *member;
    json_t *value;
    *line = (struct prompt_line){.object = object, .options = *options};
    json_object_foreach(object, member, value) {
        if (!read_member(&reader, member, value))
            return false;
    }
    return check_line(&reader);
}

void prompt_line_free(struct prompt_line *line) {
    free(line->stop.items);
    json_decref(line->object);
    *line = (struct prompt_line){.object = NULL};
}

/* ---- The lines ----------------------------------------------------------------------------- */

/* The most lines whose texts are being made or wait to be printed. */
enum { MOST_LINES = 64 };

/* If the texts that wait take more bytes than this, only the first one goes on. */
static const size_t WAITING_BYTES = (size_t)64 << 20;

/* A text that is being made. */
struct slot {
    struct generate g; /* as the line's options make it; the model is that of the run */
    struct prompt_line line;
    char *name;            /* FILE: line N */
    struct answer *answer; /* NULL: the slot is free */
    uint64_t bytes;        /* of the line, in the input */
};

/* What is printed for a line. */
struct answer {
    uint64_t line;
    struct buffer output;
    struct slot *slot; /* NULL: the output is complete */
};

struct prompts {
    struct generate *g;
    const struct command *command;
    struct prompts_result *result;
    struct json_lines lines;
    struct texts texts;
    struct slot *slots[TEXTS_TOGETHER]; /* [n_slot], made when they are needed */
    size_t n_slot, most_slots, n_busy;
    struct answer answers[MOST_LINES]; /* a ring of n, from the first one not printed */
    size_t first, n;
    bool ended;  /* no more lines are taken */
    bool hinted; /* at what a line is */
    struct progress progress;
};

/* ---- Answers ------------------------------------------------------------------------------ */

static struct answer *nth_answer(struct prompts *p, size_t i) {
    return &p->answers[(p->first + i) % MOST_LINES];
}

static struct answer *add_answer(struct prompts *p) {
    struct answer *answer = nth_answer(p, p->n++);
    *answer = (struct answer){.line = p->lines.line};
    p->result->prompts++;
    return answer;
}

/* Ends the answer with the last error. */
static txl_status answer_failure(struct prompts *p, struct answer *answer) {
    json_t *object = json_pack("{s:I, s:o}", "line", (json_int_t)answer->line, "error",
                               output_json_string(terminal_last_error()));
    p->result->failed++;
    char *text = output_json_text(object, OUTPUT_JSON_FORM);
    bool good = text && buffer_append(&answer->output, text, strlen(text)) &&
                buffer_append(&answer->output, "\n", 1);
    free(text);
    return good ? TXL_OK : terminal_lacks_memory();
}

/* Whether an unfinished text is printed while it is made. */
static bool is_streamed(const struct prompts *p) {
    return p->g->options->json;
}

static bool print_buffer(struct buffer *output) {
    if (output->length > 0)
        progress_clear();
    bool good = output->length == 0 || output_write(output->data, output->length);
    output->length = 0;
    return good;
}

/* Prints what can be printed. */
static txl_status print_ready(struct prompts *p) {
    bool good = true;
    while (p->n > 0 && good) {
        struct answer *answer = nth_answer(p, 0);
        good = print_buffer(&answer->output);
        if (answer->slot) {
            if (is_streamed(p))
                good = good && print_buffer(&answer->slot->g.sample.output);
            break;
        }
        buffer_free(&answer->output);
        p->first = (p->first + 1) % MOST_LINES;
        p->n--;
    }
    return good && output_flush() ? TXL_OK : TXL_STOPPED;
}

/* Bytes that wait for the first answer. */
static size_t waiting_bytes(struct prompts *p) {
    size_t bytes = 0;
    for (size_t i = 1; i < p->n; i++) {
        const struct answer *answer = nth_answer(p, i);
        bytes += answer->output.length + (answer->slot ? answer->slot->g.sample.output.length : 0);
    }
    return bytes;
}

/* ---- Slots -------------------------------------------------------------------------------- */

/* A memory that starts with zeros computes the first tokens of a new session in another way, so
 * each text has a new one, as it has alone.  Otherwise sessions share the position rows, and are
 * used again. */
static bool needs_new_sessions(const struct prompts *p) {
    return strcmp(txl_model_memory_start(p->g->model.handle), "zeros") == 0;
}

static bool need_session(const struct prompts *p, txl_session **session) {
    const struct generate *g = p->g;
    txl_error error;
    if (*session)
        return true;
    if (needs_new_sessions(p))
        return session_open(&g->model, &g->rules.settings, session);
    txl_status status = txl_session_copy(g->sample.text.session, session, &error);
    return terminal_report(status, &error);
}

static struct slot *new_slot(struct prompts *p) {
    struct slot *slot = malloc(sizeof *slot);
    if (!slot) {
        terminal_lacks_memory();
        return NULL;
    }
    *slot = (struct slot){.g = *p->g};
    struct generate *g = &slot->g;
    g->sample = (struct sample){.number = 0};
    g->rules.banned = g->first_banned = (struct id_list){0};
    g->prompt.model = &g->model;
    g->prompt.reading = &g->rules.reading;
    g->prompt.session = &g->sample.text.session;
    p->slots[p->n_slot++] = slot;
    return slot;
}

/* One that is free, or NULL with the error printed. */
static struct slot *free_slot(struct prompts *p) {
    for (size_t i = 0; i < p->n_slot; i++)
        if (!p->slots[i]->answer)
            return p->slots[i];
    return new_slot(p);
}

/* Frees what a text had of its own; its output goes to the answer. */
static void end_slot(struct prompts *p, struct slot *slot) {
    struct sample *s = &slot->g.sample;
    txl_session *session = s->text.session;
    texts_remove(&p->texts, &s->text);
    if (needs_new_sessions(p)) {
        txl_session_free(session);
        session = NULL;
    }
    s->text.session = NULL;
    sample_close(s);
    *s = (struct sample){.text.session = session};
    prompt_line_free(&slot->line);
    free(slot->name);
    slot->name = NULL;
    slot->answer->slot = NULL;
    slot->answer = NULL;
    p->n_busy--;
}

static void free_slots(struct prompts *p) {
    for (size_t i = 0; i < p->n_slot; i++) {
        if (p->slots[i]->answer)
            end_slot(p, p->slots[i]);
        txl_session_free(p->slots[i]->g.sample.text.session);
        id_list_free(&p->slots[i]->g.rules.banned);
        id_list_free(&p->slots[i]->g.first_banned);
        free(p->slots[i]);
    }
}

/* The text has ended: its output is the answer. */
static void finish_slot(struct prompts *p, struct slot *slot) {
    struct generate *g = &slot->g, *all = p->g;
    struct buffer *made = &g->sample.output;
    all->prompt.tokens += g->prompt.tokens;
    all->prompt.unknown.n += g->prompt.unknown.n;
    all->tokens += g->sample.text.made;
    struct buffer before = slot->answer->output;
    slot->answer->output = *made;
    *made = before;
    end_slot(p, slot);
}

/* Memory that is short ends the run; any other failure is the line's. */
static txl_status fail_slot(struct prompts *p, struct slot *slot, txl_status status) {
    struct answer *answer = slot->answer;
    if (status == TXL_MEMORY)
        return status;
    if (is_streamed(p)) {
        struct buffer *made = &slot->g.sample.output;
        if (!buffer_append(&answer->output, made->data, made->length))
            return terminal_lacks_memory();
    }
    end_slot(p, slot);
    return answer_failure(p, answer);
}

/* ---- Beginning a text --------------------------------------------------------------------- */

static txl_status feed_prompt(struct slot *slot) {
    struct generate *g = &slot->g;
    struct prompt *prompt = &g->prompt;
    input_open_string(&prompt->input, slot->name, slot->line.options.prompt_text);
    if (slot->line.options.common.unwrap)
        tokens_unwrap(&prompt->input, txl_model_kind(g->model.handle), true);
    txl_status status = prompt_feed(prompt);
    bool stopped = status == TXL_STOPPED;
    if (!status && !generate_choose_first(g))
        status = TXL_MEMORY;
    if (!status || stopped)
        status = sample_start(g, &g->sample, 1) ? TXL_OK : TXL_MEMORY;
    return !status && stopped ? sample_end(g, &g->sample, "interrupted") : status;
}

/* Sets how this text is drawn, and opens what it needs. */
static txl_status open_text(struct prompts *p, struct slot *slot) {
    struct generate *g = &slot->g;
    txl_error error;
    txl_session *session = g->sample.text.session;
    g->options = &slot->line.options;
    g->line = slot->answer->line;
    if (!need_session(p, &session))
        return TXL_MEMORY;
    g->rules.options = &slot->line.options.own;
    struct text *text = &g->sample.text;
    bool good =
        terminal_report(text_open(text, &g->rules, session, &error), &error) && generate_choose(g);
    text->owner = slot;
    g->prompt.history = text->history;
    return good ? TXL_OK : TXL_MEMORY;
}

static txl_status begin_text(struct prompts *p, json_t *object, struct answer *answer,
                             uint64_t bytes) {
    struct prompt_line_problem problem;
    struct slot *slot = free_slot(p);
    if (!slot) {
        json_decref(object);
        return TXL_MEMORY;
    }
    slot->answer = answer;
    slot->bytes = bytes;
    answer->slot = slot;
    p->n_busy++;
    bool good = prompt_line_read(&slot->line, object, p->command, p->g->options, &problem);
    if (asprintf(&slot->name, "%s: line %" PRIu64, p->lines.input.name, answer->line) < 0) {
        slot->name = NULL;
        return terminal_lacks_memory();
    }
    if (!good) {
        terminal_error("%s: %s", slot->name, problem.text);
        return fail_slot(p, slot, TXL_ARGUMENT);
    }
    txl_status status = open_text(p, slot);
    if (!status)
        status = feed_prompt(slot);
    if (status)
        return fail_slot(p, slot, status);
    if (slot->g.sample.text.done)
        finish_slot(p, slot);
    else
        texts_add(&p->texts, &slot->g.sample.text);
    return TXL_OK;
}

/* Takes one more line, for which it waits only if nothing else is to be done. */
static txl_status take_line(struct prompts *p, bool *taken) {
    json_t *object;
    uint64_t begin = p->lines.used;
    enum json_line got = json_lines_next(&p->lines, p->n_busy == 0, &object);
    *taken = got == JSON_LINE_OBJECT || got == JSON_LINE_WRONG;
    p->ended = got == JSON_LINE_END || got == JSON_LINE_FAILED;
    if (got == JSON_LINE_OBJECT)
        return begin_text(p, object, add_answer(p), p->lines.used - begin);
    if (got != JSON_LINE_WRONG)
        return TXL_OK;
    txl_status status = answer_failure(p, add_answer(p));
    if (!p->hinted)
        terminal_note(
            "a line of --prompts is an object such as {\"prompt\": \"She said\", \"n\": 50}");
    p->hinted = true;
    return status;
}

/* Begins as many texts as there is room for. */
static txl_status begin_texts(struct prompts *p) {
    txl_status status = TXL_OK;
    bool taken = true;
    while (!status && taken && !p->ended && p->n_busy < p->most_slots && p->n < MOST_LINES &&
           waiting_bytes(p) <= WAITING_BYTES && !signals_stopped()) {
        status = take_line(p, &taken);
        if (!status && p->n_busy == 0)
            status = print_ready(p); /* before the next line is waited for */
    }
    return status;
}

/* ---- Tokens ------------------------------------------------------------------------------- */

static void show_progress(struct prompts *p) {
    double used = (double)p->lines.used;
    uint64_t made = p->g->tokens;
    for (size_t i = 0; i < p->n_slot; i++) {
        const struct slot *slot = p->slots[i];
        const struct generate *g = &slot->g;
        if (!slot->answer)
            continue;
        made += g->sample.text.made;
        double part = fmin((double)g->sample.text.made / (double)g->rules.n, 1);
        used -= (1 - part) * (double)slot->bytes;
    }
    progress_update(&p->progress, input_fraction(&p->lines.input, (uint64_t)used), made);
}

/* The text has ended, or failed. */
static txl_status end_text(struct prompts *p, struct text *text) {
    struct slot *slot = text->owner;
    if (!text->status) {
        finish_slot(p, slot);
        return TXL_OK;
    }
    terminal_error("%s: %s", slot->name, text->error.message);
    return fail_slot(p, slot, text->status);
}

/* Draws a token for each text and feeds those that go on. */
static txl_status step_texts(struct prompts *p) {
    txl_status status = TXL_OK;
    bool first_only = waiting_bytes(p) > WAITING_BYTES;
    for (size_t i = 0; i < p->texts.n; i++) {
        const struct slot *slot = p->texts.list[i]->owner;
        p->texts.list[i]->paused = first_only && slot->answer != nth_answer(p, 0);
    }
    texts_draw(&p->texts);
    for (size_t i = 0; i < p->texts.n && !status; i++) {
        struct slot *slot = p->texts.list[i]->owner;
        if (slot->g.sample.text.drawn)
            status = sample_put(&slot->g, &slot->g.sample);
    }
    for (struct text *text; !status && (text = texts_take(&p->texts));)
        status = end_text(p, text);
    if (!status)
        texts_feed(&p->texts);
    return status;
}

static txl_status continue_texts(struct prompts *p) {
    for (;;) {
        txl_status status = begin_texts(p);
        if (!status)
            status = print_ready(p);
        if (status || p->n_busy == 0)
            return status;
        double start = terminal_seconds();
        status = step_texts(p);
        p->g->seconds += terminal_seconds() - start;
        if (!status)
            status = print_ready(p);
        if (status)
            return status;
        show_progress(p);
    }
}

/* One note for all prompts. */
static void note_unknown(const struct prompts *p) {
    const uint64_t n = p->g->prompt.unknown.n;
    if (n > 0)
        terminal_note("%s: %" PRIu64 " symbol%s of the prompts that the vocabulary lacks %s %s",
                      p->lines.input.name, n, n == 1 ? "" : "s", n == 1 ? "was" : "were",
                      txl_model_unk(p->g->model.handle) >= 0 ? "replaced" : "left out");
}

txl_status prompts_run(struct generate *g, const struct command *command,
                       struct prompts_result *result) {
    struct prompts p = {
        .g = g, .command = command, .result = result, .most_slots = texts_most(&g->rules)};
    *result = (struct prompts_result){0};
    if (!json_lines_open(&p.lines, g->options->prompts))
        return signals_stopped() ? TXL_STOPPED : TXL_IO;
    progress_start(&p.progress, p.lines.input.name, "tokens");
    txl_status status = continue_texts(&p);
    progress_end(&p.progress);
    if (!status && p.lines.input.failed)
        status = TXL_IO;
    note_unknown(&p);
    free_slots(&p);
    for (size_t i = 0; i < p.n; i++)
        buffer_free(&nth_answer(&p, i)->output);
    json_lines_close(&p.lines);
    g->done = status == TXL_STOPPED ? "closed" : signals_stopped() ? "interrupted" : "end";
    return status;
}
