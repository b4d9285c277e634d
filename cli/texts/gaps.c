/* Reads a text with gaps, fills them, and tells what they became. */
#include "gaps.h"

#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const fill_orders[] = {"left", "surest", NULL};

enum { ASKED = 64 }; /* gaps whose distributions are in memory at a time */

/* ---- Reading ------------------------------------------------------------------------------ */

static txl_status add_gap(struct fill_text *t, const txl_symbol *symbol, txl_error *error) {
    if (t->n_gap == t->gap_capacity) {
        size_t capacity = t->gap_capacity ? 2 * t->gap_capacity : 16;
        struct gap *gaps = reallocarray(t->gap, capacity, sizeof *gaps);
        if (!gaps)
            return txl_fail(error, TXL_MEMORY, "out of memory");
        t->gap = gaps;
        t->gap_capacity = capacity;
    }
    struct gap *gap = &t->gap[t->n_gap++];
    *gap = (struct gap){symbol->line, symbol->offset, symbol->bytes, 0, 0, 0, 0};
    const char *wrong = candidates_give(t, gap);
    if (wrong)
        return txl_fail(error, TXL_TEXT, "%s", wrong);
    bool good = true;
    for (size_t i = 0; i < t->pieces && good; i++)
        good = id_list_add(&t->list, TXL_GAP);
    return good ? TXL_OK : txl_fail(error, TXL_MEMORY, "out of memory");
}

static txl_status add_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct fill_text *t = context;
    if (!symbol->text)
        return TXL_OK;
    if (symbol->id == t->mask)
        return add_gap(t, symbol, error);
    return id_list_add(&t->list, symbol->id) ? TXL_OK
                                             : txl_fail(error, TXL_MEMORY, "out of memory");
}

static txl_status see_text(void *context, const char *text, size_t length, txl_error *error) {
    struct fill_text *t = context;
    return buffer_append(&t->source, text, length) ? TXL_OK
                                                   : txl_fail(error, TXL_MEMORY, "out of memory");
}

/* Lists the places of the pieces, with room for the likeliest tokens of each. */
static bool list_pieces(struct fill_text *t) {
    size_t k = 0;
    t->piece = calloc(t->n_gap * t->pieces + 1, sizeof *t->piece);
    bool good = t->piece != NULL;
    for (size_t i = 0; good && i < t->list.n; i++) {
        if (t->list.ids[i] != TXL_GAP)
            continue;
        struct piece *piece = &t->piece[k++];
        piece->at = i;
        piece->top = calloc(t->n_top + 1, sizeof *piece->top);
        piece->top_logprobs = calloc(t->n_top + 1, sizeof *piece->top_logprobs);
        good = piece->top && piece->top_logprobs;
    }
    if (!good)
        terminal_error("out of memory");
    return good;
}

/* `problem` is NULL if errors are printed. */
static bool read_text(struct fill_text *t, struct input *input, struct buffer *text, char *problem,
                      size_t n_problem) {
    const txl_encoding encoding = {.lookup = true, .symbol = add_symbol, .context = t};
    struct token_reader reader;
    if (!token_reader_open(&reader, t->model->handle, input, &encoding, t->ids))
        return false;
    reader.see_text = see_text;
    reader.problem = problem;
    reader.n_problem = n_problem;
    txl_status status =
        text->length > 0 ? token_reader_feed(&reader, text->data, text->length) : TXL_OK;
    if (!status)
        status = signals_stopped() ? TXL_STOPPED : token_reader_finish(&reader);
    token_reader_close(&reader);
    return !status && list_pieces(t);
}

bool fill_read(struct fill_text *t, struct input *input) {
    struct buffer text = {0};
    bool good = input_read_all(input, &text, SIZE_MAX);
    const char *wrong = good && t->lists ? candidates_take(t, &text) : NULL;
    if (wrong)
        good = terminal_error("%s: %s", input->name, wrong);
    good = good && read_text(t, input, &text, NULL, 0);
    buffer_free(&text);
    return good;
}

