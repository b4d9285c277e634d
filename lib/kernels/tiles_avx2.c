/* Weights in tiles for x86-64 processors with AVX2, FMA and F16C. */
#define LANES 8
#define PROCESSOR avx2
#include "tiles_impl.h"
