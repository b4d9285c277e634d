/* Rings of keys and values, and the parts that copies share. */
#include "kv_ring.h"

#include <assert.h>
#include <string.h>

struct kv_ring ring_plan(txl_memory_type memory_type, int n_layer, int n_head, int d_head,
                         size_t reach, uint64_t first) {
    struct kv_ring ring = {0};
    ring.capacity =
        rows_plan(memory_type, n_layer, n_head, d_head, reach, &ring.keys, &ring.values);
    ring.origin = ring.keys.n_block - (size_t)(first / ROW_BLOCK % ring.keys.n_block);
    return ring;
}

size_t ring_block(const struct kv_ring *ring, uint64_t position) {
    return (size_t)((position / ROW_BLOCK + ring->origin) % ring->keys.n_block);
}

size_t ring_row(const struct kv_ring *ring, uint64_t position) {
    return ring_block(ring, position) * ROW_BLOCK + (size_t)(position % ROW_BLOCK);
}

/* ---- Rows --------------------------------------------------------------------------------- */

static void *lay_out_store(const void *plan, struct arena *arena) {
    const struct kv_ring *ring = plan;
    struct kv_store unused, *taken = arena_take(arena, 1, sizeof *taken);
    struct kv_store *store = taken ? taken : &unused;
    *store = (struct kv_store){.keys = ring->keys, .values = ring->values};
    rows_lay_out(&store->keys, arena);
    rows_lay_out(&store->values, arena);
    return taken;
}

uint64_t ring_bytes(const struct kv_ring *plan) {
    return arena_plan(lay_out_store, plan);
}

static struct kv_store *new_store(const struct kv_ring *ring, txl_error *error) {
    return arena_new(lay_out_store, ring, "keys and values", error);
}

/* ---- The ring ----------------------------------------------------------------------------- */

/* The parts that a ring still reads end in different blocks.  One more may be added before
 * ring_forget gives up the others. */
static size_t most_shared(const struct kv_ring *ring) {
    return ring->keys.n_block + 1;
}

void ring_lay_out(struct kv_ring *ring, struct arena *arena) {
    ring->shared = arena_take(arena, most_shared(ring), sizeof *ring->shared);
}

txl_status ring_open(struct kv_ring *ring, txl_error *error) {
    ring->own = new_store(ring, error);
    return ring->own ? TXL_OK : TXL_MEMORY;
}

void ring_close(struct kv_ring *ring) {
    ring_reset(ring);
    arena_leave(ring->own);
    ring->own = NULL;
}

void ring_reset(struct kv_ring *ring) {
    for (size_t i = 0; i < ring->n_shared; i++)
        arena_leave(ring->shared[i].store);
    ring->n_shared = 0;
}

void ring_forget(struct kv_ring *ring, uint64_t first) {
    size_t past = 0;
    while (past < ring->n_shared && ring->shared[past].end <= first)
        arena_leave(ring->shared[past++].store);
    ring->n_shared -= past;
    memmove(ring->shared, ring->shared + past, ring->n_shared * sizeof *ring->shared);
}

struct ring_part ring_part(const struct kv_ring *ring, size_t i) {
    return i < ring->n_shared ? ring->shared[i] : (struct ring_part){ring->own, UINT64_MAX};
}

size_t ring_common(const struct kv_ring *a, const struct kv_ring *b) {
    size_t n = 0;
    while (n < a->n_shared && n < b->n_shared && a->shared[n].store == b->shared[n].store &&
           a->shared[n].end == b->shared[n].end)
        n++;
    return n;
}

const struct kv_store *ring_find(const struct kv_ring *ring, uint64_t position) {
    size_t i = 0;
    while (ring_part(ring, i).end <= position)
        i++;
    return ring_part(ring, i).store;
}

/* ---- Copies ------------------------------------------------------------------------------- */

/* The first position whose rows are the ring's own. */
static uint64_t own_begin(const struct kv_ring *ring) {
    return ring->n_shared > 0 ? ring->shared[ring->n_shared - 1].end : 0;
}

/* Copies the block that `next` falls in, unless `next` is its first row. */
static void copy_last_block(const struct kv_ring *ring, struct kv_store *to,
                            const struct kv_store *from, uint64_t next) {
    if (next % ROW_BLOCK == 0)
        return;
    rows_copy_block(&to->keys, &from->keys, ring_block(ring, next));
    rows_copy_block(&to->values, &from->values, ring_block(ring, next));
}

/* Turns the ring's own rows up to `end` into a shared part, which only this ring uses so far. */
static txl_status share_own(struct kv_ring *ring, uint64_t end, uint64_t next, txl_error *error) {
    assert(ring->n_shared < most_shared(ring));
    struct kv_store *fresh = new_store(ring, error);
    if (!fresh)
        return TXL_MEMORY;
    copy_last_block(ring, fresh, ring->own, next);
    ring->shared[ring->n_shared++] = (struct ring_part){ring->own, end};
    ring->own = fresh;
    return TXL_OK;
}

txl_status ring_share(struct kv_ring *to, struct kv_ring *from, uint64_t first, uint64_t next,
                      txl_error *error) {
    uint64_t end = next / ROW_BLOCK * ROW_BLOCK, begin = own_begin(from);
    txl_status status = TXL_OK;
    if (end > (first > begin ? first : begin))
        status = share_own(from, end, next, error);
    if (status)
        return status;
    for (size_t i = 0; i < from->n_shared; i++) {
        to->shared[i] = from->shared[i];
        arena_join(to->shared[i].store);
    }
    to->n_shared = from->n_shared;
    copy_last_block(from, to->own, from->own, next);
    return TXL_OK;
}
