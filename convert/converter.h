/* The converter: a published checkpoint becomes a weights file. */
#ifndef CONVERT_CONVERTER_H
#define CONVERT_CONVERTER_H

#include "txl.h"

enum convert_choice { CONVERT_UNSET = -1, CONVERT_NO = 0, CONVERT_YES = 1 };

/* Facts that the caller states about the model.  Each overrides the checkpoint's own.  If a fact is
 * unset and the checkpoint does not state it either, the conversion fails and names the options. */
struct convert_options {
    const char *name;       /* a name for people; NULL: none */
    const char *vocabulary; /* a file; NULL: the one beside the checkpoint */
    const char *type;       /* as txl_model_write takes it; NULL: the checkpoint's own */
    int level;              /* zstd's level; 0: raw blocks; < 0: the default */
    int threads;            /* 0: one for each processor */
    int n_head;             /* 0: unset */
    int attn_type;          /* as published code numbers it; < 0: unset */
    const char *cutoffs;    /* numbers separated by commas or blanks, "" for none; NULL: unset */
    enum convert_choice pre_lnorm, same_length;
    const char *memory_start;      /* "empty" or "zeros"; NULL: unset */
    const char *cluster_order;     /* "reversed" or "forward"; NULL: unset */
    double layer_norm_eps;         /* < 0: unset */
    const char *same_length_reach; /* "mem_len" or "mem_len + 1"; NULL: unset */
    const char *activation; /* XLNet: "relu", "gelu-tanh", "gelu-erf", "swish"; NULL: unset */
    const char *tokenizer;  /* a kind's name ("words", "lm1b", ...); NULL: unset */
    int tgt_len, mem_len;   /* < 0: unset */
    bool has_clamp_len;
    int clamp_len;                                 /* <= 0: none */
    double dynamic_lr;                             /* above 0 and up to 1; 0: unset */
    void (*note)(void *context, const char *text); /* receives remarks for the user, or NULL */
    void *note_context;
    bool (*progress)(void *context, uint64_t done, uint64_t total); /* bytes; false stops */
    void *progress_context;
};

/* All unset. */
void convert_options_init(struct convert_options *options);

/* Converts the checkpoint at `source`, a file or a directory as its publisher lays it out, into the
 * weights file `output`.  On any failure nothing is left of the output. */
txl_status convert_checkpoint(const char *source, const char *output,
                              const struct convert_options *options, txl_error *error);

/* The same into an open output (lib/base/output_file.h), which the caller commits: a confined
 * process can neither open nor commit it. */
struct output_file;
txl_status convert_into(const char *source, struct output_file *out,
                        const struct convert_options *options, txl_error *error);

/* Makes a copy of a weights file that states another `dynamic_lr`; the caller frees *copy. */
txl_status convert_restate(const void *file, size_t size, const char *name, double dynamic_lr,
                           void **copy, size_t *copy_size, txl_error *error);

/* Calls `take` with the second moments of Adam that a TensorFlow checkpoint holds beside each of
 * its weights (X/Adam_1), as elements [first, first + n) of the weights file's tensors.  `settings`
 * are those of the model that takes them; a checkpoint of another shape is refused.  A status of
 * `take` other than TXL_OK ends the reading, and is returned. */
typedef txl_status convert_take(void *context, const char *tensor, uint64_t first, const float *x,
                                size_t n, txl_error *error);
txl_status convert_read_moments(const char *source, const char *settings, convert_take *take,
                                void *context, txl_error *error);

/* The result of recognising a checkpoint. */
struct convert_description {
    char *settings;   /* JSON: the settings that the weights file would have, without the type, and
                         with null for unknown ones; NULL: the checkpoint is not recognised */
    char *vocabulary; /* the path of the vocabulary that it would use; NULL: there is none beside it
                       */
    char missing[544]; /* the options that state the unknown settings, each after a blank */
};

/* Describes the checkpoint at `source`, which must be one that can be read.  If the converter does
 * not know the model, `error` says why, and the settings are NULL.  End with
 * convert_description_free. */
txl_status convert_describe(const char *source, struct convert_description *description,
                            txl_error *error);
void convert_description_free(struct convert_description *description);

/* A vocabulary without a model, as in a weights file. */
struct convert_vocabulary {
    txl_kind kind;
    bool lower_case;
    int32_t n, unk, eos; /* ids, -1: none */
    void *section;       /* for free() */
    size_t size;
    size_t n_added; /* the last symbols, which were added to those of a SentencePiece model */
};

/* Reads the vocabulary file at `path`, of any kind that convert_checkpoint takes. */
txl_status convert_vocabulary_read(const char *path, struct convert_vocabulary *vocabulary,
                                   txl_error *error);

/* Calls `tensor` for every tensor of any file that the converter reads, in the file's order. */
struct convert_tensor {
    const char *name;
    const char *dtype; /* as PyTorch says: "float32" ... */
    int n_dim;
    const uint64_t *shape;
};
txl_status convert_list_tensors(const char *source,
                                void (*tensor)(void *context, const struct convert_tensor *tensor),
                                void *context, txl_error *error);

#endif
