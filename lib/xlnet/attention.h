/* The attention of one layer of a pass.  Only forward.c needs it. */
#ifndef TXL_XLNET_ATTENTION_H
#define TXL_XLNET_ATTENTION_H

#include "timeline.h"

/* The state of a pass.  Its rows belong to one timeline; or to several, with one content row of
 * each first, then one query row of each. */
struct xlnet_pass {
    struct xlnet_timeline *timeline; /* the pass uses its activations and threads */
    struct timeline *const *each;    /* [n_timeline], or NULL: all rows are of `timeline` */
    size_t n_timeline;
    size_t n_content, n_query;
    int l;                           /* the layer's number, */
    const struct xlnet_layer *layer; /* and its weights */

    /* The part of the rows that is being computed. */
    size_t first, n;     /* the first row, and their number */
    size_t content;      /* the first `content` of them are content rows */
    const float *q, *kv; /* the queries of these rows; the keys, then values, of the content rows */
    size_t ldq, ldkv;
};

/* Some rows of a pass, all of one timeline: first, first + step, ... */
struct xlnet_rows {
    size_t first, step, m;
};

/* Timeline t of a pass, and the rows that belong to it. */
struct xlnet_timeline *xlnet_pass_timeline(const struct xlnet_pass *pass, size_t t);
struct xlnet_rows xlnet_pass_rows(const struct xlnet_pass *pass, size_t t);

/* The distances that these rows see, from least to most. */
void xlnet_distances_seen(const struct xlnet_pass *pass, const struct xlnet_timeline *timeline,
                          struct xlnet_rows rows, int64_t *least, int64_t *most);

/* Puts the part's keys and values into the ring. */
void xlnet_store(struct xlnet_pass *pass);

/* Computes heads[n, n_head d_head] of the part; all keys and values must be in the ring. */
void xlnet_attend(struct xlnet_pass *pass);

/* Both of these, for few rows. */
void xlnet_store_and_attend(struct xlnet_pass *pass);

#endif
