/* A family of networks: everything that the rest of txl knows about it.  No other header of a
 * family may be needed to open, feed, copy or save a session. */
#ifndef TXL_FAMILY_H
#define TXL_FAMILY_H

#include "adaptive.h"
#include "compute.h"
#include "lib/base/memory.h"
#include "lib/base/threads.h"
#include "parameters.h"
#include "settings.h"

/* The layers of a network as one session sees them.  If the model was opened compressed, they are
 * expanded one at a time into memory that belongs to the session. */

struct network;

struct layers {
    const struct network *network;
    struct expander *expander; /* NULL: no layer is compressed */
    size_t n_block;            /* blocks of the layer that has most */
    void *memory;              /* where layers are expanded to */
    void *layer; /* the expanded layer, a family's struct of table->layer_size bytes */
    int number;  /* the number of the expanded layer, or -1 */
};

/* Names to compute_order the matrices that a generated token is multiplied by, layer by layer.  The
 * table lists them in the order of the forward pass. */
void layers_order(const struct network *network, struct compute *compute);

/* Floats of scratch that products with the layers' matrices need, for up to n_x rows, and for up to
 * n_position rows where position rows are computed. */
size_t layers_scratch(const struct network *network, size_t n_x, size_t n_position);

/* Whether products of n_x rows with any of the network's matrices are OpenBLAS's sgemm. */
bool layers_reach_sgemm(const struct network *network, const struct kernels *kernels, size_t n_x);

/* Adds the bytes and products, for one row, of all weights but embedding and softmax. */
void layers_costs(const struct network *network, uint64_t *bytes, uint64_t *products);

/* Takes the memory for expanding the largest layer from the arena. */
void layers_lay_out(struct layers *layers, const struct network *network, struct arena *arena);

/* Bytes that layers_open allocates in addition. */
uint64_t layers_bytes(const struct network *network, int threads);

/* `pool` does the work, and must outlive the layers. */
txl_status layers_open(struct layers *layers, struct pool *pool, txl_error *error);
void layers_close(struct layers *layers);

/* Makes all matrices of layer l available until the next call; `*layer` is the family's struct.
 * Fails if a block is damaged. */
txl_status layers_get(struct layers *layers, int l, const void **layer, txl_error *error);

/* The weights of an open model.  A family's own struct begins with it. */
struct network {
    const struct parameter_table *parameters; /* the family's */
    const void *settings;                     /* the family's */
    const struct weights *weights;
    struct bands bands; /* embedding and softmax */
    int n_layer;
    void *layer;           /* [n_layer] of the family's structs, of parameters->layer_size bytes */
    size_t row_width;      /* elements of a layer's keys and values of one position */
    size_t row_heads;      /* the heads that they belong to, those of keys and those of values */
    bool has_memory;       /* else a session keeps only the ids of its segment */
    bool zero_memory;      /* the first memory is mem_len rows of zeros, not empty */
    int same_length_more;  /* with same_length a token sees mem_len positions and so many more */
    double layer_norm_eps; /* what layer norm adds to the variance */

    /* Of a fine-tuned model: its head, and how many logits that has for a row.  It may lack the
     * softmax's weights. */
    txl_head head;
    int n_logit;
    bool lacks_softmax;
};

/* The state of one session.  A family's own struct begins with it. */
struct timeline {
    const struct network *network;
    txl_settings settings; /* with the actual number of threads */
    struct compute compute;
    struct layers layers;
    struct adaptive adaptive;
    size_t chunk;      /* most tokens of one pass */
    size_t most_batch; /* most timelines of one pass */
    uint64_t next; /* position of the next token, counted from the first row of the first memory */
    uint64_t segment_start; /* position of the current segment's first token */
    bool unfinished;        /* it has open gaps, or tokens without keys and values yet */
    int32_t *segment;       /* the segment's ids, [chunk], for networks without memory */
};

/* Length of the segment that the next token belongs to: a full one becomes memory first. */
static inline uint64_t timeline_segment_length(const struct timeline *t) {
    uint64_t length = t->next - t->segment_start;
    return length == (uint64_t)t->settings.tgt_len ? 0 : length;
}

