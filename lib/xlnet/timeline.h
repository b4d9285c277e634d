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

#include "lib/network/compute.h"
#include "lib/network/kv_rows.h"
#include "xlnet.h"

/* ---- Position rows ------------------------------------------------------------------------ */

/* The position term of attention: a row W_r R_d for each distance d = i - j of a row at i from a
 * key at j, positive for keys to the left and negative for those to the right.
 *
 * The row depends on d alone, so it is computed once in the life of a session, when a pass first
 * sees that distance.  With clamp_len c > 0 all distances beyond c share the row of c, on either
 * side.  R_d = [sin(d f_0) .., cos(d f_0) ..], f_k = 10000^(-2k / d_model): the angles are float64,
 * since those of float32 are off by 6e-8 d. */

struct distances {
    struct shared_arena memory; /* its users are sessions; with more than one, all distances are
                                   known */
    const struct xlnet *net;

    /* Rows are ordered from the farthest on the left to the farthest on the right, like the keys in
     * the memory.  Distance d has row `zero` - d; row `zero` is the last of a block. */
    int64_t left, right; /* distances run from -right to left */
    size_t zero;
    struct rows rows;

    /* Distances -known_right to known_left - 1 are filled in for all layers; -needed_right to
     * needed_left - 1 will be after the current pass. */
    int64_t known_left, known_right;
    int64_t needed_left, needed_right;

    /* Used until all are known: */
    float *sines;     /* [left + 1 + right, d_model]: R_d, farthest to the left first */
    float *projected; /* [n_head d_head], room for a block of rows */
};

/* As arena_new.  Another session may join when all rows are known. */
struct distances *distances_new(const struct xlnet *net, const txl_settings *settings,
                                txl_error *error);
/* Bytes that distances_new allocates. */
uint64_t distances_bytes(const struct xlnet *net, const txl_settings *settings);
/* Number of rows, in whole blocks. */
size_t distances_rows(const txl_settings *settings);

/* Fill in the rows of a layer when a pass reaches it, because its weights may not be available
 * earlier.  distances_need announces the distances that the pass sees, from least <= 0 to most >=
 * 0; distances_fill computes those that layer l lacks; distances_finish must follow when all layers
 * are filled. */
void distances_need(struct distances *distances, const struct compute *compute, int64_t least,
                    int64_t most);
void distances_fill(struct distances *distances, const struct compute *compute, int l,
                    const struct xlnet_layer *layer);
void distances_finish(struct distances *distances);

/* Whether all of them are filled in. */
static inline bool distances_are_known(const struct distances *p) {
    return p->known_left == p->left + 1 && p->known_right == p->right;
}

/* The distance whose row is used for d. */
static inline int64_t distances_clamp(const struct distances *p, int64_t d) {
    return d > p->left ? p->left : d < -p->right ? -p->right : d;
}

/* ---- The state ---------------------------------------------------------------------------- */

enum {
    XLNET_QUERIES = 512, /* most query rows of a pass */
    XLNET_CHUNK = 512,   /* rows of a product: more gains nothing, and activations grow */
    XLNET_BLOCK = 128,   /* rows of one attention task, so that their scores stay in cache */
    XLNET_MOST_BATCH = 4 /* timelines that advance in one pass.  Each has two rows; with so few,
                          products are the same, bit for bit, as for one timeline alone */
};

/* A row of a pass. */
struct xlnet_row {
    uint64_t at;    /* its position */
    uint64_t end;   /* it sees the positions below, except open gaps, */
    uint64_t begin; /* and of a pass over inputs none before this one */
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

    /* For a head. */
    uint8_t *segment; /* of each row of a pass over inputs */
    float *pair;      /* [XLNET_CHUNK, 2 d_model] */
    float *results;   /* [XLNET_CHUNK, d_model] */
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

/* Reads inputs, each by itself; *hidden receives their rows after the last layer, [.., d_model],
 * one input after the other.  They live until the next pass. */
txl_status xlnet_read_inputs(struct timeline *timeline, const txl_input *inputs, size_t n,
                             const float **hidden, txl_error *error);
extern const struct head_functions xlnet_heads;

/* ---- Attention ---------------------------------------------------------------------------- */

/* The attention of one layer of a pass.  Only forward.c needs it. */

/* The state of a pass.  Its rows belong to one timeline; or to several, with one content row of
 * each first, then one query row of each. */
struct xlnet_pass {
    struct xlnet_timeline *timeline; /* the pass uses its activations and threads */
    struct timeline *const *each;    /* [n_timeline], or NULL: all rows are of `timeline` */
    size_t n_timeline;
    size_t n_content, n_query;
    const uint8_t *segment; /* NULL, or of inputs that are read for a head, each by itself: the
                               segment of each row, which is at the position of its number */
    int l;                  /* the layer's number, */
    const struct xlnet_layer *layer; /* and its weights */

    /* The part of the rows that is being computed. */
    size_t first, n;     /* the first row, and their number */
    size_t content;      /* the first `content` of them are content rows */
    const float *q, *kv; /* the queries of these rows; the keys, then values, of the content rows */
    size_t ldq, ldkv;
};

/* Some rows of a pass, all of one timeline: first, first + step, ... */
struct xlnet_rows {
    size_t first, step, m;
};

/* Timeline t of a pass, and the rows that belong to it. */
struct xlnet_timeline *xlnet_pass_timeline(const struct xlnet_pass *pass, size_t t);
struct xlnet_rows xlnet_pass_rows(const struct xlnet_pass *pass, size_t t);

/* The distances that rows see, from least to most. */
void xlnet_distances_seen(const struct xlnet_pass *pass, const struct xlnet_timeline *timeline,
                          struct xlnet_rows rows, int64_t *least, int64_t *most);

/* Puts the part's keys and values into the ring. */
void xlnet_store(struct xlnet_pass *pass);

/* Computes heads[n, n_head d_head] of the part; all keys and values must be in the ring. */
void xlnet_attend(struct xlnet_pass *pass);

/* Both of these, for few rows. */
void xlnet_store_and_attend(struct xlnet_pass *pass);

#endif
