/* Elementary functions in double: range reduction, then Taylor's series, whose remainders are below
 * half a unit in the last place. */
#include "exact_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Adding it to a double below 2^51 in magnitude rounds that to the nearest integer, which the low
 * bits then hold. */
static const double ROUND = 0x1.8p52;

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ln 2 in two parts.  The first ends in zeros, so that its product with an exponent is exact. */
static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;

/* The sum of c[i] x^i, from the highest power down. */
static double polynomial(const double *c, int n, double x) {
    double p = c[n - 1];
    for (int i = n - 2; i >= 0; i--)
        p = p * x + c[i];
    return p;
}

double exact_exp(double x) {
    static const double c[] = {1.0,
                               1.0,
                               1.0 / 2,
                               1.0 / 6,
                               1.0 / 24,
                               1.0 / 120,
                               1.0 / 720,
                               1.0 / 5040,
                               1.0 / 40320,
                               1.0 / 362880,
                               1.0 / 3628800,
                               1.0 / 39916800,
                               1.0 / 479001600,
                               1.0 / 6227020800.0};
    if (x != x)
        return x;
    if (x < -708)
        return 0;
    if (x > 709)
        return INFINITY;
    double shifted = x * 0x1.71547652b82fep0 + ROUND, n = shifted - ROUND;
    double r = x - n * LN2_HIGH;
    r = r - n * LN2_LOW;
    double p = polynomial(c, sizeof c / sizeof *c, r);
    return double_of(bits_of(p) + ((bits_of(shifted) - bits_of(ROUND)) << 52));
}

double exact_log(double x) {
    /* log m = 2 atanh f = 2 (f + f^3 / 3 + ..), f = (m - 1) / (m + 1) */
    static const double c[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                               2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
    if (x != x || x == INFINITY)
        return x;
    if (x < DBL_MIN)
        return -INFINITY;
    /* x = 2^n m with m from sqrt(1 / 2) to sqrt(2) */
    uint64_t bits = bits_of(x) - bits_of(0x1.6a09e667f3bcdp-1);
    int64_t n = (int64_t)(bits >> 52);
    n = n >= 2048 ? n - 4096 : n; /* the sign of the difference */
    double m = double_of(bits_of(x) - ((uint64_t)n << 52));
    double f = (m - 1) / (m + 1), low = (double)n * LN2_LOW;
    double sum = f * polynomial(c, sizeof c / sizeof *c, f * f);
    return (double)n * LN2_HIGH + (sum + low);
}

void exact_sin_cos(double x, double *s, double *c) {
    static const double sine[] = {
        1.0,          -1.0 / 6,        1.0 / 120,          -1.0 / 5040,
        1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800.0, -1.0 / 1307674368000.0};
    static const double cosine[] = {1.0,
                                    -1.0 / 2,
                                    1.0 / 24,
                                    -1.0 / 720,
                                    1.0 / 40320,
                                    -1.0 / 3628800,
                                    1.0 / 479001600,
                                    -1.0 / 87178291200.0,
                                    1.0 / 20922789888000.0};
    /* x = n pi / 2 + r.  The first two parts of pi / 2 end in zeros. */
    double shifted = x * 0x1.45f306dc9c883p-1 + ROUND, n = shifted - ROUND;
    double r = x - n * 0x1.921fb544p0;
    r = r - n * 0x1.0b4611a6p-34;
    r = r - n * 0x1.3198a2e037073p-69;
    double square = r * r;
    double y = r * polynomial(sine, sizeof sine / sizeof *sine, square);
    double z = polynomial(cosine, sizeof cosine / sizeof *cosine, square);
    uint64_t quarter = bits_of(shifted) & 3;
    double a = quarter & 1 ? z : y, b = quarter & 1 ? y : z;
    *s = quarter & 2 ? -a : a;
    *c = quarter == 1 || quarter == 2 ? -b : b;
}
