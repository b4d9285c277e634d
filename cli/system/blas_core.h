/* Seeing to it that OpenBLAS uses the processor as it could. */
#ifndef CLI_BLAS_CORE_H
#define CLI_BLAS_CORE_H

#include <stdbool.h>

/* OpenBLAS reads its environment before main() runs.  By itself it starts threads that txl, which
 * has its own, never uses (which spin for ever when memory is short, and which are there before a
 * command can confine itself); and an older release takes a newer processor for one of twenty years
 * ago.  This starts the program anew with OPENBLAS_NUM_THREADS=1 and, where OpenBLAS has chosen
 * badly by itself, OPENBLAS_CORETYPE naming the right kernels.  It returns true when there is
 * nothing to mend, and false without the memory for two variables. */
bool blas_core_mend(char **argv);

/* When the user's own OPENBLAS_CORETYPE slows the program down: what to say about it, else NULL.
 * Lives until the next call. */
const char *blas_core_hint(void);

#endif
