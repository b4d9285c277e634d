/* Kernels for x86-64 processors with AVX-512 (F, VL, BW, DQ) and its FP16 extension, which
 * multiplies twice as many f16 numbers as f32 ones at a time.
 *
 * With TXL_COMPUTE_BF16 weights in bf16 are multiplied by activations in f16.  A sum in f16 over a
 * whole row would be inaccurate and could overflow, so f16 sums cover 64 columns and are added up
 * in f32.  A row of weights is scaled to magnitudes below 128 and a row of activations to below 4,
 * so that 64 products stay below 32768.  The scales are powers of two, so that only activations and
 * sums are rounded, to 11 bits.  Weights in f16 and q8 are not multiplied in this way. */
#include "loads_avx512.h"
#define MULTIPLIES_BYTES /* for int8_panels_impl.h */

#include "finish_panel.h"
#include "instruction.h"
#include "kernels.h"

enum {
    F16_LANES = 32,
    DEPTH = 64 /* products summed in f16 */
};

/* 2^n, n from -126 to 127. */
static inline float power_of_two(int n) {
    return float_of_bits((uint32_t)(127 + n) << 23);
}

/* floor(log2 x) for a normal x >= 0, at least -120; 127 for what is infinite or NaN. */
static inline int exponent(float x) {
    int e = (int)(bits_of_float(x) >> 23) - 127;
    return e < -120 ? -120 : e > 127 ? 127 : e;
}

/* A mask of the first n lanes, n > 0. */
static inline __mmask16 first_lanes(size_t n) {
    return n < LANES ? (__mmask16)((1u << n) - 1) : (__mmask16)-1;
}

/* ---- Activations -------------------------------------------------------------------------- */

/* The power of two that takes x[k] below 4. */
static float scale_of_row(const float *x, size_t k) {
    __m512 most = _mm512_setzero_ps();
    for (size_t i = 0; i < k; i += LANES)
        most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_maskz_loadu_ps(first_lanes(k - i), x + i)));
    return power_of_two(1 - exponent(_mm512_reduce_max_ps(most)));
}

/* out[k, width], row t of X times 1 / x_scale[t]. */
static void pack_f16(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out,
                     float *x_scale) {
    for (size_t first = 0; first < width; first += LANES) {
        vec scale = {0};
        size_t rows = first >= m ? 0 : m - first < LANES ? m - first : LANES;
        for (size_t t = 0; t < rows; t++)
            scale[t] = scale_of_row(x + (first + t) * ldx, k);
        for (size_t t = 0; t < LANES; t++)
            x_scale[first + t] = t < rows ? 1 / scale[t] : 0;
        for (size_t i = 0; i < k; i += LANES) {
            size_t columns = k - i < LANES ? k - i : LANES;
            vec part[LANES];
            transpose_part(x + first * ldx + i, ldx, rows, columns, part);
            for (size_t j = 0; j < columns; j++)
                store_f16((uint16_t *)out + (i + j) * width + first, part[j] * scale);
        }
    }
}

/* ---- Weights ------------------------------------------------------------------------------ */

/* The first n of 32 f16 numbers at p, n > 0, the others zero. */
static inline __m512i load_some_f16(const uint16_t *p, size_t n) {
    __mmask32 mask = n < F16_LANES ? (1u << n) - 1 : (__mmask32)-1;
    return _mm512_maskz_loadu_epi16(mask, p);
}

/* The largest magnitude among in[k], as the bits of bf16. */
static uint16_t most_bits(const uint16_t *in, size_t k) {
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    __m512i most = _mm512_setzero_si512();
    for (size_t i = 0; i < k; i += F16_LANES)
        most = _mm512_max_epu16(most, _mm512_and_si512(load_some_f16(in + i, k - i), magnitude));
    uint16_t lane[F16_LANES], largest = 0;
    _mm512_storeu_si512(lane, most);
    for (int i = 0; i < F16_LANES; i++)
        largest = lane[i] > largest ? lane[i] : largest;
    return largest;
}

/* 32 numbers in bf16 as f16, times 2^(21 - down): the exponent has its place and bias changed. What
 * would be subnormal is so small beside the row's largest that it may become anything as small. */
static inline __m512i f16_of_bf16(__m512i x, __m512i down) {
    __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
    __m512i half = _mm512_slli_epi16(_mm512_subs_epu16(magnitude, down), 3);
    return _mm512_or_si512(half, _mm512_andnot_si512(_mm512_set1_epi16(0x7fff), x));
}

/* Each weight twice, side by side, for a broadcast of 32 bits: there is none of 16 that costs
 * nothing. */
