/* Seeing to it that OpenBLAS uses the processor as it could. */
#ifndef CLI_BLAS_CORE_H
#define CLI_BLAS_CORE_H

/* OpenBLAS chooses its kernels before main() runs, and an older release takes a newer processor for
 * one of twenty years ago.  When it has chosen so badly by itself, this starts the program anew
 * with OPENBLAS_CORETYPE naming the right ones; it returns when there is nothing to mend. */
void blas_core_mend(char **argv);

/* When the user's own OPENBLAS_CORETYPE slows the program down: what to say about it, else NULL.
 * Lives until the next call. */
const char *blas_core_hint(void);

#endif
