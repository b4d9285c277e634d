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
enum { TILE_LANES = TILE_VECTORS * LANES };

/* A narrow tile may have more rows, and one of few rows more vectors: those of two tiles, or for
 * one row of at least 128 columns eight (with AVX2 fewer columns are slower so). */
enum { MOST_TILE_ROWS = 16, FEW_ROWS_VECTORS = 2 * TILE_VECTORS, MOST_TILE_VECTORS = 8 };

/* Rows of B that are processed together, so that a tile's part of them stays in the first-level
 * cache. */
enum { DEPTH_BLOCK = 128 };

/* The part of a call from that row of A and C on, and from that column of B and C on; `half`: B is
 * f16. */
static inline __attribute__((always_inline)) struct multiply_call rows_from(struct multiply_call x,
                                                                            size_t row) {
    x.m -= row;
    x.a = (const float *)x.a + row * x.lda;
    x.c += row * x.ldc;
    return x;
}

static inline __attribute__((always_inline)) struct multiply_call
columns_from(const bool half, struct multiply_call x, size_t column) {
    const size_t bytes = column * (half ? sizeof(uint16_t) : sizeof(float));
    x.n -= column;
    x.b = (const char *)x.b + bytes;
    x.c += column;
    x.next = x.next ? (const char *)x.next + bytes : NULL;
    return x;
}

/* Computes the first tile of C, `rows` x `vectors` vectors; these and `half` are constants where it
 * is inlined, and the call's members are in registers.  Rows of B, and then of x.next, are
 * prefetched AHEAD bytes before they are read.  `next_a`, unless NULL, is the next A, prefetched
 * too. */
