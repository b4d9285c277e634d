/* The exact arithmetic for x86-64 processors with AVX-512 (F, VL, BW, DQ). */
#define LANES 16
#define PROCESSOR avx512
#include "fused.h"

enum { DOT_ROWS = 6 };

#include "exact_impl.h"
