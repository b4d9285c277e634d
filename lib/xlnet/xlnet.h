/* An XLNet: its dimensions and pointers to its weights.  Read-only. */
#ifndef TXL_XLNET_XLNET_H
#define TXL_XLNET_XLNET_H

#include "lib/network/compute.h"
#include "lib/network/family.h"
#include "parameters.h"

struct xlnet_layer {
    struct matrix qkv;  /* [3 n_head d_head, d_model]: queries, keys, values */
    struct matrix o;    /* [d_model, n_head d_head] */
    struct matrix r;    /* [n_head d_head, d_model] */
    const float *u, *v; /* [n_head d_head]: added to a query before products with keys (u) and
                           position rows (v) */
    /* [n_head d_head] and [2, n_head d_head]: the term of several texts in one input, which heads
     * alone compute. */
    const float *s, *segment;
    struct layer_norm attention_norm, feed_forward_norm;
    struct matrix feed_forward_1, feed_forward_2; /* [d_inner, d_model], [d_model, d_inner] */
    const float *feed_forward_bias_1, *feed_forward_bias_2;
};

/* The weights of a fine-tuned model's head; those that it lacks are zero. */
struct xlnet_head {
    struct matrix summary; /* [d_model, d_model] */
    struct matrix logits;  /* [n_logit, d_model] */
    const float *summary_bias, *logits_bias;
    /* Of answers: the end after a start, and whether there is one.  Both look at two rows side by
     * side, of which the first is the end's or that of all starts. */
    struct matrix end_hidden, answer_hidden; /* [d_model, 2 d_model] */
    struct matrix end, answer;               /* [1, d_model] */
    const float *end_hidden_bias, *end_bias, *answer_hidden_bias;
    struct layer_norm end_norm;
};

struct xlnet {
    struct network network; /* what all families have */
    struct band band;       /* embedding and softmax: one band of the whole vocabulary */
    int n_layer, n_head, d_head, d_model, d_inner;
    enum activation activation;
    bool uni;          /* no row sees positions to its right */
    const float *mask; /* [d_model]: the input of every query row */
    struct xlnet_layer *layer;
    struct xlnet_head head;
};

/* All heads side by side. */
static inline size_t xlnet_width(const struct xlnet *net) {
    return (size_t)net->n_head * (size_t)net->d_head;
}

/* As in struct family. */
txl_status xlnet_open(const void *settings, const struct tensors *tensors, struct network **network,
                      txl_error *error);
void xlnet_close(struct network *network);
void xlnet_costs(const struct network *network, const txl_settings *settings, txl_costs *costs);

#endif
