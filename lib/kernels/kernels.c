/* Chooses a table of kernels by processor, or by TXL_CPU. */
#include "kernels.h"

#include "lib/base/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Every processor with AVX2 and FMA has F16C. */
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

/* A process must ask the system for AMX's tiles, because they make the state of its threads larger.
 * Asking again changes nothing. */
static bool has_amx(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* from asm/prctl.h, since Linux 5.16 */
    const unsigned bf16 = 1u << 22, tile = 1u << 24, int8 = 1u << 25;
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bf16) && (d & tile) && (d & int8) &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

/* A table, and what is to be replaced in it. */
struct choice {
    const struct kernels *table;
    void (*patch)(struct kernels *kernels);
};

/* AMD's processors multiply bf16 twice as fast as f32.  Intel's with both extensions multiply bf16,
 * outside of AMX, no faster than f32 or half as fast. */
bool kernels_available(size_t i, struct kernels *kernels) {
    struct choice available[7];
    size_t n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool vnni = has_avx512() && __builtin_cpu_supports("avx512vnni");
    bool bf16 = vnni && __builtin_cpu_supports("avx512bf16");
    bool bf16_first = bf16 && __builtin_cpu_is("amd");
    if (bf16 && has_amx())
        available[n++] = (struct choice){&kernels_avx512, kernels_patch_amx};
    if (bf16_first)
        available[n++] = (struct choice){&kernels_avx512, kernels_patch_avx512bf16};
    if (vnni)
        available[n++] = (struct choice){&kernels_avx512, kernels_patch_avx512vnni};
    if (has_avx512())
        available[n++] = (struct choice){&kernels_avx512, NULL};
    if (has_avx2())
        available[n++] = (struct choice){&kernels_avx2, NULL};
    if (bf16 && !bf16_first)
        available[n++] = (struct choice){&kernels_avx512, kernels_patch_avx512bf16};
#elif defined(__aarch64__)
    available[n++] = (struct choice){&kernels_neon, NULL};
#endif
    available[n++] = (struct choice){&kernels_generic, NULL};
    if (i >= n)
        return false;
    *kernels = *available[i].table;
    if (available[i].patch)
        available[i].patch(kernels);
    return true;
}

struct kernels kernels_rounding(const struct kernels *kernels) {
    struct kernels rounding = *kernels;
    for (size_t type = 0; type < KERNEL_TYPES; type++)
        if (kernels->rounding[type])
            rounding.panels[type] = kernels->rounding[type];
    rounding.tile_panels = kernels->rounding_tiles;
    return rounding;
}

/* Refuses the name, and lists the names that this processor can run. */
static txl_status fail_name(const char *name, txl_error *error) {
    char list[128] = "";
    struct kernels kernels;
    for (size_t i = 0, n = 0; kernels_available(i, &kernels) && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "", kernels.name);
    return txl_fail(error, TXL_ARGUMENT, "TXL_CPU: no kernels '%s' for this processor; it has %s",
                    name, list);
}

txl_status kernels_choose(struct kernels *kernels, txl_error *error) {
    const char *name = getenv("TXL_CPU");
    bool is_named = name && *name != '\0';
    for (size_t i = 0; kernels_available(i, kernels); i++)
        if (!is_named || strcmp(kernels->name, name) == 0)
            return TXL_OK;
    return fail_name(name, error);
}
