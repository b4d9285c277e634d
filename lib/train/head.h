/* A head for sequence classification in training, on rows of a body that stays as it is. */
#ifndef TXL_TRAIN_HEAD_H
#define TXL_TRAIN_HEAD_H

#include "lib/base/memory.h"
#include "products.h"
#include "txl.h"

/* The weights lie one after the other: summary S[d, d], its bias s[d], logits L[n_label, d], their
 * bias l[n_label].  Gradient, moments and the kept weights lie alike. */
struct txl_head_trainer {
    txl_head_training how;
    size_t d, n_label, n_weight;
    const struct loops *loops;
    struct pool *pool;
    struct products products;
    uint64_t step; /* the number of the next */
    bool keeps;    /* `kept` holds weights */

    struct arena arena;                                    /* has everything below */
    float *weight, *gradient, *moment_1, *moment_2, *kept; /* [n_weight] */
    float *hidden, *d_hidden;                              /* [batch, d] */
    float *logit;                                          /* [batch, n_label] */
};

/* Where each part begins. */
static inline size_t summary_bias_at(const txl_head_trainer *t) {
    return t->d * t->d;
}
static inline size_t logits_at(const txl_head_trainer *t) {
    return summary_bias_at(t) + t->d;
}
static inline size_t logits_bias_at(const txl_head_trainer *t) {
    return logits_at(t) + t->n_label * t->d;
}

/* Computes the gradient of a batch's loss, of n rows [n, d]; returns their mean nats. */
double head_gradient(txl_head_trainer *t, const float *rows, const int32_t *labels, size_t n);

#endif
