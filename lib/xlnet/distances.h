/* The position term of attention: a row W_r R_d for each distance d = i - j of a row at i from a
 * key at j, positive for keys to the left and negative for those to the right.
 *
 * The row depends on d alone, so it is computed once in the life of a session, when a pass first
 * sees that distance.  With clamp_len c > 0 all distances beyond c share the row of c, on either
 * side.  R_d = [sin(d f_0) .., cos(d f_0) ..], f_k = 10000^(-2k / d_model): the angles are float64,
 * since those of float32 are off by 6e-8 d. */
#ifndef TXL_XLNET_DISTANCES_H
#define TXL_XLNET_DISTANCES_H

#include "lib/network/compute.h"
#include "lib/network/kv_rows.h"
#include "xlnet.h"

struct distances {
    struct shared_arena memory; /* its users are sessions; with more than one, all distances are
                                   known */
    const struct xlnet *net;

    /* Rows are ordered from the farthest on the left to the farthest on the right, like the keys in
     * the memory.  Distance d has row `zero` - d; row `zero` is the last of a block. */
    int64_t left, right; /* distances run from -right to left */
    size_t zero;
    struct rows rows;

    /* Distances -known_right to known_left - 1 are filled in for all layers; -needed_right to
     * needed_left - 1 will be after the current pass. */
    int64_t known_left, known_right;
    int64_t needed_left, needed_right;

    /* Used until all are known: */
    float *sines;     /* [left + 1 + right, d_model]: R_d, farthest to the left first */
    float *projected; /* [n_head d_head], room for a block of rows */
};

/* As arena_new.  Another session may join when all rows are known. */
struct distances *distances_new(const struct xlnet *net, const txl_settings *settings,
                                txl_error *error);
/* Bytes that distances_new allocates. */
uint64_t distances_bytes(const struct xlnet *net, const txl_settings *settings);
/* Number of rows, in whole blocks. */
size_t distances_rows(const txl_settings *settings);

/* Fill in the rows of a layer when a pass reaches it, because its weights may not be available
 * earlier.  distances_need announces the distances that the pass sees, from least <= 0 to most >=
 * 0; distances_fill computes those that layer l lacks; distances_finish must follow when all layers
 * are filled. */
void distances_need(struct distances *distances, const struct compute *compute, int64_t least,
                    int64_t most);
void distances_fill(struct distances *distances, const struct compute *compute, int l,
                    const struct xlnet_layer *layer);
void distances_finish(struct distances *distances);

/* Whether all of them are filled in. */
static inline bool distances_are_known(const struct distances *p) {
    return p->known_left == p->left + 1 && p->known_right == p->right;
}

/* The distance whose row is used for d. */
static inline int64_t distances_clamp(const struct distances *p, int64_t d) {
    return d > p->left ? p->left : d < -p->right ? -p->right : d;
}

#endif
