/* The weights of a model that nobody trained: for measuring what a shape costs, or to be trained.
 */
#ifndef TXL_RANDOM_WEIGHTS_H
#define TXL_RANDOM_WEIGHTS_H

#include "family.h"

/* Makes in memory what weights_open would find in a file of these settings of the family (the keys
 * of weights-format.md; "type" is replaced by `type`): every tensor that they call for, raw, filled
 * by `threads` threads with random numbers that depend on `seed` alone.  The symbols are numbers.
 */
txl_status random_weights(const struct family *family, const json_t *settings,
                          enum weights_type type, uint64_t seed, int threads,
                          struct weights **weights, txl_error *error);

/* The same with the vocabulary of a weights file, in f32, and distributed as the published training
 * code begins with them. */
txl_status initial_weights(const struct family *family, const json_t *settings,
                           const void *vocabulary, size_t vocabulary_size, uint64_t seed,
                           int threads, struct weights **weights, txl_error *error);

#endif
