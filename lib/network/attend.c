/* The parts of a head's attention that are the same in all families. */
#include "attend.h"

#include <math.h>
#include <string.h>

struct key_range attend_range(int layer, size_t head, uint64_t from, uint64_t end, size_t far,
                              size_t near) {
    struct key_range range = {.low = from / ROW_BLOCK * ROW_BLOCK,
                              .low_row = far / ROW_BLOCK * ROW_BLOCK};
    range.keys = (struct row_span){layer, head, (size_t)(from / ROW_BLOCK),
                                   (size_t)(from - range.low), (size_t)(end - range.low)};
    range.positions =
        (struct row_span){layer, head, far / ROW_BLOCK, far - range.low_row, near - range.low_row};
    range.n_key = in_blocks(range.keys.end);
    range.n_position = in_blocks(range.positions.end);
    return range;
}

void attend_add_bias(size_t m, size_t d_head, const float *q, size_t ldq, const float *bias,
                     float *out) {
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < d_head; j++)
            out[t * d_head + j] = q[t * ldq + j] + (bias ? bias[j] : 0);
}

void attend_queries(const struct rows *rows, const struct kernels *kernels, size_t m, size_t d_head,
                    const float *q, size_t ldq, const float *bias, float *out) {
    attend_add_bias(m, d_head, q, ldq, bias, out);
    rows_round_factor(rows, kernels, m, d_head, out, d_head);
}

float attend_row(const struct kernels *kernels, size_t d_head, float *s, size_t n_key,
                 size_t before, size_t n, size_t n_far, float far, const float *position) {
    float scale = 1 / sqrtf((float)d_head);
    float sum = kernels->attend(s + before, n, n_far, far, position, scale);
    memset(s, 0, before * sizeof *s);
    memset(s + before + n, 0, (n_key - before - n) * sizeof *s);
    return 1 / sum;
}

void attend_heads(size_t m, size_t d_head, const float *sums, size_t width, const float *factor,
                  float *heads, size_t ldh) {
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < d_head; j++)
            heads[t * ldh + j] = sums[t * width + j] * factor[t];
}
