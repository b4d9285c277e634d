/* What the kinds' encoders work with: where the text stands, and how symbols are passed on. */
#ifndef TXL_ENCODE_H
#define TXL_ENCODE_H

#include "kind.h"
#include "lib/base/buffer.h"
#include "unicode.h"
#include "vocabulary.h"

/* A place in the source. */
struct place {
    uint64_t line, column; /* from 1; columns in code points, in the bytes kind in bytes */
    uint64_t offset;       /* in bytes */
};

/* What is known in the middle of a text. */
struct position {
    struct unicode_decoder utf8;
    bool begun;      /* a code point was seen, so that U+FEFF is one like any other */
    bool cr_held;    /* a CR that may belong to a LF, just before `here` */
    bool line_begun; /* the line has code points */

    /* A prompt's line end is dropped if nothing follows it: so many bytes. */
    unsigned line_end_held;

    struct place here; /* of what is taken now, or comes next */
    uint64_t bytes;    /* of the source that what is taken now is made of */
};

struct txl_encoder {
    const struct vocabulary *vocabulary;
    const struct kind_encoder *kind;
    txl_encoding how;
    txl_encoded counts;
    struct position at;
    void *own; /* the kind's */
};

/* Passes on a symbol that was looked up as `id`, or -1 for one that the vocabulary lacks.  It
 * stands for `bytes` bytes of the source from `place` on. */
txl_status encode_found(txl_encoder *encoder, const char *text, size_t length, int32_t id,
                        const struct place *place, uint64_t bytes, txl_error *error);

/* Passes on a piece of the text; `context` is the encoder. */
struct piece;
txl_status encode_piece(void *context, const struct piece *piece, txl_error *error);

/* Looks a symbol up and passes it on.  Not for the bytes kind. */
txl_status encode_spelling(txl_encoder *encoder, const char *text, size_t length,
                           const struct place *place, uint64_t bytes, txl_error *error);

/* Passes on the kind's line boundary, which stands for `bytes` bytes at at.here. */
txl_status encode_boundary(txl_encoder *encoder, uint64_t bytes, txl_error *error);

/* Says that a line of the text ends, at at.here. */
txl_status encode_line_end(txl_encoder *encoder, txl_error *error);

/* Text that is gathered to be looked at as a whole.  To find its places in the source it takes only
 * the sizes of the sequences that U+FFFD replaced. */
struct gathered {
    struct buffer text;     /* UTF-8 */
    struct buffer replaced; /* of each U+FFFD in it the bytes of the source, one byte each */
    struct place start;     /* of its first code point */
};

void gathered_clear(struct gathered *gathered);
void gathered_free(struct gathered *gathered);

/* Adds what the encoder takes now. */
txl_status gathered_add(struct gathered *gathered, const txl_encoder *encoder, const char *utf8,
                        size_t length, txl_error *error);

/* A place in gathered text. */
struct gathered_place {
    size_t at;          /* byte of the text */
    size_t replaced;    /* U+FFFDs before it */
    struct place place; /* in the source */
};

struct gathered_place gathered_start(const struct gathered *gathered);

/* Moves to the code point that begins at, or covers, byte `at` of the text, forwards or backwards,
 * in time proportional to the distance. */
void gathered_move(const struct gathered *gathered, struct gathered_place *place, size_t at);

#endif
