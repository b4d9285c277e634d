/* A range coder of 64 bits (Martin 1979): symbols of known frequencies to bytes and back.  It knows
 * no model.  weights-format.md says how it rounds, as another reader must. */
#ifndef TXL_COMPRESS_RANGE_CODER_H
#define TXL_COMPRESS_RANGE_CODER_H

#include "lib/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range_encoder {
    uint64_t low, range;
    size_t start;       /* where in `out` the code begins */
    struct buffer *out; /* the caller's */
    bool failed;        /* there was no memory */
};

void range_encoder_start(struct range_encoder *encoder, struct buffer *out);

/* Codes a symbol of `frequency` > 0, before which the frequencies of others add up to `below`; the
 * total of all must be below 2^48. */
void range_encode(struct range_encoder *encoder, uint64_t below, uint64_t frequency,
                  uint64_t total);

/* Writes what is left, without the zeros at its end.  False when there was no memory. */
bool range_encoder_finish(struct range_encoder *encoder);

struct range_decoder {
    uint64_t code, range; /* the code relative to the encoder's `low` */
    const unsigned char *start, *next, *end;
    size_t behind; /* how many bytes after the end were taken, as zeros */
};

/* Decodes data[size], which zeros follow; it must outlive the decoder. */
void range_decoder_start(struct range_decoder *decoder, const void *data, size_t size);

/* Where in the total the next symbol lies: below <= result < below + frequency.  A result that is
 * not less than `total` comes only from damaged data, as any that no symbol has. */
uint64_t range_decode_place(struct range_decoder *decoder, uint64_t total);

/* Moves past that symbol. */
void range_decode(struct range_decoder *decoder, uint64_t below, uint64_t frequency,
                  uint64_t total);

/* Whether the data end as those of an encoder that has coded the same symbols, apart from a zero
 * that is all of the data. */
bool range_decoder_ends(const struct range_decoder *decoder);

#endif
