/* Layer norm of the rows of a pass, divided among threads. */
#ifndef TXL_NORM_H
#define TXL_NORM_H

#include "compute.h"

struct layer_norm {
    const float *weight, *bias; /* [d_model] */
};

/* out[n, d_model] = LayerNorm(x + y), the rows divided among the threads.  y may be NULL, and out
 * may be x. */
void compute_norm(const struct compute *compute, const struct layer_norm *norm, size_t d_model,
                  double epsilon, size_t n, const float *x, const float *y, float *out);

#endif
