/* The smaller and the larger of two sizes, and how many pieces one has. */
#ifndef TXL_SIZES_H
#define TXL_SIZES_H

#include <stddef.h>

static inline size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* How many pieces of at most `piece` make n. */
static inline size_t pieces(size_t n, size_t piece) {
    return (n + piece - 1) / piece;
}

#endif
