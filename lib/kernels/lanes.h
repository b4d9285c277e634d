/* Basic functions of vectorised loops: loads and stores, sums and maxima of lanes, exp.  They are
 * static and use the vectors of vectors.h, so that each including file compiles them for its
 * processor. */
#ifndef TXL_LANES_H
#define TXL_LANES_H

#include "vectors.h"

#include <stddef.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

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

#endif
