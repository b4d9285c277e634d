/* Products of activations with weights, divided among threads.  Few rows of activations are a
 * stream of weights through the kernels; some are packed into panels, which the weights pass by as
 * they lie; many are an sgemm for each block of weights.  The latter two widen weights narrower
 * than f32 first, block by block. */
#include "compute.h"
#include "error.h"

#include <cblas.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    BLAS_BUFFER = 1 << 27,  /* bytes that OpenBLAS maps for each thread */
    FEW_ROWS = 8,           /* up to so many rows of activations the product kernels are fastest, */
    SOME_ROWS = 256,        /* up to so many the panels */
    STREAM_BYTES = 1 << 18, /* about so much of the weights in a task, when they are few, */
    STREAM_UNIT = 64,       /* in multiples of so many rows, and */
    SGEMM_BLOCK = 512,      /* rows at most, when they are many, */
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
                        size_t scratch_size, size_t packed_size, txl_error *error) {
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
    size_t size = (packed_size * sizeof(float) + 63) / 64 * 64;
    compute->packed = aligned_alloc(64, size > 0 ? size : 64);
    return compute->packed ? TXL_OK : txl_fail_memory(error, "panels", size);
}

void compute_close(struct compute *compute) {
    for (int i = 0; compute->scratch && i < pool_size(compute->pool); i++)
        free(compute->scratch[i]);
    free(compute->scratch);
    free(compute->packed);
    pool_free(compute->pool);
}

size_t compute_block_rows(const struct matrix *w) {
    size_t rows = SGEMM_ELEMENTS / w->n_col / 16 * 16;
    return rows < 16 ? 16 : rows > SGEMM_BLOCK ? SGEMM_BLOCK : rows;
}

size_t compute_scratch(const struct matrix *w, size_t n_x) {
    size_t rows = compute_block_rows(w), most = rows > PANEL_ROWS ? rows : PANEL_ROWS;
    size_t widened = w->type == WEIGHTS_F32 || n_x <= FEW_ROWS ? 0 : most * w->n_col;
    return widened + n_x * rows;
}

void compute_widen(const struct compute *compute, const struct matrix *w, size_t first, size_t n,
                   float *out) {
    struct matrix rows = matrix_rows(w, first, n);
    compute->kernels->widen[w->type](rows.data, rows.scale, n, w->n_col, out);
}

/* ---- Panels ------------------------------------------------------------------------------- */

/* Panels are cut from 16 rows each, as evenly as that goes. */
static size_t n_panel(size_t n_x) {
    return (n_x + PANEL_WIDTH - 1) / PANEL_WIDTH;
}

/* The first row of panel i. */
static size_t panel_start(size_t n_x, size_t i) {
    size_t units = (n_x + 15) / 16, start = units * i / n_panel(n_x) * 16;
    return start < n_x ? start : n_x;
}

static size_t panel_width(size_t n_x, size_t i) {
    return (panel_start(n_x, i + 1) - panel_start(n_x, i) + 15) / 16 * 16;
}

/* Panels of bf16, which serve any number of rows, take half of it for each. */
size_t compute_packed(size_t n_x, size_t k) {
    size_t rows = (n_x + 15) / 16 * 16;
    size_t wide = (rows < SOME_ROWS ? rows : SOME_ROWS) * k, narrow = rows * ((k + 1) / 2);
    return wide > narrow ? wide : narrow;
}

struct packing {
    const struct kernels *kernels;
    struct operand operand;
    float *packed;
};

static void pack_task(void *context, int i, int thread) {
    (void)thread;
    const struct packing *p = context;
    const struct operand *x = &p->operand;
    size_t start = panel_start(x->n, (size_t)i), end = panel_start(x->n, (size_t)i + 1);
    size_t width = panel_width(x->n, (size_t)i);
    const float *rows = x->x + start * x->ld;
    if (x->bf16)
        p->kernels->pack_bf16(end - start, width, x->k, rows, x->ld,
                              (uint32_t *)p->packed + start * ((x->k + 1) / 2));
    else
        p->kernels->pack(end - start, width, x->k, rows, x->ld, p->packed + start * x->k);
}

struct operand compute_prepare(const struct compute *compute, size_t n_x, const float *x,
                               size_t ldx, const struct matrix *w, const struct matrix *other) {
    struct operand operand = {.n = n_x, .k = w->n_col, .ld = ldx, .x = x};
    operand.bf16 = compute->kernels->panel_bf16 && w->type == WEIGHTS_BF16 &&
                   (!other || other->type == WEIGHTS_BF16);
    if (n_x > FEW_ROWS && (n_x <= SOME_ROWS || operand.bf16)) {
        struct packing packing = {compute->kernels, operand, compute->packed};
        pool_run(compute->pool, (int)n_panel(n_x), pack_task, &packing);
        operand.packed = compute->packed;
    }
    return operand;
}

