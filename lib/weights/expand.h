/* Expanding compressed tensors, their blocks in parallel. */
#ifndef TXL_EXPAND_H
#define TXL_EXPAND_H

#include "lib/base/threads.h"
#include "weights.h"

struct expander;

/* An expander of one file's tensors, of up to n_block blocks at a time, that works with the threads
 * of `pool`.  Both must outlive it. */
txl_status expander_new(const struct weights *weights, struct pool *pool, size_t n_block,
                        struct expander **expander, txl_error *error);
/* Bytes that one for so many threads asks for, besides zstd's own. */
uint64_t expander_bytes(int threads, size_t n_block);
void expander_free(struct expander *expander);

/* Bytes that the tensor takes where tensors are expanded one behind the other, aligned. */
size_t expanded_bytes(const struct weights_tensor *tensor);

/* Adds the tensor to what the next run expands: into out[tensor->size].  There is room for its
 * blocks. */
void expander_add(struct expander *expander, const struct weights_tensor *tensor, void *out);

/* Expands what was added.  Every checksum is compared, and the pages of the file that were read are
 * given back. */
txl_status expander_run(struct expander *expander, txl_error *error);

/* Memory to expand into, aligned and untouched until then, or NULL. */
void *expansion_map(size_t size);
void expansion_unmap(void *memory, size_t size);

#endif
