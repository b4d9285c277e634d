/* What a Transformer-XL is made of: its dimensions and where its weights lie.  Read-only.
 *
 * Dai et al. 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context".
 * Dimensions keep the paper's code's names: n_layer, d_model, n_head, d_head, d_inner. */
#ifndef TXL_TRANSFORMER_XL_H
#define TXL_TRANSFORMER_XL_H

#include "lib/session/model.h"

/* The attention kinds, as published code numbers them. */
enum attention_type {
    ATTENTION_RELATIVE = 0,         /* sinusoid distances through a learned matrix: the paper's */
    ATTENTION_LEARNED_DISTANCE = 1, /* a learned row and bias for each distance (Shaw et al.) */
    ATTENTION_SINUSOID = 2,         /* vanilla Transformer, sinusoid positions on the input */
    ATTENTION_LEARNED_POSITION = 3  /* vanilla Transformer, learned positions on each layer */
};

struct layer_norm {
    const float *weight, *bias; /* [d_model] */
};

struct layer {
    struct matrix qkv;   /* [3 n_head d_head, d_model]: queries, keys, values */
    struct matrix o;     /* [d_model, n_head d_head] */
    struct matrix r;     /* [n_head d_head, d_model]; RELATIVE */
    const float *u, *v;  /* [n_head, d_head]; u: RELATIVE and LEARNED_DISTANCE, v: RELATIVE */
    struct matrix r_emb; /* [max_klen, n_head d_head]; the LEARNED ones */
    const float *r_bias; /* [max_klen, n_head]; LEARNED_DISTANCE */
    struct layer_norm attention_norm, feed_forward_norm;
    struct matrix feed_forward_1, feed_forward_2; /* [d_inner, d_model], [d_model, d_inner] */
    const float *feed_forward_bias_1, *feed_forward_bias_2;
};

/* A band of the vocabulary, [first, first + n_token), in the adaptive input and softmax. */
struct band {
    size_t first, n_token;
    struct matrix embedding;            /* [n_token, d_band] */
    struct matrix embedding_projection; /* [d_model, d_band], or none */
    struct matrix softmax;              /* [n_token, d_band] */
    struct matrix softmax_projection;   /* [d_band, d_model], or none */
    const float *softmax_bias;          /* [n_token] */
};

struct transformer_xl {
    int n_layer, n_head, d_head, d_model, d_embed, d_inner;
    enum attention_type attn_type;
    bool pre_lnorm;
    bool zero_memory;      /* the first memory: mem_len rows of zeros, not none */
    bool forward_order;    /* band i is head entry cutoffs[0] + i - 1, not the i-th from the end */
    int max_klen;          /* rows of the learned positions */
    const float *inv_freq; /* [d_model / 2], of the sinusoids */
    struct layer *layer;
    int n_band;
    struct band *band;
    struct matrix cluster;     /* [n_band - 1, d_band 0]: the head's entries of the other bands */
    const float *cluster_bias; /* [n_band - 1] */
};

txl_status transformer_xl_open(const txl_model *model, struct transformer_xl **network,
                               txl_error *error);
void transformer_xl_close(struct transformer_xl *network);

/* Whether a tensor of that name is one of the matrices of a struct layer. */
bool transformer_xl_is_layer_matrix(const char *name);

/* The matrices of a layer; n_row is 0 of those that its attn_type lacks. */
enum { LAYER_MATRICES = 6 };
void transformer_xl_layer_matrices(struct layer *layer, struct matrix *matrix[LAYER_MATRICES]);

#endif
