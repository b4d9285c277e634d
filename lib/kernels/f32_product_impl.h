/* The body of every f32_product, for LANES lanes (see vectors.h). */
#ifndef TXL_F32_PRODUCT_IMPL_H
#define TXL_F32_PRODUCT_IMPL_H

#include "lanes.h"
#include "packed_product.h"
#include "transpose.h"

#include <stdbool.h>

/* The sums of a tile of C, as many as stay in registers with a line of B and an element of A. */
enum { F32_TILE_ROWS = LANES == 8 ? 4 : 8, F32_TILE_VECTORS = 3 };

enum {
    F32_GROUP = 64,         /* rows that are packed at a time */
    F32_AHEAD = 32,         /* elements of a row that are fetched ahead */
    F32_CHUNK = 24 * LANES, /* elements of a row in one go, at most, so that the part of a tile's
                               columns stays near */
    F32_FETCHED = 16        /* rows of a matrix across which is packed that are fetched ahead */
};

/* ---- Packing ------------------------------------------------------------------------------ */

/* Element k of LANES rows beginning with `row`, to blocks of `block` rows and all elements. */
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
        /* Some blocks at a time: more would be written too far from each other. */
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

/* ---- Multiplying -------------------------------------------------------------------------- */

/* C[F32_TILE_ROWS, vectors LANES] (+)= k elements of a block of A's rows and of `vectors` blocks of
 * B's, which lie ldb from each other. */
static inline __attribute__((always_inline)) void f32_tile(const int vectors, size_t k,
                                                           const float *a, const float *b,
                                                           size_t ldb, bool add, float *c,
                                                           size_t ldc) {
    vec sum[F32_TILE_ROWS][F32_TILE_VECTORS];
    UNROLL for (int r = 0; r < F32_TILE_ROWS; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            sum[r][v] = splat(0);
            if (add)
                sum[r][v] = load_f32(c + (size_t)r * ldc + v * LANES);
        }
    }
    for (; k > 0; k--, a += F32_TILE_ROWS, b += LANES) {
        vec line[F32_TILE_VECTORS];
        __builtin_prefetch(a + F32_AHEAD * F32_TILE_ROWS);
        UNROLL for (int v = 0; v < vectors; v++) line[v] = load_f32(b + (size_t)v * ldb);
        UNROLL for (int r = 0; r < F32_TILE_ROWS; r++) {
            vec x = splat(a[r]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += x * line[v];
        }
    }
    UNROLL for (int r = 0; r < F32_TILE_ROWS; r++) {
        UNROLL for (int v = 0; v < vectors; v++)
            store_f32(c + (size_t)r * ldc + v * LANES, sum[r][v]);
    }
}

/* A tile whose columns fill no whole vectors, or that lacks rows, is computed aside. */
static void f32_any_tile(size_t rows, size_t columns, size_t k, const float *a, const float *b,
                         size_t ldb, bool add, float *c, size_t ldc) {
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
        f32_tile(3, k, a, b, ldb, add, to, ld);
    else if (columns > LANES)
        f32_tile(2, k, a, b, ldb, add, to, ld);
    else
        f32_tile(1, k, a, b, ldb, add, to, ld);
    for (size_t r = 0; !whole && r < rows; r++)
        memcpy(c + r * ldc, aside + r * WIDTH, columns * sizeof *c);
}

/* Rows [row, end) of C, as far as they belong to the next tile, so that they are near when its sums
 * are stored. */
static inline void f32_fetch_tile(float *c, size_t row, size_t end, size_t columns, size_t ldc) {
    end = end < row + F32_TILE_ROWS ? end : row + F32_TILE_ROWS;
    for (; row < end; row++, c += ldc)
        for (size_t i = 0; i < columns; i += 16)
            __builtin_prefetch(c + i, 1);
}

static void f32_multiply(const struct pack *a, const struct pack *b, size_t k, size_t i_first,
                         size_t i_end, size_t j_first, size_t j_end, bool add, float *c,
                         size_t ldc) {
    const size_t width = F32_TILE_VECTORS * LANES, ldb = b->k * LANES;
    const size_t parts = k > F32_CHUNK ? (k + F32_CHUNK - 1) / F32_CHUNK : 1;
    const size_t chunk = k > 0 ? (k + parts - 1) / parts : 1;
    for (size_t d = 0; d < k || d == 0; d += chunk) {
        size_t part = k - d < chunk ? k - d : chunk;
        for (size_t j = j_first; j < j_end; j += width) {
            const float *right = (const float *)b->elements + j / LANES * ldb + d * LANES;
            size_t columns = j_end - j < width ? j_end - j : width;
            for (size_t i = i_first; i < i_end; i += F32_TILE_ROWS) {
                size_t rows = i_end - i < F32_TILE_ROWS ? i_end - i : F32_TILE_ROWS;
                f32_fetch_tile(c + (i + F32_TILE_ROWS) * ldc + j, i + F32_TILE_ROWS, i_end, columns,
                               ldc);
                f32_any_tile(rows, columns, part,
                             (const float *)a->elements + i * a->k + d * F32_TILE_ROWS, right, ldb,
                             add || d > 0, c + i * ldc + j, ldc);
            }
        }
    }
}

static const struct packed_product f32_product = {
    .element = sizeof(float),
    .depth = 1,
    .pack_left = f32_pack_left,
    .pack_right = f32_pack_right,
    .multiply = f32_multiply,
};

#endif
