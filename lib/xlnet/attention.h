/* The attention of one layer. */
#ifndef TXL_XLNET_ATTENTION_H
#define TXL_XLNET_ATTENTION_H

#include "timeline.h"

/* A pass on its way through the layers: rows of one timeline; or of each of several one content row
 * and then as many query rows. */
struct xlnet_pass {
    struct xlnet_timeline *line;  /* whose activations and threads the pass uses */
    struct timeline *const *each; /* [n_timeline], or NULL: all rows are of line's own timeline */
    size_t n_timeline;
    size_t n_content, n_query;
    int l;                           /* the layer's number, */
    const struct xlnet_layer *layer; /* and its weights */

    /* The part of the rows at hand. */
    size_t first, n;     /* which; of these */
    size_t content;      /* the first are content rows */
    const float *q, *kv; /* their queries; the keys, then values, of its content rows */
    size_t ldq, ldkv;
};

/* Some of the rows of a pass, all of one timeline: first, first + step, .. */
struct xlnet_rows {
    size_t first, step, m;
};

/* The timeline t of a pass, and which of its rows are of that timeline. */
struct xlnet_timeline *xlnet_pass_timeline(const struct xlnet_pass *pass, size_t t);
struct xlnet_rows xlnet_pass_rows(const struct xlnet_pass *pass, size_t t);

/* The distances that these rows see, from least to most. */
void xlnet_distances_seen(const struct xlnet_pass *pass, const struct xlnet_timeline *line,
                          struct xlnet_rows rows, int64_t *least, int64_t *most);

/* Puts the part's keys and values into the ring. */
void xlnet_store(struct xlnet_pass *pass);

/* heads[n, n_head d_head] of the part, whose keys and values are all in the ring. */
void xlnet_attend(struct xlnet_pass *pass);

/* Both of these, for few rows. */
void xlnet_store_and_attend(struct xlnet_pass *pass);

#endif
