/* Kernels for x86-64 processors with AVX-512 (F, VL, BW, DQ). */
#define LANES 16
#include "vectors.h"

#include <immintrin.h>

static inline vec load_f16(const uint16_t *p) {
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline vec load_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return (vec)_mm512_slli_epi32(wide, 16);
}

extern const struct kernels kernels_avx512;
#define KERNELS_TABLE kernels_avx512
#define KERNELS_NAME "avx512"
#include "kernels_impl.h"
