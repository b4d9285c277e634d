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

typedef int16_t ivec16 __attribute__((vector_size(64)));

static inline ivec16 load_ivec16(const int8_t *p) {
    return (ivec16)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

static inline ivec add_products(ivec sum, ivec16 a, ivec16 b) {
#if defined(__AVX512VNNI__)
    return (ivec)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#else
    return sum + (ivec)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#endif
}

#if defined(__AVX512BF16__)
/* See pairs.h. */
static inline ivec narrow_neighbours(vec x, vec y) {
    return (ivec)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
}

static inline ivec narrow_pairs(vec even, vec odd) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (ivec)_mm512_permutexvar_epi16(order,
                                          (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even));
}

static inline vec add_pairs(vec sum, ivec a, ivec b) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#define add_pairs add_pairs
#define narrow_neighbours narrow_neighbours
#define narrow_pairs narrow_pairs
#endif
