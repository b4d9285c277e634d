/* Chooses OpenBLAS's kernels, by its environment variable: there is no other way. */
#include "blas_core.h"
#include "txl.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char core_variable[] = "OPENBLAS_CORETYPE";
static const char threads_variable[] = "OPENBLAS_NUM_THREADS";

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

/* The core to use instead of the one in use, or NULL. */
static const char *better_core(void) {
    const struct core *best = best_core();
    if (!best)
        return NULL;
    for (int i = 0; i < 8 && best->equals[i]; i++)
        if (strcasecmp(txl_blas_name(), best->equals[i]) == 0)
            return NULL;
    return best->name;
}

bool blas_core_mend(char **argv) {
    const char *core = better_core(), *threads = getenv(threads_variable);
    bool set_core = core && !getenv(core_variable);
    if (!set_core && threads && strcmp(threads, "1") == 0)
        return true;
    if ((set_core && setenv(core_variable, core, 1) != 0) || setenv(threads_variable, "1", 1) != 0)
        return false;
    execv("/proc/self/exe", argv);
    if (set_core) /* could not start anew: go on without */
        unsetenv(core_variable);
    return true;
}

const char *blas_core_hint(void) {
    static char hint[256];
    const char *core = better_core();
    if (!core || !getenv(core_variable))
        return NULL;
    snprintf(hint, sizeof hint,
             "%s=%.40s in the environment makes OpenBLAS slower than this processor is; unset it, "
             "or set it to %s",
             core_variable, getenv(core_variable), core);
    return hint;
}
