/* Weights in tiles for x86-64 processors with AVX-512 and its VNNI extension. */
#define LANES 16
#define PROCESSOR avx512vnni
#include "tiles_impl.h"
