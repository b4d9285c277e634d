/* OpenBLAS's state, which is one for the whole process. */
#ifndef TXL_BLAS_H
#define TXL_BLAS_H

#include <stdbool.h>

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
