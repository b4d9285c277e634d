/* What the bodies of the tables share: the vector types, LANES floats and as many 32-bit integers
 * of either kind; loads and stores, sums and maxima of lanes, exp; transposing, prefetching, and
 * the last step of a product.  All is static, so that each file compiles it for its processor.  The
 * build gives LANES and PROCESSOR, the part of the tables' names. */
#ifndef TXL_VECTORS_H
#define TXL_VECTORS_H

#include "kernels.h"
#include "lib/base/numbers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#define JOIN_NAMES(kind, processor) kind##_##processor
#define NAME_TABLE(kind, processor) JOIN_NAMES(kind, processor)
#define TABLE(kind) NAME_TABLE(kind, PROCESSOR) /* kernels_avx2, exact_avx2, loops_avx2 */
#define SPELL(name) #name
#define SPELL_PROCESSOR(processor) SPELL(processor)
#define KERNELS_NAME SPELL_PROCESSOR(PROCESSOR)

#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef float vec4 __attribute__((vector_size(16)));
typedef float vec8 __attribute__((vector_size(32)));
typedef int32_t ivec __attribute__((vector_size(LANES * 4)));
typedef uint32_t uvec __attribute__((vector_size(LANES * 4)));

/* x in every lane, spelled out because compilers know this form as one instruction. */
static inline vec splat(float x) {
#if LANES == 16
    return (vec){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif LANES == 8
    return (vec){x, x, x, x, x, x, x, x};
#else
    return (vec){x, x, x, x};
#endif
}

/* ---- Lanes ------------------------------------------------------------------------------- */

static inline vec load_f32(const float *p) {
    vec x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline void store_f32(float *p, vec x) {
    memcpy(p, &x, sizeof x);
}

/* mask ? a : b, where mask is all ones or all zeros in each lane. */
static inline vec choose(ivec mask, vec a, vec b) {
    return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}

/* a > b ? a : b in each lane, so b where one is NaN. */
static inline vec larger(vec a, vec b) {
#if LANES == 16 && defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8 && defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return choose(a > b, a, b);
#endif
}

/* The lanes' sum and maximum, by adding the upper half to the lower one again and again. */
static inline float sum_lanes(vec x) {
#if LANES == 16
    vec8 half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
#elif LANES == 8
    vec8 half = x;
#endif
#if LANES >= 8
    vec4 quarter = __builtin_shufflevector(half, half, 0, 1, 2, 3) +
                   __builtin_shufflevector(half, half, 4, 5, 6, 7);
#else
    vec4 quarter = x;
#endif
    quarter += __builtin_shufflevector(quarter, quarter, 2, 3, 0, 1);
    return quarter[0] + quarter[1];
}

static inline float max_lanes(vec x) {
#if LANES == 16
    x = larger(x,
               __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    x = larger(x,
               __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
#elif LANES == 8
    x = larger(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3));
#endif
    float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
    return a > b ? a : b;
}

/* exp(x) for x <= 88, within 2 units in the last place; below -87 it is about e^-87.
 * x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its Taylor polynomial, nearly minimax there. */
static inline vec exp_lanes(vec x) {
    const vec lowest = splat(-87.0f);
    x = larger(x, lowest);
    const float round = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    vec shifted = x * splat(0x1.715476p0f) + splat(round);
    vec n = shifted - splat(round);
    vec r = x - n * splat(0x1.62e4p-1f);
    r = r - n * splat(0x1.7f7d1cp-20f);
    vec p = splat(1.0f / 720);
    p = p * r + splat(1.0f / 120);
    p = p * r + splat(1.0f / 24);
    p = p * r + splat(1.0f / 6);
    p = p * r + splat(0.5f);
    p = p * r + splat(1.0f);
    p = p * r + splat(1.0f);
    /* Unsigned, because a caller may drop lanes that overflow. */
    uvec exponent = ((uvec)shifted - (uvec)splat(round)) << 23;
    return (vec)((uvec)p + exponent);
}

/* The n < LANES elements at p, and `fill` in the other lanes. */
static inline vec load_tail(const float *p, size_t n, float fill) {
    float lane[LANES];
    for (size_t i = 0; i < LANES; i++)
        lane[i] = i < n ? p[i] : fill;
    return load_f32(lane);
}

static inline void store_tail(float *p, size_t n, vec x) {
    memcpy(p, &x, n * sizeof *p);
}

/* x[i] = exp(x[i] - max), or zero if that is below `least`; returns the sum of the exponentials. */
static inline float exp_in_place(size_t n, float *x, float max, float least) {
    vec sum = {0}, shift = splat(max), bound = splat(least);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec e = exp_lanes(load_f32(x + i) - shift);
        store_f32(x + i, choose(e < bound, splat(0), e));
        sum += e;
    }
    float total = sum_lanes(sum);
    if (i < n) {
        store_tail(x + i, n - i, exp_lanes(load_tail(x + i, n - i, max) - shift));
        for (; i < n; i++) {
            total += x[i];
            x[i] = x[i] < least ? 0 : x[i];
        }
    }
    return total;
}

/* ---- Prefetching ------------------------------------------------------------------------- */

/* How many bytes ahead what is read once is prefetched, and into which caches: 3 all, 2 those
 * beyond the first.  One distance suits every type; the including file may define both. */
#if !defined(AHEAD)
#define AHEAD 3072
#define AHEAD_LOCALITY 3
#endif

/* Weights are read once.  The processor's own prefetching falls behind when they are narrow or are
 * multiplied by several rows. */
static inline void prefetch(const void *p) {
    __builtin_prefetch((const char *)p + AHEAD, 0, AHEAD_LOCALITY);
}

/* Prefetches the next tile of C, so that it is in the cache when its sums are stored: at most
 * `most` rows from row `row` on, and none from `end` on.  `c` is the address of row `row`. */
static inline void fetch_tile(size_t most, float *c, size_t row, size_t end, size_t columns,
                              size_t ldc) {
    end = end < row + most ? end : row + most;
    for (; row < end; row++, c += ldc)
        for (size_t i = 0; i < columns; i += 16)
            __builtin_prefetch(c + i, 1);
}

/* ---- Transposing ------------------------------------------------------------------------- */

/* Operands are stored by rows and packed by columns: squares of LANES rows are transposed. */

/* One stage swaps the upper right and the lower left quarter of every square of 2 d lanes.  UPPER
 * and LOWER say from which of the two rows' lanes lane j of the upper and of the lower row
 * comes. */
#define UPPER(j, d) ((j) & (d) ? LANES + (j) - (d) : (j))
#define LOWER(j, d) ((j) & (d) ? LANES + (j) : (j) + (d))
#define FOUR_LANES(F, j, d) F(j, d), F(j + 1, d), F(j + 2, d), F(j + 3, d)
#if LANES == 16
#define EVERY_LANE(F, d)                                                                           \
    FOUR_LANES(F, 0, d), FOUR_LANES(F, 4, d), FOUR_LANES(F, 8, d), FOUR_LANES(F, 12, d)
#elif LANES == 8
#define EVERY_LANE(F, d) FOUR_LANES(F, 0, d), FOUR_LANES(F, 4, d)
#else
#define EVERY_LANE(F, d) FOUR_LANES(F, 0, d)
#endif

#define TRANSPOSE_STAGE(rows, d)                                                                   \
    for (int i = 0; i < LANES; i++) {                                                              \
        if (!(i & (d))) {                                                                          \
            vec upper = rows[i], lower = rows[i + (d)];                                            \
            rows[i] = __builtin_shufflevector(upper, lower, EVERY_LANE(UPPER, d));                 \
            rows[i + (d)] = __builtin_shufflevector(upper, lower, EVERY_LANE(LOWER, d));           \
        }                                                                                          \
    }

static inline __attribute__((always_inline)) void transpose(vec rows[LANES]) {
#if LANES == 16
    UNROLL TRANSPOSE_STAGE(rows, 8)
#endif
#if LANES >= 8
        UNROLL
        TRANSPOSE_STAGE(rows, 4)
#endif
            UNROLL
            TRANSPOSE_STAGE(rows, 2) UNROLL
            TRANSPOSE_STAGE(rows, 1)
}

/* The n <= LANES floats at p, and zero in the other lanes. */
static inline vec load_some(const float *p, size_t n) {
    vec x = {0};
    if (n == LANES)
        memcpy(&x, p, sizeof x);
    else
        memcpy(&x, p, n * sizeof *p);
    return x;
}

static inline void store_some(float *p, size_t n, vec x) {
    if (n == LANES)
        memcpy(p, &x, sizeof x);
    else
        memcpy(p, &x, n * sizeof *p);
}

/* out[j][i] = in[i][j] for i < n_row and j < n_col, both at most LANES; the rest of out is zero. */
static inline __attribute__((always_inline)) void
transpose_part(const float *in, size_t stride, size_t n_row, size_t n_col, vec out[LANES]) {
    if (n_row == LANES && n_col == LANES)
        UNROLL for (size_t i = 0; i < LANES; i++) out[i] = load_some(in + i * stride, LANES);
    else
        for (size_t i = 0; i < LANES; i++)
            out[i] = i < n_row ? load_some(in + i * stride, n_col) : splat(0);
    transpose(out);
}

/* Interleaves n rows of `bytes` by four bytes: the first four of all rows, then the next four, and
 * so on.  Rows are filled up to a multiple of 4 LANES bytes with zeros, their number to LANES. */
static inline void interleave_rows(size_t n, size_t bytes, const void *in, void *out) {
    const size_t width = (n + LANES - 1) / LANES * LANES;
    for (size_t first = 0; first < n; first += LANES) {
        for (size_t i = 0; i < bytes; i += sizeof(vec)) {
            const char *from = (const char *)in + first * bytes + i;
            size_t left = bytes - i < sizeof(vec) ? bytes - i : sizeof(vec);
            vec part[LANES];
            if (n - first >= LANES && left == sizeof(vec)) {
                UNROLL for (size_t r = 0; r < LANES; r++)
                    memcpy(&part[r], from + r * bytes, sizeof(vec));
            } else {
                for (size_t r = 0; r < LANES; r++) {
                    part[r] = splat(0);
                    if (first + r < n)
                        memcpy(&part[r], from + r * bytes, left);
                }
            }
            transpose(part);
            UNROLL for (size_t j = 0; j < LANES; j++) memcpy(
                (float *)out + (i / sizeof(float) + j) * width + first, &part[j], sizeof(vec));
        }
    }
}

/* ---- The last step of a product: scale, bias and ReLU, and rows again where they are columns  */

/* Prefetches part i of `parts` of Y[m, n], which finish_panel will write, while the sums are made.
 */
static inline void fetch_part(size_t i, size_t parts, size_t m, size_t n, float *y, size_t ldy) {
    for (size_t t = i * m / parts; t < (i + 1) * m / parts; t++)
        for (size_t j = 0; j < n; j += 64 / sizeof *y)
            __builtin_prefetch(y + t * ldy + j, 1);
}

/* Stores n <= LANES elements of x, or of max(0, x) if `relu`; NaN stays. */
static inline void store_activated(float *y, size_t n, vec x, bool relu) {
    if (relu)
        x = (vec)((ivec)x & ~(x < splat(0)));
    store_some(y, n, x);
}

/* Y[m, n] = act(scale C^T + bias) for the sums C[n, width] of a panel; width >= m is a multiple of
 * LANES. scale[width] and bias[n] may be NULL; act is max(0, .) if `relu`. */
static inline void finish_panel(size_t m, size_t width, size_t n, const float *c,
                                const float *scale, const float *bias, bool relu, float *y,
                                size_t ldy) {
    for (size_t j = 0; j < n; j += LANES) {
        size_t columns = n - j < LANES ? n - j : LANES;
        vec add = bias ? load_some(bias + j, columns) : splat(0);
        for (size_t first = 0; first < m; first += LANES) {
            vec rows[LANES];
            transpose_part(c + j * width + first, width, columns, LANES, rows);
            size_t left = m - first < LANES ? m - first : LANES;
            for (size_t t = 0; t < left; t++) {
                vec sum = rows[t] * splat(scale ? scale[first + t] : 1) + add;
                store_activated(y + (first + t) * ldy + j, columns, sum, relu);
            }
        }
    }
}

/* Y[m, n] = act(C + bias) for sums C[m, ldc]. */
static inline void finish_rows(size_t m, size_t n, const float *c, size_t ldc, const float *bias,
                               bool relu, float *y, size_t ldy) {
    for (size_t j = 0; j < n; j += LANES) {
        size_t columns = n - j < LANES ? n - j : LANES;
        vec add = bias ? load_some(bias + j, columns) : splat(0);
        for (size_t r = 0; r < m; r++) {
            vec sum = load_some(c + r * ldc + j, LANES) + add;
            store_activated(y + r * ldy + j, columns, sum, relu);
        }
    }
}

/* ---- Peaks ------------------------------------------------------------------------------- */

/* An instruction of the processor that multiplies and adds, to be repeated with operands in
 * registers: its peak limits a product. */

enum { REPEATED_SUMS = 16 }; /* independent sums, which hide the instruction's latency */

/* Defines the instruction `name` of vectors of the lanes' size, which does `n` operations, two for
 * each product.  Every operand is zero: no sum overflows. */
#define VECTOR_INSTRUCTION(name, n)                                                                \
    static void repeat_##name(size_t rounds) {                                                     \
        vec sum[REPEATED_SUMS] = {{0}}, x = {0}, y = {0};                                          \
        for (; rounds > 0; rounds--)                                                               \
            UNROLL for (int i = 0; i < REPEATED_SUMS; i++) __asm__ volatile(                       \
                #name " %2, %1, %0" : "+v"(sum[i]) : "v"(x), "v"(y));                              \
    }                                                                                              \
    static const struct instruction name = {#name, REPEATED_SUMS * (n), repeat_##name}

#endif
