/* The weights of an untrained model, to measure the speed of a shape or to be trained.  They depend
 * on the seed alone. */
#ifndef TXL_RANDOM_WEIGHTS_H
#define TXL_RANDOM_WEIGHTS_H

#include "family.h"

/* Makes in memory what weights_open would read from a file with these settings (the keys of
 * weights-format.md; `type` replaces "type"): every tensor that follows from them, raw.  `threads`
 * threads fill them with random numbers that depend on `seed` alone.  The symbols are numbers. */
txl_status random_weights(const struct family *family, const json_t *settings,
                          enum weights_type type, uint64_t seed, int threads,
                          struct weights **weights, txl_error *error);

/* The same in f32, with this vocabulary section and the initial distributions of the published
 * training code. */
txl_status initial_weights(const struct family *family, const json_t *settings,
                           const void *vocabulary, size_t vocabulary_size, uint64_t seed,
                           int threads, struct weights **weights, txl_error *error);

#endif
