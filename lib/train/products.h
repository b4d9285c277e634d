/* The products of training: large matrices, cut into tiles that do not depend on the number of
 * threads, each a product of packed operands, or an sgemm on one thread. */
#ifndef TXL_PRODUCTS_H
#define TXL_PRODUCTS_H

#include "lib/base/threads.h"
#include "lib/kernels/packed_product.h"

#include <stdbool.h>
#include <stddef.h>

/* A matrix as it lies, with its row stride; `transposed`: the product takes it the other way. */
struct factor {
    const float *x;
    size_t ld;
    bool transposed;
};

/* C[m, n] (+)= A[m, k] B[k, n], plus a second pair of factors where `more` is above 0. */
struct product {
    size_t m, n, k;
    struct factor a, b;
    size_t more; /* k of the second pair */
    struct factor more_a, more_b;
    bool add;
    float *c;
    size_t ldc;

    /* What follows for the elements of rows [row, row + rows) and columns [column, column +
     * columns), while a tile is in cache; NULL: nothing.  First columns are multiples of 128. */
    void (*finish)(void *context, size_t row, size_t rows, size_t column, size_t columns);
    void *context;
};

/* What products are computed with. */
struct products {
    struct pool *pool;
    const struct packed_product *packed; /* NULL: OpenBLAS's sgemm */
    char *room;                          /* [room_size], for packed operands */
    size_t room_size;
};

/* Bytes of room that a product needs. */
size_t products_room(const struct packed_product *packed, size_t m, size_t n, size_t k);

/* Computes all of them, at most MAX_PRODUCTS, in no order: none may read what another writes.  A
 * product without elements, or without anything to sum up, is left out. */
enum { MAX_PRODUCTS = 8 };
void products_run(const struct products *products, const struct product *product, int n);

#endif
