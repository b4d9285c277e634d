/* Chooses a table of kernels by processor, or by TXL_CPU. */
#include "kernels.h"

#include "lib/base/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct kernels kernels_generic;

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const struct kernels kernels_avx2, kernels_avx512, kernels_avx512bf16, kernels_avx512fp16,
    kernels_amx;

/* Every processor with AVX2 and FMA has F16C. */
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

/* Asks CPUID, because not every compiler knows this feature's name. */
static bool has_fp16(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1u << 23);
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
#elif defined(__aarch64__)
extern const struct kernels kernels_neon;
#endif

/* AMD's processors multiply bf16 twice as fast as f32.  Intel's with both extensions multiply bf16,
 * outside of AMX, no faster than f32 or half as fast, but f16 twice as fast. */
const struct kernels *kernels_available(size_t i) {
    const struct kernels *available[7] = {NULL};
    size_t n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool vnni = has_avx512() && __builtin_cpu_supports("avx512vnni");
    bool bf16 = vnni && __builtin_cpu_supports("avx512bf16");
    bool bf16_first = bf16 && __builtin_cpu_is("amd");
    if (bf16 && has_amx())
        available[n++] = &kernels_amx;
    if (bf16_first)
        available[n++] = &kernels_avx512bf16;
    if (vnni && has_fp16())
        available[n++] = &kernels_avx512fp16;
    if (has_avx512())
        available[n++] = &kernels_avx512;
    if (has_avx2())
        available[n++] = &kernels_avx2;
    if (bf16 && !bf16_first)
        available[n++] = &kernels_avx512bf16;
#elif defined(__aarch64__)
    available[n++] = &kernels_neon;
#endif
    available[n++] = &kernels_generic;
    return i < n ? available[i] : NULL;
}

/* Refuses the name, and lists the names that this processor can run. */
static txl_status fail_name(const char *name, txl_error *error) {
    char list[128] = "";
    for (size_t i = 0, n = 0; kernels_available(i) && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "",
                              kernels_available(i)->name);
    return txl_fail(error, TXL_ARGUMENT, "TXL_CPU: no kernels '%s' for this processor; it has %s",
                    name, list);
}

txl_status kernels_choose(const struct kernels **kernels, txl_error *error) {
    const char *name = getenv("TXL_CPU");
    *kernels = kernels_available(0);
    if (!name || *name == '\0')
        return TXL_OK;
    for (size_t i = 0; (*kernels = kernels_available(i)); i++)
        if (strcmp((*kernels)->name, name) == 0)
            return TXL_OK;
    return fail_name(name, error);
}
