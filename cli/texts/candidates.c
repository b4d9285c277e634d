/* Reads what may stand in the gaps of a text, and how likely each candidate is there. */
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "gaps.h"
#include "lib/base/white_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ------------------------------------------------------------------------------ */

static const char OUT_OF_MEMORY[] = "out of memory";

void candidates_forget(struct fill_text *t) {
    for (size_t i = 0; i < t->n_candidate; i++) {
        free(t->candidate[i].text);
        free(t->candidate[i].ids);
    }
    free(t->candidate);
    free(t->list_of);
    t->candidate = NULL;
    t->list_of = NULL;
    t->n_candidate = t->n_list = t->taken = t->cut = 0;
}

static bool add_candidate(struct fill_text *t, const char *text, size_t length) {
    struct candidate *all = reallocarray(t->candidate, t->n_candidate + 1, sizeof *all);
    if (!all)
        return false;
    t->candidate = all;
    all[t->n_candidate] = (struct candidate){.text = malloc(length + 1), .length = length};
    if (!all[t->n_candidate].text)
        return false;
    memcpy(all[t->n_candidate++].text, text, length);
    return true;
}

/* Adds the parts of text[n], without blanks around them.  Returns what is wrong, or NULL. */
static const char *add_parts(struct fill_text *t, const char *text, size_t n, char between) {
    for (size_t begin = 0, end; begin <= n; begin = end + 1) {
        const char *bar = memchr(text + begin, between, n - begin);
        end = bar ? (size_t)(bar - text) : n;
        size_t from = begin, to = end;
        while (from < to && is_space_byte(text[from]))
            from++;
        while (to > from && is_space_byte(text[to - 1]))
            to--;
        bool last = end == n && between == '\n'; /* the end of a file of lines */
        if (from == to && !last)
            return "a gap has an empty candidate";
        if (from < to && !add_candidate(t, text + from, to - from))
            return OUT_OF_MEMORY;
    }
    return NULL;
}

const char *candidates_take(struct fill_text *t, struct buffer *source) {
    static const char opens[] = "<mask:";
    const size_t n = sizeof opens - 1;
    size_t to = 0, from = 0;
    while (from < source->length) {
        char *at = memmem(source->data + from, source->length - from, opens, n);
        size_t plain = at ? (size_t)(at - source->data) - from : source->length - from;
        memmove(source->data + to, source->data + from, plain);
        to += plain;
        from += plain;
        if (!at)
            break;
        const char *end = memchr(at, '>', source->length - from);
        if (!end || memchr(at, '\n', (size_t)(end - at)))
            return "a gap that begins with <mask: has no > in its line";
        struct candidate_list *lists = reallocarray(t->list_of, t->n_list + 1, sizeof *lists);
        if (!lists)
            return OUT_OF_MEMORY;
        t->list_of = lists;
        size_t first = t->n_candidate, length = (size_t)(end - at) - n;
        const char *wrong = add_parts(t, at + n, length, '|');
        if (wrong)
            return wrong;
        lists[t->n_list++] = (struct candidate_list){to, length + 1, first, t->n_candidate - first};
        memcpy(source->data + to, "<mask>", n);
        to += n;
        from = (size_t)(end - source->data) + 1;
    }
    source->length = to;
    return NULL;
}

const char *candidates_give(struct fill_text *t, struct gap *gap) {
    const char *wrong = NULL;
    gap->cut_before = t->cut;
    if (t->taken < t->n_list && t->list_of[t->taken].offset == gap->offset) {
        const struct candidate_list *list = &t->list_of[t->taken++];
        gap->first = list->first;
        gap->n = list->n;
        gap->cut = list->cut;
        t->cut += list->cut;
    } else {
        gap->first = t->n_candidate;
        wrong = t->other ? add_parts(t, t->other, t->n_other, t->between) : NULL;
        gap->n = t->n_candidate - gap->first;
    }
    return wrong;
}

/* Sets the pieces that the candidate is after what stands before the gap. */
static bool encode(const struct fill_text *t, const struct gap *gap, struct candidate *c,
                   txl_error *error) {
    const size_t room = 4 * c->length + 16; /* a character may become several */
    const txl_encoding encoding = {.continues = gap->offset > 0 &&
                                                !is_space_byte(t->source.data[gap->offset - 1])};
    c->ids = calloc(room, sizeof *c->ids);
    if (!c->ids ||
        txl_encode(t->model->handle, &encoding, c->text, c->length, c->ids, room, &c->n, error))
        return false;
    bool good = c->n > 0 && c->n <= room;
    for (size_t i = 0; i < c->n && good; i++)
        good = c->ids[i] != t->mask;
    snprintf(error->message, sizeof error->message, "it becomes no subword, or a gap");
    return good;
}

