/* The weights of a model that nobody trained: for measuring what a shape costs, or to be trained.
 */
#ifndef TXL_RANDOM_WEIGHTS_H
#define TXL_RANDOM_WEIGHTS_H

#include "family.h"

/* Makes in memory what weights_open would find in a file with these settings (the keys of
 * weights-format.md; `type` replaces "type"): every tensor that they ask for, raw.  `threads`
 * threads fill them with random numbers that depend on `seed` alone.  The symbols are numbers. */
txl_status random_weights(const struct family *family, const json_t *settings,
                          enum weights_type type, uint64_t seed, int threads,
                          struct weights **weights, txl_error *error);

/* The same with this vocabulary section and in f32, with the distributions that the published
 * training code starts from. */
txl_status initial_weights(const struct family *family, const json_t *settings,
                           const void *vocabulary, size_t vocabulary_size, uint64_t seed,
                           int threads, struct weights **weights, txl_error *error);

#endif
