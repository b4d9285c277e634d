/* Numbers: little-endian integers, 16-bit floats, the 8-bit type q8, and random numbers. */
#ifndef TXL_BASE_NUMBERS_H
#define TXL_BASE_NUMBERS_H

#include "txl.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Little-endian integers at any alignment, on any machine. */
static inline uint16_t read_u16(const unsigned char *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t read_u32(const unsigned char *at) {
    return read_u16(at) | (uint32_t)read_u16(at + 2) << 16;
}

static inline uint64_t read_u64(const unsigned char *at) {
    return read_u32(at) | (uint64_t)read_u32(at + 4) << 32;
}

/* Scalar conversions between f32 and the two 16-bit types, rounding to nearest even.  The kernels
 * have vector versions; these are for the converter, the tests and single elements. */

static inline float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of_bf16(uint16_t h) {
    return float_of_bits((uint32_t)h << 16);
}

/* `x` must not be NaN. */
static inline uint16_t bf16_of_float(float x) {
    uint32_t bits = bits_of_float(x);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float float_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00) /* infinity and NaN */
        return float_of_bits(sign | 0x7f800000 | magnitude << 13);
    /* The exponent is rebiased by a multiplication, which is exact for subnormals too. */
    float x = float_of_bits(magnitude << 13) * 0x1p112f;
    return float_of_bits(sign | bits_of_float(x));
}

/* A magnitude of 65520 and more becomes infinity. */
static inline uint16_t f16_of_float(float x) {
    uint32_t bits = bits_of_float(x);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits >= 0x477ff000)
        return sign | 0x7c00;
    if (bits < 0x38800000) { /* below 2^-14: let the float adder round to a multiple of 2^-24 */
        float shifted = float_of_bits(bits) + 0.5f;
        return sign | (uint16_t)(bits_of_float(shifted) - 0x3f000000);
    }
    return sign | (uint16_t)((bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13);
}

/* The type q8: each 64 consecutive elements of a row share a scale, and an element is that scale
 * times an integer from -127 to 127.  Kernels widen q8; the converter and random weights narrow to
 * it with these functions. */

enum { Q8_BLOCK = 64, Q8_MAX = 127 };

/* The number of scales in a row; its last block may be short. */
static inline size_t q8_blocks(size_t n_col) {
    return (n_col + Q8_BLOCK - 1) / Q8_BLOCK;
}

/* The scale of the block x[n]. */
static inline float q8_scale(const float *x, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most / Q8_MAX;
}

/* The integer nearest to x / scale, halves to even, clamped to -127..127: rounding alone exceeds
 * these only where the scale is subnormal. */
static inline int8_t q8_of_float(float x, float scale) {
    float q = scale > 0 ? rintf(x / scale) : 0;
    return (int8_t)(q > Q8_MAX ? Q8_MAX : q < -Q8_MAX ? -Q8_MAX : q);
}

/* Philox4x32-10, a counter-based random generator: Salmon, Moraes, Dror and Shaw 2011, "Parallel
 * random numbers: as easy as 1, 2, 3". */

/* Computes the generator's block of four words for a counter and a key. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Uniform in [0, 1), in steps of 2^-53; moves on by one draw. */
double random_uniform(txl_random *random);

#endif
