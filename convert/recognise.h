/* Recognising a Transformer-XL in a checkpoint: its facts, and which tensor is which part. */
#ifndef CONVERT_RECOGNISE_H
#define CONVERT_RECOGNISE_H

#include "checkpoint.h"
#include "convert.h"

enum { MAX_BAND = 65 };

/* The facts of a model, as the settings of a weights file state them. */
struct facts {
    int n_token, n_layer, n_head, d_head, d_model, d_embed, d_inner;
    int attn_type, div_val, max_klen;
    bool pre_lnorm, biases_per_layer, tied_weights;
    bool tied_projection[MAX_BAND];
    int n_band, cutoff[MAX_BAND]; /* n_band - 1 of them */
    int tgt_len, mem_len, clamp_len;
    bool same_length;
    const char *memory_start, *cluster_order;
};

struct recognised {
    struct checkpoint *checkpoint;
    struct facts facts;
    char prefix[256];      /* before "word_emb.", "layers." ... */
    char crit_prefix[256]; /* before "crit." */
};

/* Opens the checkpoint and finds out all of its facts, the options taking precedence. */
txl_status recognise(const char *source, const struct convert_options *options,
                     struct recognised *recognised, txl_error *error);
void recognise_free(struct recognised *recognised);

/* The tensor of that name after the prefix, which "crit." names have their own of; NULL if none.
 * `format` takes numbers only. */
const struct checkpoint_tensor *recognise_tensor(const struct recognised *recognised,
                                                 const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
