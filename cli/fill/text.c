/* Reads a text with gaps, and prints it with the gaps filled. */
#include "text.h"

#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ------------------------------------------------------------------------------ */

static bool add_gap(struct fill_text *t, const txl_symbol *symbol) {
    if (t->n_gap == t->gap_capacity) {
        size_t capacity = t->gap_capacity ? 2 * t->gap_capacity : 16;
        struct gap *gaps = reallocarray(t->gap, capacity, sizeof *gaps);
        if (!gaps)
            return false;
        t->gap = gaps;
        t->gap_capacity = capacity;
    }
    t->gap[t->n_gap++] = (struct gap){symbol->line, symbol->offset, symbol->bytes};
    bool good = true;
    for (size_t i = 0; i < t->pieces && good; i++)
        good = id_list_add(&t->list, TXL_GAP);
    return good;
}

static txl_status add_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct fill_text *t = context;
    if (!symbol->text)
        return TXL_OK;
    bool good = symbol->id == t->mask ? add_gap(t, symbol) : id_list_add(&t->list, symbol->id);
    return good ? TXL_OK : txl_fail(error, TXL_MEMORY, "out of memory");
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

bool fill_text_read(struct fill_text *t, struct input *input) {
    const txl_encoding encoding = {.lookup = true, .symbol = add_symbol, .context = t};
    struct token_reader reader;
    if (!token_reader_open(&reader, t->model->handle, input, &encoding, t->ids))
        return false;
    reader.see_text = see_text;
    txl_status status = token_reader_run(&reader, NULL, NULL);
    token_reader_close(&reader);
    return !status && list_pieces(t);
}

void fill_text_close(struct fill_text *t) {
    for (size_t i = 0; t->piece && i < t->n_gap * t->pieces; i++) {
        free(t->piece[i].top);
        free(t->piece[i].top_logprobs);
    }
    free(t->piece);
    free(t->gap);
    id_list_free(&t->list);
    buffer_free(&t->source);
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

/* Appends the text of a gap's k-th piece behind `before`: a piece that begins a word gets a blank
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

/* ---- Printing ----------------------------------------------------------------------------- */

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

bool fill_text_print(const struct fill_text *t) {
    struct buffer whole = {0}, gained = {0};
    bool good = true;
    size_t drop;
    for (size_t i = 0; i < t->n_gap && good; i++)
        good = append_source(t, i, &whole) && make_fillings(t, i, &whole, &gained, &drop) &&
               append_gained(&whole, drop, &gained);
    uint64_t from = source_before(t, t->n_gap);
    good = good && buffer_append(&whole, t->source.data + from, t->source.length - (size_t)from);
    good = good ? output_text(whole.data, whole.length) : output_lacks_memory();
    buffer_free(&whole);
    buffer_free(&gained);
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
    double logprob = 0;
    int bad = 0;
    for (size_t k = 0; k < t->pieces; k++) {
        const struct piece *piece = &t->piece[i * t->pieces + k];
        logprob += (double)piece->logprob;
        bad |= json_array_append_new(ids, json_integer(piece->id));
        bad |= json_array_append_new(top, top_to_json(t, piece, k, before, drop));
    }
    json_t *object = json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:f, s:O}", "file", output_json_string(t->name),
        "line", (json_int_t)gap->line, "offset", (json_int_t)(gap->offset - drop), "length",
        (json_int_t)(gap->bytes + drop), "gap", (json_int_t)i, "ids", ids, "text",
        output_json_bytes(gained->data, gained->length), "logprob", logprob, "top",
        t->n_top == 0    ? json_null()
        : t->pieces == 1 ? json_array_get(top, 0)
                         : top);
    json_decref(top);
    return output_json_if(bad == 0, object);
}

bool fill_text_print_json(const struct fill_text *t) {
    struct buffer whole = {0}, gained = {0};
    bool good = true;
    size_t drop;
    for (size_t i = 0; i < t->n_gap && good; i++) {
        good = append_source(t, i, &whole) && make_fillings(t, i, &whole, &gained, &drop);
        good = good ? output_json(gap_to_json(t, i, &whole, drop, &gained)) : output_lacks_memory();
        if (good && !append_gained(&whole, drop, &gained))
            good = output_lacks_memory();
    }
    buffer_free(&whole);
    buffer_free(&gained);
    return good;
}
