/* What the authors' TensorFlow checkpoints of a Transformer-XL do not say in their tensors. */
#ifndef CONVERT_TENSORFLOW_H
#define CONVERT_TENSORFLOW_H

#include "lib/transformer_xl/parameters.h"
#include "published.h"

/* The published evaluation of a model of this shape, or NULL.  A plain softmax tells too little:
 * the dataset must be enwik8 or text8. */
const struct published *tensorflow_evaluation(const struct transformer_xl_settings *settings,
                                              const char *dataset);

/* The tokenizer of a dataset of the authors' code, or NULL. */
const char *tensorflow_tokenizer(const char *dataset);

#endif
