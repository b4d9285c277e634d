/* The types q4 and q5: matrices of levels of 4 and 5 bits in tiles of 16 rows and 64 columns.  Each
 * 32 consecutive columns of a row, a block, share a byte c for the scale and a byte n for the
 * minimum; a row has two factors d and e, and an element is (c d) level - (n e).
 *
 * A tile has, for each of its two blocks, 16 bytes c and 16 bytes n, of rows 0 to 15; then for each
 * block four lines of 64 bytes, of which byte 4 row + j of line l has the level of column 4 l + j
 * in its low nibble and that of column 16 + 4 l + j in its high one.  In q5 these are the levels'
 * low four bits; then follow, for each block, 64 bytes, of which byte 4 row + j has the fifth bit
 * of column 4 l + j at bit l, and that of column 16 + 4 l + j at bit 4 + l.  So a product has a row
 * in each lane and adds no lanes up.
 *
 * The tiles of a matrix lie in row-major order; rows and columns beyond it are zero.  Behind them
 * lie its factors, f32 [n_row, 2]. */
#ifndef TXL_BASE_TILES_H
#define TXL_BASE_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TILE_HEIGHT = 16,
    TILE_WIDTH = 64,
    TILE_BLOCK = 32, /* columns that share c and n */
    TILE_BLOCKS = TILE_WIDTH / TILE_BLOCK,
    TILE_LINES = TILE_BLOCKS * 2 * TILE_HEIGHT, /* offsets in a tile: of the lines */
    TILE_LINE = 64,                             /* bytes */
    TILE_BLOCK_LINES = 4,
    TILE_FIFTH = TILE_LINES + TILE_BLOCKS * TILE_BLOCK_LINES * TILE_LINE, /* of the fifth bits */
    Q4_TOP = 15, /* the highest level, which names the type in what follows */
    Q5_TOP = 31
};

static inline size_t tile_bytes(int top) {
    return TILE_FIFTH + (top == Q5_TOP ? TILE_BLOCKS * TILE_LINE : 0);
}

/* Tiles side by side, and blocks of a row. */
static inline size_t tiles_across(size_t n_col) {
    return (n_col + TILE_WIDTH - 1) / TILE_WIDTH;
}

static inline size_t tile_blocks(size_t n_col) {
    return (n_col + TILE_BLOCK - 1) / TILE_BLOCK;
}

/* Bytes of the tiles of 16 rows. */
static inline size_t tile_row_bytes(int top, size_t n_col) {
    return tiles_across(n_col) * tile_bytes(top);
}

/* Bytes of a matrix's tiles, before its factors; the caller knows that they can be counted. */
static inline uint64_t tiles_bytes(int top, uint64_t n_row, uint64_t n_col) {
    return (n_row + TILE_HEIGHT - 1) / TILE_HEIGHT * tile_row_bytes(top, n_col);
}

/* Sets the level of an element of a tile, which was zero. */
static inline void tile_set_level(uint8_t *tile, int top, size_t row, size_t column, int level) {
    const size_t block = column / TILE_BLOCK, in_block = column % TILE_BLOCK;
    const size_t high = in_block / 16, line = in_block % 16 / 4, byte = 4 * row + column % 4;
    tile[TILE_LINES + (block * TILE_BLOCK_LINES + line) * TILE_LINE + byte] |=
        (uint8_t)((level & 15) << 4 * high);
    if (top == Q5_TOP)
        tile[TILE_FIFTH + block * TILE_LINE + byte] |= (uint8_t)(level >> 4 << (4 * high + line));
}

/* The bytes c (which 0) or n (1) of the rows of a block. */
static inline uint8_t *tile_scales(uint8_t *tile, size_t block, int which) {
    return tile + (2 * block + (size_t)which) * TILE_HEIGHT;
}

/* What decides about errors of rounding, from the inputs x of the matrix: see tiles_calibrate. */
struct tile_calibration {
    size_t n;            /* columns of the matrix */
    const size_t *order; /* [n]: its columns, those first that are rounded first */
    const double *upper; /* [n, n]: the factor U, in that order */
};

/* Doubles of scratch that tiles_round needs. */
size_t tiles_scratch(size_t n_col, const struct tile_calibration *calibration);

/* Rounds x[n_row, n_col], n_row <= 16, finite, to a row of tiles, which is overwritten, and
 * factors[n_row, 2].  Scales and minima are those of the least squared error that a search finds; a
 * level is the nearest one, halves to even, or with `calibration` makes up for the errors of the
 * columns before it.  Every number is computed in double in a fixed order, so that it is the same
 * on every processor.  Returns false if an element is too large for the type. */
bool tiles_round(int top, size_t n_row, size_t n_col, const float *x,
                 const struct tile_calibration *calibration, double *scratch, uint8_t *tiles,
                 float *factors);

#endif
