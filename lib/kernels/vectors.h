/* The vector types of the kernels: LANES floats, and as many 32-bit integers. */
#ifndef TXL_VECTORS_H
#define TXL_VECTORS_H

#include "half.h"

#include <stdint.h>

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef int32_t ivec __attribute__((vector_size(LANES * 4)));

#endif
