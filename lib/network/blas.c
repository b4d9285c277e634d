/* OpenBLAS's number of threads and its kernels, which are the process's.
 *
 * So the number of holders and the number to restore belong to the process too.  They are the only
 * variables in lib/ that outlive a call and belong to no object; a lock guards them. */
#include "blas.h"

#include <pthread.h>
#include <stddef.h>
#include <strings.h>

extern int openblas_get_num_threads(void);
extern void openblas_set_num_threads(int n);
extern char *openblas_get_corename(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t holders;
static int before;

void blas_threads_hold(void) {
    pthread_mutex_lock(&lock);
    if (holders++ == 0)
        before = openblas_get_num_threads();
    if (openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
    pthread_mutex_unlock(&lock);
}

void blas_threads_release(void) {
    pthread_mutex_lock(&lock);
    if (--holders == 0 && before != 1 && openblas_get_num_threads() == 1)
        openblas_set_num_threads(before);
    pthread_mutex_unlock(&lock);
}

/* The kernels for the widest vectors of the processor, and others that are as good. */
struct core {
    const char *name;
    const char *equals[8];
};

static const struct core *best_core(void) {
#if defined(__x86_64__)
    static const struct core avx512 = {"SkylakeX", {"SkylakeX", "Cooperlake", "SapphireRapids"}};
    static const struct core avx2 = {
        "Haswell", {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"}};
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return &avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &avx2;
#endif
    return NULL;
}

const char *blas_better_core(void) {
    const struct core *best = best_core();
    if (!best)
        return NULL;
    for (int i = 0; i < 8 && best->equals[i]; i++)
        if (strcasecmp(openblas_get_corename(), best->equals[i]) == 0)
            return NULL;
    return best->name;
}
