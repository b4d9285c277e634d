/* Numbers in bf16, two neighbours of a row of A or of a column of B in each lane: the body of every
 * table's bf16_product, and of its functions for a memory in bf16.  The file that includes it may
 * define
 *     narrow_neighbours, narrow_pairs, add_pairs     with instructions for bf16 (loads.h)
 *     BF16_TILE_ROWS, BF16_TILE_COLUMNS, bf16_begin, bf16_tile, bf16_end    its own tiles
 *     BF16_INSTRUCTION    the instruction that multiplies pairs
 *     MULTIPLY_BF16       multiplies a memory by a multiple of 16 rows */
#ifndef TXL_BF16_IMPL_H
#define TXL_BF16_IMPL_H

#include "loads.h"

/* ---- Pairs ------------------------------------------------------------------------------- */

#if !defined(narrow_neighbours)
/* Rounds to bf16, in each lane's upper 16 bits; the lower 16 are meaningless. */
static inline uvec round_bf16(vec x) {
    const uvec bits = (uvec)x, nan = (uvec)(x != x);
    uvec odd = (bits >> 16) & 1;
    return (~nan & (bits + 0x7fff + odd)) | (nan & (bits | 0x400000));
}

/* Two elements in bf16 in each lane, even[i] in the lower half, odd[i] in the upper one. */
static inline ivec narrow_pairs(vec even, vec odd) {
    return (ivec)((round_bf16(even) >> 16) | (round_bf16(odd) & 0xffff0000));
}

#if LANES == 16
#define EVERY_SECOND(i)                                                                            \
    i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14, i + 16, i + 18, i + 20, i + 22, i + 24, \
        i + 26, i + 28, i + 30
#elif LANES == 8
#define EVERY_SECOND(i) i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14
#else
#define EVERY_SECOND(i) i, i + 2, i + 4, i + 6
#endif

/* The elements of x, then those of y, in bf16: neighbours share a lane. */
static inline ivec narrow_neighbours(vec x, vec y) {
    return narrow_pairs(__builtin_shufflevector(x, y, EVERY_SECOND(0)),
                        __builtin_shufflevector(x, y, EVERY_SECOND(1)));
}
#endif

#if !defined(add_pairs)
/* Adds to `sum` the products of both numbers in each lane. */
static inline vec add_pairs(vec sum, ivec a, ivec b) {
    const uvec x = (uvec)a, y = (uvec)b;
    sum += (vec)(x << 16) * (vec)(y << 16);
    return sum + (vec)(x & 0xffff0000) * (vec)(y & 0xffff0000);
}
#endif

/* A tile's operands: the first element, and the distances in elements between rows, blocks, pairs
 * and vectors. */
struct pairs_a {
    const uint16_t *x;
    size_t row, block;
};
struct pairs_b {
    const uint16_t *x;
    size_t pair, vector, block;
};

/* C[rows, vectors LANES] (+)= A B over `blocks` blocks of `pairs` pairs; `rows` and `vectors`, at
 * most 16 and 4, are constants where it is inlined. */
static inline __attribute__((always_inline)) void tile_of_pairs(const int rows, const int vectors,
                                                                size_t blocks, size_t pairs,
                                                                struct pairs_a a, struct pairs_b b,
                                                                bool add, float *c, size_t ldc) {
    vec sum[16][4];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            sum[r][v] = splat(0);
            if (add)
                memcpy(&sum[r][v], c + (size_t)r * ldc + v * LANES, sizeof(vec));
        }
    }
    for (; blocks > 0; blocks--, a.x += a.block, b.x += b.block) {
        for (size_t p = 0; p < pairs; p++) {
            ivec line[4];
            UNROLL for (int v = 0; v < vectors; v++)
                memcpy(&line[v], b.x + p * b.pair + (size_t)v * b.vector, sizeof(ivec));
            UNROLL for (int r = 0; r < rows; r++) {
                float pair;
                memcpy(&pair, a.x + (size_t)r * a.row + 2 * p, sizeof pair);
                ivec x = (ivec)splat(pair);
                UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                    add_pairs(sum[r][v], x, line[v]);
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++)
            memcpy(c + (size_t)r * ldc + v * LANES, &sum[r][v], sizeof(vec));
    }
}

#if !defined(BF16_INSTRUCTION)
#define BF16_INSTRUCTION NULL
#endif

