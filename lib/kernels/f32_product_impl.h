/* The body of every f32_product, for LANES lanes (see vectors.h). */
#ifndef TXL_F32_PRODUCT_IMPL_H
#define TXL_F32_PRODUCT_IMPL_H

#include "vectors.h"

/* The size of a tile of C: as many sums as registers hold beside a line of B and an element of
 * A. */
enum { F32_TILE_ROWS = LANES == 8 ? 4 : 8, F32_TILE_VECTORS = 3 };

enum {
    F32_GROUP = 64,         /* rows that are packed together from a transposed source */
    F32_AHEAD = 32,         /* elements of each row of a packed left operand to prefetch ahead */
    F32_CHUNK = 24 * LANES, /* columns of A multiplied in one pass, at most, so that this part of
                               B's columns stays in the cache */
    F32_FETCHED = 16        /* rows in memory of a transposed source to prefetch ahead */
};

/* ---- Packing ----------------------------------------------------------------------------- */

/* Stores x, element k of the LANES rows from `row` on.  The pack consists of blocks of `block`
 * rows, [depth, block] each. */
static inline __attribute__((always_inline)) void
store_rows(const size_t block, float *pack, size_t depth, size_t row, size_t k, vec x) {
    const size_t part = block < LANES ? block : LANES;
    UNROLL for (size_t i = 0; i < LANES; i += part)
        memcpy(pack + ((row + i) / block * depth + k) * block + (row + i) % block,
               (const char *)&x + i * sizeof *pack, part * sizeof *pack);
}

static inline __attribute__((always_inline)) void pack_f32(const size_t block,
                                                           const struct packed_source *x,
                                                           size_t first, size_t end,
                                                           const struct pack *pack) {
    float *to = pack->elements;
    const size_t depth = pack->k;
    if (x->transposed) {
        /* A few blocks at a time: with more, the stores would be too far apart. */
        for (size_t group = first; group < end; group += F32_GROUP) {
            size_t last = end - group < F32_GROUP ? end : group + F32_GROUP;
            for (size_t k = 0; k < depth; k++) {
                for (size_t row = group; row < last; row += 16)
                    __builtin_prefetch(x->x + (k + F32_FETCHED) * x->ld + row);
                for (size_t row = group; row < last; row += LANES)
                    store_rows(
                        block, to, depth, row, k,
                        load_some(x->x + k * x->ld + row, last - row < LANES ? last - row : LANES));
            }
        }
        return;
    }
    for (size_t row = first; row < end; row += LANES) {
        size_t rows = end - row < LANES ? end - row : LANES;
        for (size_t k = 0; k < depth; k += LANES) {
            size_t n = depth - k < LANES ? depth - k : LANES;
            vec square[LANES];
            transpose_part(x->x + row * x->ld + k, x->ld, rows, n, square);
            if (n == LANES)
                UNROLL for (size_t i = 0; i < LANES; i++)
                    store_rows(block, to, depth, row, k + i, square[i]);
            else
                for (size_t i = 0; i < n; i++)
                    store_rows(block, to, depth, row, k + i, square[i]);
        }
    }
}

static void f32_pack_left(const struct packed_source *x, size_t first, size_t end,
                          const struct pack *pack) {
    pack_f32(F32_TILE_ROWS, x, first, end, pack);
}

static void f32_pack_right(const struct packed_source *x, size_t first, size_t end,
                           const struct pack *pack) {
    pack_f32(LANES, x, first, end, pack);
}

/* ---- Multiplying ------------------------------------------------------------------------- */

/* C[F32_TILE_ROWS, vectors LANES] (+)= A B over k elements.  If `packed`, A is one block of a pack;
 * else it has row stride lda, and its last row stands in for rows from `rows` on.  B is `vectors`
 * blocks of a pack, ldb elements apart. */
