/* Expands lists of compressed blocks; each thread has a coder. */
#include "lib/base/error.h"
#include "weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct expansion {
    const struct weights_tensor *tensor;
    uint32_t block;
    char *out;
};

/* A thread's coder, and how its part of a run ended. */
struct worker {
    struct block_coder *coder;
    txl_status status;
    txl_error error;
};

struct expander {
    const struct weights *weights;
    struct pool *pool;
    struct expansion *work; /* [capacity] */
    size_t n_work, capacity;
    struct worker worker[]; /* [pool_size] */
};

/* Bytes of an expander without its coders. */
static size_t own_bytes(int threads, size_t n_block) {
    return sizeof(struct expander) + (size_t)threads * sizeof(struct worker) +
           n_block * sizeof(struct expansion);
}

uint64_t expander_bytes(int threads, size_t n_block) {
    return own_bytes(threads, n_block) + (uint64_t)threads * block_coder_bytes(false);
}

/* The number of a task is an int. */
txl_status expander_new(const struct weights *weights, struct pool *pool, size_t n_block,
                        struct expander **expander, txl_error *error) {
    int n = pool_size(pool);
    if (n_block > INT32_MAX)
        return txl_fail(error, TXL_FORMAT, "%s: the tensors are impossibly large", weights->name);
    struct expander *e = calloc(1, own_bytes(n, n_block));
    bool good = e != NULL;
    if (good) {
        *e = (struct expander){.weights = weights, .pool = pool, .capacity = n_block};
        e->work = (struct expansion *)(void *)(e->worker + n);
    }
    for (int i = 0; i < n && good; i++) {
        e->worker[i].coder = block_coder_new(false);
        good = e->worker[i].coder != NULL;
    }
    if (!good) {
        expander_free(e);
        return txl_fail_memory(error, "expanding", expander_bytes(n, n_block));
    }
    *expander = e;
    return TXL_OK;
}

void expander_free(struct expander *e) {
    if (!e)
        return;
    for (int i = 0; i < pool_size(e->pool); i++)
        block_coder_free(e->worker[i].coder);
    free(e);
}

void expander_add(struct expander *e, const struct weights_tensor *tensor, void *out) {
    assert(tensor->n_block <= e->capacity - e->n_work);
    for (uint32_t b = 0; b < tensor->n_block; b++) {
        uint64_t begin;
        size_t size;
        weights_block_extent(tensor, b, &begin, &size);
        e->work[e->n_work++] = (struct expansion){tensor, b, (char *)out + begin};
    }
}

static void expand_one(void *context, int i, int thread) {
    struct expander *e = context;
    struct worker *worker = &e->worker[thread];
    const struct expansion *x = &e->work[i];
    if (worker->status)
        return;
    worker->status =
        weights_read_block(e->weights, x->tensor, x->block, worker->coder, x->out, &worker->error);
    weights_release_block(e->weights, x->tensor, x->block);
}

txl_status expander_run(struct expander *e, txl_error *error) {
    int n = pool_size(e->pool);
    for (int i = 0; i < n; i++)
        e->worker[i].status = TXL_OK;
    pool_run(e->pool, (int)e->n_work, expand_one, e);
    e->n_work = 0;
    for (int i = 0; i < n; i++) {
        const struct worker *worker = &e->worker[i];
        if (worker->status)
            return txl_fail(error, worker->status, "%s", worker->error.message);
    }
    return TXL_OK;
}
