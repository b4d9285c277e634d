/* The type q8: each 64 consecutive elements of a row share a scale, and an element is that scale
 * times an integer from -127 to 127.  Kernels widen q8; the converter and random weights narrow to
 * it with these functions. */
#ifndef TXL_Q8_H
#define TXL_Q8_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
