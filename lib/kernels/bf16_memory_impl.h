/* The body of every table's functions for a memory in bf16, for LANES lanes (see vectors.h).  A
 * file may define MULTIPLY_BF16 for many rows; it is called with a multiple of 16 rows. */
#ifndef TXL_BF16_MEMORY_IMPL_H
#define TXL_BF16_MEMORY_IMPL_H

#include "pairs.h"
#include "transpose.h"

/* `out` may be `in`: an element is read before its place is written. */
static void narrow_bf16(const float *in, size_t n, uint16_t *out) {
    for (size_t i = 0; i < n; i += 2 * LANES) {
        size_t left = n - i < 2 * LANES ? n - i : 2 * LANES, low = left < LANES ? left : LANES;
        vec x = load_some(in + i, low);
        vec y = left > LANES ? load_some(in + i + LANES, left - LANES) : splat(0);
        ivec narrow = narrow_neighbours(x, y);
        if (left == 2 * LANES)
            memcpy(out + i, &narrow, sizeof narrow);
        else
            memcpy(out + i, &narrow, left * sizeof *out);
    }
}

/* C[rows, n] (+)= A B for `rows` rows of A, in tiles of `vectors` vectors of columns. */
static inline __attribute__((always_inline)) void
bf16_rows(const int rows, const int vectors, size_t n, size_t k, const uint16_t *a, size_t lda,
          const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc) {
    struct pairs_a left = {a, lda, 0};
    size_t j = 0;
    for (; j + (size_t)vectors * LANES <= n; j += (size_t)vectors * LANES) {
        struct pairs_b right = {b + 2 * j, 2 * ldb, 2 * LANES, 0};
        tile_of_pairs(rows, vectors, 1, k / 2, left, right, add, c + j, ldc);
    }
    for (; j < n; j += LANES) {
        struct pairs_b right = {b + 2 * j, 2 * ldb, 2 * LANES, 0};
        tile_of_pairs(rows, 1, 1, k / 2, left, right, add, c + j, ldc);
    }
}

static void multiply_bf16(size_t m, size_t n, size_t k, const uint16_t *a, size_t lda,
                          const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc,
                          const void *next) {
    size_t i = 0;
#if defined(MULTIPLY_BF16)
    i = m / 16 * 16;
    if (i > 0)
        MULTIPLY_BF16(i, n, k, a, lda, b, ldb, add, c, ldc, next);
#endif
    for (size_t at = 0, rows; i < m; i += rows) {
        rows = m - i < 4 ? 1 : 4;
        /* A part before each tile: all of it at once would keep the tiles' own loads waiting. */
        for (size_t end = n * k * sizeof *b * (i + rows) / m; next && at < end; at += 64)
            __builtin_prefetch((const char *)next + at, 0, 2);
        if (rows == 4)
            bf16_rows(4, 4, n, k, a + i * lda, lda, b, ldb, add, c + i * ldc, ldc);
        else
            bf16_rows(1, 4, n, k, a + i * lda, lda, b, ldb, add, c + i * ldc, ldc);
    }
}

#endif
