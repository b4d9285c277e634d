/* Products of f32 that are not weights: C (+)= A B, as `multiply` of struct kernels.  An element of
 * C adds over k in order, whatever m, n and the number of lanes.  The including file may define
 * add_product itself. */
#include "loads.h"

#if !defined(add_product)
/* Adds a product to a sum.  The compiler fuses the two where the processor can. */
static inline vec add_product(vec x, vec y, vec sum) {
    return sum + x * y;
}
#endif

/* The registers hold a tile of C: TILE_ROWS x TILE_VECTORS sums, a row of B, an element of A. */
#if LANES == 16
enum { TILE_ROWS = 6, TILE_VECTORS = 4 };
#else
enum { TILE_ROWS = 6, TILE_VECTORS = 2 };
#endif

/* A narrow tile may have more rows, and one of few rows more vectors: those of two tiles, or for
 * one row of at least 128 columns eight (with AVX2 fewer columns are slower so). */
enum { MOST_TILE_ROWS = 16, FEW_ROWS_VECTORS = 2 * TILE_VECTORS, MOST_TILE_VECTORS = 8 };

/* Rows of B that are processed together, so that a tile's part of them stays in the first-level
 * cache. */
enum { DEPTH_BLOCK = 128 };

/* Computes one tile of C, `rows` x `vectors` vectors; these and `half` (B is f16) are constants
 * where it is inlined.  `next`, unless NULL, is the next B: rows of B, and then of this, are
 * prefetched AHEAD bytes before they are read.  `next_a`, unless NULL, is the next A, prefetched
 * too. */
