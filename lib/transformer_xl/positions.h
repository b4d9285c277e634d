/* The position term of attention: scores by distance.
 *
 * W_r R_d depends on the distance d alone, so it is computed once for each (section 3.3 of Dai et
 * al. 2019, with the rows beyond clamp_len shared).  With a first memory of zeros the first token
 * already sees all distances.  To spare it that work, the first FIRST_TOKENS tokens compute (q + v)
 * . (W_r R_d) as ((q + v) W_r) . R_d, which costs more for each token but needs no rows. */
#ifndef TXL_POSITIONS_H
#define TXL_POSITIONS_H

#include "lib/network/compute.h"
#include "lib/network/kv_rows.h"

enum {
    FIRST_TOKENS = 16,
    POSITION_BLOCK = 64, /* rows computed at a time, always from a multiple of it */
    POSITION_ROWS = 256  /* the most rows of a product that are worth packing */
};

enum position_kind {
    POSITIONS_NONE,     /* no position term */
    POSITIONS_SINUSOID, /* W_r R_d of sinusoids R_d */
    POSITIONS_LEARNED   /* a learned row and bias for each distance */
};

/* What determines the position rows of a session. */
struct position_plan {
    enum position_kind kind;
    size_t n_layer, n_head, d_head, d_model;
    size_t distances;       /* 0 .. distances - 1; the last one serves all beyond */
    int clamp_len;          /* as in txl_settings */
    const float *inv_freq;  /* [d_model / 2] of the sinusoids */
    bool zero_memory;       /* the first token sees more than FIRST_TOKENS rows of zeros */
    bool exact;             /* the arithmetic is exact */
    enum weights_type type; /* of the stored rows */
};

/* The weights of one layer. */
struct position_weights {
    const struct matrix *r; /* W_r[n_head d_head, d_model], or learned [rows, n_head d_head] */
    const float *v;         /* [n_head, d_head], or NULL */
    const float *bias;      /* learned: [rows, n_head] */
};

struct positions {
    struct shared_arena memory; /* its users are sessions; with more than one, all distances are
                                   known */
    struct position_plan plan;
    size_t distances;
    size_t n_row; /* number of rows, in whole blocks */

    /* Distance d has row n_row - 1 - d: the farthest comes first, as the oldest key does in the
     * memory. */
    struct rows rows;
    float *bias;   /* [n_layer, n_head, n_row]; learned */
    size_t known;  /* distances 0 .. known - 1 are filled in for all layers */
    size_t needed; /* `known` after the current pass */

    /* Used until all are known: */
    float *projected; /* [POSITION_BLOCK, n_head d_head] */
    float *sines;     /* [distances, d_model], farthest first; of sinusoids */
    size_t n_sines;   /* the nearest distances whose sines are filled in */

    /* For the first tokens; NULL if these are treated like all others. */
    float *first_queries; /* [FIRST_TOKENS, n_head, d_model]: (q + v) W_r */
    float *first_scores;  /* [FIRST_TOKENS, n_head, distances] */
};

/* As arena_new.  Another session may join when all rows are known; see positions_need. */
struct positions *positions_new(const struct position_plan *plan, txl_error *error);
/* Bytes that positions_new allocates. */
uint64_t positions_bytes(const struct position_plan *plan);
/* Whether products with these rows are OpenBLAS's sgemm. */
bool positions_reach_sgemm(const struct position_plan *plan, const struct kernels *kernels);
/* Floats of scratch that each thread needs, in addition to products of POSITION_BLOCK rows with
 * each layer's W_r. */
size_t positions_scratch(const struct position_plan *plan);

/* Fill in the rows of a layer when a pass reaches it, because its weights may not be available
 * earlier.  positions_need announces that the pass sees distances 0 to count - 1; positions_fill
 * computes those that layer l lacks; positions_finish must follow when all layers are filled. */
void positions_need(struct positions *positions, const struct compute *compute, size_t count);
void positions_fill(struct positions *positions, const struct compute *compute, int l,
                    const struct position_weights *weights);
void positions_finish(struct positions *positions);

/* Whether some tokens may still be scored by positions_score_first.  What is known decides that, so
 * until then a pass must not fill in more rows than its tokens need. */
bool positions_may_be_first(const struct positions *positions);

/* Whether n more tokens after the first `before` are scored by positions_score_first. */
bool positions_are_first(const struct positions *positions, uint64_t before, size_t n);

/* Computes first_scores of one layer for n queries: q[n, n_head d_head] with row stride ldq. */
void positions_score_first(struct positions *positions, const struct compute *compute,
                           const struct position_weights *weights, size_t n, const float *q,
                           size_t ldq);

/* Computes the rows [sin(p f_0) .., cos(p f_0) ..] of n positions first, first + step, ...: out[n,
 * d_model].  If clamp_len is above 0, positions beyond it count as clamp_len.  A row's bits depend
 * on its position alone. */
void position_sines(const float *inv_freq, size_t d_model, int clamp_len, size_t first, int step,
                    size_t n, float *out);

#endif
