/* The state of an XLNet's session: keys and values of content rows, of the memory and of the
 * current segment; position rows; and room for a pass.
 *
 * A segment is a run of positions, each with a rank; section 2.2 of Yang et al. 2019 calls their
 * order the factorisation order.  A row at i sees all memory, and the content at j of its segment
 * if rank j < rank i or both ranks are 0; a content row also sees itself.  There are three kinds of
 * segments:
 *
 *     left to right  ranks ascend with the position
 *     block          all ranks are 0: the tokens see each other both ways
 *     gaps           known tokens have rank 0, gaps 1, 2, .. in the order they are filled
 *
 * Once a content row has its rank, it always sees the same rows: its keys and values never change.
 */
#ifndef TXL_XLNET_TIMELINE_H
#define TXL_XLNET_TIMELINE_H

#include "distances.h"
#include "lib/network/kv_rows.h"
#include "xlnet.h"

enum {
    XLNET_QUERIES = 512, /* most query rows of a pass */
    XLNET_CHUNK = 512,   /* rows of a product: more gains nothing, and activations grow */
    XLNET_BLOCK = 128,   /* rows of one attention task, so that their scores stay in cache */
    XLNET_TOGETHER = 4   /* timelines that advance in one pass.  Each has two rows; with so few,
                            products are the same, bit for bit, as for one timeline alone */
};

/* A row of a pass. */
struct xlnet_row {
    uint64_t at;  /* its position */
    uint64_t end; /* it sees the positions below, except open gaps */
};

struct xlnet_timeline {
    struct timeline base; /* what all families have */
    const struct xlnet *net;

    /* Position p of every layer and head is row p % capacity of its ring.  Keys are stored
     * transposed, so that the scores of a block are one product without repacking; values are
     * padded to a multiple of 16 elements. */
    size_t capacity; /* rows of the ring, in whole blocks: memory and segment */
    struct rows keys, values;
    struct distances *distances;

    /* For a segment with gaps. */
    uint64_t *gap; /* [n_gap], ascending: the positions that are open */
    size_t n_gap;
    int32_t *pending; /* [n_pending] ids that have no keys and values yet: all known tokens, or the
                         one filled in last */
    uint64_t *where;  /* [n_pending], their positions */
    size_t n_pending;

    /* A pass: its rows, content rows first. */
    struct xlnet_row *row;
    float *hidden; /* of each row: [d_model] */

    /* The part of the pass that is being computed. */
    float *sum;   /* [XLNET_CHUNK, d_model] */
    float *qkv;   /* [XLNET_CHUNK, 3 n_head d_head] */
    float *heads; /* [XLNET_CHUNK, n_head d_head] */
    float *inner; /* [XLNET_CHUNK, d_inner] */
};

static inline struct xlnet_timeline *xlnet_timeline(struct timeline *base) {
    return (struct xlnet_timeline *)base;
}

/* The earliest position that the current segment sees. */
static inline uint64_t xlnet_first_visible(const struct timeline *t) {
    return memory_begin(&t->settings, t->segment_start);
}

/* As in struct family: forward.c, and xlnet_reset. */
extern const struct both_sides xlnet_both_sides;
size_t xlnet_room(const struct timeline *timeline);
txl_status xlnet_advance(struct timeline *timeline, const int32_t *ids, size_t n, bool every,
                         const float **hidden, txl_error *error);
txl_status xlnet_advance_each(struct timeline *const *each, const int32_t *ids, size_t n,
                              const float **hidden, txl_error *error);
void xlnet_reset(struct timeline *timeline);

#endif