static inline __attribute__((always_inline)) void
multiply_tile(const int rows, const int vectors, const bool half, size_t k, const float *a,
              size_t lda, const void *b, size_t ldb, bool add, float *c, size_t ldc,
              const char *next, const float *next_a) {
    const size_t size = half ? sizeof(uint16_t) : sizeof(float);
    vec sum[MOST_TILE_ROWS][MOST_TILE_VECTORS];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
            add ? load_f32(c + (size_t)r * ldc + v * LANES) : splat(0);
    }
    const size_t stride = ldb * size, rows_ahead = (AHEAD + stride - 1) / stride;
    const size_t far = rows_ahead < k ? rows_ahead : k;
    const char *ahead = (const char *)b + far * stride;
    for (size_t i = 0; i < k; i++, ahead += stride) {
        vec row[MOST_TILE_VECTORS];
        if (next && i == k - far)
            ahead = next;
        for (size_t line = 0; next && line < (size_t)vectors * LANES * size; line += 64)
            __builtin_prefetch(ahead + line, 0, 2);
        if (next_a && i % (64 / sizeof(float)) == 0)
            UNROLL for (int r = 0; r < rows; r++)
                __builtin_prefetch(next_a + (size_t)r * lda + i, 0, 2);
        UNROLL for (int v = 0; v < vectors; v++) row[v] =
            half ? load_f16((const uint16_t *)b + i * ldb + v * LANES)
                 : load_f32((const float *)b + i * ldb + v * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            vec x = splat(a[(size_t)r * lda + i]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = add_product(x, row[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++)
            store_f32(c + (size_t)r * ldc + v * LANES, sum[r][v]);
    }
}

/* Computes `vectors` vectors of C's columns in all rows. */
static inline __attribute__((always_inline)) void
multiply_columns(const int vectors, const bool half, size_t m, size_t k, const float *a, size_t lda,
                 const void *b, size_t ldb, bool add, float *c, size_t ldc, const char *next) {
    const size_t size = half ? sizeof(uint16_t) : sizeof(float);
    /* The first tiles prefetch some rows of `next` each. */
    const size_t step = next && m >= 6 ? (6 * k + m - 1) / m : 0;
    for (size_t row = 0; m >= 6; m -= 6, a += 6 * lda, c += 6 * ldc) {
        for (size_t i = 0; i < step && row < k; i++, row++)
            for (size_t line = 0; line < (size_t)vectors * LANES * size; line += 64)
                __builtin_prefetch(next + row * ldb * size + line, 0, 2);
        multiply_tile(6, vectors, half, k, a, lda, b, ldb, add, c, ldc, NULL, NULL);
    }
    for (; m >= 2; m -= 2, a += 2 * lda, c += 2 * ldc)
        multiply_tile(2, vectors, half, k, a, lda, b, ldb, add, c, ldc, NULL, NULL);
    if (m == 1)
        multiply_tile(1, vectors, half, k, a, lda, b, ldb, add, c, ldc, next, NULL);
}

/* Computes the last columns, fewer than a tile has: vectors LANES of them. */
static inline __attribute__((always_inline)) void
multiply_rest(const bool half, size_t vectors, size_t m, size_t k, const float *a, size_t lda,
              const void *b, size_t ldb, bool add, float *c, size_t ldc, const char *next) {
    if (TILE_VECTORS > 3 && vectors == 3)
        multiply_columns(3, half, m, k, a, lda, b, ldb, add, c, ldc, next);
    else if (TILE_VECTORS > 2 && vectors == 2)
        multiply_columns(2, half, m, k, a, lda, b, ldb, add, c, ldc, next);
    else if (vectors == 1)
        multiply_columns(1, half, m, k, a, lda, b, ldb, add, c, ldc, next);
}

/* Computes one or two rows of C in columns of wide tiles, which read longer runs of memory; returns
 * how many columns those are. */
static inline __attribute__((always_inline)) size_t
multiply_few_rows(const bool half, size_t m, size_t n, size_t k, const float *a, size_t lda,
                  const void *b, size_t ldb, bool add, float *c, size_t ldc, const char *next) {
    const size_t size = half ? sizeof(uint16_t) : sizeof(float);
    const bool most = m == 1 && n >= 128;
    const size_t wide = (most ? MOST_TILE_VECTORS : FEW_ROWS_VECTORS) * LANES;
    size_t j = 0;
    for (; j + wide <= n; j += wide) {
        const char *columns = (const char *)b + j * size, *ahead = next ? next + j * size : NULL;
        if (most)
            multiply_tile(1, MOST_TILE_VECTORS, half, k, a, lda, columns, ldb, add, c + j, ldc,
                          ahead, NULL);
        else if (m == 1)
            multiply_tile(1, FEW_ROWS_VECTORS, half, k, a, lda, columns, ldb, add, c + j, ldc,
                          ahead, NULL);
        else
            multiply_tile(2, FEW_ROWS_VECTORS, half, k, a, lda, columns, ldb, add, c + j, ldc,
                          ahead, NULL);
    }
    return j;
}

static void multiply_f32(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *b,
                         size_t ldb, bool add, float *c, size_t ldc, const void *next) {
    size_t done = 0; /* columns */
    if (m == 1 || m == 2)
        done = multiply_few_rows(false, m, n, k, a, lda, b, ldb, add, c, ldc, next);
    /* The rows of a single tile read B only once. */
    size_t depth = m > TILE_ROWS ? DEPTH_BLOCK : k;
    for (size_t first = 0; first < k || first == 0; first += depth) {
        size_t left = k - first, part = left < depth ? left : depth, j = done;
        const float *rows = (const float *)b + first * ldb, *columns = a + first, *ahead = next;
        bool keep = add || first > 0;
        for (; j + TILE_VECTORS * LANES <= n; j += TILE_VECTORS * LANES)
            multiply_columns(TILE_VECTORS, false, m, part, columns, lda, rows + j, ldb, keep, c + j,
                             ldc, next ? (const char *)(ahead + j) : NULL);
        multiply_rest(false, (n - j) / LANES, m, part, columns, lda, rows + j, ldb, keep, c + j,
                      ldc, next ? (const char *)(ahead + j) : NULL);
        if (k == 0)
            break;
    }
}

/* From this many rows of A on, widening a part of B first pays. */
enum { MANY_ROWS = 2 * TILE_ROWS, TILE_LANES = TILE_VECTORS * LANES };

static void multiply_f16(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *b,
                         size_t ldb, bool add, float *c, size_t ldc, const void *next) {
    const uint16_t *half = b, *ahead = next;
    float wide[DEPTH_BLOCK * TILE_LANES];
    if (m < MANY_ROWS) {
        size_t j = 0;
        if (m == 1 || m == 2)
            j = multiply_few_rows(true, m, n, k, a, lda, b, ldb, add, c, ldc, next);
        for (; j + TILE_LANES <= n; j += TILE_LANES)
            multiply_columns(TILE_VECTORS, true, m, k, a, lda, half + j, ldb, add, c + j, ldc,
                             next ? (const char *)(ahead + j) : NULL);
        multiply_rest(true, (n - j) / LANES, m, k, a, lda, half + j, ldb, add, c + j, ldc,
                      next ? (const char *)(ahead + j) : NULL);
        return;
    }
    for (size_t first = 0; first < k; first += DEPTH_BLOCK) {
        size_t depth = k - first < DEPTH_BLOCK ? k - first : DEPTH_BLOCK;
        for (size_t j = 0; j < n; j += TILE_LANES) {
            size_t columns = n - j < TILE_LANES ? n - j : TILE_LANES;
            for (size_t i = 0; i < depth; i++) {
                for (size_t v = 0; v < columns; v += LANES)
                    store_f32(wide + i * TILE_LANES + v,
                              load_f16(half + (first + i) * ldb + j + v));
            }
            multiply_f32(m, columns, depth, a + first, lda, wide, TILE_LANES, add || first > 0,
                         c + j, ldc, NULL);
        }
    }
}
