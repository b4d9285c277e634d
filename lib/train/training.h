/* Segments of a text forward and backward through a model.  All memory is one allocation that is
 * laid out before the first segment.  Which segments these are, and what becomes of the gradients,
 * is the trainer's matter, or the learner's. */
#ifndef TXL_TRAINING_H
#define TXL_TRAINING_H

#include "lib/base/limits.h"
#include "lib/base/memory.h"
#include "lib/kernels/kernels.h"
#include "lib/session/model.h"
#include "lib/transformer_xl/transformer_xl.h"
#include "products.h"

/* ---- What its parts share ----------------------------------------------------------------- */

/* What the parts of a segment's forward and backward passes share: the parameters with their
 * gradients, the activations of a segment, the memory; and those parts.
 *
 * The parameters are the f32 tensors of a model, whose network points to them; so the model can be
 * scored and sampled from between steps.  The gradient of a weight has the same index as the
 * weight, in another array. */

enum {
    ROW_PIECE = 64,          /* rows of one task; sums over rows are taken piece by piece */
    COLUMN_PIECE = 128,      /* columns of one task that sums over rows */
    QUERY_PIECE = 128,       /* most queries of one product of attention */
    ELEMENT_PIECE = 1 << 16, /* parameters of one task */
    MOST_EXTRA = 3
};

/* The places of dropout: once in the network, or in each layer. */
enum dropout_place {
    DROP_EMBEDDING,
    DROP_POSITIONS,
    DROP_LAST,
    DROP_LAYERS /* the first place of layer 0 */
};
enum dropout_layer_place { DROP_ATTENTION, DROP_PROBABILITY, DROP_RELU, DROP_FEED_FORWARD };
enum { DROP_LAYER_PLACES = 4 };

/* The output of a layer norm, and what its gradient needs. */
struct normed {
    float *out;            /* [rows, d_model] */
    float *mean, *inverse; /* [rows] */
};

/* What the forward pass of a layer keeps for the backward pass.  n is batch * most_length rows, m
 * batch * mem_len. */
struct trained_layer {
    float *memory; /* [m, d_model]: inputs of the layer before this segment */
    float *input;  /* [n, d_model], the output of the layer before */
    /* pre_lnorm: the norms of input and memory, [n] and [m] rows, which are projected; without
     * pre_lnorm, input and memory themselves are. */
    struct normed input_norm, memory_norm;
    float *qkv;           /* [n, 3 n_head d_head] */
    float *memory_kv;     /* [m, 2 n_head d_head] */
    float *positions;     /* [keys_of, n_head d_head], farthest first; NULL: absolute */
    float *position_bias; /* [n_head, keys_of], likewise; NULL: none */
    float *probability;   /* [batch, n_head, most_length, keys_of] */
    float *attended;      /* [n, n_head d_head] */
    float *sum_1;         /* [n, d_model]: input + attention */
    struct normed norm_1; /* of sum_1: [n], the feed-forward sublayer's input */
    float *inner;         /* [n, d_inner], after ReLU and dropout */
    float *sum_2;         /* [n, d_model]: the feed-forward sublayer's residual sum */
    struct normed norm_2; /* of sum_2: [n]; not pre_lnorm */
    float *output;        /* [n, d_model] */
};

struct training {
    txl_training how;
    const struct loops *loops;
    struct pool *pool;
    struct products products;
    txl_model *model;
    const struct transformer_xl *net;
    const struct bands *bands;      /* x's */
    bool tied_projection[MAX_BAND]; /* whether the band's softmax uses the embedding's projection */

    struct arena arena; /* has everything below */

    /* The tensors in f32 in the order of their names: those that Adam moves, then those that Muon
     * does, then those that are not trained. */
    float *weight, *gradient;
    size_t n_weight, n_parameter, n_adam; /* of all, of trained ones, of Adam's */
    float *extra[MOST_EXTRA];             /* [n_weight] each: the trainer's or the learner's */
    int n_extra;

    void *vocabulary; /* the model's */

    /* The streams of all processes; this one has how.batch of them, from number first_stream on. */
    size_t streams, first_stream;

    /* The current segment. */
    size_t batch;         /* streams */
    size_t length;        /* tokens of each, at most most_length */
    size_t n;             /* tokens of all */
    size_t n_target;      /* those of them that have a target: the last ones of each stream */
    size_t n_all;         /* targets of all processes */
    size_t memory_length; /* rows of memory of each stream */
    struct dropout dropout, dropatt;