static inline __attribute__((always_inline)) void f32_tile(const bool packed, const int vectors,
                                                           size_t k, const float *a, size_t lda,
                                                           size_t rows, const float *b, size_t ldb,
                                                           bool add, float *c, size_t ldc) {
    vec sum[F32_TILE_ROWS][F32_TILE_VECTORS];
    const float *row[F32_TILE_ROWS];
    UNROLL for (size_t r = 0; r < F32_TILE_ROWS; r++) {
        row[r] = packed ? a + r : a + (r < rows ? r : rows - 1) * lda;
        UNROLL for (int v = 0; v < vectors; v++) {
            sum[r][v] = splat(0);
            if (add)
                sum[r][v] = load_f32(c + r * ldc + v * LANES);
        }
    }
    for (size_t i = 0; i < k; i++, b += LANES) {
        vec line[F32_TILE_VECTORS];
        if (packed)
            __builtin_prefetch(a + (i + F32_AHEAD) * F32_TILE_ROWS);
        UNROLL for (int v = 0; v < vectors; v++) line[v] = load_f32(b + (size_t)v * ldb);
        UNROLL for (size_t r = 0; r < F32_TILE_ROWS; r++) {
            vec x = splat(packed ? a[i * F32_TILE_ROWS + r] : row[r][i]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += x * line[v];
        }
    }
    UNROLL for (size_t r = 0; r < F32_TILE_ROWS; r++) {
        UNROLL for (int v = 0; v < vectors; v++) store_f32(c + r * ldc + v * LANES, sum[r][v]);
    }
}

/* A tile that lacks rows, or whose columns do not fill whole vectors, is computed in a buffer. */
static inline __attribute__((always_inline)) void
f32_any_tile(const bool packed, size_t rows, size_t columns, size_t k, const float *a, size_t lda,
             const float *b, size_t ldb, bool add, float *c, size_t ldc) {
    enum { WIDTH = F32_TILE_VECTORS * LANES };
    _Alignas(64) float aside[F32_TILE_ROWS * WIDTH];
    float *to = c;
    size_t ld = ldc;
    bool whole = rows == F32_TILE_ROWS && columns % LANES == 0;
    if (!whole) {
        memset(aside, 0, sizeof aside);
        to = aside, ld = WIDTH;
        for (size_t r = 0; add && r < rows; r++)
            memcpy(aside + r * WIDTH, c + r * ldc, columns * sizeof *c);
    }
    if (columns > 2 * LANES)
        f32_tile(packed, 3, k, a, lda, rows, b, ldb, add, to, ld);
    else if (columns > LANES)
        f32_tile(packed, 2, k, a, lda, rows, b, ldb, add, to, ld);
    else
        f32_tile(packed, 1, k, a, lda, rows, b, ldb, add, to, ld);
    for (size_t r = 0; !whole && r < rows; r++)
        memcpy(c + r * ldc, aside + r * WIDTH, columns * sizeof *c);
}

/* Computes a part of C.  Row i of A begins at a[i * lda]; if `packed`, the block of F32_TILE_ROWS
 * rows from row i on begins there. */
static inline __attribute__((always_inline)) void f32_tiles(const bool packed, const float *a,
                                                            size_t lda, const struct pack *b,
                                                            const struct product_part x) {
    const size_t width = F32_TILE_VECTORS * LANES, ldb = b->k * LANES;
    const size_t parts = x.k > F32_CHUNK ? (x.k + F32_CHUNK - 1) / F32_CHUNK : 1;
    const size_t chunk = x.k > 0 ? (x.k + parts - 1) / parts : 1;
    for (size_t d = 0; d < x.k || d == 0; d += chunk) {
        size_t part = x.k - d < chunk ? x.k - d : chunk;
        for (size_t j = x.j_first; j < x.j_end; j += width) {
            const float *right = (const float *)b->elements + j / LANES * ldb + d * LANES;
            size_t columns = x.j_end - j < width ? x.j_end - j : width;
            for (size_t i = x.i_first; i < x.i_end; i += F32_TILE_ROWS) {
                size_t rows = x.i_end - i < F32_TILE_ROWS ? x.i_end - i : F32_TILE_ROWS;
                fetch_tile(F32_TILE_ROWS, x.c + (i + F32_TILE_ROWS) * x.ldc + j, i + F32_TILE_ROWS,
                           x.i_end, columns, x.ldc);
                f32_any_tile(packed, rows, columns, part,
                             a + i * lda + d * (packed ? F32_TILE_ROWS : 1), lda, right, ldb,
                             x.add || d > 0, x.c + i * x.ldc + j, x.ldc);
            }
        }
    }
}

static void f32_multiply(const struct pack *a, const struct pack *b,
                         const struct product_part *part) {
    f32_tiles(true, a->elements, a->k, b, *part);
}

static void f32_multiply_rows(const float *a, size_t lda, const struct pack *b,
                              const struct product_part *part) {
    f32_tiles(false, a, lda, b, *part);
}

static const struct packed_product f32_product = {
    .element = sizeof(float),
    .depth = 1,
    .pack_left = f32_pack_left,
    .pack_right = f32_pack_right,
    .multiply = f32_multiply,
    .multiply_rows = f32_multiply_rows,
};

#endif
