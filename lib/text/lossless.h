/* A text as tokens, whose bytes (token_bytes.h) give it back, and literal bytes for the rest. */
#ifndef TXL_LOSSLESS_H
#define TXL_LOSSLESS_H

#include "encoder.h"
#include "token_bytes.h"

/* An element of a text: a token's id, or ~byte, which is negative, for a literal. */
static inline int32_t literal_of(unsigned char byte) {
    return ~(int32_t)byte;
}

struct lossless {
    const struct token_bytes *table;
    txl_encoder *encoder;
    const char *text;
    size_t size, at; /* what is at `text`, and how much of it the elements so far write */
    bool loose;      /* as token_bytes.h has it, at `at` */
    int32_t *elements;
    size_t n;
};

/* `table` is the vocabulary's; both must outlive it.  Close it after a failure too. */
txl_status lossless_open(struct lossless *lossless, const struct vocabulary *vocabulary,
                         const struct token_bytes *table, txl_error *error);
void lossless_close(struct lossless *lossless);

/* Sets elements[*n], *n <= size, to what writes text[size]. */
txl_status lossless_parse(struct lossless *lossless, const char *text, size_t size,
                          int32_t *elements, size_t *n, txl_error *error);

#endif
