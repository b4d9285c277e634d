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

    /* With `each`: rows group[g] to group[g + 1] - 1 read together what they share. */
    const size_t *group; /* [n_group + 1] */
    size_t n_group;
};

/* The timeline that a row of a pass belongs to. */
static inline struct transformer_xl_timeline *attention_timeline(const struct attention *a,
                                                                 size_t row) {
    return a->each ? xl_timeline(a->each[row]) : a->line;
}

/* Divides the rows of a pass of several timelines into groups. */
void attention_group(struct attention *attention);

/* heads[n, n_head d_head] from qkv[n, 3 n_head d_head], which also goes into the ring. */
void attention_run(struct attention *attention);

#endif
