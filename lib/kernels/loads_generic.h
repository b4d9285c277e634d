/* Loads and stores of narrow elements in C. */
#define LANES 4
#include "vectors.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h> /* every x86-64 has it */
#endif

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

/* Lane i of the result: the products of elements 2 i and 2 i + 1, added. */
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
