/* A range coder of 64 bits (Martin 1979): symbols of known frequencies to bytes and back; and what
 * it codes here: flags, bytes and a softmax.  It knows no model.  weights-format.md says how all of
 * it rounds, as another reader must. */
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

/* ---- Bits --------------------------------------------------------------------------------- */

/* Codes bits of given probabilities, or decodes them, and measures what they cost. */
struct bit_coder {
    struct range_encoder *encoder; /* NULL: it decodes */
    struct range_decoder *decoder;
    bool damaged; /* the code is none that an encoder writes; its bits are 0 from there on */
    struct bit_cost *cost;
};

/* Bits of information, as a range of 64 bits that shrinks: it has its top bit, and was doubled so
 * often.  All zero is a cost of none. */
struct bit_cost {
    uint64_t doubled, range;
};

/* Codes a bit that is 1 with probability p / 65536, 1 <= p <= 65535, or returns the next. */
int bit_code(struct bit_coder *coder, int bit, unsigned p);

/* ---- Flags and bytes ---------------------------------------------------------------------- */

/* A flag, and bytes predicted by the byte before: their frequencies follow what was coded so far.
 * Knows no model. */

/* A flag.  Its probability of being true is `share` / FLAG_TOTAL; each flag moves it by a
 * 128th of the way to what it was. */
enum { FLAG_TOTAL = 1 << 16, FLAG_SHIFT = 7, FLAG_LEAST = 2 };

struct flag {
    uint32_t share; /* FLAG_LEAST to FLAG_TOTAL - FLAG_LEAST */
};

void flag_encode(struct flag *flag, struct range_encoder *encoder, bool value);

/* False: the data is damaged. */
bool flag_decode(struct flag *flag, struct range_decoder *decoder, bool *value);

/* Bytes, each with frequencies that the same byte before it has had. */
struct byte_model {
    unsigned char before;
    uint16_t total[256];
    uint16_t frequency[256][256];
};

void byte_model_start(struct byte_model *model);
void byte_encode(struct byte_model *model, struct range_encoder *encoder, unsigned char byte);

/* False: the data is damaged. */
bool byte_decode(struct byte_model *model, struct range_decoder *decoder, unsigned char *byte);

/* ---- A softmax as frequencies ------------------------------------------------------------ */

/* A softmax as integers, for the range coder.  Of the entries that may come, entry i has
 *     frequency[i] = 1 + floor(e[i] * ((T - n) / sum)),  e[i] = exp(logit i - the largest)
 * in double precision, T being 2^24 or, of more than 65,536 entries, 2^30; the others have 0.  The
 * total is the sum of the frequencies.  Files depend on every bit of it (weights-format.md). */

/* Elements of an array of n frequencies: zeros follow them, so that sums take many at a time. */
static inline size_t quantised_room(size_t n) {
    return (n + 63) / 64 * 64;
}

/* Sets frequency[quantised_room(n)], and returns the total, which is less than 2^32.  e[n] lie from
 * 0 to 1, the largest is 1, and `sum` is the softmax's sum of them.  used[n]: 0 for entries that do
 * not come; NULL: all may.  Returns 0 if the numbers are not those of a softmax, or no entry may
 * come. */
uint64_t quantise(const float *e, size_t n, double sum, const unsigned char *used,
                  uint64_t *frequency);

/* What a cache's part, of 2^32, adds to an entry of frequencies with that total. */
static inline uint64_t quantised_given(uint32_t part, double scale, uint64_t total) {
    const uint64_t scaled = scale == 1 ? part : (uint64_t)((double)part * scale);
    return scaled * total >> 16;
}

/* Mixes them with what a cache gives to each entry (cache.h): of a total, frequency[i] becomes
 *     share frequency[i] + quantised_given(count[i] unit + extra[i], scale, total)
 * Returns the sum, which is less than 2^48 if the shares add up to less than 2^16 and the others,
 * scaled, to 2^32. */
uint64_t quantised_mix(uint64_t *frequency, size_t n, uint64_t total, uint32_t share,
                       const uint32_t *count, uint32_t unit, const uint32_t *extra, double scale);

/* The sum of the frequencies before entry i. */
uint64_t quantised_below(const uint64_t *frequency, size_t i);

/* The entry at `place` < total, and in *below what those before it add up to. */
size_t quantised_find(const uint64_t *frequency, uint64_t place, uint64_t *below);

#endif
