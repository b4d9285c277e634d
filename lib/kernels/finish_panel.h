/* The last step of a product: scale, bias and ReLU of its sums, and rows again where they are
 * columns. */
#ifndef TXL_FINISH_PANEL_H
#define TXL_FINISH_PANEL_H

#include "transpose.h"

#include <stdbool.h>

/* Prefetches part i of `parts` of Y[m, n], which finish_panel will write, while the sums are made.
 */
static inline void fetch_part(size_t i, size_t parts, size_t m, size_t n, float *y, size_t ldy) {
    for (size_t t = i * m / parts; t < (i + 1) * m / parts; t++)
        for (size_t j = 0; j < n; j += 64 / sizeof *y)
            __builtin_prefetch(y + t * ldy + j, 1);
}

/* Stores n <= LANES elements of x, or of max(0, x) if `relu`; NaN stays. */
static inline void store_activated(float *y, size_t n, vec x, bool relu) {
    if (relu)
        x = (vec)((ivec)x & ~(x < splat(0)));
    store_some(y, n, x);
}

/* Y[m, n] = act(scale C^T + bias) for the sums C[n, width] of a panel; width >= m is a multiple of
 * LANES. scale[width] and bias[n] may be NULL; act is max(0, .) if `relu`. */
static inline void finish_panel(size_t m, size_t width, size_t n, const float *c,
                                const float *scale, const float *bias, bool relu, float *y,
                                size_t ldy) {
    for (size_t j = 0; j < n; j += LANES) {
        size_t columns = n - j < LANES ? n - j : LANES;
        vec add = bias ? load_some(bias + j, columns) : splat(0);
        for (size_t first = 0; first < m; first += LANES) {
            vec rows[LANES];
            transpose_part(c + j * width + first, width, columns, LANES, rows);
            size_t left = m - first < LANES ? m - first : LANES;
            for (size_t t = 0; t < left; t++) {
                vec sum = rows[t] * splat(scale ? scale[first + t] : 1) + add;
                store_activated(y + (first + t) * ldy + j, columns, sum, relu);
            }
        }
    }
}

/* Y[m, n] = act(C + bias) for sums C[m, ldc]. */
static inline void finish_rows(size_t m, size_t n, const float *c, size_t ldc, const float *bias,
                               bool relu, float *y, size_t ldy) {
    for (size_t j = 0; j < n; j += LANES) {
        size_t columns = n - j < LANES ? n - j : LANES;
        vec add = bias ? load_some(bias + j, columns) : splat(0);
        for (size_t r = 0; r < m; r++) {
            vec sum = load_some(c + r * ldc + j, LANES) + add;
            store_activated(y + r * ldy + j, columns, sum, relu);
        }
    }
}

#endif
