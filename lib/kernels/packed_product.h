/* C (+)= A B^T of f32 matrices, with sums in f32.  The operands are in f32, or rounded to bf16
 * (training's --compute bf16).
 *
 * The operands are packed first; left and right packs differ in layout.  In f32, a left operand
 * whose rows are consecutive in memory needs no pack.  A pack can serve several products, and both
 * packing and multiplying can be divided among tasks.  An element of C depends only on its row of A
 * and its row of B, not on how the work is divided. */
#ifndef TXL_PACKED_PRODUCT_H
#define TXL_PACKED_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Element j < k of an operand's row i is x[i * ld + j], or x[j * ld + i] if `transposed`. */
struct packed_source {
    const float *x;
    size_t ld;
    bool transposed;
};

enum { PACK_ROWS = 16 }; /* a pack has room for a multiple of this many rows */

struct pack {
    void *elements; /* pack_size() bytes; alignment to 64 is fastest */
    size_t k;
};

struct instruction;

struct packed_product {
    size_t element; /* bytes of an element in a pack */
    size_t depth;   /* packed rows are filled up to a multiple of this many elements */
    const struct instruction *instruction; /* see kernels.h; NULL: f32's */

    /* Packs rows [first, end) of `x`.  `first` is a multiple of 16; so is `end`, unless it is the
     * number of rows.  Rounding to bf16 is to nearest even; NaN stays NaN, and subnormal numbers
     * may become zero. */
    void (*pack_left)(const struct packed_source *x, size_t first, size_t end,
                      const struct pack *pack);
    void (*pack_right)(const struct packed_source *x, size_t first, size_t end,
                       const struct pack *pack);

    /* C[i, j] (+)= sum over d < k of A[i, d] B[j, d], for i in [i_first, i_end) and j in
     * [j_first, j_end).  c is the address of C[0, 0], ldc its row stride; i_first and j_first are
     * multiples of 16.  k may be less than the k of a pack: if k is then not a multiple of `depth`,
     * the other pack's k must be equal to it. */
    void (*multiply)(const struct pack *a, const struct pack *b, size_t k, size_t i_first,
                     size_t i_end, size_t j_first, size_t j_end, bool add, float *c, size_t ldc);

    /* The same, bit for bit, for a left operand that is not packed: A[i, d] is a[i * lda + d].
     * NULL: this product needs both packs. */
    void (*multiply_rows)(const float *a, size_t lda, const struct pack *b, size_t k,
                          size_t i_first, size_t i_end, size_t j_first, size_t j_end, bool add,
                          float *c, size_t ldc);
};

/* An operand and its pack.  pack.elements is NULL for a left operand of multiply_rows. */
struct packed_operand {
    struct packed_source source;
    struct pack pack;
};

static inline bool left_needs_pack(const struct packed_product *p, bool transposed) {
    return transposed || !p->multiply_rows;
}

/* Calls `multiply` if the left operand is packed, else `multiply_rows`. */
static inline void multiply_left(const struct packed_product *p, const struct packed_operand *a,
                                 const struct pack *b, size_t k, size_t i_first, size_t i_end,
                                 size_t j_first, size_t j_end, bool add, float *c, size_t ldc) {
    if (a->pack.elements)
        p->multiply(&a->pack, b, k, i_first, i_end, j_first, j_end, add, c, ldc);
    else
        p->multiply_rows(a->source.x, a->source.ld, b, k, i_first, i_end, j_first, j_end, add, c,
                         ldc);
}

/* Bytes of a pack of `rows` rows of k elements; a multiple of 64. */
static inline size_t pack_size(const struct packed_product *p, size_t rows, size_t k) {
    return (rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS * ((k + p->depth - 1) / p->depth) *
           p->depth * p->element;
}

/* A pack in bf16 consists of blocks of 16 rows by 32 elements; blocks of the same rows follow each
 * other.  Elements beyond the rows and beyond k are zero.  A left block is stored row by row.  A
 * right block is stored by pairs of neighbours in a row: pair 0 of all 16 rows, then pair 1, and so
 * on. */
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
