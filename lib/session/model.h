/* An open model: the weights file, its vocabulary, and the network that its family says. */
#ifndef TXL_MODEL_H
#define TXL_MODEL_H

#include "lib/kernels/kernels.h"
#include "lib/text/vocabulary.h"
#include "lib/weights/weights.h"
#include "txl.h"

#include <jansson.h>

/* A matrix as a linear layer stores it: y = W x, W[n_row, n_col], row-major. */
struct matrix {
    enum weights_type type;
    const void *data; /* NULL: there is none, and x is passed on as it is, or see `compressed` */
    size_t n_row, n_col;
    const float *scale; /* of q8: [n_row, q8_blocks(n_col)]; else NULL */

    /* NULL, or the tensor that must be expanded first: data is NULL then. */
    const struct weights_tensor *compressed;
};

/* Tells where the elements of a matrix lie. */
void matrix_place(struct matrix *matrix, const void *elements);

/* The matrix of rows [first, first + n). */
struct matrix matrix_rows(const struct matrix *matrix, size_t first, size_t n);

struct txl_model {
    struct weights *weights;
    json_t *settings;
    struct vocabulary vocabulary;
    const struct kernels *kernels;
    bool compressed;      /* the matrices of layers stay so */
    const void **element; /* of each tensor of the file: its elements, raw or expanded, or NULL */
    void *arena;          /* where compressed tensors are expanded to */
    size_t arena_size;
    txl_settings defaults;
    struct transformer_xl *network;
};

/* Opens a model over weights that are in memory; takes them over, on failure too. */
txl_status model_open_weights(struct weights *weights, int threads, txl_model **model,
                              txl_error *error);

const struct vocabulary *model_vocabulary(const txl_model *model);

/* What the network asks of the settings: an integer in [low, high], or a truth value. */
txl_status model_int(const txl_model *model, const char *key, long long low, long long high,
                     int *value, txl_error *error);
txl_status model_bool(const txl_model *model, const char *key, bool *value, txl_error *error);

/* What it asks of the tensors: the matrix or the f32 vector of that name and exactly that size. */
txl_status model_matrix(const txl_model *model, const char *name, size_t n_row, size_t n_col,
                        struct matrix *matrix, txl_error *error);
txl_status model_vector(const txl_model *model, const char *name, size_t n, const float **vector,
                        txl_error *error);
bool model_has(const txl_model *model, const char *name);

#endif
