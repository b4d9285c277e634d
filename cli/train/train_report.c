/* The course of a training: curves, log, report. */
#include "train_report.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/page/page.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The points of a curve, and evaluations. */

bool curves_init(struct curves *c) {
    *c = (struct curves){.evaluations = json_array()};
    return c->evaluations;
}

void curves_free(struct curves *c) {
    json_decref(c->evaluations);
    *c = (struct curves){0};
}

/* Joins every two points into one. */
static void halve_points(struct curves *c) {
    for (size_t i = 0; i < CURVE_POINTS / 2; i++) {
        const struct curve_point *a = &c->point[2 * i], *b = a + 1;
        c->point[i] = (struct curve_point){a->steps + b->steps, a->nats + b->nats, b->rate};
    }
    c->n = CURVE_POINTS / 2;
    c->window *= 2;
}

void curves_add_step(struct curves *c, double nats, double rate) {
    if (c->window == 0)
        c->window = 1;
    if (c->n == 0 || c->point[c->n - 1].steps == c->window) {
        if (c->n == CURVE_POINTS)
            halve_points(c);
        c->point[c->n++] = (struct curve_point){0};
    }
    struct curve_point *last = &c->point[c->n - 1];
    last->steps++;
    last->nats += nats;
    last->rate = rate;
}

bool curves_add_evaluation(struct curves *c, uint64_t step, double nats, double bits,
                           const char *text) {
    json_t *one = json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)step, "nats",
                            output_json_number(nats), "bits", output_json_number(bits), "text",
                            text ? output_json_string(text) : json_null());
    return one && json_array_append_new(c->evaluations, one) == 0;
}

static json_t *points_to_json(const struct curves *c, bool means) {
    json_t *points = json_array();
    uint64_t steps = 0;
    for (size_t i = 0; i < c->n && points; i++) {
        const struct curve_point *p = &c->point[i];
        steps += p->steps;
        json_t *point = json_pack("[I, f, f]", (json_int_t)(means ? steps : p->steps),
                                  means ? p->nats / (double)p->steps : p->nats, p->rate);
        points = output_json_if(json_array_append_new(points, point) == 0, points);
    }
    return points;
}

json_t *curves_points(const struct curves *c) {
    return points_to_json(c, true);
}

json_t *curves_to_json(const struct curves *c) {
    return json_pack("{s:o, s:I, s:O}", "points", points_to_json(c, false), "window",
                     (json_int_t)c->window, "evaluations", c->evaluations);
}

bool curves_from_json(struct curves *c, const json_t *json) {
    json_t *points, *evaluations, *point;
    json_int_t window;
    size_t i;
    if (json_unpack((json_t *)json, "{s:o, s:I, s:o}", "points", &points, "window", &window,
                    "evaluations", &evaluations) != 0 ||
        !json_is_array(points) || json_array_size(points) > CURVE_POINTS || window < 0 ||
        !json_is_array(evaluations))
        return false;
    c->n = 0;
    c->window = (uint64_t)window;
    json_array_foreach(points, i, point) {
        json_int_t steps;
        if (json_unpack(point, "[I, F, F]", &steps, &c->point[i].nats, &c->point[i].rate) != 0 ||
            steps < 1 || steps > window)
            return false;
        c->point[i].steps = (uint64_t)steps;
        c->n = i + 1;
    }
    json_decref(c->evaluations);
    c->evaluations = json_incref(evaluations);
    return true;
}

/* Writing the log. */

/* Bytes of lines that may be owed: those of a hundred thousand steps. */
enum { MOST_OWED = 1 << 24 };

static bool fail_log(const struct train_log *log) {
    return terminal_error("%s: %s", log->path, strerror(errno));
}

/* Finds the end of the last line about the first `steps` steps. */
static bool cut_back(struct train_log *log, uint64_t steps) {
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    off_t end = 0;
    while ((n = getline(&line, &size, log->stream)) > 0 && line[n - 1] == '\n') {
        json_t *object = json_loadb(line, (size_t)n, 0, NULL);
        const json_t *number = json_object_get(object, "step");
        bool evaluation = json_object_get(object, "valid"); /* after as many steps */
        bool before = json_is_integer(number) &&
                      (uint64_t)json_integer_value(number) < steps + (evaluation ? 1 : 0);
        json_decref(object);
        if (!before)
            break;
        end += n;
    }
    free(line);
    return !ferror(log->stream) && lseek(fileno(log->stream), end, SEEK_SET) == end &&
           ftruncate(fileno(log->stream), end) == 0;
}

bool train_log_open(struct train_log *log, const char *path, bool continues, uint64_t steps) {
    *log = (struct train_log){.path = path};
    if (!path)
        return true;
    bool special;
    log->stream = output_open_special(path, &special);
    if (special)
        return log->stream || (!signals_stopped() && fail_log(log));
    log->stream = fopen(path, continues ? "r+e" : "we");
    if (!log->stream && continues && errno == ENOENT)
        log->stream = fopen(path, "w+e");
    if (!log->stream || (continues && !cut_back(log, steps)))
        return fail_log(log);
    return true;
}

/* Writes what is owed; errno says why not. */
static bool write_owed(struct train_log *log) {
    while (log->owed.length > 0) {
        ssize_t n = write(fileno(log->stream), log->owed.data, log->owed.length);
        if (n < 0 && errno == EINTR && !signals_stopped())
            continue;
        if (n < 0)
            return false;
        buffer_drop(&log->owed, (size_t)n);
    }
    return true;
}

static void try_to_write(struct train_log *log) {
    bool was_behind = log->behind;
    log->behind = !write_owed(log);
    log->gone = log->behind && errno == EPIPE;
    if (log->behind && !was_behind && !log->gone)
        terminal_note("%s: %s; trying again at the next save", log->path, strerror(errno));
}

