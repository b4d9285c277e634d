/* How a family writes the rows of its table of parameters.  LAYER_STRUCT is its struct of a layer,
 * and MODEL its size d_model. */
#ifndef TXL_PARAMETER_ROWS_H
#define TXL_PARAMETER_ROWS_H

#include "parameters.h"

/* Of a band or a layer. */
#define BAND(kind, member)                                                                         \
    PARAMETER_BAND, PARAMETER_##kind, USED_BY_ENDS, .place = offsetof(struct band, member)
#define LAYER(kind, use, member)                                                                   \
    PARAMETER_LAYER, PARAMETER_##kind, use, .place = offsetof(LAYER_STRUCT, member)

#define MATRIX(n_row, n_column) .rows = n_row, .columns = n_column
#define VECTOR(n) .rows = n

/* The rows of a layer's linear part with a bias, and of a layer norm. */
#define LINEAR(number, name, matrix, vector, n_row, n_column)                                      \
    [number##_WEIGHT] = {name ".weight", LAYER(MATRIX, USED_BY_TOKEN, matrix),                     \
                         MATRIX(n_row, n_column)},                                                 \
    [number##_BIAS] = {name ".bias", LAYER(VECTOR, USED_BY_TOKEN, vector), VECTOR(n_row)}
#define NORM(number, name, member)                                                                 \
    [number##_WEIGHT] = {name ".weight", LAYER(VECTOR, USED_BY_TOKEN, member.weight),              \
                         VECTOR(MODEL), .mean = 1},                                                \
    [number##_BIAS] = {name ".bias", LAYER(VECTOR, USED_BY_TOKEN, member.bias), VECTOR(MODEL)}

#endif
