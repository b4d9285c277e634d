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
 * bits, and an element is kept where it is not below `threshold`. */
struct dropout {
    uint32_t key[2];
    uint32_t step;
    uint32_t threshold; /* 65536 p; 0: nothing is dropped */
    float scale;        /* of what is kept: 1 / (1 - p) */
};

enum { DROPOUT_GROUP = 128 }; /* elements that share their draws' counters */

/* One step of Adam (Kingma and Ba 2015, algorithm 1). */
struct adam {
    float clip;           /* what gradients are multiplied by first */
    float beta_1, beta_2; /* of the moments, */
    float gain_1, gain_2; /* 1 - beta, computed in float64: in f32 it would be far less exact */
    float rate;           /* the learning rate / (1 - beta_1^t) */
    float correction;     /* 1 / sqrt(1 - beta_2^t) */
    float epsilon;
};

struct loops {
    const char *name; /* as the table of lib/kernels that it goes with */

    /* x[n] += y[n]. */
    void (*add)(size_t n, const float *y, float *x);

    /* x[n] = max(0, x + bias). */
    void (*bias_relu)(size_t n, const float *bias, float *x);

    /* The gradient through bias_relu and a dropout of factor `scale`: y[n] is what came of both,
     * dy[n] becomes the gradient before them. */
    void (*relu_gradient)(size_t n, const float *y, float scale, float *dy);

    /* sum[n] += the rows x[rows, n] with row stride ldx, in their order. */
    void (*sum_rows)(size_t rows, size_t n, const float *x, size_t ldx, float *sum);

    /* x[n], of which the first is element `first`, a multiple of DROPOUT_GROUP, of the row. */
    void (*drop)(const struct dropout *dropout, uint32_t place, uint32_t row, size_t first,
                 size_t n, float *x);

    /* s[n] = softmax(scale (s + position)). */
    void (*softmax)(size_t n, const float *position, float scale, float *s);

    /* The gradient through it: a[n] is the softmax, da[n] becomes scale a (da - sum a da). */
    void (*softmax_gradient)(size_t n, const float *a, float scale, float *da);

    /* The nats of `target` in the softmax of the logits x[n], which become their gradient times
     * `scale`: scale (softmax(x) - [i = target]). */
    float (*cross_entropy)(size_t n, size_t target, float scale, float *x);

    /* out[n] = layer norm of x[n]; *mean and *inverse (1 / deviation) are for its gradient. */
    void (*norm)(size_t n, const float *x, const float *weight, const float *bias, float *out,
                 float *mean, float *inverse);

    /* The gradient of it: dx[n] from dy[n], which may be the same; `add` keeps what is in dx.
     * dx NULL: only of the parameters, dweight[n] and dbias[n], which are added to. */
    void (*norm_gradient)(size_t n, const float *x, float mean, float inverse, const float *weight,
                          const float *dy, bool add, float *dx, float *dweight, float *dbias);

    /* The sum of x[n] squared. */
    double (*squares)(size_t n, const float *x);

    /* One step of n parameters: gradient g, weight w, moments m and v. */
    void (*adam)(const struct adam *adam, size_t n, const float *g, float *w, float *m, float *v);
};

/* The table that goes with those kernels. */
const struct loops *loops_choose(const struct kernels *kernels);

#endif
