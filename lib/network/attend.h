/* The parts of a head's attention that are the same in all families: which keys a query sees, its
 * attention weights, and the weighted sums.  Storage is lib/network/kv_rows.h. */
#ifndef TXL_ATTEND_H
#define TXL_ATTEND_H

#include "kv_rows.h"

/* The keys and the position rows that some queries of one head see together.  Both spans begin in
 * the first of whole blocks: `keys`, which is the values' span too, is counted from the row of
 * position `low`, and `positions`, farthest first, from position row `low_row`. */
struct key_range {
    uint64_t low;
    size_t low_row;
    struct row_span keys, positions;
    size_t n_key, n_position; /* rows of both spans, in whole blocks */
};

/* The range of keys at positions from .. end - 1, which are kept in the ring's blocks in turn, and
 * of the position rows far .. near - 1. */
struct key_range attend_range(int layer, size_t head, uint64_t from, uint64_t end, size_t far,
                              size_t near);

/* out[m, d_head] = q[m, d_head] + bias[d_head]; bias may be NULL. */
void attend_add_bias(size_t m, size_t d_head, const float *q, size_t ldq, const float *bias,
                     float *out);

/* The same in the form that products with `rows` take. */
void attend_queries(const struct rows *rows, const struct kernels *kernels, size_t m, size_t d_head,
                    const float *q, size_t ldq, const float *bias, float *out);

/* Turns a row of scores s[n_key] into attention weights, and returns the factor by which they are
 * still to be multiplied.  The row sees n keys from key `before` on; the others get weight 0.  The
 * position score of the first n_far keys is `far`; those of the rest are position[n - n_far]. */
float attend_row(const struct kernels *kernels, size_t d_head, float *s, size_t n_key,
                 size_t before, size_t n, size_t n_far, float far, const float *position);

/* heads[m, d_head] = the rows of sums[m, width], each multiplied by its factor. */
void attend_heads(size_t m, size_t d_head, const float *sums, size_t width, const float *factor,
                  float *heads, size_t ldh);

#endif
