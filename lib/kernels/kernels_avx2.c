/* Kernels for x86-64 processors with AVX2, FMA and F16C. */
#define LANES 8
#include "vectors.h"

#include <immintrin.h>

static inline vec load_f16(const uint16_t *p) {
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vec load_bf16(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return (vec)_mm256_slli_epi32(wide, 16);
}

extern const struct kernels kernels_avx2;
#define KERNELS_TABLE kernels_avx2
#define KERNELS_NAME "avx2"
#include "kernels_impl.h"
