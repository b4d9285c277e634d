/* The state of a Transformer-XL's session: keys and values of the memory and of the current
 * segment, position rows, and room for the activations of a pass. */
#ifndef TXL_TRANSFORMER_XL_TIMELINE_H
#define TXL_TRANSFORMER_XL_TIMELINE_H

#include "kv_ring.h"
#include "lib/base/memory.h"
#include "positions.h"
#include "transformer_xl.h"

struct transformer_xl_timeline {
    struct timeline base; /* what all families have */
    const struct transformer_xl *net;

    /* Memory and segment; positions count from the first row of the first memory.  Keys are stored
     * transposed, so that the scores of a block are one product without repacking; values are
     * padded to a multiple of 16 elements. */
    struct kv_ring ring;
    float *zero_rows; /* [n_layer, 3 n_head d_head]: qkv of a row of zeros; see project_zeros */

    struct positions *positions;

    /* Activations of a pass. */
    float *hidden; /* [chunk, d_model] */
    float *normed; /* [chunk, d_model] */
    float *qkv;    /* [chunk, 3 n_head d_head] */
    float *heads;  /* [chunk, n_head d_head] */
    float *inner;  /* [chunk, d_inner], also [chunk, d_model] */
    float *scores; /* [n_head, capacity + positions' rows]: of the heads of a single token */
    size_t *group; /* [chunk + 1]: of a pass of several timelines, see attention_group */
    struct fetch_part *later; /* [most_later]: see attention_read_later */
    size_t most_later;
};

enum { LATER_TIMELINES = 16 }; /* whose keys and values are prefetched before a layer */
enum { QUERY_BLOCK = 128 }; /* queries of one attention task, so that their scores stay in cache */

static inline struct transformer_xl_timeline *xl_timeline(struct timeline *base) {
    return (struct transformer_xl_timeline *)base;
}

/* The position of a timeline's first token. */
static inline uint64_t first_position_of(const struct network *network, const txl_settings *s) {
    return network->zero_memory ? (uint64_t)s->mem_len : 0;
}

static inline uint64_t first_position(const struct timeline *t) {
    return first_position_of(t->network, &t->settings);
}

/* The earliest position that the query at p sees. */
static inline uint64_t first_visible(const struct timeline *t, uint64_t p) {
    uint64_t reach = same_length_reach(t->network, &t->settings);
    if (is_same_length(&t->settings))
        return p + 1 > reach ? p + 1 - reach : 0;
    return memory_begin(&t->settings, t->segment_start);
}

/* The weights from which the position rows of a layer are computed. */
static inline struct position_weights position_weights(const struct layer *layer) {
    bool learned = layer->r_emb.n_row > 0;
    return (struct position_weights){learned ? &layer->r_emb : &layer->r, layer->v, layer->r_bias};
}

/* Keys and values of n tokens for a layer's ring, from `position` on. */
struct stored_rows {
    struct transformer_xl_timeline *timeline;
    int layer;
    size_t n;
    uint64_t position;
    const float *qkv;
    size_t stride; /* between its rows; 0 repeats one row */
};

/* Copy the keys and values of all heads, or of one, into the ring. */
void timeline_store(struct stored_rows *rows);
void timeline_store_head(const struct stored_rows *rows, size_t head);

/* Gives up the rows of copies' common past that no later token sees. */
void timeline_forget(struct transformer_xl_timeline *timeline);

/* As in struct family: forward.c. */
size_t transformer_xl_room(const struct timeline *timeline);
txl_status transformer_xl_advance(struct timeline *timeline, const int32_t *ids, size_t n,
                                  bool every, const float **hidden, txl_error *error);
size_t transformer_xl_trial(const struct timeline *timeline);
txl_status transformer_xl_advance_trial(struct timeline *timeline, const int32_t *ids, size_t n,
                                        const float **hidden, txl_error *error);
void transformer_xl_keep_trial(struct timeline *timeline);
bool transformer_xl_differs_in_batch(const struct timeline *timeline);
txl_status transformer_xl_advance_each(struct timeline *const *each, const int32_t *ids, size_t n,
                                       const float **hidden, txl_error *error);

/* ---- Attention ---------------------------------------------------------------------------- */

/* The attention of one layer of a pass.  Only forward.c needs it. */

/* The attention of one layer in a pass.  The pass has n tokens of one timeline, or one token of
 * each of n timelines. */
struct attention {
    struct transformer_xl_timeline *timeline; /* whose activations and threads the pass uses */
    struct timeline *const *each;             /* [n] timelines; NULL: all rows are of `timeline` */
    int l;                                    /* number of the layer */
    const struct layer *layer;                /* weights of the layer */
    size_t n;
    bool first; /* position scores are in positions->first_scores */

    /* Set by attention_group: rows group[g] to group[g + 1] - 1 read their shared keys and values
     * together. */
    const size_t *group; /* [n_group + 1] */
    size_t n_group;
};

/* The timeline of a row of the pass. */
static inline struct transformer_xl_timeline *attention_timeline(const struct attention *a,
                                                                 size_t row) {
    return a->each ? xl_timeline(a->each[row]) : a->timeline;
}

/* Divides the rows of a pass of several timelines into groups; `each` is set. */
void attention_group(struct attention *attention);

/* The products that follow prefetch the keys and values of the next layer, if the pass is one of
 * several timelines in integers. */
void attention_read_later(struct attention *attention);

/* Computes heads[n, n_head d_head] from qkv[n, 3 n_head d_head], and stores the keys and values in
 * the ring. */
void attention_run(struct attention *attention);

#endif