/* Whether packing and multiplying prefetch their operands.  Where a file has tiles of its own,
 * AMX's, that brought nothing. */
#if defined(BF16_TILE_ROWS)
enum { BF16_FETCHES = 0 };
#else
enum { BF16_FETCHES = 1 };
#endif

/* ---- Packing ----------------------------------------------------------------------------- */

/* A pack is filled in squares of LANES rows by LANES pairs.  square_along reads rows that are
 * consecutive in memory: a vector holds pairs of one row.  square_across reads a transposed source:
 * a vector holds one pair of each row.  A left block consists of vectors of the first kind, a right
 * block of the second; a square of the other kind is transposed.  `rows` and k are what is left of
 * the matrix from the square on; the rest of the square is zero. */

static inline __attribute__((always_inline)) void
square_along(const float *x, size_t ld, size_t rows, size_t k, vec square[LANES]) {
    if (rows >= LANES && k >= 2 * LANES) {
        UNROLL for (size_t r = 0; r < LANES; r++) square[r] = (vec)narrow_neighbours(
            load_some(x + r * ld, LANES), load_some(x + r * ld + LANES, LANES));
        return;
    }
    size_t low = k < LANES ? k : LANES, high = k < LANES ? 0 : k - LANES;
    high = high < LANES ? high : LANES;
    for (size_t r = 0; r < LANES; r++) {
        const float *row = x + r * ld;
        square[r] = r >= rows
                        ? splat(0)
                        : (vec)narrow_neighbours(load_some(row, low),
                                                 high ? load_some(row + LANES, high) : splat(0));
    }
}

static inline __attribute__((always_inline)) void
square_across(const float *x, size_t ld, size_t rows, size_t k, vec square[LANES]) {
    if (rows >= LANES && k >= 2 * LANES) {
        UNROLL for (size_t p = 0; p < LANES; p++) square[p] = (vec)narrow_pairs(
            load_some(x + 2 * p * ld, LANES), load_some(x + (2 * p + 1) * ld, LANES));
        return;
    }
    rows = rows < LANES ? rows : LANES;
    for (size_t p = 0; p < LANES; p++) {
        vec even = 2 * p < k ? load_some(x + 2 * p * ld, rows) : splat(0);
        vec odd = 2 * p + 1 < k ? load_some(x + (2 * p + 1) * ld, rows) : splat(0);
        square[p] = (vec)narrow_pairs(even, odd);
    }
}

static inline __attribute__((always_inline)) void pack_block(const bool left, const bool across,
                                                             const float *x, size_t ld, size_t rows,
                                                             size_t k, uint16_t *block) {
    for (size_t r = 0; r < BF16_ROWS; r += LANES) {
        for (size_t p = 0; p < BF16_PAIRS; p += LANES) {
            vec square[LANES];
            size_t rows_left = r < rows ? rows - r : 0, k_left = 2 * p < k ? k - 2 * p : 0;
            if (rows_left == 0 || k_left == 0)
                UNROLL for (size_t i = 0; i < LANES; i++) square[i] = splat(0);
            else if (across)
                square_across(x + 2 * p * ld + r, ld, rows_left, k_left, square);
            else
                square_along(x + r * ld + 2 * p, ld, rows_left, k_left, square);
            if (left == across)
                transpose(square);
            uint16_t *corner = block + 2 * (left ? r * BF16_PAIRS + p : p * BF16_ROWS + r);
            UNROLL for (size_t i = 0; i < LANES; i++) memcpy(
                corner + 2 * i * (left ? BF16_PAIRS : BF16_ROWS), &square[i], sizeof *square);
        }
    }
}

/* Prefetches the next block of a transposed source, whose rows are far from each other, into the
 * second-level cache. */
static inline void fetch_across(const float *x, size_t ld, size_t k) {
    for (size_t i = BF16_DEPTH; i < 2 * BF16_DEPTH && i < k; i++)
        __builtin_prefetch(x + i * ld, 0, 2);
}

