/* Where keys, values and position rows are kept: rows of every layer and head, ROW_BLOCK of them
 * together, and a few blocks of a head in a row, for the processor to read ahead.  After them come
 * the same blocks of the next head and then of the next layer, so that a memory that fills up
 * touches its pages one after the other. */
#ifndef TXL_ROWS_H
#define TXL_ROWS_H

#include "lib/base/arena.h"
#include "lib/kernels/kernels.h"
#include "lib/weights/weights.h"
#include "txl.h"

enum { ROW_BLOCK = 64 };

/* `rows` rounded up to whole blocks. */
static inline size_t in_blocks(size_t rows) {
    return (rows + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
}

/* A block is [width, ROW_BLOCK] if `transposed`, else [ROW_BLOCK, width]; in bf16 two rows of that
 * lie in one of twice the width, their elements in turns (see multiply_bf16). */
struct rows {
    enum weights_type type; /* f32, f16 or bf16 */
    bool transposed;
    size_t n_layer, n_block, n_head;
    size_t width; /* elements of a row, in bf16 an even number */
    char *data;   /* n_block n_layer n_head blocks, zero at first */
};

enum weights_type rows_type(txl_memory_type memory_type);
/* Bytes of an element. */
size_t rows_element_size(txl_memory_type memory_type);
/* The width for rows of n elements. */
size_t rows_width(enum weights_type type, size_t n);

/* Plans the keys and values of a ring in which a pass sees at most `reach` rows; the data is laid
 * out by the function below.  Keys are transposed, so that the scores of a block are one product;
 * values are filled up to a multiple of 16 elements.  Returns the rows of the ring, in whole
 * blocks: from that of the first key seen to that of the last. */
size_t rows_plan(txl_memory_type memory_type, int n_layer, int n_head, int d_head, size_t reach,
                 struct rows *keys, struct rows *values);

/* Takes the data.  The rest of *rows is filled in by the caller. */
void rows_lay_out(struct rows *rows, struct arena *arena);

void *rows_block(const struct rows *rows, size_t layer, size_t block, size_t head);

/* Row `row` of the layer and head becomes elements[n], n <= width; the rest stays as it is.  f16
 * and bf16 round to nearest even, and what f16 cannot hold to its largest number. */
void rows_put(const struct rows *rows, const struct kernels *kernels, size_t layer, size_t row,
              size_t head, const float *elements, size_t n);
/* The reverse. */
void rows_get(const struct rows *rows, size_t layer, size_t row, size_t head, float *elements,
              size_t n);

/* Copies a row's keys, then its values, of all heads out of a ring and into one:
 * elements[2, n_head, d_head]. */
void rows_export(const struct rows *keys, const struct rows *values, size_t layer, size_t row,
                 size_t d_head, float *elements);
void rows_import(const struct rows *keys, const struct rows *values, const struct kernels *kernels,
                 size_t layer, size_t row, size_t d_head, const float *elements);

/* What a product with a block takes for A[m, k] with row stride lda, where it lies: bf16 is rounded
 * to, in the first half of each row, and zero up to an even k, which lda is not below. */
void rows_round_factor(const struct rows *rows, const struct kernels *kernels, size_t m, size_t k,
                       float *a, size_t lda);
/* Rows of a layer's head, round a ring: those from `first` up to `end`, counted from the beginning
 * of block `block`, which itself may be counted on and on. */
struct row_span {
    int layer;
    size_t head, block, first, end;
};

/* Where the first of them lies, to be fetched. */
const void *rows_begin(const struct rows *rows, const struct row_span *span);

/* S = Q K^T for a span of keys or position rows: Q[m, d_head] of rows_round_factor, S[m, end] with
 * row stride lds, whose columns before `first` are not defined and which has room for whole blocks.
 * `after` is what will be read next, or NULL. */
void rows_score(const struct rows *rows, const struct kernels *kernels, const struct row_span *span,
                size_t m, const float *q, size_t d_head, float *s, size_t lds, const void *after);

/* out[m, width] += S V for a span of values: S[m, end] of rows_round_factor with row stride lds,
 * zero in the rest of its last block.  Up to 15 rows before `first` take part, so that there the
 * weights or the values are zero. */
void rows_weigh(const struct rows *rows, const struct kernels *kernels, const struct row_span *span,
                size_t m, const float *s, size_t lds, float *out, const void *after);

/* Copies one block's rows, of all layers and heads, between two of the same shape and type. */
void rows_copy_block(struct rows *to, const struct rows *from, size_t block);

#endif