/* The first position of the memory of a segment that starts at `segment_start`. */
static inline uint64_t memory_begin(const txl_settings *s, uint64_t segment_start) {
    uint64_t mem_len = (uint64_t)s->mem_len;
    return segment_start > mem_len ? segment_start - mem_len : 0;
}

/* Functions for segments whose tokens see both sides. */
struct both_sides {
    /* Appends n <= tgt_len ids as a segment in which each token sees all.  `*hidden` receives the
     * hidden state [1, d_model] that predicts the next token. */
    txl_status (*block)(struct timeline *timeline, const int32_t *ids, size_t n,
                        const float **hidden, txl_error *error);

    /* Starts from an empty memory: reads the first `known` <= tgt_len ids as a block, then n - 1
     * ids from left to right.  hidden[n, d_model] are the states that predict the n positions after
     * the block.  n <= chunk and <= mem_len + 1. */
    txl_status (*block_then_left)(struct timeline *timeline, const int32_t *ids, size_t known,
                                  size_t n, const float **hidden, txl_error *error);

    /* Appends a segment of n <= tgt_len positions: ids[i] is an id or, if negative, a gap.  At
     * least one token of the segment or of the memory must be known.  All gaps must be filled
     * before another segment begins. */
    txl_status (*gaps)(struct timeline *timeline, const int32_t *ids, size_t n, txl_error *error);

    /* Computes hidden[n, d_model] for n <= chunk open gaps, given as indices into the segment. */
    txl_status (*ask)(struct timeline *timeline, const size_t *gaps, size_t n, const float **hidden,
                      txl_error *error);

    /* Fills an open gap. */
    txl_status (*fill)(struct timeline *timeline, size_t gap, int32_t id, txl_error *error);
};

/* Functions for the heads of fine-tuned models.  `hidden` are rows of [d_model] each. */
struct head_functions {
    /* Returns to the beginning and reads inputs, each by itself, of at most tgt_len ids together.
     * *hidden receives their rows after the last layer, one input after the other; they live until
     * the next pass. */
    txl_status (*read)(struct timeline *timeline, const txl_input *inputs, size_t n,
                       const float **hidden, txl_error *error);

    /* The logits of n rows, out[n, n_logit]. */
    void (*rows)(struct timeline *timeline, const float *hidden, size_t n, float *out);

    /* The same of what stands for each of n inputs. */
    void (*inputs)(struct timeline *timeline, const float *hidden, const txl_input *inputs,
                   size_t n, float *out);

    /* The ends of an answer that begins in row `start`: a logit for each of the rows row[n]. */
    void (*ends)(struct timeline *timeline, const float *hidden, const size_t *row, size_t n,
                 size_t start, float *out);

    /* The logit that there is no answer, by the mean of the rows as starts and the last row. */
    float (*no_answer)(struct timeline *timeline, const float *mean, const float *last);

    /* How many starts and ends are kept. */
    void (*kept)(const struct network *network, size_t *starts, size_t *ends);
};

struct family {
    txl_family number;
    const char *name; /* the setting "family" */

    /* The settings are a struct of this size that begins with struct model_settings; `settings` is
     * the table of the family's own ones.  `check` tests that they fit together, and fails as
     * settings_read does. */
    size_t settings_size;
    const struct setting_table *settings;
    txl_status (*check)(const void *settings, const char *name, txl_status failure,
                        txl_error *error);
    const struct parameter_table *parameters;

    /* Finds the parts of a network.  `*network` is the caller's to close even after a failure. */
    txl_status (*open)(const void *settings, const struct tensors *tensors,
                       struct network **network, txl_error *error);
    void (*close)(struct network *network); /* NULL is fine */
    void (*costs)(const struct network *network, const txl_settings *settings, txl_costs *costs);

    /* Sessions.  Refuses settings that the network cannot run with. */
    txl_status (*check_session)(const struct network *network, const txl_settings *settings,
                                txl_error *error);

