/* The forward pass of a Transformer-XL over one timeline of tokens: what it keeps between calls is
 * the projected keys and values of the memory and of the segment at hand. */
#ifndef TXL_NETWORK_H
#define TXL_NETWORK_H

#include "lib/network/adaptive.h"
#include "lib/network/kv_rows.h"
#include "lib/network/layers.h"
#include "lib/network/positions.h"

/* Sizes that follow from the model and the settings. */
struct network_plan {
    size_t chunk;    /* most tokens of one pass */
    size_t capacity; /* rows of the ring, in whole blocks: memory and segment */
    size_t places;   /* position rows, in whole blocks */
    struct rows keys, values;
};

struct network {
    const struct transformer_xl *x;
    txl_settings settings;
    struct network_plan plan;
    struct compute compute;
    struct layers layers;
    struct adaptive adaptive;

    /* Positions count from the first row of the first memory.  Row p of every layer and head lies
     * at p % capacity of its ring.  Keys lie transposed, so that the scores of a block are one
     * product without repacking; values are filled up to a multiple of 16 elements. */
    uint64_t next;          /* position of the token to come */
    uint64_t segment_start; /* of the first token of the segment at hand */
    struct rows keys, values;
    bool fresh;       /* they still hold the zeros they were made with */
    float *zero_rows; /* [n_layer, 3 n_head d_head]: qkv of a row of zeros; see project_zeros */

    struct positions *positions;

    int32_t *segment; /* [tgt_len] ids: vanilla Transformers compute it anew each time */

    /* Activations of a pass. */
    float *hidden; /* [chunk, d_model] */
    float *normed; /* [chunk, d_model] */
    float *qkv;    /* [chunk, 3 n_head d_head] */
    float *heads;  /* [chunk, n_head d_head] */
    float *inner;  /* [chunk, d_inner], also [chunk, d_model] */
};

txl_status network_open(struct network *network, const txl_model *model,
                        const txl_settings *settings, txl_error *error);
void network_close(struct network *network);
uint64_t network_bytes(const txl_model *model, const txl_settings *settings);

/* Back to the first memory. */
void network_reset(struct network *network);

/* How many ids the next pass takes at most; at least 1. */
size_t network_room(const struct network *network);

/* One pass over n <= network_room() ids.  `*hidden` receives their hidden states [n, d_model],
 * which live until the next pass.  Only a model opened compressed can fail, and the timeline is
 * then as before. */
txl_status network_advance(struct network *network, const int32_t *ids, size_t n,
                           const float **hidden, txl_error *error);

/* The same for ids[t] appended to each of n timelines, n <= each[0]->plan.chunk, of the same model
 * with memory and the same settings.  The hidden states [n, d_model] live until each[0]'s next. */
txl_status network_advance_each(struct network *const *each, const int32_t *ids, size_t n,
                                const float **hidden, txl_error *error);

/* Makes `to`, just opened with the same settings, the same timeline as `from`, which computes all
 * its position rows for both.  Fails as network_advance does, and `to` can only be closed then. */
txl_status network_copy(struct network *to, struct network *from, txl_error *error);

/* The first position of which a token to come may see the keys and values. */
uint64_t network_first_row(const struct transformer_xl *x, const txl_settings *settings,
                           uint64_t next, uint64_t segment_start);

/* Copies one position's keys and values of a layer: row[2, n_head, d_head], keys first.  What the
 * ring holds comes back exactly, whatever the type of its elements. */
void network_export(const struct network *network, int layer, uint64_t position, float *row);
void network_import(struct network *network, int layer, uint64_t position, const float *row);

#endif
