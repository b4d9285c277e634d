/* What the authors' TensorFlow checkpoints of a Transformer-XL do not say in their tensors. */
#ifndef CONVERT_TENSORFLOW_H
#define CONVERT_TENSORFLOW_H

#include "lib/transformer_xl/parameters.h"
#include "txl.h"

#include <jansson.h>

/* The settings that a published model was evaluated with; same_length always. */
struct evaluation {
    const char *model; /* what it was trained on */
    int n_layer, d_model, n_head, d_head, d_inner, div_val, cutoff[3];
    int tgt_len, mem_len, clamp_len;
};

/* The published evaluation of a model of this shape, or NULL.  A plain softmax tells too little:
 * the dataset must be enwik8 or text8. */
const struct evaluation *tensorflow_evaluation(const struct transformer_xl_settings *settings,
                                               const char *dataset);

/* The tokenizer of a dataset of the authors' code, or NULL. */
const char *tensorflow_tokenizer(const char *dataset);

#endif
