/* The tables of kernels that this processor can run. */
#ifndef TXL_TESTS_KERNELS_AT_H
#define TXL_TESTS_KERNELS_AT_H

#include "lib/kernels/kernels.h"

/* Table v, the best first; NULL after the last. */
static inline const struct kernels *kernels_at(size_t v) {
    static struct kernels tables[8];
    return v < 8 && kernels_available(v, &tables[v]) ? &tables[v] : NULL;
}

#endif
