/* C (+)= A B^T of f32 matrices rounded to bf16, with sums in f32: what training does with
 * --compute bf16.
 *
 * Both operands are packed first, the left one and the right one in their own order.  A pack can
 * serve several products, and both packing and multiplying can be divided among tasks.  An element
 * of C depends on its row of A and its column of B alone, not on how the work is divided. */
#ifndef TXL_BF16_PRODUCT_H
#define TXL_BF16_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BF16_ROWS = 16,  /* of an operand, and */
    BF16_DEPTH = 32, /* elements of each, in a block of a pack */
    BF16_BLOCK = BF16_ROWS * BF16_DEPTH
};

/* Row i of an operand has its elements x[i * ld + 0 .. k - 1], or if `transposed` x[0 .. k - 1][i]
 * with row stride ld. */
struct bf16_source {
    const float *x;
    size_t ld;
    bool transposed;
};

/* Blocks of 16 rows by 32 elements, those of the same rows after each other; zero beyond the rows
 * and beyond k.  A left block lies row by row, a right one by pairs of neighbours in a row: pair 0
 * of each of the 16 rows, pair 1, and so on. */
struct bf16_pack {
    uint16_t *blocks; /* bf16_pack_size(rows, k) of them, best at a multiple of 64 bytes */
    size_t k;
};

static inline size_t bf16_blocks(size_t k) {
    return (k + BF16_DEPTH - 1) / BF16_DEPTH;
}

static inline size_t bf16_pack_size(size_t rows, size_t k) {
    return (rows + BF16_ROWS - 1) / BF16_ROWS * bf16_blocks(k) * BF16_BLOCK;
}

struct bf16_product {
    /* Packs rows [first, end) of `x`, `first` a multiple of 16, `end` too unless it is the number
     * of rows.  Elements are rounded to nearest even and NaN stays; what is below 2^-126 may become
     * zero. */
    void (*pack_left)(const struct bf16_source *x, size_t first, size_t end,
                      const struct bf16_pack *pack);
    void (*pack_right)(const struct bf16_source *x, size_t first, size_t end,
                       const struct bf16_pack *pack);

    /* C[i, j] (+)= the first k elements of A's row i times those of B's row j, for i in
     * [i_first, i_end) and j in [j_first, j_end); c is the address of C[0, 0], ldc its row stride.
     * Firsts are multiples of 16.  Where k is less than a pack's and no multiple of 32, the other
     * pack ends at k. */
    void (*multiply)(const struct bf16_pack *a, const struct bf16_pack *b, size_t k, size_t i_first,
                     size_t i_end, size_t j_first, size_t j_end, bool add, float *c, size_t ldc);
};

#endif
