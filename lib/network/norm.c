/* Layer norm of the rows of a pass, divided among threads. */
#include "norm.h"
#include "lib/base/memory.h"

enum { NORM_BLOCK = 16 }; /* rows of a task */

struct norm_run {
    const struct compute *compute;
    const struct layer_norm *norm;
    size_t d_model;
    float epsilon;
    size_t n;
    const float *x, *y;
    float *out;
};

static void norm_task(void *context, int i, int thread) {
    (void)thread;
    const struct norm_run *z = context;
    size_t d_model = z->d_model, first = (size_t)i * NORM_BLOCK;
    for (size_t t = first; t < smaller(first + NORM_BLOCK, z->n); t++)
        z->compute->kernels->layer_norm(d_model, z->x + t * d_model,
                                        z->y ? z->y + t * d_model : NULL, z->norm->weight,
                                        z->norm->bias, z->epsilon, z->out + t * d_model);
}

void compute_norm(const struct compute *compute, const struct layer_norm *norm, size_t d_model,
                  double epsilon, size_t n, const float *x, const float *y, float *out) {
    struct norm_run z = {compute, norm, d_model, (float)epsilon, n, x, y, out};
    pool_run(compute->pool, (int)((n + NORM_BLOCK - 1) / NORM_BLOCK), norm_task, &z);
}
