/* OpenBLAS's number of threads, which is one for the whole process. */
#ifndef TXL_BLAS_THREADS_H
#define TXL_BLAS_THREADS_H

/* Sets it to one while anybody holds it: models divide the work among threads of their own.  The
 * last to let go puts back the number that the first found, unless somebody else has set another
 * one meanwhile. */
void blas_threads_hold(void);
void blas_threads_release(void);

#endif