bool fill_read_record(struct fill_text *t, const char *record, size_t length, char *problem,
                      size_t n_problem) {
    struct buffer text = {0};
    struct input input;
    *problem = '\0';
    input_open_string(&input, t->name, "");
    bool good = buffer_append(&text, record, length) || terminal_error("out of memory");
    const char *wrong = good ? candidates_take(t, &text) : NULL;
    if (wrong)
        snprintf(problem, n_problem, "%s", wrong);
    good = good && !wrong && read_text(t, &input, &text, problem, n_problem);
    buffer_free(&text);
    return good;
}

void fill_forget(struct fill_text *t) {
    for (size_t i = 0; t->piece && i < t->n_gap * t->pieces; i++) {
        free(t->piece[i].top);
        free(t->piece[i].top_logprobs);
    }
    free(t->piece);
    free(t->gap);
    candidates_forget(t);
    id_list_free(&t->list);
    buffer_free(&t->source);
    t->piece = NULL;
    t->gap = NULL;
    t->n_gap = t->gap_capacity = 0;
}

/* ---- What a gap becomes ------------------------------------------------------------------- */

/* Appends a piece as text; `first`: without the mark before a word, which the caller handles. */
static bool append_piece(const struct fill_text *t, int32_t id, bool first, struct buffer *out) {
    size_t length;
    const char *symbol = txl_model_symbol(t->model->handle, id, &length);
    if (id == txl_model_eos(t->model->handle))
        return buffer_append(out, "\n\n", 2);
    if (length == 5 && memcmp(symbol, "<eop>", 5) == 0)
        return buffer_append(out, "\n", 1);
    bool good = true;
    for (size_t i = 0; good && i < length;) {
        bool mark = begins_with_word_mark(symbol + i, length - i);
        if (mark && !(first && i == 0))
            good = buffer_append(out, " ", 1);
        else if (!mark)
            good = buffer_append(out, symbol + i, 1);
        i += mark ? WORD_MARK_BYTES : 1;
    }
    return good;
}

static bool begins_word(const struct fill_text *t, int32_t id) {
    size_t length;
    const char *symbol = txl_model_symbol(t->model->handle, id, &length);
    return begins_with_word_mark(symbol, length);
}

static bool append_number(int32_t id, bool first, struct buffer *out) {
    char number[16];
    int length = snprintf(number, sizeof number, "%s%" PRId32, first ? "" : " ", id);
    return buffer_append(out, number, (size_t)length);
}

/* Appends the text of a gap's k-th piece after `before`: a piece that begins a word gets a blank
 * before it, unless there is white space already or the text begins there. */
static bool append_filling(const struct fill_text *t, int32_t id, size_t k,
                           const struct buffer *before, struct buffer *out) {
    if (t->ids)
        return append_number(id, k == 0, out);
    bool apart = before->length == 0 || is_space_byte(before->data[before->length - 1]);
    if (k == 0 && begins_word(t, id) && !apart && !buffer_append(out, " ", 1))
        return false;
    return append_piece(t, id, k == 0, out);
}

/* Where the source that no gap has taken begins, before gap `i`. */
static uint64_t source_before(const struct fill_text *t, size_t i) {
    return i > 0 ? t->gap[i - 1].offset + t->gap[i - 1].bytes : 0;
}

/* Sets `out` to the text of gap `i`; `before` is the whole text before it.  `*drop` receives how
 * many of the last bytes of `before` to drop: the source's white space in the gap's line, unless
 * the first piece begins a word. */
static bool make_fillings(const struct fill_text *t, size_t i, const struct buffer *before,
                          struct buffer *out, size_t *drop) {
    const struct piece *piece = &t->piece[i * t->pieces];
    bool good = true;
    size_t most = (size_t)(t->gap[i].offset - source_before(t, i));
    size_t left = before->length;
    out->length = 0;
    if (!t->ids && !begins_word(t, piece->id))
        while (before->length - left < most && is_space_byte(before->data[left - 1]) &&
               before->data[left - 1] != '\n')
            left--;
    *drop = before->length - left;
    for (size_t k = 0; k < t->pieces && good; k++)
        good = append_filling(t, piece[k].id, k, before, out);
    return good;
}

/* ---- What it became -----------------------------------------------------------------------------
 */

