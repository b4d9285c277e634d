/* Scalar conversions between f32 and the two 16-bit types, rounding to nearest even.  The kernels
 * have vector versions; these are for the converter, the tests and single elements. */
#ifndef TXL_HALF_H
#define TXL_HALF_H

#include <stdint.h>
#include <string.h>

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

#endif
