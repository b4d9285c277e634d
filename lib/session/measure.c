/* Measures this machine's limits: the memory's bandwidth, which bounds generation, and matrix
 * products, which bound scoring.  No model is needed. */
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/threads.h"
#include "lib/kernels/kernels.h"
#include "lib/network/compute.h"
#include "lib/weights/weights.h"
#include "txl.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_PASSES = 6,      /* the best pass counts */
    PIECE_BYTES = 1 << 21 /* bytes of the buffer for one task */
};

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* How much of `work` the pool does in a second, running the task n times in parallel. */
static double rate_of(struct pool *pool, int n, void (*task)(void *, int, int), void *context,
                      double work) {
    double start = seconds_now();
    pool_run(pool, n, task, context);
    return work / (seconds_now() - start);
}

/* ---- A buffer that no cache holds --------------------------------------------------------- */

/* Bytes of a buffer that no cache holds: twice the last-level cache if the system tells its size,
 * from 256 MB to 1 GB. When such a buffer is read in order, nothing of the last pass is left in the
 * cache. */
static size_t cold_bytes(void) {
    const size_t least = (size_t)256 << 20, most = (size_t)1 << 30;
    size_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
    cache = size > 0 ? (size_t)size : 0;
#endif
    if (cache > most / 2)
        return most;
    return 2 * cache < least ? least : 2 * cache / PIECE_BYTES * PIECE_BYTES;
}

struct cold {
    struct pool *pool;
    struct kernels kernels; /* the best, whatever TXL_CPU says: narrow loads do not reach the
                                      full bandwidth of every machine */
    float *data;
    size_t size; /* bytes, a multiple of PIECE_BYTES */
};

static void fill_task(void *context, int i, int thread) {
    (void)thread;
    const struct cold *cold = context;
    float *piece = cold->data + (size_t)i * (PIECE_BYTES / sizeof(float));
    for (size_t k = 0; k < PIECE_BYTES / sizeof(float); k++)
        piece[k] = (float)(int)(k % 61) * 0x1p-6f - 0.5f;
}

static void cold_close(struct cold *cold) {
    pool_free(cold->pool);
    pages_unmap(cold->data, cold->size);
}

/* Writes to every page, so that each is memory of its own. */
static txl_status cold_open(struct cold *cold, int threads, txl_error *error) {
    *cold = (struct cold){.pool = pool_new(threads), .size = cold_bytes()};
    if (!cold->pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    kernels_available(0, &cold->kernels);
    cold->data = pages_map(cold->size);
    if (!cold->data) {
        cold_close(cold);
        return txl_fail_memory(error, "measuring the machine", cold->size);
    }
    pool_run(cold->pool, (int)(cold->size / PIECE_BYTES), fill_task, cold);
    return TXL_OK;
}

/* ---- Reading ------------------------------------------------------------------------------ */

static void read_task(void *context, int i, int thread) {
    (void)thread;
    const struct cold *cold = context;
    cold->kernels.read((const char *)cold->data + (size_t)i * PIECE_BYTES, PIECE_BYTES);
}

txl_status txl_measure_read_bandwidth(int threads, double *bytes_per_second, txl_error *error) {
    struct cold cold;
    txl_status status = cold_open(&cold, threads, error);
    if (status)
        return status;
    *bytes_per_second = 0;
    for (int pass = 0; pass < READ_PASSES; pass++)
        *bytes_per_second =
            fmax(*bytes_per_second, rate_of(cold.pool, (int)(cold.size / PIECE_BYTES), read_task,
                                            &cold, (double)cold.size));
    cold_close(&cold);
    return TXL_OK;
}

/* ---- Products ------------------------------------------------------------------------------ */

/* Y = X W^T on one thread: X[rows, D_IN], W[block, D_IN], Y[rows, block].  It is as large as a
 * product of some segments with a part of a large model's matrix. */
enum { D_IN = 1024, MAX_ROWS = 512, MAX_BLOCK = 2048, PRODUCT_PASSES = 4 };

static const struct shape {
    int rows, block;
} shapes[] = {{128, 512}, {512, 512}, {512, MAX_BLOCK}};

struct product {
    struct shape shape;
    const struct cold *cold;
    size_t first; /* block of the buffer for task 0; the other tasks take the following ones */
    const float *x;
    float *y; /* [threads, MAX_ROWS * MAX_BLOCK] */
};

static void product_task(void *context, int i, int thread) {
    const struct product *p = context;
    size_t size = (size_t)p->shape.block * D_IN, n_block = p->cold->size / sizeof(float) / size;
    const float *w = p->cold->data + (p->first + (size_t)i) % n_block * size;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->shape.rows, p->shape.block, D_IN, 1,
                p->x, D_IN, w, D_IN, 0, p->y + (size_t)thread * MAX_ROWS * MAX_BLOCK,
                p->shape.block);
}