bool train_log_write(struct train_log *log, json_t *object) {
    char *text = log->path && object ? json_text(object, OUTPUT_JSON_FORM) : NULL;
    bool lacking = !object || (log->path && !text);
    json_decref(object);
    if (lacking)
        terminal_error("out of memory");
    if (text && !log->gone) {
        size_t length = strlen(text);
        text[length] = '\n'; /* replaces the terminator, because the length is known */
        log->cut = log->cut || log->owed.length > MOST_OWED ||
                   !buffer_append(&log->owed, text, length + 1);
        if (!log->behind)
            try_to_write(log);
    }
    free(text);
    return !lacking;
}

void train_log_catch_up(struct train_log *log) {
    if (log->behind && !log->gone)
        try_to_write(log);
}

bool train_log_close(struct train_log *log) {
    bool good = !log->stream || log->gone || write_owed(log) || fail_log(log);
    if (good && log->cut && !log->gone) {
        terminal_error("%s: lines are missing, because too many could not be written", log->path);
        good = false;
    }
    if (log->stream && fclose(log->stream) != 0 && good)
        good = fail_log(log);
    buffer_free(&log->owed);
    *log = (struct train_log){.path = log->path};
    return good;
}

/* Writes the page, and the text that the model writes for it. */

extern const char train_report_html[], train_report_js[]; /* of train_page.c */

/* ---- What the model writes ---------------------------------------------------------------- */

enum { PROMPT_IDS = 32, WRITTEN_IDS = 240 };

static txl_status append_text(struct buffer *text, const char *bytes, size_t length,
                              txl_error *error) {
    if (buffer_append(text, bytes, length))
        return TXL_OK;
    return txl_fail(error, TXL_MEMORY, "out of memory");
}

static txl_status decode_sample(txl_decoder *decoder, int32_t id, struct buffer *text,
                                txl_error *error) {
    const char *bytes;
    size_t length;
    txl_status status = txl_decoder_push(decoder, id, &bytes, &length, error);
    return status ? status : append_text(text, bytes, length, error);
}

static txl_status finish_sample(txl_decoder *decoder, struct buffer *text, txl_error *error) {
    const char *bytes;
    size_t length;
    txl_status status = txl_decoder_finish(decoder, &bytes, &length, error);
    if (!status)
        status = append_text(text, bytes, length, error);
    return status ? status : append_text(text, "", 1, error);
}

static txl_status write_on(const txl_model *model, txl_session *session, txl_decoder *decoder,
                           struct buffer *text, txl_error *error) {
    txl_sampling sampling;
    txl_random random = {.seed = 1};
    txl_status status = TXL_OK;
    txl_sampling_defaults(model, &sampling);
    for (int i = 0; i < WRITTEN_IDS && !status; i++) {
        int32_t id;
        float logprob;
        status = txl_session_sample(session, &sampling, &random, &id, &logprob, error);
        if (!status)
            status = decode_sample(decoder, id, text, error);
        if (!status)
            status = txl_session_feed(session, &id, 1, error);
    }
    return status ? status : finish_sample(decoder, text, error);
}

char *train_report_write(const txl_model *model, const txl_settings *settings, const int32_t *ids,
                         size_t n, char **prompt, txl_error *error) {
    txl_session *session = NULL;
    txl_decoder *decoder = NULL;
    struct buffer text = {0}, before = {0};
    n = n < PROMPT_IDS ? n : PROMPT_IDS;
    txl_status status = txl_session_new(model, settings, &session, error);
    if (!status)
        status = txl_decoder_new(model, true, &decoder, error);
    for (size_t i = 0; i < n && !status; i++)
        status = decode_sample(decoder, ids[i], &before, error);
    if (!status)
        status = finish_sample(decoder, &before, error);
    if (!status)
        status = txl_session_feed(session, ids, n, error);
    if (!status)
        status = txl_decoder_continue(
            decoder, ids, n, before.length > 1 ? before.data[before.length - 2] : 0, error);
    if (!status)
        status = write_on(model, session, decoder, &text, error);
    txl_decoder_free(decoder);
    txl_session_free(session);
    if (status) {
        buffer_free(&text);
        buffer_free(&before);
        return NULL;
    }
    free(*prompt);
    *prompt = before.data;
    return text.data;
}

/* ---- The page ----------------------------------------------------------------------------- */

static bool write_page(FILE *stream, const json_t *data) {
    const struct page_part parts[] = {{"@report@", train_report_js}, {"@data@", NULL}};
    const size_t n = sizeof parts / sizeof *parts;
    struct page_nonce nonce;
    if (!page_draw_nonce(&nonce))
        return false;
    page_write_head(stream, "txl train", &nonce);
    const char *rest = page_write(stream, train_report_html, &nonce, parts, n);
    if (!page_write_data(stream, data))
        return terminal_error("out of memory");
    page_write(stream, rest, &nonce, parts, n);
    return true;
}

bool train_report_save(const struct train_report *r, const char *path) {
    struct outfile file;
    json_t *data = json_pack(
        "{s:o, s:o, s:b, s:O, s:o, s:O}", "output", output_json_string(r->output), "prompt",
        r->prompt ? output_json_string(r->prompt) : json_null(), "letters", r->letters, "settings",
        r->settings, "points", curves_points(r->curves), "evaluations", r->curves->evaluations);
    if (!data)
        return terminal_error("out of memory");
    bool good = outfile_open(&file, path) && write_page(file.stream, data);
    good = good && outfile_commit(&file);
    outfile_abandon(&file);
    json_decref(data);
    return good;
}
