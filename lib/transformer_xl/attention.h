/* The attention of one layer of a pass.  Only forward.c needs it. */
#ifndef TXL_TRANSFORMER_XL_ATTENTION_H
#define TXL_TRANSFORMER_XL_ATTENTION_H

#include "timeline.h"

/* The attention of one layer in a pass.  The pass has n tokens of one timeline, or one token of
 * each of n timelines. */
struct attention {
    struct transformer_xl_timeline *timeline; /* whose activations and threads the pass uses */
    struct timeline *const *each;             /* [n] timelines; NULL: all rows are of `timeline` */
    int l;                                    /* number of the layer */
    const struct layer *layer;                /* weights of the layer */
    size_t n;
    bool first; /* position scores are in positions->first_scores */

    /* Set by attention_group: rows group[g] to group[g + 1] - 1 read their shared keys and values
     * together. */
    const size_t *group; /* [n_group + 1] */
    size_t n_group;
};

/* The timeline of a row of the pass. */
static inline struct transformer_xl_timeline *attention_timeline(const struct attention *a,
                                                                 size_t row) {
    return a->each ? xl_timeline(a->each[row]) : a->timeline;
}

/* Divides the rows of a pass of several timelines into groups; `each` is set. */
void attention_group(struct attention *attention);

/* Computes heads[n, n_head d_head] from qkv[n, 3 n_head d_head], and stores the keys and values in
 * the ring. */
void attention_run(struct attention *attention);

#endif
