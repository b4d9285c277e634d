/* A text as tokens, whose bytes give it back, and literal bytes for the rest. */
#ifndef TXL_COMPRESS_LOSSLESS_H
#define TXL_COMPRESS_LOSSLESS_H

#include "lib/text/tokenizer.h"
#include "lib/text/vocabulary.h"

/* An element of a text: a token's id, or ~byte, which is negative, for a literal. */
static inline int32_t literal_of(unsigned char byte) {
    return ~(int32_t)byte;
}

struct lossless {
    const struct token_bytes *table;
    txl_encoder *encoder;
    const char *text;
    size_t size, at; /* what is at `text`, and how much of it the elements so far write */
    bool loose;      /* as token_bytes_at has it, at `at` */
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

/* The bytes that a token writes when a text is put together again byte for byte: for each id a
 * fixed string, and one rule for the first symbol of a line.  weights-format.md states it: files
 * depend on it for ever.
 *
 * A decoder (tokenizer.h) makes text for people instead: it may wait for later symbols, and
 * replaces what is no UTF-8. */

struct token_bytes {
    char *text;    /* all strings */
    uint32_t *end; /* [n], where each ends in `text`, and the next begins */
    /* [n] enum token_use.  Tokens that write nothing - <unk>, control symbols - are not used. */
    unsigned char *use;
    int32_t n;
};

enum token_use {
    TOKEN_UNUSED,
    TOKEN_USED,
    TOKEN_JOINED, /* begins with the blank that joins it to what is before it */
    TOKEN_BYTE    /* stands for a byte of any text */
};

txl_status token_bytes_open(struct token_bytes *table, const struct vocabulary *vocabulary,
                            txl_error *error);
void token_bytes_close(struct token_bytes *table);

/* A place in a text is loose if nothing is there that a joining blank could join a token to.  That
 * is so at the start, after a line feed and after other white space that is no blank.  A blank
 * changes nothing.  Returns whether the next place is, after `byte`. */
static inline bool loose_behind(bool loose, unsigned char byte) {
    return (byte >= '\t' && byte <= '\r') || (loose && byte == ' ');
}

/* What token `id` writes there, without the joining blank where nothing is to be joined; NULL for
 * an unused one.  Never empty. */
const char *token_bytes_at(const struct token_bytes *table, bool loose, int32_t id, size_t *length);

#endif
