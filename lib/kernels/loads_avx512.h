/* Loads and stores of narrow elements with AVX-512. */
#define LANES 16
#include "vectors.h"

#include <immintrin.h>

static inline vec load_f16(const uint16_t *p) {
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline void store_f16(uint16_t *p, vec x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
}

static inline vec load_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return (vec)_mm512_slli_epi32(wide, 16);
}

static inline vec load_i8(const int8_t *p) {
    __m512i wide = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
    return (vec)_mm512_cvtepi32_ps(wide);
}
