/* OpenBLAS's number of threads, which is one for the whole process. */
#ifndef TXL_BLAS_THREADS_H
#define TXL_BLAS_THREADS_H

/* blas_threads_hold sets it to 1, because sessions divide the work among threads of their own.  The
 * last release puts back the number that the first hold found, unless the caller has set another
 * one meanwhile. */
void blas_threads_hold(void);
void blas_threads_release(void);

#endif
