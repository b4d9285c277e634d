/* What a session computes with: kernels, threads and scratch memory. */
#ifndef TXL_NETWORK_COMPUTE_H
#define TXL_NETWORK_COMPUTE_H

#include "lib/base/memory.h"
#include "lib/base/threads.h"
#include "lib/kernels/kernels.h"
#include "tensors.h"

#include <stdbool.h>

/* Up to so many rows, a product gives each the bits of a product of its own. */
enum { ALIKE_ROWS = 8 };

struct packed_weights;
struct read_ahead;

struct compute {
    const struct kernels *kernels;
    struct pool *pool;
    float **scratch; /* one for each thread, scratch_size floats */
    size_t scratch_size;
    float *packed; /* [packed_size]: the rows of the current product, packed for its kernels */
    struct read_ahead *ahead;
    struct fetch *fetch;            /* [threads]: see compute_read_later */
    struct packed_weights *weights; /* for products in integers, or NULL */
    size_t n_to_pack;               /* matrices in q8 that were named to compute_order */
    uint64_t bytes_to_pack;         /* and what they take */

    /* NULL, or sees X before each compute_product, which has the same arguments. */
    void (*observe)(void *observer, const struct compute *compute, const struct matrix *w,
                    size_t n_x, const float *x, size_t ldx);
    void *observer;
};

/* Takes the memory from the arena.  `packed_size` is the largest compute_packed of all products to
 * come, `most_order` the largest number of calls of compute_order. */
void compute_lay_out(struct compute *compute, int threads, size_t scratch_size, size_t packed_size,
                     size_t most_order, struct arena *arena);
/* Appends a matrix to the prefetch order: products of few rows read it next.  A matrix without data
 * is ignored.  In a compute that is not laid out, only counts what there is to pack. */
void compute_order(struct compute *compute, const struct matrix *w);
/* Whether products of n_x rows with W are OpenBLAS's sgemm. */
bool compute_uses_sgemm(const struct kernels *kernels, size_t n_x, const struct matrix *w);
/* Products in integers prefetch part[n], which is read after them, each thread its share: until the
 * next call, or until all is.  The parts are not copied. */
void compute_read_later(struct compute *compute, const struct fetch_part *part, size_t n);
/* Starts the threads, which allocate pool_bytes(threads).  `reaches_sgemm` says that products will
 * use sgemm, for which OpenBLAS needs memory of its own.  Fails with TXL_MEMORY. */
txl_status compute_open(struct compute *compute, const struct kernels *kernels, int threads,
                        bool reaches_sgemm, txl_error *error);
void compute_close(struct compute *compute);

/* For products in integers: packs the matrices in q8 that were named to compute_order, or shares
 * what `like`, unless it is NULL, has packed. */
txl_status compute_pack_weights(struct compute *compute, const struct compute *like,
                                txl_error *error);
/* Bytes that they take, for any compute with the same order. */
uint64_t compute_weights_bytes(const struct compute *compute);

/* Floats of scratch that products with this matrix need, for up to n_x rows. */
size_t compute_scratch(const struct matrix *matrix, size_t n_x);
/* Floats of packed rows that a product needs, for up to n_x rows of k elements and any type of
 * weights. */
size_t compute_packed(const struct kernels *kernels, size_t n_x, size_t k);

/* Y = activation(X W^T + bias): X[n_x, W.n_col] with row stride ldx, Y[n_x, W.n_row] with row
 * stride ldy, bias[W.n_row] or NULL. */
void compute_product(const struct compute *compute, size_t n_x, const float *x, size_t ldx,
                     const struct matrix *w, const float *bias, enum activation activation,
                     float *y, size_t ldy);

/* out[n, w.n_col] = rows [first, first + n) of W. */
void matrix_widen(const struct kernels *kernels, const struct matrix *w, size_t first, size_t n,
                  float *out);
void compute_widen(const struct compute *compute, const struct matrix *w, size_t first, size_t n,
                   float *out);

/* The X of a product, ready for its tasks; valid until the next one is prepared. */
struct operand {
    const struct kernels *kernels;
    size_t n, k, ld;
    const float *x; /* [n, k] */
    const struct panels *panels;
    float *packed;  /* the same in panels, or NULL if the tasks do not use them */
    int16_t *round; /* few rows in 16 bits for weights in q8 (see kernels.h), or NULL */
    uint8_t *tiled; /* the same for weights in tiles, or NULL */
    struct integer_block *integers; /* [n, q8_blocks(k)]: all rows in integers, or NULL */
    float *scale;                   /* [n]: of either */
};

/* Prepares X for a product with `w`.  The operand serves other matrices of the same width too;
 * those of another type may be slower. */
struct operand compute_prepare(const struct compute *compute, size_t n_x, const float *x,
                               size_t ldx, const struct matrix *w);

/* One task of a product: Y[x.n, n] = activation(X B^T + bias) for the rows B of W from `first` on.
 */
struct product_block {
    const struct matrix *w;
    size_t first, n;
    const float *bias; /* [W.n_row], or NULL */
    enum activation activation;
    float *y; /* row stride ldy */
    size_t ldy;
};

/* Computes it with scratch of `thread`.  compute_block_rows is the number of rows of such a block;
 * it depends on W alone, so that the result is the same for any number of threads. */
size_t compute_block_rows(const struct matrix *w);
void compute_product_block(const struct compute *compute, int thread, const struct operand *x,
                           const struct product_block *block);

/* Layer norm of the rows of a pass, divided among threads. */

struct layer_norm {
    const float *weight, *bias; /* [d_model] */
};

/* out[n, d_model] = LayerNorm(x + y), the rows divided among the threads.  y may be NULL, and out
 * may be x. */
void compute_norm(const struct compute *compute, const struct layer_norm *norm, size_t d_model,
                  double epsilon, size_t n, const float *x, const float *y, float *out);

/* OpenBLAS's state, which is one for the whole process. */

/* blas_threads_hold sets its number of threads to 1, because sessions divide the work among threads
 * of their own.  The last release puts back the number that the first hold found, unless the caller
 * has set another one meanwhile. */
void blas_threads_hold(void);
void blas_threads_release(void);

/* The core whose kernels OpenBLAS should use on this processor, or NULL if those that it uses are
 * as fast.  OPENBLAS_CORETYPE may name a foreign core, and Debian 12's version takes some newer
 * processors for very old ones. */
const char *blas_better_core(void);

#endif
