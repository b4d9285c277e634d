/* A softmax as integers, for the range coder.  Of the entries that may come, entry i has
 *     frequency[i] = 1 + floor(e[i] * ((T - n) / sum)),  e[i] = exp(logit i - the largest)
 * in double precision, T being 2^24 or, of more than 65,536 entries, 2^30; the others have 0.  The
 * total is the sum of the frequencies.  Files depend on every bit of it (weights-format.md). */
#ifndef TXL_COMPRESS_QUANTISED_H
#define TXL_COMPRESS_QUANTISED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
