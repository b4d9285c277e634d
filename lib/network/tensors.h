/* The tensors of an open weights file: raw ones are used in place, compressed ones are expanded
 * into memory. */
#ifndef TXL_NETWORK_TENSORS_H
#define TXL_NETWORK_TENSORS_H

#include "lib/weights/weights.h"
#include "txl.h"

/* A matrix as a linear layer stores it: y = W x, W[n_row, n_col], row-major. */
struct matrix {
    enum weights_type type;
    const void *data; /* NULL: there is no matrix and y = x, or it is `compressed` */
    size_t n_row, n_col;
    const float *scale; /* of q8: [n_row, q8_blocks(n_col)]; in tiles: the factors [., 2] of the
                           rows from the first of the tiles on; else NULL */
    size_t skip;        /* in tiles: rows of the first ones that precede row 0, < 16; else 0 */

    /* NULL, or the tensor that must be expanded first: data is NULL then. */
    const struct weights_tensor *compressed;
};

/* Bytes that a row of it takes, without scales; in tiles a 16th of those of 16 rows. */
size_t matrix_row_bytes(const struct matrix *matrix);

/* Bytes of its elements, and of its scales. */
uint64_t matrix_bytes(const struct matrix *matrix);

/* Sets where the elements of a matrix are. */
void matrix_place(struct matrix *matrix, const void *elements);

/* The matrix of rows [first, first + n). */
struct matrix matrix_rows(const struct matrix *matrix, size_t first, size_t n);

struct tensors {
    const struct weights *weights;
    const void **element; /* of each tensor: its elements, raw or expanded, or NULL */
    bool *expanded;       /* for each tensor: whether it is in the arena */
    void *arena;          /* where compressed tensors are expanded to */
    size_t arena_size;
};

/* Finds a place for every tensor; `stays_compressed` may be NULL.  Those in the arena have their
 * elements only after tensors_expand. */
txl_status tensors_open(struct tensors *tensors, const struct weights *weights,
                        bool (*stays_compressed)(const void *context, const char *name),
                        const void *context, txl_error *error);
void tensors_close(struct tensors *tensors);

/* Expands the tensors in the arena, with `threads` threads (0: one for each processor). */
txl_status tensors_expand(struct tensors *tensors, int threads, txl_error *error);

/* The i-th tensor of the file as a matrix of shape[0] rows; its elements must be there. */
struct matrix tensors_at(const struct tensors *tensors, size_t i);

/* The matrix or the f32 vector of that name and exactly that size. */
txl_status tensors_matrix(const struct tensors *tensors, const char *name, size_t n_row,
                          size_t n_col, struct matrix *matrix, txl_error *error);
txl_status tensors_vector(const struct tensors *tensors, const char *name, size_t n,
                          const float **vector, txl_error *error);

#endif