    int32_t *ids;         /* [n] */
    int32_t *target;      /* [n_target] */
    float *nats;          /* [n_target] */
    size_t *member;       /* [n]: tokens of a band */
    float *sines;         /* [keys_of, d_model], farthest first; NULL: none */
    float *dropped_sines; /* a copy with dropout, where there is any */
    float *embedding;     /* [n, d_model], the first layer's input */
    float *hidden; /* [n, d_model], then the rows with targets, [n_target]: the softmax's input */
    struct trained_layer *layer;

    /* Scratch. */
    float *narrow, *d_narrow;  /* [n, d_embed] */
    float *gather, *d_gather;  /* [n, d_model]; NULL with one band */
    float *logit;              /* [softmax_rows, the widest softmax] */
    float *cluster;            /* [n, n_band - 1]: of train_distributions */
    size_t softmax_rows;       /* rows of `hidden` that are computed together */
    float *output;             /* [n, d_model]: of a product, before the residual sum */
    float *d_a, *d_b, *d_c;    /* [n, d_model]: gradients of the layer that is being computed */
    float *d_inner;            /* [n, d_inner] */
    float *d_qkv, *d_attended; /* [n, 3 n_head d_head], [n, n_head d_head] */
    float *d_memory_kv;        /* [m, 2 n_head d_head] */
    float *d_memory;           /* pre_lnorm: [m, d_model] */
    float *d_positions, *d_position; /* [batch, keys_of, n_head d_head], their sum */
    float *d_position_bias;          /* [batch, n_head, keys_of]; NULL: none */
    float *d_uv;                     /* [batch, 2, n_head d_head] */
    float *partial;                  /* sums of each piece of rows: [pieces, 3 d_model] */
    double *norm_partial;            /* of the gradients' norm: one for each task */
    float **scratch;                 /* each thread's, for attention */
    char *muon;                      /* [muon_scratch()] */
};

/* The most tokens that a segment has of each stream. */
static inline size_t most_length(const struct training *t) {
    return (size_t)t->how.ext_len + (size_t)t->how.tgt_len;
}

/* Keys that a segment sees, with a full memory. */
static inline size_t keys_of(const struct training *t) {
    return (size_t)t->how.mem_len + most_length(t);
}

/* The gradient of a weight. */
static inline float *gradient_of(const struct training *t, const void *weight) {
    return t->gradient + ((const float *)weight - t->weight);
}

/* Y[n, rows] = X[n, columns] W^T, of a weight W[rows, columns]. */
static inline struct product linear(size_t n, const float *x, const struct matrix *w, float *y) {
    return (struct product){.m = n,
                            .n = w->n_row,
                            .k = w->n_col,
                            .a = as_is(x, w->n_col),
                            .b = across(w->data, w->n_col),
                            .c = y,
                            .ldc = w->n_row};
}

/* dX[n, columns] = dY[n, rows] W. */
static inline struct product input_gradient(size_t n, const float *dy, const struct matrix *w,
                                            float *dx) {
    return (struct product){.m = n,
                            .n = w->n_col,
                            .k = w->n_row,
                            .a = as_is(dy, w->n_row),
                            .b = as_is(w->data, w->n_col),
                            .c = dx,
                            .ldc = w->n_col};
}

/* dW[rows, columns] = dY^T X, over n rows of dY, with row stride ld, and X. */
static inline struct product weight_gradient(const struct training *t, size_t n, const float *dy,
                                             size_t ld, const float *x, const struct matrix *w) {
    return (struct product){.m = w->n_row,
                            .n = w->n_col,
                            .k = n,
                            .a = across(dy, ld),
                            .b = as_is(x, w->n_col),
                            .c = gradient_of(t, w->data),
                            .ldc = w->n_col};
}

/* Elements [first, end) of n, which are those of task i. */
struct task_range {
    size_t first, end;
};
static inline struct task_range task_range_of(size_t n, size_t piece, int i) {
    size_t first = (size_t)i * piece;
    return (struct task_range){first, smaller(n, first + piece)};
}

static inline uint32_t layer_place(int l, enum dropout_layer_place place) {
    return DROP_LAYERS + DROP_LAYER_PLACES * (uint32_t)l + place;
}

/* The row of dropout's counters for row i of [batch, length], which does not depend on the process
 * that has the stream. */
static inline uint32_t dropout_row(const struct training *t, size_t i) {
    return (uint32_t)((t->first_stream + i / t->length) * most_length(t) + i % t->length);
}

/* ---- The parts of a segment --------------------------------------------------------------- */

/* Embeds t->ids in t->embedding. */
void train_embed(struct training *t);
/* The gradient of train_embed; overwrites d_embedding. */
void train_embed_gradient(struct training *t, float *d_embedding);

