/* Transposes squares of LANES rows: operands are stored by rows and packed by columns. */
#ifndef TXL_TRANSPOSE_H
#define TXL_TRANSPOSE_H

#include "vectors.h"

#include <stddef.h>
#include <string.h>

/* One stage swaps the upper right and the lower left quarter of every square of 2 d lanes.  UPPER
 * and LOWER say from which of the two rows' lanes lane j of the upper and of the lower row
 * comes. */
#define UPPER(j, d) ((j) & (d) ? LANES + (j) - (d) : (j))
#define LOWER(j, d) ((j) & (d) ? LANES + (j) : (j) + (d))
#define FOUR_LANES(F, j, d) F(j, d), F(j + 1, d), F(j + 2, d), F(j + 3, d)
#if LANES == 16
#define EVERY_LANE(F, d)                                                                           \
    FOUR_LANES(F, 0, d), FOUR_LANES(F, 4, d), FOUR_LANES(F, 8, d), FOUR_LANES(F, 12, d)
#elif LANES == 8
#define EVERY_LANE(F, d) FOUR_LANES(F, 0, d), FOUR_LANES(F, 4, d)
#else
#define EVERY_LANE(F, d) FOUR_LANES(F, 0, d)
#endif

#define TRANSPOSE_STAGE(rows, d)                                                                   \
    for (int i = 0; i < LANES; i++) {                                                              \
        if (!(i & (d))) {                                                                          \
            vec upper = rows[i], lower = rows[i + (d)];                                            \
            rows[i] = __builtin_shufflevector(upper, lower, EVERY_LANE(UPPER, d));                 \
            rows[i + (d)] = __builtin_shufflevector(upper, lower, EVERY_LANE(LOWER, d));           \
        }                                                                                          \
    }

static inline __attribute__((always_inline)) void transpose(vec rows[LANES]) {
#if LANES == 16
    UNROLL TRANSPOSE_STAGE(rows, 8)
#endif
#if LANES >= 8
        UNROLL
        TRANSPOSE_STAGE(rows, 4)
#endif
            UNROLL
            TRANSPOSE_STAGE(rows, 2) UNROLL
            TRANSPOSE_STAGE(rows, 1)
}

/* The n <= LANES floats at p, and zero in the other lanes. */
static inline vec load_some(const float *p, size_t n) {
    vec x = {0};
    if (n == LANES)
        memcpy(&x, p, sizeof x);
    else
        memcpy(&x, p, n * sizeof *p);
    return x;
}

static inline void store_some(float *p, size_t n, vec x) {
    if (n == LANES)
        memcpy(p, &x, sizeof x);
    else
        memcpy(p, &x, n * sizeof *p);
}

/* out[j][i] = in[i][j] for i < n_row and j < n_col, both at most LANES; the rest of out is zero. */
static inline __attribute__((always_inline)) void
transpose_part(const float *in, size_t stride, size_t n_row, size_t n_col, vec out[LANES]) {
    if (n_row == LANES && n_col == LANES)
        UNROLL for (size_t i = 0; i < LANES; i++) out[i] = load_some(in + i * stride, LANES);
    else
        for (size_t i = 0; i < LANES; i++)
            out[i] = i < n_row ? load_some(in + i * stride, n_col) : splat(0);
    transpose(out);
}

/* Interleaves n rows of `bytes` by four bytes: the first four of all rows, then the next four, and
 * so on.  Rows are filled up to a multiple of 4 LANES bytes with zeros, their number to LANES. */
static inline void interleave_rows(size_t n, size_t bytes, const void *in, void *out) {
    const size_t width = (n + LANES - 1) / LANES * LANES;
    for (size_t first = 0; first < n; first += LANES) {
        for (size_t i = 0; i < bytes; i += sizeof(vec)) {
            const char *from = (const char *)in + first * bytes + i;
            size_t left = bytes - i < sizeof(vec) ? bytes - i : sizeof(vec);
            vec part[LANES];
            if (n - first >= LANES && left == sizeof(vec)) {
                UNROLL for (size_t r = 0; r < LANES; r++)
                    memcpy(&part[r], from + r * bytes, sizeof(vec));
            } else {
                for (size_t r = 0; r < LANES; r++) {
                    part[r] = splat(0);
                    if (first + r < n)
                        memcpy(&part[r], from + r * bytes, left);
                }
            }
            transpose(part);
            UNROLL for (size_t j = 0; j < LANES; j++) memcpy(
                (float *)out + (i / sizeof(float) + j) * width + first, &part[j], sizeof(vec));
        }
    }
}

#endif
