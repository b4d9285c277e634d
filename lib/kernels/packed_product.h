/* C (+)= A B^T of f32 matrices, with sums in f32: as they are, or rounded to bf16 (training's
 * --compute bf16).
 *
 * The operands are packed first, the left one and the right one in their own order; in f32 a left
 * one whose rows lie along k need not be.  A pack can serve several products, and both packing and
 * multiplying can be divided among tasks.  An element
 * of C depends on its row of A and its column of B alone, not on how the work is divided. */
#ifndef TXL_PACKED_PRODUCT_H
#define TXL_PACKED_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Row i of an operand has its elements x[i * ld + 0 .. k - 1], or if `transposed` x[0 .. k - 1][i]
 * with row stride ld. */
struct packed_source {
    const float *x;
    size_t ld;
    bool transposed;
};

enum { PACK_ROWS = 16 }; /* a pack has room for a multiple of so many rows */

struct pack {
    void *elements; /* pack_size() bytes, best at a multiple of 64 */
    size_t k;
};

struct packed_product {
    size_t element; /* bytes of an element in a pack, whose rows have */
    size_t depth;   /* a multiple of so many */

    /* Packs rows [first, end) of `x`, `first` a multiple of 16, `end` too unless it is the number
     * of rows.  Rounding to bf16 is to nearest even and keeps NaN; what is below 2^-126 may become
     * zero. */
    void (*pack_left)(const struct packed_source *x, size_t first, size_t end,
                      const struct pack *pack);
    void (*pack_right)(const struct packed_source *x, size_t first, size_t end,
                       const struct pack *pack);

    /* C[i, j] (+)= the first k elements of A's row i times those of B's row j, for i in
     * [i_first, i_end) and j in [j_first, j_end); c is the address of C[0, 0], ldc its row stride.
     * Firsts are multiples of 16.  Where k is less than a pack's and no multiple of `depth`, the
     * other pack ends at k. */
    void (*multiply)(const struct pack *a, const struct pack *b, size_t k, size_t i_first,
                     size_t i_end, size_t j_first, size_t j_end, bool add, float *c, size_t ldc);

    /* The same, with the same sums, of a left operand that is not packed: row i of A has its
     * elements a[i * lda + 0 .. k - 1].  NULL: this product needs both packs. */
    void (*multiply_rows)(const float *a, size_t lda, const struct pack *b, size_t k,
                          size_t i_first, size_t i_end, size_t j_first, size_t j_end, bool add,
                          float *c, size_t ldc);
};

/* An operand and its pack, without elements where it is a left one for multiply_rows. */
struct packed_operand {
    struct packed_source source;
    struct pack pack;
};

static inline bool left_needs_pack(const struct packed_product *p, bool transposed) {
    return transposed || !p->multiply_rows;
}

/* multiply or multiply_rows, as the operand is. */
static inline void multiply_left(const struct packed_product *p, const struct packed_operand *a,
                                 const struct pack *b, size_t k, size_t i_first, size_t i_end,
                                 size_t j_first, size_t j_end, bool add, float *c, size_t ldc) {
    if (a->pack.elements)
        p->multiply(&a->pack, b, k, i_first, i_end, j_first, j_end, add, c, ldc);
    else
        p->multiply_rows(a->source.x, a->source.ld, b, k, i_first, i_end, j_first, j_end, add, c,
                         ldc);
}

/* The bytes of a pack of so many rows of k elements, a multiple of 64. */
static inline size_t pack_size(const struct packed_product *p, size_t rows, size_t k) {
    return (rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS * ((k + p->depth - 1) / p->depth) *
           p->depth * p->element;
}

/* A pack in bf16 is made of blocks of 16 rows by 32 elements, those of the same rows after each
 * other; zero beyond the rows and beyond k.  A left block lies row by row, a right one by pairs of
 * neighbours in a row: pair 0 of each of the 16 rows, pair 1, and so on. */
enum {
    BF16_ROWS = PACK_ROWS,
    BF16_DEPTH = 32,
    BF16_PAIRS = BF16_DEPTH / 2, /* of elements */
    BF16_BLOCK = BF16_ROWS * BF16_DEPTH
};

static inline size_t bf16_blocks(size_t k) {
    return (k + BF16_DEPTH - 1) / BF16_DEPTH;
}

#endif
