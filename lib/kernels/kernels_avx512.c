/* Kernels for x86-64 processors with AVX-512 (F, VL, BW, DQ). */
#include "loads_avx512.h"

extern const struct kernels kernels_avx512, exact_avx512;
#define KERNELS_TABLE kernels_avx512
#define EXACT_TABLE exact_avx512
#define KERNELS_NAME "avx512"
#include "kernels_impl.h"
