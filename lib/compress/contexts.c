/* A stream's text so far, and the contexts that it gives. */
#include "contexts.h"
#include "lib/base/error.h"
#include "logistic.h"

#include <stdlib.h>
#include <string.h>

enum { BEFORE = 17, FOLLOWERS_LOG2 = 16, LAST_COLUMN = 64, OWN = 12345 };

/* ---- The text so far ---------------------------------------------------------------------- */

txl_status history_open(struct history *h, size_t size, txl_error *error) {
    int32_t *elements = calloc(size + BEFORE, sizeof *elements);
    unsigned char *text = calloc(size + BEFORE, 1);
    if (!elements || !text) {
        free(elements);
        free(text);
        return txl_fail_memory(error, "a text so far", size * (1 + sizeof *elements));
    }
    *h = (struct history){
        .elements = elements + BEFORE, .text = text + BEFORE, .loose = true, .indenting = true};
    for (int i = 1; i <= BEFORE; i++)
        h->elements[-i] = NO_ELEMENT;
    h->text[-1] = '\n';
    return TXL_OK;
}

void history_close(struct history *h) {
    if (h->elements)
        free(h->elements - BEFORE);
    if (h->text)
        free(h->text - BEFORE);
    *h = (struct history){0};
}

static bool ends_field(unsigned char byte) {
    return byte == ' ' || byte == ',' || byte == '\t';
}

/* Moves to the next field of this line, and of the one before. */
static void next_field(struct history *h) {
    if (h->fields++ == 0)
        h->first_word = h->word1;
    while (h->above < h->line && !ends_field(h->text[h->above]))
        h->above++;
    h->above += h->above < h->line;
}

/* A word is letters in either case, and bytes that are no ASCII. */
static void add_to_word(struct history *h, unsigned char byte) {
    const unsigned char lower = byte < 128 ? byte | 32 : byte;
    if ((lower >= 'a' && lower <= 'z') || lower >= 128) {
        h->word = hash(h->word * 31 + lower + 1);
        return;
    }
    if (h->word) {
        h->word2 = h->word1;
        h->word1 = h->word;
        h->word = 0;
    }
    if (ends_field(byte))
        next_field(h);
}

static void add_byte(struct history *h, unsigned char byte) {
    h->text[h->size++] = byte;
    h->loose = loose_behind(h->loose, byte);
    add_to_word(h, byte);
    h->indenting = h->indenting && byte == ' ';
    h->indent += h->indenting;
    if (byte == '\n') {
        h->line_before = h->above = h->line;
        h->line = h->size;
        h->fields = h->indent = 0;
        h->first_word = 0;
        h->indenting = true;
    }
}

void history_add(struct history *h, const struct token_bytes *table, int32_t element) {
    h->elements[h->n++] = element;
    if (element < 0) {
        add_byte(h, (unsigned char)~element);
        return;
    }
    size_t n;
    const char *bytes = token_bytes_at(table, h->loose, element, &n);
    for (size_t i = 0; i < n; i++)
        add_byte(h, (unsigned char)bytes[i]);
}

/* ---- What followed ------------------------------------------------------------------------ */

txl_status followers_open(struct followers *f, size_t n_stream, size_t n_token, txl_error *error) {
    *f = (struct followers){.n_token = n_token,
                            .one = calloc(n_stream * n_token, sizeof *f->one),
                            .two = calloc((size_t)1 << FOLLOWERS_LOG2, sizeof *f->two)};
    return f->one && f->two
               ? TXL_OK
               : txl_fail_memory(error, "what followed tokens", n_stream * n_token * 8);
}

void followers_close(struct followers *f) {
    free(f->one);
    free(f->two);
    *f = (struct followers){0};
}

/* NULL after a literal and at the start. */
static uint64_t *after_one(const struct followers *f, const struct history *h, size_t stream) {
    const int32_t last = history_element(h, 1);
    return last < 0 ? NULL : &f->one[stream * f->n_token + (size_t)last];
}

static uint64_t last_two(const struct history *h) {
    return hash_pair((uint32_t)history_element(h, 1), (uint32_t)history_element(h, 2));
}

