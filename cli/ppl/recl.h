/* The relative effective context length of models (Dai et al. 2019, appendix C): how long a context
 * still helps, among the tokens that are hard for the best of the models, so that better and worse
 * ones can be compared.
 *
 * With l_i(c, t) the nats of token t by model i with a context of c tokens:
 *
 *     b(c, t)     = min over i of l_i(c, t)
 *     f_i(c, c')  = mean of min(b(c, t), l_i(c', t)) over the share r of tokens with the
 *                   largest b(c, t)
 *     gain        = 1 - exp(f_i(c, c') - f_i(c, c)), c' the next length
 *
 * The length is the largest c whose gain is at least 1 %. */
#ifndef CLI_PPL_RECL_H
#define CLI_PPL_RECL_H

#include "lib/base/memory.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The shares r: 0.1, 0.5, 1. */
enum { RECL_SHARES = 3 };

struct recl {
    size_t n_model, n_length;
    const int *length;  /* [n_length], ascending */
    const char **model; /* [n_model] */
    struct buffer nats; /* float [n_model, n_length, n] */
    double *gain;       /* [n_model, n_length - 1, RECL_SHARES]: to the next length */
};

/* Computes the gains from the nats of n >= 1 tokens.  False when memory is short; end with
 * recl_free. */
bool recl_compute(struct recl *recl, size_t n);
void recl_free(struct recl *recl);

/* The length of a model with share number `r`; -1: already the first gains too little. */
int recl_length(const struct recl *recl, size_t model, size_t r);

/* The table on standard output; a list with an object for each model, NULL when memory is short. */
bool recl_print(const struct recl *recl);
json_t *recl_to_json(const struct recl *recl);

#endif
