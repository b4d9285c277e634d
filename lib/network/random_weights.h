/* The weights of an untrained model, to measure the speed of a shape or to be trained.  They depend
 * on the seed alone. */
#ifndef TXL_RANDOM_WEIGHTS_H
#define TXL_RANDOM_WEIGHTS_H

#include "family.h"

struct random_model {
    struct weights_types types; /* replace the setting "type" */
    uint64_t seed;
    int threads; /* that fill the tensors */
    /* NULL: the symbols are numbers, and the weights are as fast to make as they can be.  Else the
     * vocabulary section, and the weights have the initial distributions of the published training
     * code. */
    const void *vocabulary;
    size_t vocabulary_size;
    uint64_t most; /* bytes of the tensors, so that settings of a stranger take no more */
};

/* Makes in memory what weights_open would read from a file with these settings (the keys of
 * weights-format.md): every tensor that follows from them, raw. */
txl_status random_weights(const struct family *family, const json_t *settings,
                          const struct random_model *how, struct weights **weights,
                          txl_error *error);

#endif
