/* The models that texts were compressed with, found by their checksums. */
#ifndef CLI_KNOWN_MODELS_H
#define CLI_KNOWN_MODELS_H

#include "cli/model/model.h"

enum { MAX_KNOWN_MODELS = 16 };

struct known_models {
    const struct common_options *common;
    struct model models[MAX_KNOWN_MODELS]; /* those that are open */
    char *names[MAX_KNOWN_MODELS];         /* paths, which the models refer to; NULL: built in */
    size_t n;
};

/* Finds the model in --model, $TXL_MODEL, the program itself, the folder of the installation, or
 * the folders of $TXL_MODELS. */
txl_status known_models_find(struct known_models *known, uint64_t checksum, const char *name,
                             const txl_model **model, txl_error *error);
void known_models_close(struct known_models *known);

#endif
