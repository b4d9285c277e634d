/* A pool of threads for loops over independent tasks, the only parallelism in txl.  What a task
 * computes may depend on its number, but never on which thread runs it or how many threads there
 * are.  So every result is the same for any number of threads. */
#ifndef TXL_THREADS_H
#define TXL_THREADS_H

#include <stdbool.h>
#include <stddef.h>

struct pool;

/* The number of processors this process may run on. */
int pool_processors(void);

/* Bytes that pool_new allocates for a pool of n threads, n > 0. */
size_t pool_bytes(int n);

/* A pool of n threads, the caller's own among them, or NULL.  n <= 0: one for each processor. */
struct pool *pool_new(int n);
/* The same, but waiting threads, even before the first loop, keep calling idle(context, thread),
 * which must take at most a microsecond and returns false if it had nothing to do. */
struct pool *pool_new_with(int n, bool (*idle)(void *context, int thread), void *context);
void pool_free(struct pool *pool);

int pool_size(const struct pool *pool);

/* The first task of the share with which `thread` of `threads` begins a loop over n tasks. */
int pool_first_task(int n, int thread, int threads);

/* Runs task(context, i, thread) for every i in 0..n-1 and returns when all are done; `thread` is
 * 0..pool_size-1, and no two tasks that run at the same time have the same.  One caller at a
 * time. */
void pool_run(struct pool *pool, int n, void (*task)(void *context, int i, int thread),
              void *context);

#endif
