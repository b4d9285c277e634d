/* The attention of one layer. */
#ifndef TXL_TRANSFORMER_XL_ATTENTION_H
#define TXL_TRANSFORMER_XL_ATTENTION_H

#include "timeline.h"

/* The attention of one layer in a pass: n tokens of one timeline, or one token of each of n. */
struct attention {
    struct transformer_xl_timeline *line; /* the pass uses its activations and threads */
    struct timeline *const *each;         /* [n], or NULL: all rows are of line's own timeline */
    int l;                                /* the layer's number, */
    const struct layer *layer;            /* and its weights */
    size_t n;
    bool few; /* the position scores are in positions->few_scores */
};

/* heads[n, n_head d_head] from qkv[n, 3 n_head d_head], which also goes into the ring. */
void attention_run(struct attention *attention);

#endif
