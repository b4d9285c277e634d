/* Products of activations with weights, divided among threads.  Few rows of activations are a
 * stream of weights through the kernels; many are an sgemm for each block of weights, which is
 * widened to f32 first where it is narrower. */
#include "compute.h"
#include "error.h"

#include <cblas.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    BLAS_BUFFER = 1 << 27, /* bytes that OpenBLAS maps for each thread */
    FEW_ROWS = 8,          /* up to so many rows of activations the kernels are faster than sgemm */
    STREAM_BLOCK = 64,     /* rows of weights in a task, then */
    SGEMM_BLOCK = 512,     /* at most, otherwise */
    /* and so many elements of weights, about half of a second-level cache */
    SGEMM_ELEMENTS = 1 << 19
};

/* OpenBLAS maps a buffer for each thread that calls it, and tries for ever when it cannot: so it is
 * tried here first. */
static txl_status check_blas_memory(int n_thread, txl_error *error) {
    size_t size = (size_t)n_thread * ((size_t)BLAS_BUFFER + 4096);
    void *trial = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (trial == MAP_FAILED)
        return txl_fail_memory(error, "OpenBLAS", size);
    munmap(trial, size);
    return TXL_OK;
}

txl_status compute_open(struct compute *compute, const struct kernels *kernels, int threads,
                        size_t scratch_size, txl_error *error) {
    *compute = (struct compute){.kernels = kernels, .scratch_size = scratch_size};
    compute->pool = pool_new(threads);
    if (!compute->pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    txl_status status = check_blas_memory(pool_size(compute->pool), error);
    if (status)
        return status;
    size_t n = (size_t)pool_size(compute->pool);
    compute->scratch = calloc(n, sizeof *compute->scratch);
    for (size_t i = 0; i < n; i++) {
        size_t size = (scratch_size * sizeof(float) + 63) / 64 * 64;
        if (!compute->scratch || !(compute->scratch[i] = aligned_alloc(64, size)))
            return txl_fail_memory(error, "scratch", n * size);
    }
    return TXL_OK;
}

void compute_close(struct compute *compute) {
    for (int i = 0; compute->scratch && i < pool_size(compute->pool); i++)
        free(compute->scratch[i]);
    free(compute->scratch);
    pool_free(compute->pool);
}

size_t compute_block_rows(const struct matrix *w) {
    size_t rows = SGEMM_ELEMENTS / w->n_col / 16 * 16;
    return rows < 16 ? 16 : rows > SGEMM_BLOCK ? SGEMM_BLOCK : rows;
}

size_t compute_scratch(const struct matrix *w, size_t n_x) {
    size_t rows = compute_block_rows(w);
    size_t widened = w->type == WEIGHTS_F32 || n_x <= FEW_ROWS ? 0 : rows * w->n_col;
    return widened + n_x * rows;
}

void compute_widen(const struct compute *compute, const struct matrix *w, size_t first, size_t n,
                   float *out) {
    struct matrix rows = matrix_rows(w, first, n);
    compute->kernels->widen[w->type](rows.data, rows.scale, n, w->n_col, out);
}

static void finish_block(size_t n_x, size_t n, const float *bias, enum activation activation,
                         float *y, size_t ldy) {
    for (size_t t = 0; t < n_x; t++) {
        float *row = y + t * ldy;
        for (size_t i = 0; bias && i < n; i++)
            row[i] += bias[i];
        for (size_t i = 0; activation == RELU && i < n; i++)
            row[i] = row[i] > 0 ? row[i] : 0;
    }
}

void compute_product_block(const struct compute *compute, int thread, size_t n_x, const float *x,
                           size_t ldx, const struct matrix *w, size_t first, size_t n,
                           const float *bias, enum activation activation, float *y, size_t ldy) {
    struct matrix rows = matrix_rows(w, first, n);
    if (n_x <= FEW_ROWS) {
        compute->kernels->product[w->type](n_x, n, w->n_col, x, ldx, rows.data, rows.scale, y, ldy);
    } else {
        const float *wide = rows.data;
        if (w->type != WEIGHTS_F32) {
            wide = compute->scratch[thread];
            compute_widen(compute, w, first, n, compute->scratch[thread]);
        }
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n_x, (int)n, (int)w->n_col, 1, x,
                    (int)ldx, wide, (int)w->n_col, 0, y, (int)ldy);
    }
    finish_block(n_x, n, bias ? bias + first : NULL, activation, y, ldy);
}

struct product {
    const struct compute *compute;
    size_t n_x, ldx, ldy, block;
    const float *x, *bias;
    const struct matrix *w;
    enum activation activation;
    float *y;
};

static void product_task(void *context, int i, int thread) {
    const struct product *p = context;
    size_t first = (size_t)i * p->block, left = p->w->n_row - first;
    size_t n = left < p->block ? left : p->block;
    compute_product_block(p->compute, thread, p->n_x, p->x, p->ldx, p->w, first, n, p->bias,
                          p->activation, p->y + first, p->ldy);
}

void compute_product(const struct compute *compute, size_t n_x, const float *x, size_t ldx,
                     const struct matrix *w, const float *bias, enum activation activation,
                     float *y, size_t ldy) {
    size_t block = n_x <= FEW_ROWS ? STREAM_BLOCK : compute_block_rows(w);
    struct product p = {compute, n_x, ldx, ldy, block, x, bias, w, activation, y};
    pool_run(compute->pool, (int)((w->n_row + block - 1) / block), product_task, &p);
}