    /* Takes the memory of a session's state.  `settings` must state the number of threads.  Returns
     * NULL from an arena that only adds up. */
    struct timeline *(*lay_out)(const struct network *network, const struct kernels *kernels,
                                const txl_settings *settings, struct arena *arena);
    /* Starts a timeline at the first memory.  `like`, unless NULL, is a timeline with the same
     * settings: the two share its position rows, which it must complete before the next pass of
     * either. */
    txl_status (*timeline_open)(struct timeline *timeline, const struct kernels *kernels,
                                struct timeline *like, txl_error *error);
    /* Bytes that timeline_open allocates when it shares nothing. */
    uint64_t (*timeline_bytes)(const struct network *network, const txl_settings *settings);
    void (*timeline_close)(struct timeline *timeline);

    /* Returns to the first memory. */
    void (*reset)(struct timeline *timeline);

    /* The most ids that the next pass can take, at least 1. */
    size_t (*room)(const struct timeline *timeline);

    /* One pass over n <= room() ids.  `*hidden` receives the hidden states that predict the token
     * after each of them, [n, d_model], or if `every` is false only the one after the last, [1,
     * d_model]; they live until the next pass.  Fails only if the model was opened compressed; the
     * timeline is then as before. */
    txl_status (*advance)(struct timeline *timeline, const int32_t *ids, size_t n, bool every,
                          const float **hidden, txl_error *error);

    /* Tokens on trial.  `trial`: the most ids that advance_trial can take now, at least 1; NULL:
     * the family has none.  advance_trial is `advance` with `every`, but appends the first id
     * alone; keep_trial appends the next one of them.  Each token's bits are those of a pass of its
     * own. */
    size_t (*trial)(const struct timeline *timeline);
    txl_status (*advance_trial)(struct timeline *timeline, const int32_t *ids, size_t n,
                                const float **hidden, txl_error *error);
    void (*keep_trial)(struct timeline *timeline);

    /* Whether the next token gives other bits by advance_each than by advance; NULL: it never
     * does. */
    bool (*differs_in_batch)(const struct timeline *timeline);

    /* Appends ids[t] to the t-th of n timelines, n <= each[0]->most_batch, which have the same
     * model, with memory, and the same settings.  The hidden states [n, d_model] live until the
     * next pass of each[0]. */
    txl_status (*advance_each)(struct timeline *const *each, const int32_t *ids, size_t n,
                               const float **hidden, txl_error *error);

    /* Copies `from` to `to`, which was just opened like it.  Fails as `advance` does, or with
     * TXL_MEMORY; then `to` can only be closed. */
    txl_status (*copy)(struct timeline *to, struct timeline *from, txl_error *error);

    /* The first position whose keys and values a later token may still see. */
    uint64_t (*first_row)(const struct network *network, const txl_settings *settings,
                          uint64_t next, uint64_t segment_start);

    /* Copies one position's keys and values of a layer out and in, as rows_export and rows_import
     * do. */
    void (*export_row)(const struct timeline *timeline, int layer, uint64_t position, void *row);
    void (*import_row)(struct timeline *timeline, int layer, uint64_t position, const void *row);

    const struct both_sides *both_sides; /* NULL: tokens see only what is to their left */
    const struct head_functions *heads;  /* NULL: there are none */
};

/* Reads all settings except those of the text. */
txl_status family_read_settings(const struct family *family, const json_t *object, const char *name,
                                txl_status failure, void *settings, txl_error *error);

/* The settings as JSON, as in a file; NULL when out of memory.  The caller frees it. */
char *family_settings_text(const struct family *family, const void *settings);

/* The families, a folder each. */
extern const struct family transformer_xl_family, xlnet_family;

/* ---- Untrained weights -------------------------------------------------------------------- */

/* The weights of an untrained model, to measure the speed of a shape or to be trained.  They depend
 * on the seed alone. */

struct random_model {
    struct weights_types types; /* replace the setting "type" */
    uint64_t seed;
    int threads; /* that fill the tensors */
    /* NULL: the symbols are numbers, and the weights are as fast to make as they can be.  Else the
     * vocabulary section, and the weights have the initial distributions of the published training
     * code. */
    const void *vocabulary;
    size_t vocabulary_size;
    uint64_t most; /* bytes of the tensors, so that settings of a stranger take no more */
};

/* Makes in memory what weights_open would read from a file with these settings (the keys of
 * weights-format.md): every tensor that follows from them, raw. */
txl_status random_weights(const struct family *family, const json_t *settings,
                          const struct random_model *how, struct weights **weights,
                          txl_error *error);

#endif
