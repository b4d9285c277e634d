/* Training's loops for x86-64 processors with AVX-512 (F, VL, BW, DQ). */
#define LANES 16
#define PROCESSOR avx512
#define MULTIPLY_WORDS(a, b) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#include "loops_impl.h"