/* Computes t->nats of the targets, the gradients of the softmax's weights, and
 * d_hidden[n_target, d_model]. */
void train_softmax(struct training *t, float *d_hidden);

/* The log-probabilities of all tokens after each that has a target: out[n_target, n_token]. */
void train_distributions(struct training *t, float *out);

/* Projects layer l's memory to keys and values, layer->memory_kv. */
void train_project_memory(struct training *t, int l);

/* Runs layer l from its input to its output. */
void train_layer(struct training *t, int l);
/* Turns t->d_a, the gradient of the layer's output, into that of its input. */
void train_layer_gradient(struct training *t, int l);

/* Copies the learned rows and biases of the segment's distances to layer l's positions and
 * position_bias. */
void train_load_distances(struct training *t, int l);
/* Adds t->d_position and t->d_position_bias to the gradients of the rows and biases. */
void train_distances_gradient(struct training *t, int l);

/* Adds learned positions to layer l's input, in place. */
void train_add_positions(struct training *t, int l);
/* Their gradient, from t->d_a, that of the input. */
void train_positions_gradient(struct training *t, int l);

/* Layer l's attention: from qkv, memory_kv and positions to probability and attended. */
void train_attention(struct training *t, int l);
/* Its gradient: from t->d_attended to t->d_qkv, t->d_memory_kv, t->d_position and
 * t->d_position_bias, and those of u and v. */
void train_attention_gradient(struct training *t, int l);
/* Floats of scratch a thread needs for both. */
size_t train_attention_scratch(const struct training *t);

/* sum[n] += the rows of x[rows, n]; the threads divide the columns. */
void train_sum_rows(struct training *t, size_t rows, size_t n, const float *x, size_t ldx,
                    float *sum);

/* ---- The trainer -------------------------------------------------------------------------- */

/* Trains on a text, which is cut into streams. */
struct txl_trainer {
    struct training training;
    bool keeps; /* training.extra[KEPT] holds weights */

    /* Each stream has `stream` of the text's ids; the next step begins at index `at` of each. */
    const txl_ids *ids_read;
    size_t stream, at;
    uint64_t step, epoch; /* of the next step */
};

/* What the trainer keeps in addition to the weights: Adam's moments and Muon's momentum,
 * [n_parameter]; Adam's second moments, [n_adam]; and a copy of the best. */
enum { MOMENT_1, MOMENT_2, KEPT, N_EXTRA };

/* ---- A segment ---------------------------------------------------------------------------- */

/* TXL_UNSUPPORTED or TXL_ARGUMENT for a model or settings that this cannot do. */
txl_status training_check(const txl_model *model, const txl_training *how, txl_error *error);
/* Bytes that training_open allocates; 0 for a model of another family. */
uint64_t training_bytes(const txl_model *model, const txl_training *how, int n_extra);
/* Copies the model's weights, and is at the first memory. */
txl_status training_open(struct training *t, const txl_model *model, const txl_training *how,
                         int n_extra, txl_error *error);
void training_close(struct training *t);

/* Computes the position rows from the model's frequencies. */
void train_positions(struct training *t);
/* The first memory: none, or rows of zeros. */
void training_forget(struct training *t);
/* Says that the next segment has in each stream `length` tokens with targets, after `before` ones
 * without; ids and targets are the caller's to set. */
void training_set_length(struct training *t, size_t before, size_t length);
/* Runs the segment forward, from its ids to t->hidden; `step` is the number for dropout. */
void training_forward(struct training *t, uint64_t step);
/* Computes the nats of the targets, and the gradients of their mean as far as the softmax.  Returns
 * their sum. */
double training_score(struct training *t);
/* Computes the other gradients. */
void training_backward(struct training *t);
/* Moves the memory past the segment. */
void training_advance(struct training *t);
/* The model with today's weights; it lives as long as the training. */
const txl_model *training_model(struct training *t);

/* ---- Updates ------------------------------------------------------------------------------ */

/* Adam's constants for step `step`, from 0, without clipping. */
struct adam adam_of(uint64_t step, double rate, double epsilon);

/* Moves the layers' matrices by Muon, whose rate this is; the gradients are multiplied by `clip`
 * first, and are lost. */
void muon_step(struct training *t, double rate, float clip);
/* Bytes of t->muon, and of t->products.room, that it takes. */
uint64_t muon_scratch(const struct training *t);
uint64_t muon_room(const struct training *t);

/* Replace x[n], or one number, by its sum over all processes: t->how.peers must be set. */
txl_status train_sum(const struct training *t, float *x, size_t n, txl_error *error);
txl_status train_sum_double(const struct training *t, double *x, txl_error *error);

#endif
