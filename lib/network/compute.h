/* What a session computes with: kernels, threads and scratch memory. */
#ifndef TXL_COMPUTE_H
#define TXL_COMPUTE_H

#include "lib/base/arena.h"
#include "lib/base/threads.h"
#include "lib/kernels/kernels.h"
#include "lib/kernels/packed_product.h"
#include "read_ahead.h"
#include "tensors.h"

struct compute {
    const struct kernels *kernels;
    struct pool *pool;
    float **scratch; /* one for each thread, scratch_size floats */
    size_t scratch_size;
    float *packed; /* the rows of the current product, packed for its kernels */
    struct read_ahead *ahead;
};

/* Takes the memory.  `packed_size` is the largest compute_packed of all products to come,
 * `most_order` the largest number of calls of compute_order. */
void compute_lay_out(struct compute *compute, int threads, size_t scratch_size, size_t packed_size,
                     size_t most_order, struct arena *arena);
/* Tells read_ahead_add that products of few rows use this matrix after those named before. A matrix
 * without elements is left out. */
void compute_order(struct compute *compute, const struct matrix *w);
/* Starts the threads, which allocate pool_bytes(threads). */
txl_status compute_open(struct compute *compute, const struct kernels *kernels, int threads,
                        txl_error *error);
void compute_close(struct compute *compute);

/* Floats of scratch that products with this matrix need, for up to n_x rows. */
size_t compute_scratch(const struct matrix *matrix, size_t n_x);
/* Floats of packed rows, for up to n_x rows of k and any type of weights. */
size_t compute_packed(const struct kernels *kernels, size_t n_x, size_t k);

/* Y = activation(X W^T + bias): X[n_x, W.n_col] with row stride ldx, Y[n_x, W.n_row] with row
 * stride ldy, bias[W.n_row] or NULL. */
void compute_product(const struct compute *compute, size_t n_x, const float *x, size_t ldx,
                     const struct matrix *w, const float *bias, enum activation activation,
                     float *y, size_t ldy);

/* out[n, w.n_col] = rows [first, first + n) of W. */
void compute_widen(const struct compute *compute, const struct matrix *w, size_t first, size_t n,
                   float *out);

/* The X of a product, ready for its tasks; valid until the next one is prepared. */
struct operand {
    size_t n, k, ld;
    const float *x; /* [n, k] */
    const struct panels *panels;
    float *packed;        /* the same in panels, or NULL if the tasks do not use them */
    const int16_t *round; /* a few rows in 16 bits (see kernels.h), or NULL */
    const float *scale;   /* [n] */
};

/* Prepares X for a product with `w`.  It may be multiplied by another matrix of the same width too,
 * which is as fast if the type is the same. */
struct operand compute_prepare(const struct compute *compute, size_t n_x, const float *x,
                               size_t ldx, const struct matrix *w);

/* The part of a product that one task computes: rows [first, first + n) of W. Blocks depend on W
 * alone, so the result is the same for any number of threads. */
size_t compute_block_rows(const struct matrix *w);
void compute_product_block(const struct compute *compute, int thread, const struct operand *x,
                           const struct matrix *w, size_t first, size_t n, const float *bias,
                           enum activation activation, float *y, size_t ldy);

#endif
