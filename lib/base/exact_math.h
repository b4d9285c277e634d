/* exp, log, sine and cosine in double that give the same bits with every compiler, processor and C
 * library: each is a fixed sequence of additions, multiplications and divisions, which IEEE 754
 * rounds in one way.  The files that use them are compiled with EXACT_ARGS (see meson.build).
 * weights-format.md writes the sequences down. */
#ifndef TXL_BASE_EXACT_MATH_H
#define TXL_BASE_EXACT_MATH_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "txl needs a processor that rounds every float and double to its own type"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "txl needs a little-endian processor"
#endif

/* e^x, within 1 unit in the last place; 0 below -708, infinity above 709. */
double exact_exp(double x);

/* The natural logarithm, within 2 units in the last place; x is positive and normal.  -infinity for
 * what is smaller, x for infinity and NaN. */
double exact_log(double x);

/* *s = sin(x), *c = cos(x), within 1e-15 for |x| up to 2^20. */
void exact_sin_cos(double x, double *s, double *c);

/* A multiplication and an addition that round once, for processors without such an instruction. */

typedef float fused_floats __attribute__((vector_size(8)));
typedef double fused_doubles __attribute__((vector_size(16)));
typedef int64_t fused_bits __attribute__((vector_size(16)));

/* a b + c in both lanes, rounded once.  The products are exact in double.  The sums are rounded to
 * odd there: a sum that is not exact gets the neighbour whose last bit is 1, so that rounding it
 * again to float does not round twice (Boldo & Melquiond 2008, "Emulation of FMA and correctly
 * rounded sums: proved algorithms using rounding to odd"). */
static inline fused_floats fused_multiply_add(fused_floats a, fused_floats b, fused_floats c) {
    fused_doubles product =
        __builtin_convertvector(a, fused_doubles) * __builtin_convertvector(b, fused_doubles);
    fused_doubles term = __builtin_convertvector(c, fused_doubles), sum = product + term;
    /* What the rounding of the sum left out (Knuth's TwoSum); NaN if the sum is not finite. */
    fused_doubles part = sum - product, rest = (product - (sum - part)) + (term - part);
    fused_bits bits = (fused_bits)sum, inexact = (rest < 0) | (rest > 0);
    fused_bits outwards = ~((rest > 0) ^ (sum > 0)), even = (bits & 1) - 1;
    bits += inexact & even & ((outwards & 2) - 1);
    return __builtin_convertvector((fused_doubles)bits, fused_floats);
}

#endif
