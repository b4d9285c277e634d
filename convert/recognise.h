/* Recognising a Transformer-XL in a checkpoint: its facts, and which tensor is which parameter. */
#ifndef CONVERT_RECOGNISE_H
#define CONVERT_RECOGNISE_H

#include "convert.h"
#include "convert/containers/checkpoint.h"
#include "lib/transformer_xl/parameters.h"

enum { MAX_PREFIX = 256 /* of a tensor's name */ };

struct recognised {
    const struct checkpoint *checkpoint;
    struct transformer_xl_settings facts;
    char prefix[MAX_PREFIX];      /* before "word_emb.", "layers." ... */
    char crit_prefix[MAX_PREFIX]; /* before "crit.", which Hugging Face keeps elsewhere */
    char missing[512];            /* the options that state the unknown facts, each after a blank;
                                     those facts are unset */
};

/* Finds all facts; the options take precedence.  Unknown facts are not a failure.  `*config_path`
 * receives the path of the config.json that was read, if any; the caller frees it. */
txl_status recognise(const struct checkpoint *checkpoint, const struct convert_options *options,
                     struct recognised *recognised, char **config_path, txl_error *error);

/* Whether both hold the same numbers: shards keep a copy of a tied tensor each. */
txl_status recognise_is_copy(const struct checkpoint_tensor *a, const struct checkpoint_tensor *b,
                             bool *same, txl_error *error);

/* TXL_OK if no fact is unknown; else the error that names the options. */
txl_status recognise_complete(const struct recognised *recognised, txl_error *error);

/* Finds the tensor of that name, which must exist, be of floating point, and have `n_dim`
 * dimensions, none of which is 0. */
txl_status recognise_dimensions(const struct checkpoint *checkpoint, const char *name, int n_dim,
                                const struct checkpoint_tensor **tensor, txl_error *error);

/* A part's name in a checkpoint, after the prefix. */
struct part_name {
    char text[64];
};
struct part_name part_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The tensor of that part, or NULL. */
const struct checkpoint_tensor *recognise_tensor(const struct recognised *recognised,
                                                 struct part_name name);

/* The same, but the tensor must exist, be of floating point, and have exactly this shape. */
txl_status recognise_need(const struct recognised *recognised, struct part_name name, int n_dim,
                          const uint64_t *shape, const struct checkpoint_tensor **tensor,
                          txl_error *error);

/* A safetensors file keeps only one of two tied tensors: returns the name of the one that it has,
 * or `first` if it has both or none. */
struct part_name recognise_either(const struct recognised *recognised, struct part_name first,
                                  struct part_name second);

#endif