static void prepare_row(size_t k, const uint16_t *in, uint32_t *out, float *out_scale) {
    /* Exponents from a row's largest, which becomes 21, down: 2^6 in f16. */
    int exponent = most_bits(in, k) >> 7;
    exponent = exponent < 21 ? 21 : exponent;
    *out_scale = power_of_two(exponent - 127 - 6);
    const __m512i down = _mm512_set1_epi16((int16_t)((exponent - 21) << 7));
    /* Interleaving takes its turn in each quarter of a vector. */
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    for (size_t i = 0; i < k; i += F16_LANES) {
        __m512i half = f16_of_bf16(load_some_f16(in + i, k - i), down);
        half = _mm512_permutexvar_epi64(order, half);
        _mm512_mask_storeu_epi32(out + i, first_lanes(k - i), _mm512_unpacklo_epi16(half, half));
        if (k - i > LANES)
            _mm512_mask_storeu_epi32(out + i + LANES, first_lanes(k - i - LANES),
                                     _mm512_unpackhi_epi16(half, half));
    }
}

static void prepare_bf16_pairs(size_t n, size_t k, const void *b, const float *scale, void *out,
                               float *out_scale) {
    (void)scale;
    for (size_t row = 0; row < n; row++)
        prepare_row(k, (const uint16_t *)b + row * k, (uint32_t *)out + row * k, out_scale + row);
}

/* ---- Products ----------------------------------------------------------------------------- */

/* C[rows, width] (+)= scale B P of one block, in a tile of `rows` x `vectors` sums; width is that
 * of the vectors. */
static inline __attribute__((always_inline)) void tile_f16(const int rows, const int vectors,
                                                           size_t depth, const uint16_t *p,
                                                           const uint32_t *b, size_t ldb,
                                                           const float *scale, bool add, float *c) {
    size_t width = (size_t)vectors * F16_LANES;
    __m512h sum[16][2];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_setzero_ph();
    }
    for (size_t i = 0; i < depth; i++) {
        __m512h x[2];
        UNROLL for (int v = 0; v < vectors; v++) x[v] =
            _mm512_loadu_ph(p + i * width + v * F16_LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            __m512h w = (__m512h)_mm512_set1_epi32((int)b[(size_t)r * ldb + i]);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                _mm512_fmadd_ph(x[v], w, sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        __m512 factor = _mm512_set1_ps(scale[r]);
        UNROLL for (int v = 0; v < vectors; v++) {
            __m512i half = (__m512i)sum[r][v];
            __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
            __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
            float *out = c + (size_t)r * width + v * F16_LANES;
            __m512 before = add ? _mm512_loadu_ps(out) : _mm512_setzero_ps();
            __m512 after = add ? _mm512_loadu_ps(out + LANES) : _mm512_setzero_ps();
            _mm512_storeu_ps(out, _mm512_fmadd_ps(low, factor, before));
            _mm512_storeu_ps(out + LANES, _mm512_fmadd_ps(high, factor, after));
        }
    }
}

static inline __attribute__((always_inline)) void columns_f16(const int rows, const int vectors,
                                                              size_t n, size_t k, const uint16_t *p,
                                                              const uint32_t *b, const float *scale,
                                                              float *c) {
    size_t width = (size_t)vectors * F16_LANES;
    for (size_t first = 0; first < k; first += DEPTH) {
        size_t r = 0, depth = k - first < DEPTH ? k - first : DEPTH;
        const uint16_t *lines = p + first * width;
        for (; r + (size_t)rows <= n; r += (size_t)rows)
            tile_f16(rows, vectors, depth, lines, b + r * k + first, k, scale + r, first > 0,
                     c + r * width);
        for (; r < n; r++)
            tile_f16(1, vectors, depth, lines, b + r * k + first, k, scale + r, first > 0,
                     c + r * width);
    }
}

static void panel_f16(size_t m, size_t width, size_t n, size_t k, const void *packed,
                      const float *x_scale, const void *b, const float *scale, const float *bias,
                      bool relu, float *y, size_t ldy, const void *next) {
    (void)next;
    float c[PANEL_ROWS * PANEL_WIDTH]; /* [n, width] */
    if (width == 64)
        columns_f16(12, 2, n, k, packed, b, scale, c);
    else
        columns_f16(16, 1, n, k, packed, b, scale, c);
    finish_panel(m, width, n, c, x_scale, bias, relu, y, ldy);
}

VECTOR_INSTRUCTION(vfmadd231ph, 2 * F16_LANES);

static const struct panels panels_bf16 = {
    .element = sizeof(uint16_t),
    .unit = F16_LANES,
    .most_rows = SIZE_MAX,
    .instruction = &vfmadd231ph,
    .pack = pack_f16,
    .prepare = prepare_bf16_pairs,
    .panel = panel_f16,
};
#define PANELS_BF16 &panels_bf16

extern const struct kernels kernels_avx512fp16, exact_avx512;
#define KERNELS_TABLE kernels_avx512fp16
#define EXACT_TABLE exact_avx512
#define KERNELS_NAME "avx512fp16"
#include "kernels_impl.h"
