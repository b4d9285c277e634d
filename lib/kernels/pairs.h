/* Numbers in bf16, two neighbours of a row of A or of a column of B in each lane, for LANES lanes
 * (see vectors.h).  A file may define narrow_neighbours, narrow_pairs and add_pairs itself before
 * it includes this. */
#ifndef TXL_PAIRS_H
#define TXL_PAIRS_H

#include "vectors.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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

#endif
