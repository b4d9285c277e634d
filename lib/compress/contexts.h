/* What a stream's text so far has been, and the contexts in which its next element is predicted:
 * hashes of the last elements and bytes, of words, columns and fields, and of what the model
 * expects (context mixing after Mahoney 2005, "Adaptive weighing of context models for lossless
 * data compression"). */
#ifndef TXL_COMPRESS_CONTEXTS_H
#define TXL_COMPRESS_CONTEXTS_H

#include "tree.h"
#include "txl.h"

#include <stdbool.h>
#include <stdint.h>

enum { N_CONTEXT = 28 };

#define NO_ELEMENT INT32_MIN /* before a stream's first */

/* A stream's text so far. */
struct history {
    int32_t *elements; /* [n] ids, or literals (lossless.h); before them 16 times NO_ELEMENT */
    uint32_t n;
    unsigned char *text; /* [size], before it a line feed and 16 zeros */
    uint32_t size;
    bool loose; /* as lossless.h has it */
    /* Hashes of the word so far, of the two before, of the line's first; 0: there is none. */
    uint64_t word, word1, word2, first_word;
    uint32_t line, line_before; /* where they begin in the text */
    uint32_t above;             /* the field of the line before at the place of this one's */
    uint32_t fields;            /* of this line that have ended */
    uint32_t indent;            /* spaces that begin the line */
    bool indenting;
};

/* Of a text of at most `size` bytes. */
txl_status history_open(struct history *history, size_t size, txl_error *error);
void history_close(struct history *history); /* all zero is fine */

static inline int32_t history_element(const struct history *history, uint32_t back) {
    return history->elements[(int64_t)history->n - back];
}

static inline unsigned char history_byte(const struct history *history, uint32_t back) {
    return history->text[(int64_t)history->size - back];
}

/* Adds an element, for which there must be room. */
void history_add(struct history *history, const struct token_bytes *table, int32_t element);

/* The two newest elements that followed a token in its stream, and two elements: old << 32 | new
 * (indirect contexts). */
struct followers {
    size_t n_token;
    uint64_t *one; /* [n_stream, n_token] */
    uint64_t *two; /* [65536] by their hash */
};

txl_status followers_open(struct followers *followers, size_t n_stream, size_t n_token,
                          txl_error *error);
void followers_close(struct followers *followers); /* all zero is fine */

/* An element comes after those of the history, which it is not yet a part of. */
void followers_add(struct followers *followers, const struct history *history, size_t stream,
                   int32_t element);

/* Sets contexts[N_CONTEXT] for the stream's next element. */
void contexts_look(const struct history *history, const struct followers *followers, size_t stream,
                   const struct model_view *view, uint64_t *contexts);

#endif
