/* Matrix products of training.  Large ones are cut into tiles in a way that does not depend on the
 * number of threads, so the results do not either.  Each tile is a product of packed operands, or
 * an sgemm on one thread. */
#ifndef TXL_PRODUCTS_H
#define TXL_PRODUCTS_H

#include "lib/base/memory.h"
#include "lib/base/threads.h"
#include "lib/kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>

/* A stored matrix with row stride ld.  `transposed`: the product uses its transpose. */
struct factor {
    const float *x;
    size_t ld;
    bool transposed;
};

static inline struct factor as_is(const float *x, size_t ld) {
    return (struct factor){x, ld, false};
}

static inline struct factor across(const float *x, size_t ld) {
    return (struct factor){x, ld, true};
}

/* C[m, n] (+)= A[m, k] B[k, n], plus the product of a second pair of factors if `more` is not 0. */
struct product {
    size_t m, n, k;
    struct factor a, b;
    size_t more; /* the second pair's k */
    struct factor more_a, more_b;
    bool add;
    float *c;
    size_t ldc;

    /* The result is a symmetric matrix, m = n: what lies under the diagonal is mostly not computed,
     * but mirrored, after `finish`. */
    bool symmetric;

    /* Called for each finished tile, rows [row, row + rows) and columns [column, column + columns),
     * while it is in the cache; may be NULL.  `column` is a multiple of 128; of a symmetric product
     * it need not be. */
    void (*finish)(void *context, size_t row, size_t rows, size_t column, size_t columns);
    void *context;
};

/* What computes products: threads, kernels and memory. */
struct products {
    struct pool *pool;
    const struct packed_product *packed; /* NULL: OpenBLAS's sgemm */
    char *room;                          /* [room_size], for packed operands */
    size_t room_size;
};

/* Takes the room for one pair of factors.  A products_run needs that of all its pairs. */
void products_take_room(struct arena *room, const struct packed_product *packed, size_t m, size_t n,
                        size_t k);

/* Computes n <= MAX_PRODUCTS products in any order: none may read what another writes.  Skips
 * products whose m or n is 0, or whose k and `more` are both 0. */
enum { MAX_PRODUCTS = 16 };
void products_run(const struct products *products, const struct product *product, int n);

/* Computes a product, of one pair of factors and all of it, in this thread.  `left` and `right`
 * have room for the packs of A, [m, k], and of B^T, [n, k]; without `packed` they are not used. */
void multiply_here(const struct packed_product *packed, char *left, char *right,
                   const struct product *product);

#endif