/* ---- Products ----------------------------------------------------------------------------- */

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

/* Rows of W as f32, where they lie or in the thread's scratch. */
static const float *wide_rows(const struct compute *compute, int thread, const struct matrix *w,
                              size_t first, size_t n) {
    if (w->type == WEIGHTS_F32)
        return (const float *)w->data + first * w->n_col;
    compute_widen(compute, w, first, n, compute->scratch[thread]);
    return compute->scratch[thread];
}

/* At most PANEL_ROWS rows of W. */
static void product_panels(const struct compute *compute, int thread, const struct operand *x,
                           const struct matrix *w, size_t first, size_t n, const float *bias,
                           enum activation activation, float *y, size_t ldy) {
    const struct kernels *kernels = compute->kernels;
    const float *wide = x->bf16 ? NULL : wide_rows(compute, thread, w, first, n);
    const uint16_t *narrow = x->bf16 ? matrix_rows(w, first, n).data : NULL;
    for (size_t i = 0; i < n_panel(x->n); i++) {
        size_t start = panel_start(x->n, i), m = panel_start(x->n, i + 1) - start;
        size_t width = panel_width(x->n, i);
        bool relu = activation == RELU;
        float *out = y + start * ldy;
        if (x->bf16)
            kernels->panel_bf16(m, width, n, x->k,
                                (const uint32_t *)x->packed + start * ((x->k + 1) / 2), narrow,
                                x->k, bias, relu, out, ldy);
        else
            kernels->panel(m, width, n, x->k, x->packed + start * x->k, wide, x->k, bias, relu, out,
                           ldy);
    }
}

void compute_product_block(const struct compute *compute, int thread, const struct operand *x,
                           const struct matrix *w, size_t first, size_t n, const float *bias,
                           enum activation activation, float *y, size_t ldy) {
    if (x->packed) {
        for (size_t done = 0; done < n; done += PANEL_ROWS) {
            size_t part = n - done < PANEL_ROWS ? n - done : PANEL_ROWS;
            product_panels(compute, thread, x, w, first + done, part,
                           bias ? bias + first + done : NULL, activation, y + done, ldy);
        }
        return;
    }
    if (x->n <= FEW_ROWS) {
        struct matrix rows = matrix_rows(w, first, n);
        compute->kernels->product[w->type](x->n, n, w->n_col, x->x, x->ld, rows.data, rows.scale, y,
                                           ldy);
    } else {
        const float *wide = wide_rows(compute, thread, w, first, n);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)x->n, (int)n, (int)w->n_col, 1,
                    x->x, (int)x->ld, wide, (int)w->n_col, 0, y, (int)ldy);
    }
    finish_block(x->n, n, bias ? bias + first : NULL, activation, y, ldy);
}

/* Long enough to be read at full speed, and several for every thread. */
static size_t stream_rows(const struct matrix *w) {
    size_t row = w->n_col * weights_type_size(w->type);
    size_t rows = STREAM_BYTES / row / STREAM_UNIT * STREAM_UNIT;
    size_t most = w->n_row / 8 / STREAM_UNIT * STREAM_UNIT;
    rows = rows > most ? most : rows;
    return rows > STREAM_UNIT ? rows : STREAM_UNIT;
}

struct product {
    const struct compute *compute;
    struct operand x;
    size_t ldy, block;
    const float *bias;
    const struct matrix *w;
    enum activation activation;
    float *y;
};

static void product_task(void *context, int i, int thread) {
    const struct product *p = context;
    size_t first = (size_t)i * p->block, left = p->w->n_row - first;
    size_t n = left < p->block ? left : p->block;
    compute_product_block(p->compute, thread, &p->x, p->w, first, n, p->bias, p->activation,
                          p->y + first, p->ldy);
}

void compute_product(const struct compute *compute, size_t n_x, const float *x, size_t ldx,
                     const struct matrix *w, const float *bias, enum activation activation,
                     float *y, size_t ldy) {
    struct operand operand = compute_prepare(compute, n_x, x, ldx, w, NULL);
    size_t block = operand.packed ? PANEL_ROWS : compute_block_rows(w);
    if (n_x <= FEW_ROWS)
        block = stream_rows(w);
    struct product p = {compute, operand, ldy, block, bias, w, activation, y};
    pool_run(compute->pool, (int)((w->n_row + block - 1) / block), product_task, &p);
}
