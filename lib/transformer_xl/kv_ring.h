/* The ring of keys and values of one timeline.  Blocks of ROW_BLOCK positions lie in its blocks of
 * rows, one after the other; the last is followed by the first.
 *
 * Copies share whole blocks.  When a ring is copied, its rows become a read-only part that both
 * rings use, and each ring writes later positions into new rows of its own.  The rows of a position
 * are in the first shared part whose end is greater than the position, else in the ring's own rows.
 * A ring gives up a part when its memory has moved past it; the last user frees the part's rows. */
#ifndef TXL_KV_RING_H
#define TXL_KV_RING_H

#include "lib/network/kv_rows.h"

/* Keys and values of a whole ring. */
struct kv_store {
    struct shared_arena memory; /* its users are rings; with more than one, it is read-only */
    struct rows keys, values;
};

/* The positions from the end of the part before, or 0, to below `end`. */
struct ring_part {
    struct kv_store *store;
    uint64_t end; /* of a shared part a multiple of ROW_BLOCK */
};

struct kv_ring {
    size_t capacity;          /* rows, in whole blocks */
    size_t origin;            /* the block of rows of position 0 */
    struct rows keys, values; /* the shape of each store's, without data */
    struct kv_store *own;
    struct ring_part *shared; /* [n_shared], `end` ascending */
    size_t n_shared;
};

/* Plans a ring in which a pass sees at most `reach` rows.  The block of position `first` is block 0
 * of the rows, where the first tokens touch few pages (see kv_rows.h). */
struct kv_ring ring_plan(txl_memory_type memory_type, int n_layer, int n_head, int d_head,
                         size_t reach, uint64_t first);
/* Takes the memory of the ring except its rows. */
void ring_lay_out(struct kv_ring *ring, struct arena *arena);
/* Bytes that ring_open allocates for a planned ring. */
uint64_t ring_bytes(const struct kv_ring *plan);
/* Allocates the ring's own rows, initially zero.  Fails with TXL_MEMORY. */
txl_status ring_open(struct kv_ring *ring, txl_error *error);
/* Frees all rows of which the ring is the last user.  A planned ring that was not opened may be
 * closed. */
void ring_close(struct kv_ring *ring);

/* Gives up all shared parts: positions start again. */
void ring_reset(struct kv_ring *ring);
/* Gives up the parts that end at or before `first`: no earlier position will be read. */
void ring_forget(struct kv_ring *ring, uint64_t first);

/* Makes `to`, just opened, a copy of `from`.  Positions from `first` to below `next` may be read
 * again; earlier ones are never read again, or have their initial content in both rings.  If `from`
 * holds whole blocks that are not shared yet, it allocates ring_bytes for new rows of its own; that
 * may fail with TXL_MEMORY. */
txl_status ring_share(struct kv_ring *to, struct kv_ring *from, uint64_t first, uint64_t next,
                      txl_error *error);

/* Part i of n_shared + 1.  The last is the ring's own, and its end is UINT64_MAX. */
struct ring_part ring_part(const struct kv_ring *ring, size_t i);
/* The number of leading parts that two rings share. */
size_t ring_common(const struct kv_ring *a, const struct kv_ring *b);
/* The block of rows that a position lies in, and its row. */
size_t ring_block(const struct kv_ring *ring, uint64_t position);
size_t ring_row(const struct kv_ring *ring, uint64_t position);
/* The store that holds a position's rows. */
const struct kv_store *ring_find(const struct kv_ring *ring, uint64_t position);

#endif
