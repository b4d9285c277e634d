/* The exact arithmetic for x86-64 processors with AVX2, FMA and F16C. */
#define LANES 8
#define PROCESSOR avx2
#include "loads.h"

enum { DOT_ROWS = 3 };

static inline vec add_product(vec x, vec y, vec sum) {
    return (vec)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
}
#define add_product add_product

#include "exact_impl.h"