/* Packs the blocks in the order of the source in memory. */
static inline __attribute__((always_inline)) void pack_rows(const bool left,
                                                            const struct packed_source *x,
                                                            size_t first, size_t end,
                                                            const struct pack *pack) {
    const size_t depth = bf16_blocks(pack->k);
    if (x->transposed) {
        for (size_t d = 0; d < depth; d++) {
            for (size_t r = first; r < end; r += BF16_ROWS) {
                const float *from = x->x + d * BF16_DEPTH * x->ld + r;
                if (BF16_FETCHES)
                    fetch_across(from, x->ld, pack->k - d * BF16_DEPTH);
                pack_block(left, true, from, x->ld, end - r, pack->k - d * BF16_DEPTH,
                           (uint16_t *)pack->elements + (r / BF16_ROWS * depth + d) * BF16_BLOCK);
            }
        }
        return;
    }
    for (size_t r = first; r < end; r += BF16_ROWS) {
        for (size_t d = 0; d < depth; d++)
            pack_block(left, false, x->x + r * x->ld + d * BF16_DEPTH, x->ld, end - r,
                       pack->k - d * BF16_DEPTH,
                       (uint16_t *)pack->elements + (r / BF16_ROWS * depth + d) * BF16_BLOCK);
    }
}

static void bf16_pack_left(const struct packed_source *x, size_t first, size_t end,
                           const struct pack *pack) {
    pack_rows(true, x, first, end, pack);
}

static void bf16_pack_right(const struct packed_source *x, size_t first, size_t end,
                            const struct pack *pack) {
    pack_rows(false, x, first, end, pack);
}

/* ---- Multiplying ------------------------------------------------------------------------- */

/* bf16_tile computes a tile of C (+)= A B over `depth` blocks.  a and b are the packed elements of
 * its first row and first column; lda and ldb are the elements from one group of 16 rows of the
 * pack to the next.  It may compute the whole tile, though only `rows` and `columns` of it are
 * needed. */

#if !defined(BF16_TILE_ROWS)
#if LANES == 16
#define BF16_TILE_ROWS 8
#define BF16_TILE_COLUMNS 32
#else
#define BF16_TILE_ROWS (LANES == 8 ? 4 : 2)
#define BF16_TILE_COLUMNS BF16_ROWS
#endif

static inline void bf16_begin(void) {
}

static inline void bf16_end(void) {
}

static void bf16_tile(size_t rows, size_t columns, size_t depth, const uint16_t *a, size_t lda,
                      const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc) {
    (void)rows, (void)lda;
    struct pairs_a left = {a, BF16_DEPTH, BF16_BLOCK};
    struct pairs_b right = {b, BF16_DEPTH, LANES == 16 ? ldb : 2 * LANES, BF16_BLOCK};
    if (columns > BF16_ROWS)
        tile_of_pairs(BF16_TILE_ROWS, BF16_TILE_COLUMNS / LANES, depth, BF16_PAIRS, left, right,
                      add, c, ldc);
    else
        tile_of_pairs(BF16_TILE_ROWS, BF16_ROWS / LANES, depth, BF16_PAIRS, left, right, add, c,
                      ldc);
}
#endif

static inline void copy_tile(size_t rows, size_t columns, const float *from, size_t ld_from,
                             float *to, size_t ld_to) {
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * ld_to, from + r * ld_from, columns * sizeof *to);
}

/* A partial tile is computed in a buffer. */
static void bf16_any_tile(size_t rows, size_t columns, size_t depth, const uint16_t *a, size_t lda,
                          const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc) {
    _Alignas(64) float aside[BF16_TILE_ROWS * BF16_TILE_COLUMNS];
    if (rows == BF16_TILE_ROWS && columns == BF16_TILE_COLUMNS) {
        bf16_tile(rows, columns, depth, a, lda, b, ldb, add, c, ldc);
        return;
    }
    memset(aside, 0, sizeof aside);
    if (add)
        copy_tile(rows, columns, c, ldc, aside, BF16_TILE_COLUMNS);
    bf16_tile(rows, columns, depth, a, lda, b, ldb, add, aside, BF16_TILE_COLUMNS);
    copy_tile(rows, columns, aside, BF16_TILE_COLUMNS, c, ldc);
}

/* Blocks of depth multiplied in one pass, so that this part of B's columns stays in the first-level
 * cache. */
enum { BF16_CHUNK = 16 };

/* Prefetches the rows of the left operand that the next tiles meet, into the second-level cache. */
static inline void fetch_block(const uint16_t *left, size_t blocks) {
    for (size_t i = 0; i < blocks * BF16_BLOCK; i += 64 / sizeof *left)
        __builtin_prefetch(left + i, 0, 2);
}

