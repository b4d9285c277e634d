/* Expands compressed tensors, their blocks in parallel. */
#ifndef TXL_EXPAND_H
#define TXL_EXPAND_H

#include "lib/base/threads.h"
#include "weights.h"

struct expander;

/* An expander of one file's tensors, of up to n_block blocks at a time, that works with the threads
 * of `pool`.  Both must outlive it. */
txl_status expander_new(const struct weights *weights, struct pool *pool, size_t n_block,
                        struct expander **expander, txl_error *error);
/* Bytes that an expander for so many threads allocates, not counting zstd's own. */
uint64_t expander_bytes(int threads, size_t n_block);
void expander_free(struct expander *expander);

/* Bytes of memory that the expanded tensor takes, rounded up so that the next one is aligned. */
static inline size_t expanded_bytes(const struct weights_tensor *tensor) {
    return weights_aligned(tensor->size);
}

/* Makes the next run expand the tensor into out[tensor->size].  All tensors of a run together may
 * have at most the expander's n_block blocks. */
void expander_add(struct expander *expander, const struct weights_tensor *tensor, void *out);

/* Expands what was added, comparing every checksum, and lets the system take back the file's pages
 * that were read. */
txl_status expander_run(struct expander *expander, txl_error *error);

#endif
