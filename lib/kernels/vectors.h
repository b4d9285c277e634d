/* The vector types of the kernels: LANES floats, and as many 32-bit integers of either kind. */
#ifndef TXL_VECTORS_H
#define TXL_VECTORS_H

#include "lib/base/numbers.h"

#include <stdint.h>

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

#endif
