/* A Transformer-XL: its dimensions and pointers to its weights.  Read-only. */
#ifndef TXL_TRANSFORMER_XL_TRANSFORMER_XL_H
#define TXL_TRANSFORMER_XL_TRANSFORMER_XL_H

#include "lib/network/compute.h"
#include "lib/network/family.h"
#include "parameters.h"

struct layer {
    struct matrix qkv;   /* [3 n_head d_head, d_model]: queries, keys, values */
    struct matrix o;     /* [d_model, n_head d_head] */
    struct matrix r;     /* [n_head d_head, d_model]; RELATIVE */
    const float *u, *v;  /* [n_head, d_head]; u: RELATIVE and LEARNED_DISTANCE, v: RELATIVE */
    struct matrix r_emb; /* [max_klen, n_head d_head]; both LEARNED types */
    const float *r_bias; /* [max_klen, n_head]; LEARNED_DISTANCE */
    struct layer_norm attention_norm, feed_forward_norm;
    struct matrix feed_forward_1, feed_forward_2; /* [d_inner, d_model], [d_model, d_inner] */
    const float *feed_forward_bias_1, *feed_forward_bias_2;
};

struct transformer_xl {
    struct network network; /* what all families have */
    int n_layer, n_head, d_head, d_model, d_inner;
    enum attention_type attn_type;
    bool pre_lnorm;
    int max_klen;          /* rows of the learned positions */
    const float *inv_freq; /* [d_model / 2], of the sinusoids */
    const float *u, *v;    /* shared by all layers, or NULL */
    struct layer *layer;
};

/* All heads side by side. */
static inline size_t head_width(const struct transformer_xl *net) {
    return (size_t)net->n_head * (size_t)net->d_head;
}

/* Whether every token sees equally many positions, the nearest. */
static inline bool is_same_length(const txl_settings *s) {
    return s->same_length && s->mem_len > 0;
}

/* The positions that a token sees with same_length, itself included. */
static inline uint64_t same_length_reach(const struct network *network, const txl_settings *s) {
    return (uint64_t)s->mem_len + (uint64_t)network->same_length_more;
}

/* As in struct family. */
txl_status transformer_xl_open(const void *settings, const struct tensors *tensors,
                               struct network **network, txl_error *error);
void transformer_xl_close(struct network *network);
void transformer_xl_costs(const struct network *network, const txl_settings *settings,
                          txl_costs *costs);

#endif