static inline __attribute__((always_inline)) void multiply_tile(const int rows, const int vectors,
                                                                const bool half,
                                                                const struct multiply_call x,
                                                                const float *next_a) {
    const size_t size = half ? sizeof(uint16_t) : sizeof(float);
    const size_t k = x.k, lda = x.lda, ldb = x.ldb, ldc = x.ldc;
    const float *a = x.a;
    const char *b = x.b, *next = x.next;
    float *c = x.c;
    vec sum[MOST_TILE_ROWS][MOST_TILE_VECTORS];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
            x.add ? load_f32(c + (size_t)r * ldc + v * LANES) : splat(0);
    }
    const size_t stride = ldb * size, rows_ahead = (AHEAD + stride - 1) / stride;
    const size_t far = rows_ahead < k ? rows_ahead : k;
    const char *ahead = b + far * stride;
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
            half ? load_f16((const uint16_t *)(const void *)b + i * ldb + v * LANES)
                 : load_f32((const float *)(const void *)b + i * ldb + v * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            vec element = splat(a[(size_t)r * lda + i]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                add_product(element, row[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++)
            store_f32(c + (size_t)r * ldc + v * LANES, sum[r][v]);
    }
}

/* Computes the first `vectors` vectors of C's columns in all rows. */
static inline __attribute__((always_inline)) void
multiply_columns(const int vectors, const bool half, struct multiply_call x) {
    const size_t size = half ? sizeof(uint16_t) : sizeof(float);
    const char *next = x.next;
    /* The first tiles prefetch some rows of `next` each. */
    const size_t step = next && x.m >= 6 ? (6 * x.k + x.m - 1) / x.m : 0;
    x.next = NULL;
    for (size_t row = 0; x.m >= 6; x = rows_from(x, 6)) {
        for (size_t i = 0; i < step && row < x.k; i++, row++)
            for (size_t line = 0; line < (size_t)vectors * LANES * size; line += 64)
                __builtin_prefetch(next + row * x.ldb * size + line, 0, 2);
        multiply_tile(6, vectors, half, x, NULL);
    }
    if (x.m >= 4) {
        multiply_tile(4, vectors, half, x, NULL);
        x = rows_from(x, 4);
    }
    if (x.m == 3) {
        multiply_tile(3, vectors, half, x, NULL);
        x = rows_from(x, 3);
    } else if (x.m == 2) {
        multiply_tile(2, vectors, half, x, NULL);
        x = rows_from(x, 2);
    }
    x.next = next;
    if (x.m == 1)
        multiply_tile(1, vectors, half, x, NULL);
}

/* Computes the last columns, fewer than a tile has. */
static inline __attribute__((always_inline)) void multiply_rest(const bool half,
                                                                const struct multiply_call x) {
    if (TILE_VECTORS > 3 && x.n == 3 * LANES)
        multiply_columns(3, half, x);
    else if (TILE_VECTORS > 2 && x.n == 2 * LANES)
        multiply_columns(2, half, x);
    else if (x.n == LANES)
        multiply_columns(1, half, x);
}

/* Computes one or two rows of C in columns of wide tiles, which read longer runs of memory; returns
 * how many columns those are. */
static inline __attribute__((always_inline)) size_t multiply_few_rows(const bool half,
                                                                      struct multiply_call x) {
    const size_t n = x.n;
    const bool most = x.m == 1 && n >= 128;
    const size_t wide = (most ? MOST_TILE_VECTORS : FEW_ROWS_VECTORS) * LANES;
    for (; x.n >= wide; x = columns_from(half, x, wide))
        if (most)
            multiply_tile(1, MOST_TILE_VECTORS, half, x, NULL);
        else if (x.m == 1)
            multiply_tile(1, FEW_ROWS_VECTORS, half, x, NULL);
        else
            multiply_tile(2, FEW_ROWS_VECTORS, half, x, NULL);
    return n - x.n;
}

static void multiply_f32(const struct multiply_call *call) {
    const struct multiply_call x = *call;
    const size_t done = x.m == 1 || x.m == 2 ? multiply_few_rows(false, x) : 0; /* columns */
    /* The rows of a single tile read B only once. */
    const size_t depth = x.m > TILE_ROWS ? DEPTH_BLOCK : x.k;
    for (size_t first = 0; first < x.k || first == 0; first += depth) {
        struct multiply_call part = columns_from(false, x, done);
        part.k = x.k - first < depth ? x.k - first : depth;
        part.a = (const float *)x.a + first;
        part.b = (const float *)part.b + first * x.ldb;
        part.add = x.add || first > 0;
        for (; part.n >= TILE_LANES; part = columns_from(false, part, TILE_LANES))
            multiply_columns(TILE_VECTORS, false, part);
        multiply_rest(false, part);
        if (x.k == 0)
            break;
    }
}

/* From this many rows of A on, widening a part of B first pays. */
enum { MANY_ROWS = 2 * TILE_ROWS };

static void multiply_f16(const struct multiply_call *call) {
    const struct multiply_call x = *call;
    const size_t n = x.n, k = x.k;
    const uint16_t *half = x.b;
    float wide[DEPTH_BLOCK * TILE_LANES];
    if (x.m < MANY_ROWS) {
        struct multiply_call part = x;
        if (x.m == 1 || x.m == 2)
            part = columns_from(true, x, multiply_few_rows(true, x));
        for (; part.n >= TILE_LANES; part = columns_from(true, part, TILE_LANES))
            multiply_columns(TILE_VECTORS, true, part);
        multiply_rest(true, part);
        return;
    }
    for (size_t first = 0; first < k; first += DEPTH_BLOCK) {
        size_t depth = k - first < DEPTH_BLOCK ? k - first : DEPTH_BLOCK;
        for (size_t j = 0; j < n; j += TILE_LANES) {
            size_t columns = n - j < TILE_LANES ? n - j : TILE_LANES;
            for (size_t i = 0; i < depth; i++) {
                for (size_t v = 0; v < columns; v += LANES)
                    store_f32(wide + i * TILE_LANES + v,
                              load_f16(half + (first + i) * x.ldb + j + v));
            }
            multiply_f32(&(struct multiply_call){.m = x.m,
                                                 .n = columns,
                                                 .k = depth,
                                                 .a = (const float *)x.a + first,
                                                 .lda = x.lda,
                                                 .b = wide,
                                                 .ldb = TILE_LANES,
                                                 .add = x.add || first > 0,
                                                 .c = x.c + j,
                                                 .ldc = x.ldc});
        }
    }
}
