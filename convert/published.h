/* The published Transformer-XLs: their shapes, and the settings they were evaluated with. */
#ifndef CONVERT_PUBLISHED_H
#define CONVERT_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>

#define PUBLISHED_MAX_CUTOFFS 3

/* Every one was evaluated with same_length. */
struct published {
    const char *name;
    bool by_tensorflow; /* the checkpoint that was evaluated is TensorFlow's */
    int n_layer, d_model, n_head, d_head, d_inner;
    int tgt_len, mem_len, clamp_len;
    int streams; /* of the PyTorch scripts; TensorFlow's have PUBLISHED_TENSORFLOW_STREAMS */
    const char *tokenizer;
    int n_token, div_val, n_cutoff, cutoffs[PUBLISHED_MAX_CUTOFFS];
};

enum { PUBLISHED_TENSORFLOW_STREAMS = 16 };

extern const struct published published_models[];
extern const size_t published_n_model;

#endif
