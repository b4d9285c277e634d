/* The parameters of a family of networks: one table of its tensors.  The converter, opening, random
 * weights, costs, the expansion of single layers and training all walk it. */
#ifndef TXL_NETWORK_PARAMETERS_H
#define TXL_NETWORK_PARAMETERS_H

#include "tensors.h"

enum parameter_scope {
    PARAMETER_BAND,   /* one for each band of the vocabulary */
    PARAMETER_GLOBAL, /* one for the whole network */
    PARAMETER_LAYER   /* one for each layer */
};

enum parameter_kind {
    PARAMETER_MATRIX,    /* multiplied, or an embedding; of the file's type */
    PARAMETER_HEAD,      /* a matrix of a head, f32 whatever the file's type */
    PARAMETER_POSITIONS, /* a matrix of learned rows that are used unmultiplied, never in q8 */
    PARAMETER_VECTOR     /* f32 whatever the file's type */
};

enum parameter_use {
    USED_BY_TOKEN,    /* every token is multiplied by it */
    USED_BY_BANDS,    /* embedding or softmax: a token uses parts of it */
    USED_BY_POSITIONS /* computes position rows, which are kept for all tokens */
};

struct parameter {
    const char *name; /* as in weights-format.md, with * for the number of the band or layer */
    enum parameter_scope scope;
    enum parameter_kind kind;
    enum parameter_use use;
    int rows, columns; /* two of the family's sizes; `columns` for matrices only */
    int when;          /* the family's condition under which it exists */
    size_t place; /* offset of its struct matrix or const float * in the part that it belongs to */
    float mean;   /* mean of its elements before training: 1 for a norm's gains */
};

/* A family's table, and functions for what depends on its `settings`.  `i` is the number of a band
 * or layer. */
struct parameter_table {
    const struct parameter *parameter;
    int n;
    int (*count)(const void *settings, enum parameter_scope scope);
    bool (*has)(const void *settings, int when, int i);
    uint64_t (*size)(const void *settings, int size, int i);
    size_t layer_size; /* bytes of the part of an open network that a layer is */
};

/* A tensor of a network: a parameter of one band, one layer, or the whole. */
struct parameter_tensor {
    const struct parameter *parameter;
    int number;               /* the parameter's in the table */
    int i;                    /* the band's or layer's, or 0 */
    uint64_t n_row, n_column; /* 1 column: a vector */
    char name[64];
};

/* All tensors of a network in the order of its file: bands, the whole, layers. */
struct parameter_walk {
    const struct parameter_table *table;
    const void *settings;
    enum parameter_scope scope;
    int i, next;
};
struct parameter_walk parameter_walk(const struct parameter_table *table, const void *settings);
/* Returns false when there are no more. */
bool parameter_next(struct parameter_walk *walk, struct parameter_tensor *tensor);

/* The part of an open network in which a parameter's `place` is an offset. */
struct network;
void *network_part(const struct network *network, enum parameter_scope scope, int i);

/* Sets the pointers to all tensors of the network, whose parts are there.  Fails if one is missing
 * or its size does not follow from the settings. */
txl_status parameters_open(struct network *network, const struct tensors *tensors,
                           txl_error *error);

/* The type of the parameter's tensor where matrices are to be stored in `types` (weights-format.md,
 * "Tensors").  WEIGHTS_F16 in place of a type with scales: f32 if f16 cannot hold an element. */
enum weights_type parameter_type(const struct parameter *parameter, uint64_t n_column,
                                 struct weights_types types);

/* The parameter that a tensor of that name is, or NULL. */
const struct parameter *parameter_find(const struct parameter_table *table, const char *name);

/* Whether a tensor of that name is a layer's matrix. */
bool parameter_is_layer_matrix(const struct parameter_table *table, const char *name);

/* The parameter's matrix in a part of the network. */
struct matrix *parameter_matrix(const struct parameter *parameter, void *part);

/* How a family writes the rows of its table of parameters.  LAYER_STRUCT is its struct of a layer,
 * and MODEL its size d_model. */

/* Of a band or a layer. */
#define BAND(kind, member)                                                                         \
    PARAMETER_BAND, PARAMETER_##kind, USED_BY_BANDS, .place = offsetof(struct band, member)
#define LAYER(kind, use, member)                                                                   \
    PARAMETER_LAYER, PARAMETER_##kind, use, .place = offsetof(LAYER_STRUCT, member)

#define MATRIX(n_row, n_column) .rows = n_row, .columns = n_column
#define VECTOR(n) .rows = n

/* The rows of a layer's linear part with a bias, and of a layer norm. */
#define LINEAR_ROWS(number, name, matrix, vector, n_row, n_column)                                 \
    [number##_WEIGHT] = {name ".weight", LAYER(MATRIX, USED_BY_TOKEN, matrix),                     \
                         MATRIX(n_row, n_column)},                                                 \
    [number##_BIAS] = {name ".bias", LAYER(VECTOR, USED_BY_TOKEN, vector), VECTOR(n_row)}
#define NORM_ROWS(number, name, member)                                                            \
    [number##_WEIGHT] = {name ".weight", LAYER(VECTOR, USED_BY_TOKEN, member.weight),              \
                         VECTOR(MODEL), .mean = 1},                                                \
    [number##_BIAS] = {name ".bias", LAYER(VECTOR, USED_BY_TOKEN, member.bias), VECTOR(MODEL)}

#endif
