/* Products of keys and values in 8 bits with factors rounded to 16: see struct kernels. */
#include "loads.h"

enum {
    I8_ROWS = 4,
    I8_VECTORS = 4, /* of a tile with one row; 16 LANES columns at most */
    I8_FEW_VECTORS =
        LANES == 16 ? 4 : 2, /* of one with more rows, so that sums stay in registers */
};

/* Adds to lane i the products of elements 2 i and 2 i + 1. */
static inline ivec add_pair_products(ivec sum, ivec16 a, ivec16 b) {
#if defined(USE_NEON)
    return sum + pair_products(a, b);
#else
    return add_products(sum, a, b);
#endif
}

/* Computes one tile of C, `rows` x `vectors` vectors; these and `add` are constants where it is
 * inlined: otherwise some tiles would fuse the last product and sum, and others not.  The same
 * columns of `next` are prefetched, unless it is NULL. */
static inline __attribute__((always_inline)) void i8_tile(const int rows, const int vectors,
                                                          size_t k, const int16_t *a, size_t lda,
                                                          const float *a_scale, const int8_t *b,
                                                          size_t ldb, bool add, float *c,
                                                          size_t ldc, const char *next) {
    ivec sum[I8_ROWS][I8_VECTORS] = {0};
    for (size_t i = 0; i < k; i += 2, b += 2 * ldb) {
        ivec16 y[I8_VECTORS];
        for (size_t line = 0; next && line < (size_t)vectors * 2 * LANES; line += 64)
            __builtin_prefetch(next + i * ldb + line, 0, 2);
        UNROLL for (int v = 0; v < vectors; v++) y[v] = load_ivec16(b + v * 2 * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            float pair; /* two integers */
            memcpy(&pair, a + (size_t)r * lda + i, sizeof pair);
            ivec16 x = (ivec16)splat(pair);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                add_pair_products(sum[r][v], x, y[v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            float *at = c + (size_t)r * ldc + v * LANES;
            vec product = __builtin_convertvector(sum[r][v], vec) * splat(a_scale[r]);
            store_f32(at, add ? load_f32(at) + product : product);
        }
    }
}

static inline __attribute__((always_inline)) void i8_rows(const int rows, const int vectors,
                                                          size_t n, size_t k, const int16_t *a,
                                                          size_t lda, const float *a_scale,
                                                          const int8_t *b, size_t ldb, bool add,
                                                          float *c, size_t ldc, const char *next) {
    const size_t wide = (size_t)vectors * LANES, step = LANES < 16 ? 16 : LANES;
    size_t j = 0;
    for (; j + wide <= n; j += wide)
        i8_tile(rows, vectors, k, a, lda, a_scale, b + 2 * j, ldb, add, c + j, ldc,
                next ? next + 2 * j : NULL);
    for (; j < n; j += step)
        for (size_t l = 0; l < step; l += LANES)
            i8_tile(rows, 1, k, a, lda, a_scale, b + 2 * (j + l), ldb, add, c + j + l, ldc,
                    next ? next + 2 * (j + l) : NULL);
}

static inline __attribute__((always_inline)) void i8_product(const bool add, size_t m, size_t n,
                                                             size_t k, const int16_t *a, size_t lda,
                                                             const float *a_scale, const int8_t *b,
                                                             size_t ldb, float *c, size_t ldc,
                                                             const void *next) {
    for (; m >= 4; m -= 4, a += 4 * lda, a_scale += 4, c += 4 * ldc, next = NULL)
        i8_rows(4, I8_FEW_VECTORS, n, k, a, lda, a_scale, b, ldb, add, c, ldc, next);
    for (; m >= 2; m -= 2, a += 2 * lda, a_scale += 2, c += 2 * ldc, next = NULL)
        i8_rows(2, I8_FEW_VECTORS, n, k, a, lda, a_scale, b, ldb, add, c, ldc, next);
    if (m == 1)
        i8_rows(1, I8_VECTORS, n, k, a, lda, a_scale, b, ldb, add, c, ldc, next);
}

static void multiply_i8(size_t m, size_t n, size_t k, const int16_t *a, size_t lda,
                        const float *a_scale, const int8_t *b, size_t ldb, bool add, float *c,
                        size_t ldc, const void *next) {
    if (add)
        i8_product(true, m, n, k, a, lda, a_scale, b, ldb, c, ldc, next);
    else
        i8_product(false, m, n, k, a, lda, a_scale, b, ldb, c, ldc, next);
}