static uint64_t *after_two(const struct followers *f, const struct history *h, size_t stream) {
    return &f->two[hash(last_two(h) + stream) >> (64 - FOLLOWERS_LOG2)];
}

void followers_add(struct followers *f, const struct history *h, size_t stream, int32_t element) {
    uint64_t *one = after_one(f, h, stream), *two = after_two(f, h, stream);
    if (one)
        *one = *one << 32 | (uint32_t)element;
    *two = *two << 32 | (uint32_t)element;
}

/* ---- Contexts ----------------------------------------------------------------------------- */

/* The last n <= 8 bytes, the newest the highest. */
static uint64_t last_bytes(const struct history *h, uint32_t n) {
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= n; i++)
        bytes = bytes << 8 | history_byte(h, i);
    return bytes;
}

/* A byte of the line before this one; 0: none is there. */
static uint64_t byte_above(const struct history *h, uint32_t at) {
    return at < h->line ? h->text[at] : 0;
}

/* What they bring: the bytes that nine texts of up to 60,000 bytes, 79,934 in all when compressed,
 * take more without the input of one:
 *
 *     elements           352, 35, 3, -3     bytes               67, 26, 44, 53
 *     words              244, 51, 38, 33    columns and fields  132, 52, 88
 *     the model          89, 27             the indent          62
 *     what followed      50, 69, 25         a word, a field     34, 79
 *     the stream's own   230, 23, 27, 44, 8, all five 700
 *
 * Both matches bring 243, the refinement 247, all contexts 21,952, and the model 17,323.  A context
 * takes 0.1 % of the time. */
void contexts_look(const struct history *h, const struct followers *f, size_t stream,
                   const struct model_view *view, uint64_t *contexts) {
    const uint64_t p1 = (uint32_t)history_element(h, 1), p2 = (uint32_t)history_element(h, 2);
    const uint64_t two = last_two(h), three = hash_pair(two, (uint32_t)history_element(h, 3));
    const uint64_t b1 = history_byte(h, 1), b3 = last_bytes(h, 3);
    const uint64_t *one = after_one(f, h, stream);
    const uint64_t f1 = one ? *one : 0, f2 = *after_two(f, h, stream);
    const uint64_t words = hash_pair(h->word, h->word1);
    const uint64_t own = stream + OWN, likeliest = (uint32_t)view->likeliest;
    const uint32_t column = h->size - h->line, at = h->line_before + column;
    const uint64_t above = byte_above(h, at), above_right = byte_above(h, at + 1),
                   above_left = at > 0 && at < h->line ? byte_above(h, at - 1) : 0;
    uint64_t field = 0; /* the first bytes of the one above */
    for (uint32_t i = 0; i < 4; i++)
        field = field << 8 | byte_above(h, h->above + i);
    const uint64_t c[N_CONTEXT] = {
        /* Elements. */
        0, p1, two, three,
        /* Bytes. */
        last_bytes(h, 2), b3, last_bytes(h, 4), last_bytes(h, 6),
        /* Words. */
        h->word, words, hash_pair(words, h->word2), hash_pair(h->word + 1, h->word2),
        /* Columns and fields. */
        hash_pair(column < LAST_COLUMN ? column : LAST_COLUMN, above << 8 | b1),
        above_left << 16 | above_right << 8 | above, hash_pair(h->fields, h->first_word + b1),
        /* The model. */
        likeliest << 8 | view->share >> 13, hash_pair(likeliest, p1),
        /* The indent. */
        b1 << 32 | (uint64_t)h->indent << 2 | (uint64_t)(column == 0) << 1 | (column <= h->indent),
        /* What followed. */
        hash_pair(f1, p1), hash_pair(f2, two), hash_pair((uint32_t)f1, p2),
        /* A word and a field more. */
        hash_pair(h->word1, b1), hash_pair(h->fields, field << 8 | b1),
        /* The stream's own. */
        hash_pair(own, 0), hash_pair(own, p1), hash_pair(own, two), hash_pair(own, h->word),
        hash_pair(own, b3)};
    for (uint64_t i = 0; i < N_CONTEXT; i++)
        contexts[i] = hash(c[i] * GOLDEN_RATIO + i + 1);
}
