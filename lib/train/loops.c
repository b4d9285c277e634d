/* Chooses the table of loops that belongs to a table of kernels. */
#include "loops.h"

#include <string.h>

extern const struct loops loops_generic;
#if defined(__x86_64__)
extern const struct loops loops_avx2, loops_avx512;
#elif defined(__aarch64__)
extern const struct loops loops_neon;
#endif

const struct loops *loops_choose(const struct kernels *kernels) {
#if defined(__x86_64__)
    if (strncmp(kernels->name, "avx512", 6) == 0 || strcmp(kernels->name, "amx") == 0)
        return &loops_avx512; /* for its variants too */
    if (strcmp(kernels->name, "avx2") == 0)
        return &loops_avx2;
#elif defined(__aarch64__)
    if (strcmp(kernels->name, "neon") == 0)
        return &loops_neon;
#else
    (void)kernels;
#endif
    return &loops_generic;
}
