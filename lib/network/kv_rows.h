/* Where keys, values and position rows are kept: rows of every layer and head, ROW_BLOCK of them
 * together, and a few blocks of a head in a row, for the processor to read ahead.  After them come
 * the same blocks of the layer's next head, so that a memory that fills up touches its pages one
 * after the other. */
#ifndef TXL_ROWS_H
#define TXL_ROWS_H

#include "lib/kernels/kernels.h"
#include "lib/weights/weights.h"
#include "txl.h"

enum { ROW_BLOCK = 64 };

struct rows {
    enum weights_type type; /* f32 or f16 */
    bool transposed;        /* a block is [width, ROW_BLOCK], else [ROW_BLOCK, width] */
    size_t n_layer, n_block, n_head;
    size_t width; /* elements of a row */
    char *data;   /* n_layer n_block n_head blocks, zero at first */
};

/* `name` is what an error says was too large.  The rest of *rows is filled in by the caller. */
txl_status rows_open(struct rows *rows, const char *name, txl_error *error);
void rows_close(struct rows *rows);
uint64_t rows_bytes(const struct rows *rows);

void *rows_block(const struct rows *rows, size_t layer, size_t block, size_t head);

/* Row `row` of the layer and head becomes elements[n], n <= width; the rest stays as it is.  f16
 * rounds to nearest even, and what it cannot hold to its largest number. */
void rows_put(const struct rows *rows, const struct kernels *kernels, size_t layer, size_t row,
              size_t head, const float *elements, size_t n);
/* The reverse. */
void rows_get(const struct rows *rows, size_t layer, size_t row, size_t head, float *elements,
              size_t n);

/* Copies one block's rows, of all layers and heads, between two of the same shape and type. */
void rows_copy_block(struct rows *to, const struct rows *from, size_t block);

#endif
