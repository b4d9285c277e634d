/* The forward pass of a Transformer-XL over one timeline of tokens: what it keeps between calls is
 * the projected keys and values of the memory and of the segment at hand. */
#ifndef TXL_NETWORK_H
#define TXL_NETWORK_H

#include "adaptive.h"

enum { KEY_BLOCK = 64 };

/* Sizes that follow from the model and the settings. */
struct network_plan {
    size_t chunk;     /* most tokens of one pass */
    size_t capacity;  /* rows of the ring, in whole blocks: memory and segment */
    size_t distances; /* position rows: distances 0 .. distances - 1, the last one for all beyond */
    size_t places;    /* their number in whole blocks */
    size_t value_row; /* floats of a row of values: d_head up to a multiple of 16 */
};

struct network {
    const struct transformer_xl *x;
    txl_settings settings;
    struct network_plan plan;
    struct compute compute;
    struct adaptive adaptive;

    /* Positions count from the first row of the first memory.  Row p of every layer and head lies
     * at p % capacity of its ring.  Keys lie transposed in blocks of KEY_BLOCK rows, so that the
     * scores of a block are one product without repacking; values lie row by row. */
    uint64_t next;          /* position of the token to come */
    uint64_t segment_start; /* of the first token of the segment at hand */
    float *keys;            /* [n_layer, n_head, capacity / KEY_BLOCK, d_head, KEY_BLOCK] */
    float *values;          /* [n_layer, n_head, capacity, value_row] */
    bool fresh;             /* they still hold the zeros they were made with */

    /* W_r R of each distance, computed once, in blocks as the keys are.  Distance d has place
     * places - 1 - d: the farthest come first, as they do in the ring. */
    float *position_rows;   /* [n_layer, n_head, places / KEY_BLOCK, d_head, KEY_BLOCK] */
    float *position_bias;   /* [n_layer, n_head, places]; LEARNED_DISTANCE */
    size_t known_distances; /* 0 .. known_distances - 1 are filled in */

    int32_t *segment; /* [tgt_len] ids: vanilla Transformers compute it anew each time */

    /* Activations of a pass. */
    float *hidden; /* [chunk, d_model] */
    float *normed; /* [chunk, d_model] */
    float *qkv;    /* [chunk, 3 n_head d_head] */
    float *heads;  /* [chunk, n_head d_head] */
    float *inner;  /* [chunk, d_inner], also [chunk, d_model] */
    float *sines;  /* [POSITION_BLOCK, d_model] */
};

txl_status network_open(struct network *network, const txl_model *model,
                        const txl_settings *settings, txl_error *error);
void network_close(struct network *network);
uint64_t network_bytes(const txl_model *model, const txl_settings *settings);

/* Back to the first memory. */
void network_reset(struct network *network);

/* How many ids the next pass takes at most; at least 1. */
size_t network_room(const struct network *network);

/* One pass over n <= network_room() ids.  Returns their hidden states [n, d_model], which live
 * until the next pass. */
const float *network_advance(struct network *network, const int32_t *ids, size_t n);

#endif