static void bf16_multiply(const struct pack *a, const struct pack *b,
                          const struct product_part *product) {
    const struct product_part x = *product;
    const size_t depth = bf16_blocks(x.k), lda = bf16_blocks(a->k) * BF16_BLOCK;
    const size_t ldb = bf16_blocks(b->k) * BF16_BLOCK;
    bf16_begin();
    for (size_t d = 0; d < depth || d == 0; d += BF16_CHUNK) {
        size_t part = depth - d < BF16_CHUNK ? depth - d : BF16_CHUNK;
        for (size_t j = x.j_first; j < x.j_end; j += BF16_TILE_COLUMNS) {
            const uint16_t *right =
                (const uint16_t *)b->elements + j / BF16_ROWS * ldb + d * BF16_BLOCK;
            size_t columns = x.j_end - j < BF16_TILE_COLUMNS ? x.j_end - j : BF16_TILE_COLUMNS;
            for (size_t i = x.i_first; i < x.i_end; i += BF16_TILE_ROWS) {
                size_t rows = x.i_end - i < BF16_TILE_ROWS ? x.i_end - i : BF16_TILE_ROWS;
                const uint16_t *left = (const uint16_t *)a->elements + i / BF16_ROWS * lda +
                                       d * BF16_BLOCK + i % BF16_ROWS * BF16_DEPTH;
                fetch_tile(BF16_TILE_ROWS, x.c + (i + BF16_TILE_ROWS) * x.ldc + j,
                           i + BF16_TILE_ROWS, x.i_end, columns, x.ldc);
                if (BF16_FETCHES && j == x.j_first && i % BF16_ROWS == 0 && i + BF16_ROWS < x.i_end)
                    fetch_block(left + lda, part);
                bf16_any_tile(rows, columns, part, left, lda, right, ldb, x.add || d > 0,
                              x.c + i * x.ldc + j, x.ldc);
            }
        }
    }
    bf16_end();
}

static const struct packed_product bf16_product = {
    .element = sizeof(uint16_t),
    .depth = BF16_DEPTH,
    .instruction = BF16_INSTRUCTION,
    .pack_left = bf16_pack_left,
    .pack_right = bf16_pack_right,
    .multiply = bf16_multiply,
};

/* ---- A memory in bf16 -------------------------------------------------------------------- */

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

/* Computes `rows` rows of C from row i on, in tiles of `vectors` vectors of columns. */
static inline __attribute__((always_inline)) void
bf16_rows(const int rows, const int vectors, const struct multiply_call x, size_t i) {
    const uint16_t *b = x.b;
    float *c = x.c + i * x.ldc;
    struct pairs_a left = {(const uint16_t *)x.a + i * x.lda, x.lda, 0};
    size_t j = 0;
    for (; j + (size_t)vectors * LANES <= x.n; j += (size_t)vectors * LANES) {
        struct pairs_b right = {b + 2 * j, 2 * x.ldb, 2 * LANES, 0};
        tile_of_pairs(rows, vectors, 1, x.k / 2, left, right, x.add, c + j, x.ldc);
    }
    for (; j < x.n; j += LANES) {
        struct pairs_b right = {b + 2 * j, 2 * x.ldb, 2 * LANES, 0};
        tile_of_pairs(rows, 1, 1, x.k / 2, left, right, x.add, c + j, x.ldc);
    }
}

static void multiply_bf16(const struct multiply_call *call) {
    const struct multiply_call x = *call;
    size_t i = 0;
#if defined(MULTIPLY_BF16)
    i = x.m / 16 * 16;
    if (i > 0)
        MULTIPLY_BF16(x, i);
#endif
    for (size_t at = 0, rows; i < x.m; i += rows) {
        rows = x.m - i < 4 ? 1 : 4;
        /* A part before each tile: all of it at once would keep the tiles' own loads waiting. */
        for (size_t end = x.n * x.k * sizeof(uint16_t) * (i + rows) / x.m; x.next && at < end;
             at += 64)
            __builtin_prefetch((const char *)x.next + at, 0, 2);
        if (rows == 4)
            bf16_rows(4, 4, x, i);
        else
            bf16_rows(1, 4, x, i);
    }
}

#endif
