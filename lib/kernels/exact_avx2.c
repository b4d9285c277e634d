/* The exact arithmetic for x86-64 processors with AVX2, FMA and F16C. */
#define LANES 8
#define PROCESSOR avx2
#include "fused.h"

enum { DOT_ROWS = 3 };

#include "exact_impl.h"
