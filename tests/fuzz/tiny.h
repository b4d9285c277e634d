/* Whole models of a few hundred weights: what real ones are made of, in inputs small enough to be
 * fuzzed. */
#ifndef FUZZ_TINY_H
#define FUZZ_TINY_H

#include "fuzz.h"

enum { TINY_TOKENS = 12, TINY_POSITIONS = 6 };

struct tiny {
    const char *tokenizer;
    int attn_type;
    int d_model;         /* even; types with scales take 64 to show */
    int div_val;         /* > 1: two bands, each with its embedding */
    const char *cutoffs; /* with div_val 1; NULL: one band */
    bool pre_lnorm, untied, own_biases;
    const char *memory_start;
    const char *type; /* of the weights file */
    int level;
    const char *activation; /* of an XLNet, whose attn_type is 0 for bi and 1 for uni, and to which
                               div_val to memory_start mean nothing but `untied`; NULL: none */
};

/* Models of every variant; the last one's tokenizer is NULL. */
extern const struct tiny tiny_models[];

/* The header of a safetensors file with such a checkpoint: JSON, which the caller frees;
 * `*data_size` receives the bytes of the elements that belong to it. */
char *tiny_header(const struct tiny *model, uint64_t *data_size);

/* The safetensors file: that header, then zeros; the caller frees it. */
uint8_t *tiny_safetensors(const struct tiny *model, size_t *size);

/* The config.json of an XLNet; the caller frees it. */
char *tiny_config(const struct tiny *model);

/* A SentencePiece model of TINY_TOKENS pieces. */
extern const char tiny_pieces[];
extern const size_t tiny_pieces_size;

/* The model as a weights file, which the caller frees. */
uint8_t *tiny_weights(const struct tiny *model, size_t *size);

/* The model of that number, which counts on from the first after the last; it is kept open. */
const txl_model *tiny_model(unsigned number);

/* A text of ids below `n_token`, to train on; the caller frees it. */
txl_ids *tiny_ids(int32_t n_token);

/* The path of a text file with the symbols of a vocabulary for `tokenizer`, `n` of them. */
const char *tiny_vocabulary(const char *tokenizer, int n);

#endif
