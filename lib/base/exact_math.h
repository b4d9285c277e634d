/* exp, log, sine and cosine in double that give the same bits with every compiler, processor and C
 * library: each is a fixed sequence of additions, multiplications and divisions, which IEEE 754
 * rounds in one way.  The files that use them are compiled with EXACT_ARGS (see meson.build).
 * weights-format.md writes the sequences down. */
#ifndef TXL_EXACT_MATH_H
#define TXL_EXACT_MATH_H

#include <float.h>

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

#endif
