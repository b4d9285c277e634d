/* Reading ahead.  Each generated token is multiplied by the same matrices in the same order.  So a
 * thread that waits for the others fetches what it will read next into its cache, and the memory is
 * busy between the products too. */
#ifndef TXL_READ_AHEAD_H
#define TXL_READ_AHEAD_H

#include "lib/base/memory.h"
#include "tensors.h"

struct read_ahead;

/* Takes the memory for so many threads and matrices; NULL from an arena that only adds up. */
struct read_ahead *read_ahead_lay_out(int threads, size_t most, struct arena *arena);

/* Adds the matrix that is read after those added before, in tasks of `rows` rows (see pool_run).
 * Its elements must not move. */
void read_ahead_add(struct read_ahead *ahead, const struct matrix *w, size_t rows);

/* Tells that a product with this matrix begins.  NULL: during this product nothing is fetched. */
void read_ahead_begin(struct read_ahead *ahead, const struct matrix *w);

/* For pool_new_with: `context` is a struct read_ahead. */
bool read_ahead_fetch(void *context, int thread);

#endif
