/* The published models and the settings they were evaluated with (--preset published). */
#ifndef CLI_PUBLISHED_H
#define CLI_PUBLISHED_H

#include "txl.h"

struct published {
    const char *name;
    int n_layer, d_model, n_head, d_head, d_inner;
    int tgt_len, mem_len, clamp_len;
    int streams;
};

/* The published model of this model's shape, or NULL. */
const struct published *published_find(const txl_model *model);

/* The settings of its evaluation; threads stays as it is. */
void published_apply(const struct published *published, txl_settings *settings);

#endif
