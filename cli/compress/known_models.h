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

/* For txl_decompression.model; `context` is a struct known_models.  Looks at --model, $TXL_MODEL,
 * the model within the program, the folder of the installation, and the folders of $TXL_MODELS. */
txl_status known_models_find(void *context, uint64_t checksum, const char *name,
                             const txl_model **model, txl_error *error);
void known_models_close(struct known_models *known);

#endif
