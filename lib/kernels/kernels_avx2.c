/* Kernels for x86-64 processors with AVX2, FMA and F16C. */
#include "loads_avx2.h"

extern const struct kernels kernels_avx2, exact_avx2;
#define KERNELS_TABLE kernels_avx2
#define EXACT_TABLE exact_avx2
#define KERNELS_NAME "avx2"
#include "kernels_impl.h"
