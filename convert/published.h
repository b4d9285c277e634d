/* The published Transformer-XLs: their shapes, the settings they were evaluated with, and what text
 * they were trained on. */
#ifndef CONVERT_PUBLISHED_H
#define CONVERT_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>

/* Every one was evaluated with same_length. */
struct published {
    const char *name;
    const char *result; /* the paper's, on the test set (Dai et al. 2019, tables 1 to 4) */
    bool by_tensorflow; /* the checkpoint that was evaluated is TensorFlow's */
    int n_layer, d_model, n_head, d_head, d_inner;
    int tgt_len, mem_len, clamp_len;
    int streams; /* of the PyTorch scripts; TensorFlow's have PUBLISHED_TENSORFLOW_STREAMS */
    const char *tokenizer;
    int n_token, div_val, n_cutoff;
    const int *cutoffs;
};

enum { PUBLISHED_TENSORFLOW_STREAMS = 16 };

extern const struct published published_models[];
extern const size_t published_n_model;

/* The evaluation of TensorFlow's checkpoint of this shape, or NULL.  A shape with a plain softmax
 * identifies no model by itself: `dataset`, which may be NULL, must be enwik8 or text8. */
struct transformer_xl_settings;
const struct published *published_evaluation(const struct transformer_xl_settings *settings,
                                             const char *dataset);

/* The tokenizer of a dataset of the authors' code, or NULL; `dataset` may be NULL. */
const char *published_tokenizer(const char *dataset);

#endif