/* Adds the text between the previous gap and gap `i` to `whole`. */
static bool append_source(const struct fill_text *t, size_t i, struct buffer *whole) {
    uint64_t from = source_before(t, i);
    return buffer_append(whole, t->source.data + from, (size_t)(t->gap[i].offset - from));
}

/* Drops the last `drop` bytes of `whole` and appends `gained`. */
static bool append_gained(struct buffer *whole, size_t drop, const struct buffer *gained) {
    whole->length -= drop;
    return buffer_append(whole, gained->data, gained->length);
}

bool fill_whole(const struct fill_text *t, struct buffer *whole) {
    struct buffer gained = {0};
    bool good = true;
    size_t drop;
    for (size_t i = 0; i < t->n_gap && good; i++)
        good = append_source(t, i, whole) && make_fillings(t, i, whole, &gained, &drop) &&
               append_gained(whole, drop, &gained);
    uint64_t from = source_before(t, t->n_gap);
    buffer_free(&gained);
    return good && buffer_append(whole, t->source.data + from, t->source.length - (size_t)from);
}

double fill_logprob(const struct fill_text *t, size_t i) {
    double logprob = 0;
    for (size_t k = 0; k < t->pieces; k++)
        logprob += (double)t->piece[i * t->pieces + k].logprob;
    return logprob;
}

bool fill_own(const struct fill_text *t, size_t i, struct buffer *text) {
    bool good = true;
    text->length = 0;
    for (size_t k = 0; k < t->pieces && good; k++)
        good = append_piece(t, t->piece[i * t->pieces + k].id, k == 0, text);
    return good;
}

/* The likeliest tokens for a gap's k-th piece, each with the text that it would be there: the
 * `drop` bytes that the gap's text replaces, if it begins a word, and itself. */
static json_t *top_to_json(const struct fill_text *t, const struct piece *piece, size_t k,
                           const struct buffer *before, size_t drop) {
    struct buffer text = {0};
    json_t *top = json_array();
    bool whole = true;
    for (size_t i = 0; i < t->n_top && whole; i++) {
        text.length = 0;
        size_t kept = k == 0 && begins_word(t, piece->top[i]) ? drop : 0;
        bool good = kept == 0 || buffer_append(&text, before->data + before->length - kept, kept);
        good = good && append_filling(t, piece->top[i], k, before, &text);
        json_t *one = json_pack("{s:i, s:o, s:f}", "id", (int)piece->top[i], "text",
                                output_json_bytes(text.data, text.length), "logprob",
                                (double)piece->top_logprobs[i]);
        whole = json_array_append_new(top, one) == 0 && good;
    }
    buffer_free(&text);
    return output_json_if(whole, top);
}

/* `before` is the text before the gap; `gained` comes in the place of its last `drop` bytes and of
 * the gap. */
static json_t *gap_to_json(const struct fill_text *t, size_t i, const struct buffer *before,
                           size_t drop, const struct buffer *gained) {
    const struct gap *gap = &t->gap[i];
    json_t *ids = json_array(), *top = json_array();
    int bad = 0;
    for (size_t k = 0; k < t->pieces; k++) {
        const struct piece *piece = &t->piece[i * t->pieces + k];
        bad |= json_array_append_new(ids, json_integer(piece->id));
        bad |= json_array_append_new(top, top_to_json(t, piece, k, before, drop));
    }
    json_t *object = json_pack("{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:f, s:O}", "file",
                               output_json_string(t->name), "line", (json_int_t)gap->line, "offset",
                               (json_int_t)(gap->offset + gap->cut_before - drop), "length",
                               (json_int_t)(gap->bytes + gap->cut + drop), "gap", (json_int_t)i,
                               "ids", ids, "text", output_json_bytes(gained->data, gained->length),
                               "logprob", fill_logprob(t, i), "top",
                               t->n_top == 0    ? json_null()
                               : t->pieces == 1 ? json_array_get(top, 0)
                                                : top);
    json_decref(top);
    if (t->n_candidate > 0)
        bad |= json_object_set_new(object, "candidates", candidates_to_json(t, gap));
    return output_json_if(bad == 0, object);
}