bool candidates_encode(struct fill *f, char *problem, size_t n_problem) {
    struct fill_text *t = &f->text;
    if (t->n_candidate > 0 && f->options->order != ORDER_LEFT) {
        snprintf(problem, n_problem, "candidates need --order left");
        return false;
    }
    for (size_t g = 0; g < t->n_gap; g++)
        for (size_t i = t->gap[g].first; i < t->gap[g].first + t->gap[g].n; i++) {
            struct candidate *c = &t->candidate[i];
            txl_error error = {.message = "out of memory"};
            bool good = encode(t, &t->gap[g], c, &error);
            size_t n = good ? t->list.n - t->pieces + c->n : 0;
            if (!good)
                snprintf(problem, n_problem, "candidate %.*s: %s", (int)c->length, c->text,
                         error.message);
            else if (n > (size_t)f->settings.tgt_len)
                snprintf(problem, n_problem,
                         "a text with candidates has at most tgt_len tokens, which is %d; with "
                         "%.*s it has %zu",
                         f->settings.tgt_len, (int)c->length, c->text, n);
            if (!good || n > (size_t)f->settings.tgt_len)
                return false;
        }
    return true;
}

/* ---- Scoring ------------------------------------------------------------------------------ */

/* The ids of the text with a gap for each piece of the candidate; NULL when memory is short. */
static int32_t *place(const struct fill_text *t, const struct candidate *c, size_t at, size_t *n) {
    size_t after = at + t->pieces;
    *n = t->list.n - t->pieces + c->n;
    int32_t *ids = calloc(*n, sizeof *ids);
    if (!ids)
        return NULL;
    memcpy(ids, t->list.ids, at * sizeof *ids);
    for (size_t i = 0; i < c->n; i++)
        ids[at + i] = TXL_GAP;
    memcpy(ids + at + c->n, t->list.ids + after, (t->list.n - after) * sizeof *ids);
    return ids;
}

static txl_status score(struct fill *f, const struct gap *gap, struct candidate *c, size_t at,
                        const int32_t *ids, size_t n, txl_error *error) {
    const struct fill_text *t = &f->text;
    size_t before = (size_t)(gap - t->gap) * t->pieces;
    txl_session_reset(f->session);
    txl_status status = txl_session_feed_gaps(f->session, ids, n, error);
    for (size_t i = 0; i < before && !status; i++)
        status = txl_session_fill(f->session, t->piece[i].at, t->piece[i].id, error);
    c->logprob = 0;
    for (size_t k = 0; k < c->n && !status; k++) {
        size_t where = at + k;
        status = txl_session_ask(f->session, &where, 1, f->logprob, error);
        c->logprob += (double)f->logprob[c->ids[k]];
        if (!status && k + 1 < c->n)
            status = txl_session_fill(f->session, where, c->ids[k], error);
    }
    return status;
}

static bool score_gap(struct fill *f, const struct gap *gap) {
    struct fill_text *t = &f->text;
    size_t at = t->piece[(size_t)(gap - t->gap) * t->pieces].at;
    bool good = true;
    for (size_t i = gap->first; i < gap->first + gap->n && good; i++) {
        struct candidate *c = &t->candidate[i];
        size_t n;
        txl_error error;
        int32_t *ids = place(t, c, at, &n);
        good = ids ? terminal_report(score(f, gap, c, at, ids, n, &error), &error)
                   : terminal_error("out of memory");
        free(ids);
        good = good && !signals_stopped();
    }
    return good;
}

bool candidates_score(struct fill *f) {
    bool good = true;
    if (f->text.n_candidate == 0)
        return true;
    if (!f->logprob)
        f->logprob = calloc((size_t)txl_model_n_token(f->model.handle), sizeof *f->logprob);
    if (!f->logprob)
        return terminal_error("out of memory");
    for (size_t i = 0; i < f->text.n_gap && good; i++)
        good = score_gap(f, &f->text.gap[i]);
    return good;
}

/* ---- Telling ------------------------------------------------------------------------------ */

size_t candidate_rank(const struct fill_text *t, const struct gap *gap, size_t i) {
    size_t rank = 1;
    for (size_t k = gap->first; k < gap->first + gap->n; k++)
        rank += t->candidate[k].logprob > t->candidate[i].logprob ||
                (t->candidate[k].logprob == t->candidate[i].logprob && k < i);
    return rank;
}

json_t *candidates_to_json(const struct fill_text *t, const struct gap *gap) {
    json_t *list = json_array();
    bool good = list;
    for (size_t i = gap->first; i < gap->first + gap->n && good; i++) {
        const struct candidate *c = &t->candidate[i];
        json_t *ids = json_array();
        for (size_t k = 0; k < c->n; k++)
            good = json_array_append_new(ids, json_integer(c->ids[k])) == 0 && good;
        json_t *one =
            json_pack("{s:o, s:o, s:f, s:I}", "text", output_json_bytes(c->text, c->length), "ids",
                      ids, "logprob", c->logprob, "rank", (json_int_t)candidate_rank(t, gap, i));
        good = json_array_append_new(list, one) == 0 && good;
    }
    return output_json_if(good, list);
}
