/* The exact arithmetic for x86-64 processors with AVX-512 (F, VL, BW, DQ). */
#define LANES 16
#define PROCESSOR avx512
#include "loads.h"

enum { DOT_ROWS = 6 };

static inline vec add_product(vec x, vec y, vec sum) {
    return (vec)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)sum);
}
#define add_product add_product

#include "exact_impl.h"
