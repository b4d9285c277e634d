/* Measures the packed products of every table of kernels on one thread, beside sgemm: the best of
 * many runs, since others may be working on the machine.
 *
 *   build/bench_packed_product [SECONDS]    for each shape and table */

#include "tests/kernels_at.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const struct {
    size_t m, n, k;
    bool a_transposed, b_transposed;
} shapes[] = {
    {2048, 960, 320, false, false}, /* a layer's product, */
    {2048, 1280, 320, false, false},  {2048, 320, 1280, false, false},
    {2048, 320, 960, false, true}, /* the gradient of its input, */
    {960, 320, 2048, true, true},  /* that of its weights; */
    {2048, 4096, 320, false, false},  {2048, 1536, 512, false, false},
    {1024, 4096, 1024, false, false}, {128, 256, 64, false, false}, /* attention's */
    {128, 64, 256, false, true},      {256, 64, 128, true, true},
};

struct work {
    const struct packed_product *product;
    size_t m, n, k;
    struct packed_source a, b;
    struct pack left, right;
    float *c;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pack_left(const struct work *w) {
    w->product->pack_left(&w->a, 0, w->m, &w->left);
}

static void pack_right(const struct work *w) {
    w->product->pack_right(&w->b, 0, w->n, &w->right);
}

static void multiply(const struct work *w) {
    enum { ROWS = 256, COLUMNS = 640 };
    for (size_t i = 0; i < w->m; i += ROWS) {
        for (size_t j = 0; j < w->n; j += COLUMNS)
            w->product->multiply(
                &w->left, &w->right,
                &(struct product_part){.k = w->k,
                                       .i_first = i,
                                       .i_end = i + ROWS < w->m ? i + ROWS : w->m,
                                       .j_first = j,
                                       .j_end = j + COLUMNS < w->n ? j + COLUMNS : w->n,
                                       .c = w->c,
                                       .ldc = w->n});
    }
}

static void sgemm(const struct work *w) {
    cblas_sgemm(CblasRowMajor, w->a.transposed ? CblasTrans : CblasNoTrans,
                w->b.transposed ? CblasNoTrans : CblasTrans, (int)w->m, (int)w->n, (int)w->k, 1,
                w->a.x, (int)w->a.ld, w->b.x, (int)w->b.ld, 0, w->c, (int)w->n);
}

/* The shortest time in seconds. */
static double best(void (*run)(const struct work *), const struct work *w, double seconds) {
    double least = 1e9;
    for (double start = now(); now() - start < seconds;) {
        double begun = now();
        run(w);
        double took = now() - begun;
        least = took < least ? took : least;
    }
    return least;
}

static void *numbers(size_t n, size_t size) {
    void *p = NULL;
    if (posix_memalign(&p, 2 << 20, n * size) != 0)
        exit(1);
    return p;
}

static float *random_floats(size_t n) {
    float *x = numbers(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return x;
}

/* `product` NULL: sgemm. */
static void measure(size_t s, const char *name, const struct packed_product *product,
                    double seconds) {
    size_t m = shapes[s].m, n = shapes[s].n, k = shapes[s].k;
    struct work w = {.m = m, .n = n, .k = k};
    w.a = (struct packed_source){random_floats(m * k), shapes[s].a_transposed ? m : k,
                                 shapes[s].a_transposed};
    w.b = (struct packed_source){random_floats(n * k), shapes[s].b_transposed ? n : k,
                                 shapes[s].b_transposed};
    w.c = random_floats(m * n);
    double work = 2e-9 * (double)m * (double)n * (double)k;
    printf("%4zu x %4zu x %4zu%s%s  ", m, n, k, w.a.transposed ? " A^T" : "",
           w.b.transposed ? " B^T" : "");
    if (!product) {
        printf("sgemm             %5.0f GFLOP/s\n", work / best(sgemm, &w, seconds));
    } else {
        w.product = product;
        w.left = (struct pack){numbers(pack_size(product, m, k), 1), k};
        w.right = (struct pack){numbers(pack_size(product, n, k), 1), k};
        double left = best(pack_left, &w, seconds), right = best(pack_right, &w, seconds);
        double both = best(multiply, &w, seconds);
        printf("%-12s %s %5.0f GFLOP/s, packed %4.1f and %4.1f GB/s, with both %5.0f GFLOP/s\n",
               name, product->element < sizeof(float) ? "bf16" : "f32 ", work / both,
               4e-9 * (double)(m * k) / left, 4e-9 * (double)(n * k) / right,
               work / (left + right + both));
        free(w.left.elements);
        free(w.right.elements);
    }
    free((float *)w.a.x);
    free((float *)w.b.x);
    free(w.c);
}

int main(int n_argument, char **argument) {
    double seconds = n_argument > 1 ? atof(argument[1]) : 0.2;
    openblas_set_num_threads(1);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        measure(s, NULL, NULL, seconds);
        for (size_t v = 0; kernels_at(v); v++) {
            const struct kernels *kernels = kernels_at(v);
            measure(s, kernels->name, kernels->bf16_product, seconds);
            if (kernels->f32_product)
                measure(s, kernels->name, kernels->f32_product, seconds);
        }
    }
}
