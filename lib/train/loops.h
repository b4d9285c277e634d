/* The loops of training over the elements of rows, one table for each kind of processor as in
 * lib/kernels.  One table always gives the same bits; two tables differ by float rounding, but draw
 * the same dropout. */
#ifndef TXL_TRAIN_LOOPS_H
#define TXL_TRAIN_LOOPS_H

#include "lib/kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Dropout's draws come from the counter-based generator of random.h: its key is the seed, its
 * counter a block of elements, their row, the place in the network and the step.  A draw has 16
 * bits, and an element is kept unless its draw is below `threshold`. */
struct dropout {
    uint32_t key[2];
    uint32_t step;
    uint32_t threshold; /* 65536 p; 0: nothing is dropped */
    float scale;        /* of the elements that are kept: 1 / (1 - p) */
};

enum { DROPOUT_GROUP = 128 }; /* elements that share their draws' counters */

/* One step of Adam (Kingma and Ba 2015, algorithm 1). */
struct adam {
    float clip;           /* gradients are multiplied by it first */
    float beta_1, beta_2; /* decay of the moments */
    float gain_1, gain_2; /* 1 - beta, computed in float64 because f32 would be far less exact */
    float rate;           /* the learning rate / (1 - beta_1^t) */
    float correction;     /* 1 / sqrt(1 - beta_2^t) */
    float epsilon;
};

/* w -= rate g / (sqrt(s) + epsilon) + min(1, decay sqrt(s)) (w - first), with w before the step
 * (Krause et al. 2019; the published code has no limit of 1). */
struct rms {
    float rate, decay, epsilon;
};

struct loops {
    const char *name; /* the name of the table of lib/kernels that it goes with */

    /* x[n] += y[n]. */
    void (*add)(size_t n, const float *y, float *x);

    /* x[n] = max(0, x + bias). */
    void (*bias_relu)(size_t n, const float *bias, float *x);

    /* The gradient through bias_relu and a dropout of factor `scale`: y[n] is their result; dy[n],
     * its gradient, becomes that of the input. */
    void (*relu_gradient)(size_t n, const float *y, float scale, float *dy);

    /* sum[n] += the rows x[rows, n] with row stride ldx, in their order. */
    void (*sum_rows)(size_t rows, size_t n, const float *x, size_t ldx, float *sum);

    /* Applies dropout to x[n], which are the elements of a row from `first` on, a multiple of
     * DROPOUT_GROUP. */
    void (*drop)(const struct dropout *dropout, uint32_t place, uint32_t row, size_t first,
                 size_t n, float *x);

    /* s[n] = softmax(scale (s + position)). */
    void (*softmax)(size_t n, const float *position, float scale, float *s);

    /* The gradient through the softmax: a[n] is its result; da[n] becomes scale a (da - sum a
     * da). */
    void (*softmax_gradient)(size_t n, const float *a, float scale, float *da);

    /* Returns the nats of `target` in the softmax of the logits x[n].  x becomes the gradient times
     * `scale`: scale (softmax(x) - [i = target]). */
    float (*cross_entropy)(size_t n, size_t target, float scale, float *x);

    /* out[n] = layer norm of x[n]; *mean and *inverse (1 / deviation) are for its gradient. */
    void (*norm)(size_t n, const float *x, const float *weight, const float *bias, float epsilon,
                 float *out, float *mean, float *inverse);

    /* The gradient of the layer norm: dx[n] from dy[n], which may be the same array; `add`: it is
     * added to dx.  The parameters' gradients are added to dweight[n] and dbias[n].  dx NULL: only
     * those. */
    void (*norm_gradient)(size_t n, const float *x, float mean, float inverse, const float *weight,
                          const float *dy, bool add, float *dx, float *dweight, float *dbias);

    /* The sum of x[n] squared. */
    double (*squares)(size_t n, const float *x);

    /* sum[n] += x[n] squared. */
    void (*add_squares)(size_t n, const float *x, float *sum);

    /* w[n] -= rate g. */
    void (*descend)(size_t n, float rate, const float *g, float *w);

    /* One step of dynamic evaluation of n parameters: gradient g, weight w, what it was at first,
     * sum of squared gradients s. */
    void (*rms)(const struct rms *rms, size_t n, const float *g, const float *first, const float *s,
                float *w);

    /* One step of n parameters: gradient g, weight w, moments m and v. */
    void (*adam)(const struct adam *adam, size_t n, const float *g, float *w, float *m, float *v);
};

/* The table that goes with the kernels. */
const struct loops *loops_choose(const struct kernels *kernels);

#endif
