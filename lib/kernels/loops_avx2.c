/* Training's loops for x86-64 processors with AVX2 and FMA. */
#define LANES 8
#define PROCESSOR avx2
#define MULTIPLY_WORDS(a, b) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#include "loops_impl.h"
