/* Products of few rows, rounded to 16 bits, with weights in q8: see struct kernels. */
#include "loads.h"

/* Rows of A are in groups of 4.  Two groups meet each weight while it is in a register where there
 * are registers for their sums, and a group of 3 or 4 meets two rows of weights at once there. */
enum {
    MOST_Q8_COLUMNS = 4,
    MOST_Q8_GROUPS = LANES == 16 ? 2 : 1,
    MORE_ROWS_COLUMNS = LANES == 16 ? 2 : 1
};

/* Adds to total[j][r] the dot products of a block of `columns` rows of B, `stride` elements from
 * each other, with `rows` rows of A.  The integers' sums are exact. */
static inline __attribute__((always_inline)) void
product_q8_block(const int rows, const int columns, const int16_t *a, size_t lda, const int8_t *b,
                 size_t stride, const float *scale, size_t scale_stride,
                 vec total[MOST_Q8_COLUMNS][4]) {
    ivec sum[MOST_Q8_COLUMNS][4];
    UNROLL for (size_t i = 0; i < Q8_BLOCK; i += 2 * LANES) {
        ivec16 x[MOST_Q8_COLUMNS];
        UNROLL for (int j = 0; j < columns; j++) x[j] = load_ivec16(b + (size_t)j * stride + i);
        UNROLL for (int r = 0; r < rows; r++) {
            ivec16 y;
            memcpy(&y, a + (size_t)r * lda + i, sizeof y);
            UNROLL for (int j = 0; j < columns; j++) sum[j][r] =
                i == 0 ? pair_products(y, x[j]) : add_products(sum[j][r], y, x[j]);
        }
    }
    UNROLL for (int j = 0; j < columns; j++) {
        vec s = splat(scale[(size_t)j * scale_stride]);
        UNROLL for (int r = 0; r < rows; r++) total[j][r] +=
            __builtin_convertvector(sum[j][r], vec) * s;
    }
}

/* The same for more rows, in groups. */
static inline __attribute__((always_inline)) void
product_q8_groups(const int rows, const int columns, const int16_t *a, size_t lda, const int8_t *b,
                  size_t stride, const float *scale, size_t scale_stride,
                  vec total[MOST_Q8_GROUPS][MOST_Q8_COLUMNS][4]) {
    UNROLL for (int r = 0; r < rows; r += 4)
        product_q8_block(rows - r < 4 ? rows - r : 4, columns, a + (size_t)r * lda, lda, b, stride,
                         scale, scale_stride, total[r / 4]);
}

/* Multiplies `columns` rows of B, `apart` rows from each other, so that as many streams are read
 * side by side. */
static inline __attribute__((always_inline)) void
product_q8_tile(const int rows, const int columns, size_t k, const int16_t *a, const float *a_scale,
                const int8_t *b, const float *scale, size_t apart, float *c, size_t ldc) {
    vec total[MOST_Q8_GROUPS][MOST_Q8_COLUMNS][4] = {0};
    const size_t blocks = q8_blocks(k), lda = blocks * Q8_BLOCK;
    size_t i = 0;
    for (; i + Q8_BLOCK <= k; i += Q8_BLOCK, scale++) {
        UNROLL for (int j = 0; j < columns; j++) prefetch(b + (size_t)j * apart * k + i);
        product_q8_groups(rows, columns, a + i, lda, b + i, apart * k, scale, apart * blocks,
                          total);
    }
    if (i < k) {
        int8_t rest[MOST_Q8_COLUMNS * Q8_BLOCK] = {0};
        for (int j = 0; j < columns; j++)
            memcpy(rest + j * Q8_BLOCK, b + (size_t)j * apart * k + i, k - i);
        product_q8_groups(rows, columns, a + i, lda, rest, Q8_BLOCK, scale, apart * blocks, total);
    }
    UNROLL for (int j = 0; j < columns; j++) {
        UNROLL for (int r = 0; r < rows; r++) c[(size_t)r * ldc + (size_t)j * apart] =
            a_scale[r] * sum_lanes(total[r / 4][j][r % 4]);
    }
}

static inline __attribute__((always_inline)) void
product_q8_rows(const int rows, const int columns, size_t n, size_t k, const int16_t *a,
                const float *a_scale, const int8_t *b, const float *scale, float *c, size_t ldc) {
    size_t part = n / (size_t)columns, done = part * (size_t)columns, blocks = q8_blocks(k);
    for (size_t j = 0; j < part; j++)
        product_q8_tile(rows, columns, k, a, a_scale, b + j * k, scale + j * blocks, part, c + j,
                        ldc);
    for (size_t j = done; j < n; j++)
        product_q8_tile(rows, 1, k, a, a_scale, b + j * k, scale + j * blocks, 0, c + j, ldc);
}

static void product_q8(size_t m, size_t n, size_t k, const int16_t *a, const float *a_scale,
                       const int8_t *b, const float *scale, float *c, size_t ldc) {
    const size_t lda = q8_blocks(k) * Q8_BLOCK;
    for (; MOST_Q8_GROUPS == 2 && m >= 8; m -= 8, a += 8 * lda, a_scale += 8, c += 8 * ldc)
        product_q8_rows(8, 2, n, k, a, a_scale, b, scale, c, ldc);
    for (; m >= 4; m -= 4, a += 4 * lda, a_scale += 4, c += 4 * ldc)
        product_q8_rows(4, MORE_ROWS_COLUMNS, n, k, a, a_scale, b, scale, c, ldc);
    if (m == 3)
        product_q8_rows(3, MORE_ROWS_COLUMNS, n, k, a, a_scale, b, scale, c, ldc);
    else if (m == 2)
        product_q8_rows(2, 2, n, k, a, a_scale, b, scale, c, ldc);
    else if (m == 1)
        product_q8_rows(1, 4, n, k, a, a_scale, b, scale, c, ldc);
}