bool fill_objects(const struct fill_text *t, bool (*take)(void *context, json_t *object),
                  void *context) {
    struct buffer whole = {0}, gained = {0};
    bool good = true;
    size_t drop;
    for (size_t i = 0; i < t->n_gap && good; i++)
        good = append_source(t, i, &whole) && make_fillings(t, i, &whole, &gained, &drop) &&
               take(context, gap_to_json(t, i, &whole, drop, &gained)) &&
               append_gained(&whole, drop, &gained);
    buffer_free(&whole);
    buffer_free(&gained);
    return good;
}

/* ---- Filling ------------------------------------------------------------------------------ */

/* A segment: ids [first, first + n), with the pieces [open[0], open[n_open)) still to be filled. */
struct segment {
    size_t first, n;
    size_t *open; /* [n_open] numbers of pieces, ascending */
    size_t n_open;
};

static bool is_banned(const struct fill *f, size_t id) {
    for (size_t i = 0; i < f->sampling.n_banned; i++)
        if (f->sampling.banned[i] == (int32_t)id)
            return true;
    return false;
}

/* The log-probability of the likeliest piece that may be taken. */
static float best_allowed(const struct fill *f, const float *logprob) {
    size_t n_token = (size_t)txl_model_n_token(f->model.handle);
    float best = -INFINITY;
    for (size_t id = 0; id < n_token; id++)
        if (logprob[id] > best && !is_banned(f, id))
            best = logprob[id];
    return best;
}

/* Asks for some of the open pieces. */
static bool ask_pieces(struct fill *f, const struct segment *s, size_t from, size_t n,
                       float *logprob) {
    size_t gap[ASKED];
    txl_error error;
    for (size_t i = 0; i < n; i++)
        gap[i] = f->text.piece[s->open[from + i]].at - s->first;
    return terminal_report(txl_session_ask(f->session, gap, n, logprob, &error), &error);
}

/* Chooses the next of the open pieces, the first or the one that the model is surest of, and asks
 * for it. */
static bool choose_piece(struct fill *f, const struct segment *s, size_t *next) {
    size_t n_token = (size_t)txl_model_n_token(f->model.handle);
    float best = -INFINITY;
    *next = 0;
    for (size_t from = 0; f->options->order == ORDER_SUREST && from < s->n_open; from += ASKED) {
        size_t n = s->n_open - from < ASKED ? s->n_open - from : ASKED;
        if (!ask_pieces(f, s, from, n, f->logprob))
            return false;
        for (size_t i = 0; i < n; i++) {
            float sure = best_allowed(f, f->logprob + i * n_token);
            if (sure > best) {
                best = sure;
                *next = from + i;
            }
        }
    }
    txl_error error;
    if (f->options->order == ORDER_SUREST && s->n_open <= ASKED)
        return terminal_report(txl_session_look(f->session, *next, &error), &error);
    return ask_pieces(f, s, *next, 1, NULL);
}

static bool fill_piece(struct fill *f, struct segment *s) {
    size_t next;
    txl_error error;
    if (!choose_piece(f, s, &next))
        return false;
    struct piece *piece = &f->text.piece[s->open[next]];
    txl_status status = TXL_OK;
    if (f->text.n_top > 0)
        status = txl_session_top(f->session, (int)f->text.n_top, piece->top, piece->top_logprobs,
                                 &error);
    if (!status)
        status = txl_session_sample(f->session, &f->sampling, &f->random, &piece->id,
                                    &piece->logprob, &error);
    if (!status)
        status = txl_session_fill(f->session, piece->at - s->first, piece->id, &error);
    if (status)
        return terminal_error("%s", error.message);
    s->n_open--;
    memmove(s->open + next, s->open + next + 1, (s->n_open - next) * sizeof *s->open);
    return true;
}

