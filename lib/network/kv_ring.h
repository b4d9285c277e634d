/* The ring of keys and values of one timeline.  Position p lies at row p % capacity of its rows.
 *
 * Copies share what their original knew in whole blocks: its rows become read-only and have several
 * users, and each session writes what follows into rows of its own.  So a position's rows are in
 * the first shared part that ends behind it, or else in the ring's own.  A part is given up when
 * the memory has moved past it, and its rows go with their last user. */
#ifndef TXL_KV_RING_H
#define TXL_KV_RING_H

#include "kv_rows.h"

#include <stdatomic.h>

/* Rows for all of a ring. */
struct kv_store {
    struct arena arena; /* that all of it lies in */
    struct rows keys, values;
    atomic_int users; /* rings; with more than one, nobody writes */
};

/* Positions from the end of the part before, or 0, up to `end`. */
struct ring_part {
    const struct kv_store *store;
    uint64_t end;
};

struct kv_ring {
    size_t capacity;          /* rows, in whole blocks */
    struct rows keys, values; /* of each store, without data */
    struct kv_store *own;
    struct shared_part {
        struct kv_store *store;
        uint64_t end; /* of a block */
    } * shared;       /* [n_shared] ascending; no more than a ring has blocks */
    size_t n_shared;
};

/* Plans a ring in which a pass sees at most `reach` rows. */
struct kv_ring ring_plan(txl_memory_type memory_type, int n_layer, int n_head, int d_head,
                         size_t reach);
/* Takes the memory besides its rows. */
void ring_lay_out(struct kv_ring *ring, struct arena *arena);
/* Bytes that ring_open allocates for a planned ring. */
uint64_t ring_bytes(const struct kv_ring *plan);
/* Its own rows, zero at first. */
txl_status ring_open(struct kv_ring *ring, txl_error *error);
/* Frees all rows that it is the last user of; one that was not opened is fine. */
void ring_close(struct kv_ring *ring);

/* Positions begin anew: nothing is shared. */
void ring_reset(struct kv_ring *ring);
/* No position before `first` is read again. */
void ring_forget(struct kv_ring *ring, uint64_t first);

/* Makes `to`, just opened, like `from`, whose positions from `first` to below `next` may be read
 * again; those before `first` are as they were opened in both.  `from` then writes into new rows,
 * ring_bytes of them, if it holds whole blocks that are not shared yet. */
txl_status ring_share(struct kv_ring *to, struct kv_ring *from, uint64_t first, uint64_t next,
                      txl_error *error);

/* Part i of n_shared + 1; the last is the ring's own and has no end. */
struct ring_part ring_part(const struct kv_ring *ring, size_t i);
/* How many of their first parts two rings share. */
size_t ring_common(const struct kv_ring *a, const struct kv_ring *b);
/* Where a position's rows are. */
const struct kv_store *ring_find(const struct kv_ring *ring, uint64_t position);

#endif
