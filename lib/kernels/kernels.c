/* The choice of a table of kernels. */
#include "kernels.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

extern const struct kernels kernels_generic;

#if defined(__x86_64__)
extern const struct kernels kernels_avx2, kernels_avx512, kernels_avx512bf16;

/* Every processor with AVX2 and FMA has F16C. */
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}
#elif defined(__aarch64__)
extern const struct kernels kernels_neon;
#endif

const struct kernels *kernels_available(size_t i) {
    const struct kernels *available[5] = {NULL};
    size_t n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (has_avx512())
        available[n++] = &kernels_avx512;
    if (has_avx2())
        available[n++] = &kernels_avx2;
#elif defined(__aarch64__)
    available[n++] = &kernels_neon;
#endif
    available[n++] = &kernels_generic;
#if defined(__x86_64__)
    if (has_avx512() && __builtin_cpu_supports("avx512bf16"))
        available[n++] = &kernels_avx512bf16;
#endif
    return i < n ? available[i] : NULL;
}

const struct kernels *kernels_choose(void) {
    const char *wanted = getenv("TXL_CPU");
    for (size_t i = 0; wanted && kernels_available(i); i++) {
        if (strcmp(kernels_available(i)->name, wanted) == 0)
            return kernels_available(i);
    }
    return kernels_available(0);
}
