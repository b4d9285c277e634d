/* Loads and stores of narrow elements, and products of 16-bit integers: with AVX-512, with AVX2 and
 * F16C, with NEON (USE_NEON), and in C.
 *
 * Lane i of pair_products has the products of elements 2 i and 2 i + 1, added.  add_products adds
 * as many products to each lane, whichever suits the processor.  add_quads adds to lane i those of
 * bytes 4 i to 4 i + 3, of a unsigned, of b from -63 to 63: two of them fit into 16 bits. */
#ifndef TXL_LOADS_H
#define TXL_LOADS_H

#include "vectors.h"

#if defined(USE_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h> /* every x86-64 has it */
#endif

#if LANES == 16

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

static inline ivec pair_products(ivec16 a, ivec16 b) {
    return (ivec)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}

static inline ivec add_products(ivec sum, ivec16 a, ivec16 b) {
#if defined(__AVX512VNNI__)
    return (ivec)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#else
    return sum + pair_products(a, b);
#endif
}

static inline ivec add_quads(ivec sum, ivec a, ivec b) {
#if defined(__AVX512VNNI__)
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#else
    const __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
    return sum + (ivec)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
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

#elif LANES == 8

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

static inline ivec pair_products(ivec16 a, ivec16 b) {
    return (ivec)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

static inline ivec add_products(ivec sum, ivec16 a, ivec16 b) {
    return sum + pair_products(a, b);
}

static inline ivec add_quads(ivec sum, ivec a, ivec b) {
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
    return sum + (ivec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

#elif defined(USE_NEON)

static inline vec load_f16(const uint16_t *p) {
    return (vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline void store_f16(uint16_t *p, vec x) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
}

static inline vec load_bf16(const uint16_t *p) {
    return (vec)vshll_n_u16(vld1_u16(p), 16);
}

static inline vec load_i8(const int8_t *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    int16x8_t wide = vmovl_s8(vreinterpret_s8_u64(vcreate_u64(four)));
    return (vec)vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}

typedef int16x8_t ivec16;

static inline ivec16 load_ivec16(const int8_t *p) {
    return vmovl_s8(vld1_s8(p));
}

static inline ivec pair_products(ivec16 a, ivec16 b) {
    int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
    return (ivec)vpaddq_s32(low, vmull_high_s16(a, b));
}

/* Other lanes than those of pair_products, and one instruction less. */
static inline ivec add_products(ivec sum, ivec16 a, ivec16 b) {
    int32x4_t low = vmlal_s16((int32x4_t)sum, vget_low_s16(a), vget_low_s16(b));
    return (ivec)vmlal_high_s16(low, a, b);
}

#else

static inline vec load_f16(const uint16_t *p) {
    return (vec){float_of_f16(p[0]), float_of_f16(p[1]), float_of_f16(p[2]), float_of_f16(p[3])};
}

static inline void store_f16(uint16_t *p, vec x) {
    for (int i = 0; i < LANES; i++)
        p[i] = f16_of_float(x[i]);
}

static inline vec load_bf16(const uint16_t *p) {
    return (vec){float_of_bf16(p[0]), float_of_bf16(p[1]), float_of_bf16(p[2]),
                 float_of_bf16(p[3])};
}

static inline vec load_i8(const int8_t *p) {
    return (vec){p[0], p[1], p[2], p[3]};
}

typedef int16_t ivec16 __attribute__((vector_size(16)));

static inline ivec16 load_ivec16(const int8_t *p) {
    typedef int8_t bytes __attribute__((vector_size(8)));
    bytes x;
    memcpy(&x, p, sizeof x);
    return __builtin_convertvector(x, ivec16);
}

static inline ivec pair_products(ivec16 a, ivec16 b) {
#if defined(__SSE2__)
    return (ivec)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    ivec x = (ivec)a, y = (ivec)b;
    return (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
#endif
}

static inline ivec add_products(ivec sum, ivec16 a, ivec16 b) {
    return sum + pair_products(a, b);
}

#endif

#if LANES == 4
static inline ivec add_quads(ivec sum, ivec a, ivec b) {
    typedef uint16_t words __attribute__((vector_size(16)));
    const ivec16 a_even = (ivec16)((words)a & 255), a_odd = (ivec16)((words)a >> 8),
                 b_even = (ivec16)((words)b << 8) >> 8, b_odd = (ivec16)b >> 8;
    return sum + pair_products(a_even, b_even) + pair_products(a_odd, b_odd);
}
#endif

/* Rounds x[n] to 16-bit integers: x is about out times *scale, which is the largest magnitude
 * divided by 32767.  Rounding activations to 16 bits loses much less than rounding weights to 8
 * (docs/speed.md). */
static inline void round_16(size_t n, const float *x, int16_t *out, float *scale) {
    const float round = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    vec best = {0}, odd = {0};     /* not zero if an element is not finite */
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec y = load_f32(x + i);
        best = larger(larger(y, -y), best);
        odd += y - y;
    }
    vec tail = load_tail(x + i, n - i, 0);
    best = larger(larger(tail, -tail), best);
    odd += tail - tail;
    float most = max_lanes(best);
    vec inverse = splat(most > 0x1p-100f ? 32767 / most : 0);
    *scale = most / 32767 + sum_lanes(odd);
    typedef int16_t half_ivec __attribute__((vector_size(2 * LANES)));
    half_ivec q;
    for (size_t j = 0; j < i; j += LANES) {
        vec y = load_f32(x + j) * inverse + splat(round);
        q = __builtin_convertvector((ivec)y - (ivec)splat(round), half_ivec);
        memcpy(out + j, &q, sizeof q);
    }
    q = __builtin_convertvector((ivec)(tail * inverse + splat(round)) - (ivec)splat(round),
                                half_ivec);
    memcpy(out + i, &q, (n - i) * sizeof *out);
    memset(out + n, 0, (q8_blocks(n) * Q8_BLOCK - n) * sizeof *out);
}

/* ---- Weights in tiles ---- */

/* LANES bytes as floats. */
static inline vec load_bytes(const uint8_t *p) {
#if LANES == 16
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
#elif LANES == 8
    return (vec)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#else
    typedef uint8_t bytes __attribute__((vector_size(LANES)));
    bytes x;
    memcpy(&x, p, sizeof x);
    return __builtin_convertvector(x, vec);
#endif
}

/* Lines l of part p of a block: the levels of columns 4 l .. 4 l + 3, and of those 16 further on.
 */
static inline __attribute__((always_inline)) void
load_levels(const int top, const uint8_t *tile, size_t block, size_t p, int l, ivec level[2]) {
    uvec line, fifth;
    memcpy(&line,
           tile + TILE_LINES + (block * TILE_BLOCK_LINES + (size_t)l) * TILE_LINE + p * sizeof line,
           sizeof line);
    level[0] = (ivec)(line & 0x0f0f0f0f);
    level[1] = (ivec)(line >> 4 & 0x0f0f0f0f);
    if (top == Q5_TOP) {
        memcpy(&fifth, tile + TILE_FIFTH + block * TILE_LINE + p * sizeof fifth, sizeof fifth);
        level[0] |= (ivec)(fifth << (4 - l) & 0x10101010);
        level[1] |= (ivec)(fifth >> l & 0x10101010);
    }
}

#endif
