/* Recognising a model in a checkpoint: its family, its facts, how its tensors are called, and
 * whether a vocabulary is its own. */
#ifndef CONVERT_RECOGNISE_H
#define CONVERT_RECOGNISE_H

#include "converter.h"
#include "lib/transformer_xl/parameters.h"
#include "lib/xlnet/parameters.h"
#include "names.h"
#include "txl.h"

#include <jansson.h>

/* The JSON that publishers put beside a checkpoint: Hugging Face's config.json, the authors'
 * corpus-info.json and xlnet_config.json. */

/* Reads the file of that name in the folder of the file `checkpoint`, else in ../data or data
 * there: gives a JSON object and its path, both for the caller to free; leaves both unchanged if
 * there is no such file. */
txl_status config_file_load(const char *checkpoint, const char *name, char **config_path,
                            json_t **config, txl_error *error);

struct recognised {
    struct checkpoint *checkpoint; /* owned */
    struct names names;
    txl_kind pieces; /* the kind of text that the family cuts by a SentencePiece model */
    union {
        struct model_settings model; /* each family's begin with these */
        struct transformer_xl_settings transformer_xl;
        struct xlnet_settings xlnet;
    } settings;            /* the facts, without those of the text and the type */
    struct json_t *labels; /* of a head, which the settings have too, or NULL; owned */
    char *config_path;     /* of the config.json that was read, or NULL; owned */
    bool by_dataset;       /* the text's kind is that of the dataset */
    char dataset[16];  /* its name in corpus-info.json, else in the pickled corpus if the settings
                          depend  on it; or empty */
    char missing[512]; /* the options that state the unknown facts, each after a blank; those facts
                          are unset */
};

/* Opens the checkpoint at `source`, and finds its family and all facts; the options take
 * precedence. Unknown facts are not a failure.  `r` is the caller's to free even after a failure.
 */
txl_status recognise(const char *source, const struct convert_options *options,
                     struct recognised *r, txl_error *error);
void recognised_free(struct recognised *r);

/* TXL_OK if no fact is unknown; else the error that names the options. */
txl_status recognise_complete(const struct recognised *r, txl_error *error);

/* Finds the model's vocabulary: in NVIDIA's checkpoint itself, else beside the checkpoint.  `*path`
 * is the caller's to free. */
txl_status recognise_find_vocabulary(const struct recognised *r, char **path, txl_error *error);

/* Packs the vocabulary at `path`, which must be that of the model, and sets in r->settings what it
 * says about the text.  `tokenizer` is the name of a kind; NULL: the usual one. vocabulary->section
 * is the caller's to free even after a failure. */
txl_status recognise_vocabulary(struct recognised *r, const char *path, const char *tokenizer,
                                struct convert_vocabulary *vocabulary, txl_error *error);

/* ---- For the families --------------------------------------------------------------------- */

/* The state of recognising a checkpoint. */
struct recognition {
    struct recognised *recognised;
    const struct convert_options *options;
    const struct names *names; /* the recognised ones */
    bool tensorflow, nvidia;   /* their dialect is TensorFlow's, or NVIDIA's */
    const char *path;          /* of the checkpoint */
    const char *config_name;   /* of the JSON beside it */
    struct json_t *config;     /* what that says, or NULL; owned */
    const char *stated_in; /* path of the file with the statements: the JSON or the checkpoint */
    txl_error *error;

    /* Of a Transformer-XL. */
    const struct pickle_value *module;    /* of class MemTransformerLM, or NVIDIA's dict of its
                                             arguments, or NULL */
    const struct pickle_value *embedding; /* its word_emb */
    const struct pickle_value *half;      /* its layers[0].pos_ff */
    int width;                            /* of all heads side by side */
};

/* A family's steps, up to the first that fails; they end with NULL. */
typedef txl_status recognition_step(struct recognition *);
extern recognition_step *const transformer_xl_steps[], *const xlnet_steps[];

/* Checks that the dimensions in the settings, as far as they are known (not 0), are within the
 * limits of a weights file, and that statements about them are true.  `state` sets *value to the
 * one that is stated under that key, if any. */
typedef txl_status recognition_statement(const struct recognition *, const char *key, int *value);
txl_status recognise_dimensions(const struct recognition *recognition,
                                recognition_statement *state);

/* The error for a checkpoint of no known model, which has no tensor of that name. */
txl_status recognise_nothing(const struct recognised *r, const char *name, txl_error *error);

#endif
