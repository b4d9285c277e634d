/* Loads and stores of narrow elements with AVX2 and F16C. */
#define LANES 8
#include "vectors.h"

#include <immintrin.h>

static inline vec load_f16(const uint16_t *p) {
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline void store_f16(uint16_t *p, vec x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
}

static inline vec load_bf16(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return (vec)_mm256_slli_epi32(wide, 16);
}

static inline vec load_i8(const int8_t *p) {
    __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
    return (vec)_mm256_cvtepi32_ps(wide);
}

typedef int16_t ivec16 __attribute__((vector_size(32)));

static inline ivec16 load_ivec16(const int8_t *p) {
    return (ivec16)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}

static inline ivec add_products(ivec sum, ivec16 a, ivec16 b) {
    return sum + (ivec)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}
