/* Weights in tiles for x86-64 processors with AVX-512 (F, VL, BW, DQ). */
#define LANES 16
#define PROCESSOR avx512
#include "tiles_impl.h"
