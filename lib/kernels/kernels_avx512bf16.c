/* Kernels for x86-64 processors with AVX-512 (F, VL, BW, DQ) and its BF16 extension. */
#include "loads_avx512.h"

static inline vec dot_bf16(vec sum, ivec a, ivec b) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#define DOT_BF16 dot_bf16

extern const struct kernels kernels_avx512bf16;
#define KERNELS_TABLE kernels_avx512bf16
#define KERNELS_NAME "avx512bf16"
#include "kernels_impl.h"
