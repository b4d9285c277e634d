/* Makes OpenBLAS use the kernels that suit the processor. */
#ifndef CLI_BLAS_CORE_H
#define CLI_BLAS_CORE_H

/* OpenBLAS reads its environment before main() runs.  It has two faults that only the environment
 * can correct.  It starts threads that txl never uses, because txl has its own: they spin for ever
 * when memory is short, and they start before a command can confine itself.  And an older release
 * takes a newer processor for one of twenty years ago.  This function starts the program anew with
 * OPENBLAS_NUM_THREADS=1 and, if OpenBLAS chose badly, OPENBLAS_CORETYPE naming the right kernels.
 * Returns NULL when there is nothing to correct, else what is wrong.
 *
 * Where a thread cannot be started OpenBLAS sends itself SIGINT, as if somebody had typed Ctrl-C.
 * Until this function is called that signal is only noted. */
const char *blas_core_mend(char **argv);

/* A hint for the user whose own OPENBLAS_CORETYPE slows the program down, else NULL.  Lives until
 * the next call. */
const char *blas_core_hint(void);

#endif
