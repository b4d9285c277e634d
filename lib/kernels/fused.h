/* add_product: x y + sum in each lane, rounded once, on every kind of processor. */
#ifndef TXL_FUSED_H
#define TXL_FUSED_H

#include "loads.h"

#if LANES == 16

static inline vec add_product(vec x, vec y, vec sum) {
    return (vec)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)sum);
}

#elif LANES == 8

static inline vec add_product(vec x, vec y, vec sum) {
    return (vec)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
}

#elif defined(USE_NEON)

static inline vec add_product(vec x, vec y, vec sum) {
    return (vec)vfmaq_f32((float32x4_t)sum, (float32x4_t)x, (float32x4_t)y);
}

#else

#include "lib/base/exact_math.h"

/* A call costs little beside four products without a fused instruction; inlined in every loop they
 * take half a minute to compile. */
static __attribute__((noinline)) vec add_product(vec x, vec y, vec sum) {
    fused_floats low =
        fused_multiply_add(__builtin_shufflevector(x, x, 0, 1), __builtin_shufflevector(y, y, 0, 1),
                           __builtin_shufflevector(sum, sum, 0, 1));
    fused_floats high =
        fused_multiply_add(__builtin_shufflevector(x, x, 2, 3), __builtin_shufflevector(y, y, 2, 3),
                           __builtin_shufflevector(sum, sum, 2, 3));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3);
}

#endif

#define add_product add_product /* for multiply_impl.h */

#endif