/* In each pass a thread reads MAX_BLOCK rows of weights that no recent pass has read. */
static double measure_shape(struct product *product) {
    int n = pool_size(product->cold->pool) * (MAX_BLOCK / product->shape.block);
    double flops = 2.0 * product->shape.rows * product->shape.block * D_IN * n, best = 0;
    for (int pass = 0; pass < PRODUCT_PASSES; pass++) {
        best = fmax(best, rate_of(product->cold->pool, n, product_task, product, flops));
        product->first += (size_t)n;
    }
    return best;
}

/* ---- Instructions ------------------------------------------------------------------------- */

enum {
    ROUNDS = 1 << 16,      /* of a task: some milliseconds of vector instructions */
    INSTRUCTION_PASSES = 6 /* the best pass counts */
};

static void repeat_task(void *context, int i, int thread) {
    (void)i;
    (void)thread;
    const struct instruction *instruction = context;
    instruction->repeat(ROUNDS);
}

/* NULL: a product in f32. */
static const struct instruction *multiplying(const struct kernels *kernels, txl_products products) {
    switch (products) {
    case TXL_PRODUCTS_F32:
        break;
    case TXL_PRODUCTS_BF16:
        return kernels->rounding[WEIGHTS_BF16]->instruction;
    case TXL_PRODUCTS_INT8:
        return kernels->rounding[WEIGHTS_Q8]->instruction;
    case TXL_PRODUCTS_TRAINING_BF16:
        return kernels->bf16_product->instruction;
    }
    return NULL;
}

txl_status txl_measure_products(txl_products products, int threads, const char **instruction,
                                double *operations_per_second, txl_error *error) {
    struct kernels kernels;
    txl_status status = kernels_choose(&kernels, error);
    if (status)
        return status;
    const struct instruction *used = multiplying(&kernels, products);
    *instruction = used ? used->name : "sgemm";
    if (!used)
        return txl_measure_sgemm(threads, operations_per_second, error);
    struct pool *pool = pool_new(threads);
    if (!pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    int n = pool_size(pool);
    *operations_per_second = 0;
    for (int pass = 0; pass < INSTRUCTION_PASSES; pass++)
        *operations_per_second =
            fmax(*operations_per_second,
                 rate_of(pool, n, repeat_task, (void *)used, used->operations * ROUNDS * n));
    pool_free(pool);
    return TXL_OK;
}

/* ---- sgemm -------------------------------------------------------------------------------- */

txl_status txl_measure_sgemm(int threads, double *flops_per_second, txl_error *error) {
    struct cold cold;
    txl_status status = cold_open(&cold, threads, error);
    if (status)
        return status;
    blas_threads_hold();
    size_t n_x = (size_t)MAX_ROWS * D_IN;
    size_t n_y = (size_t)pool_size(cold.pool) * MAX_ROWS * MAX_BLOCK;
    float *x = calloc(n_x, sizeof *x), *y = calloc(n_y, sizeof *y);
    if (!x || !y)
        status = txl_fail_memory(error, "measuring the machine", (n_x + n_y) * sizeof *y);
    for (size_t i = 0; x && i < n_x; i++)
        x[i] = (float)(int)(i % 67) * 0x1p-6f - 0.5f;
    *flops_per_second = 0;
    for (size_t i = 0; !status && i < sizeof shapes / sizeof *shapes; i++) {
        struct product product = {.shape = shapes[i], .cold = &cold, .x = x, .y = y};
        *flops_per_second = fmax(*flops_per_second, measure_shape(&product));
    }
    free(x);
    free(y);
    blas_threads_release();
    cold_close(&cold);
    return status;
}