static bool fill_segments(struct fill *f, size_t *open, struct progress *progress) {
    const struct fill_text *t = &f->text;
    size_t tgt_len = (size_t)f->settings.tgt_len, n_piece = t->n_gap * t->pieces, done = 0;
    for (size_t first = 0; first < t->list.n && !signals_stopped(); first += tgt_len) {
        struct segment s = {first, t->list.n - first < tgt_len ? t->list.n - first : tgt_len, open,
                            0};
        while (done + s.n_open < n_piece && t->piece[done + s.n_open].at < first + s.n) {
            open[s.n_open] = done + s.n_open;
            s.n_open++;
        }
        done += s.n_open;
        if (done == 0 && n_piece == 0)
            return true;
        txl_error error;
        if (txl_session_feed_gaps(f->session, t->list.ids + first, s.n, &error)) {
            return terminal_error("%s: tokens %zu to %zu: %s",
                                  strcmp(t->name, "-") == 0 ? "standard input" : t->name, first,
                                  first + s.n - 1, error.message);
        }
        while (s.n_open > 0 && !signals_stopped()) {
            if (!fill_piece(f, &s))
                return false;
            progress_update(progress, (double)(done - s.n_open) / (double)n_piece, done - s.n_open);
        }
        if (done == n_piece)
            return true; /* nothing follows that needs the segment */
    }
    return !signals_stopped();
}

bool fill_all(struct fill *f) {
    struct progress progress;
    double start = terminal_seconds();
    size_t *open = calloc(f->text.n_gap * f->text.pieces + 1, sizeof *open);
    if (!open)
        return terminal_error("out of memory");
    txl_session_reset(f->session);
    progress_start(&progress, f->text.name, "gaps");
    progress.off = progress.off || f->options->items.n > 0;
    bool good = fill_segments(f, open, &progress);
    progress_end(&progress);
    free(open);
    f->seconds = terminal_seconds() - start;
    return good;
}

/* ---- A run ---------------------------------------------------------------------------------- */

static bool choose_sampling(struct fill *f) {
    const struct fill_options *o = f->options;
    f->sampling = sampling_terms(&o->sampling);
    if (!o->allow_unk)
        f->sampling.banned = txl_model_banned(f->model.handle, &f->sampling.n_banned);
    return sampling_seed(o->seed, &f->random.seed);
}

static bool check_model(const struct fill *f) {
    if (!model_sees_both_sides(&f->model)) {
        return terminal_error(
            "%s is a Transformer-XL: it sees only what is to the left of a gap; filling "
            "needs an XLNet",
            f->model.name);
    }
    if (f->text.mask < 0)
        return terminal_error("%s: its vocabulary has no <mask>", f->model.name);
    return model_has_symbols(&f->model, f->options->logprobs);
}

bool fill_open(struct fill *f, struct fill_options *o, const char *name) {
    static const char mask[] = "<mask>";
    sampling_choose(&o->sampling, f->model.handle);
    f->text = (struct fill_text){.model = &f->model,
                                 .name = name,
                                 .ids = o->ids,
                                 .mask = txl_model_id(f->model.handle, mask, strlen(mask)),
                                 .pieces = (size_t)o->pieces,
                                 .n_top = (size_t)o->logprobs};
    if (!check_model(f))
        return false;
    txl_model_defaults(f->model.handle, &f->settings);
    settings_override(&f->settings, &o->session, &o->common);
    if (!choose_sampling(f) || !session_open(&f->model, &f->settings, &f->session))
        return false;
    txl_session_settings(f->session, &f->settings);
    if (o->order == ORDER_SUREST)
        f->logprob =
            calloc((size_t)ASKED * (size_t)txl_model_n_token(f->model.handle), sizeof *f->logprob);
    if (o->order == ORDER_SUREST && !f->logprob)
        return terminal_error("out of memory");
    return true;
}

void fill_close(struct fill *f) {
    fill_forget(&f->text);
    buffer_free(&f->listed);
    txl_session_free(f->session);
    free(f->logprob);
}

struct run_settings fill_run_settings(const struct fill *f) {
    return (struct run_settings){.text = text_form(f->model.handle, TEXT_RAW, f->options->ids),
                                 .fills = true,
                                 .unwrap = f->options->common.unwrap,
                                 .order = fill_orders[f->options->order]};
}

json_t *fill_settings(const struct fill *f) {
    const struct run_settings run = fill_run_settings(f);
    json_t *settings = json_object();
    bool good = sampling_to_json(settings, &f->options->sampling) &&
                output_json_append(settings, json_pack("{s:I, s:b}", "pieces", f->options->pieces,
                                                       "allow_unk", f->options->allow_unk)) &&
                settings_to_json(settings, &f->model, &f->settings, &run);
    return output_json_if(good, settings);
}
