/* Chooses OpenBLAS's kernels, by its environment variable: there is no other way. */
#include "blas_core.h"
#include "txl.h"

#include <signal.h>
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

/* ---- Before main -------------------------------------------------------------------------- */

static struct sigaction interrupt_before;
static volatile sig_atomic_t lacks_threads;

static void note_interrupt(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code == SI_TKILL && info->si_pid == getpid()) {
        lacks_threads = 1;
        return;
    }
    sigaction(number, &interrupt_before, NULL);
    raise(number);
}

/* Runs before the constructors of the libraries, OpenBLAS's among them; and before a sanitizer's.
 */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void expect_interrupt(void) {
    struct sigaction noting = {.sa_sigaction = note_interrupt, .sa_flags = SA_SIGINFO};
    sigaction(SIGINT, &noting, &interrupt_before);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const first)(void) = expect_interrupt;

/* ------------------------------------------------------------------------------------------- */

const char *blas_core_mend(char **argv) {
    const char *core = better_core(), *threads = getenv(threads_variable);
    bool set_core = core && !getenv(core_variable);
    sigaction(SIGINT, &interrupt_before, NULL);
    if (!set_core && threads && strcmp(threads, "1") == 0)
        return NULL;
    if ((set_core && setenv(core_variable, core, 1) != 0) || setenv(threads_variable, "1", 1) != 0)
        return "out of memory: the environment has no room for OpenBLAS's variables";
    execv("/proc/self/exe", argv);
    if (set_core) /* could not start anew: go on without */
        unsetenv(core_variable);
    return lacks_threads ? "OpenBLAS cannot start its threads; set OPENBLAS_NUM_THREADS=1 in the "
                           "environment, or raise the limits (ulimit)"
                         : NULL;
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
