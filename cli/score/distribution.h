/* The rank of a token in a distribution, the likeliest tokens, and sums over all of them. */
#ifndef CLI_SCORE_DISTRIBUTION_H
#define CLI_SCORE_DISTRIBUTION_H

#include "scorer.h"

#include <stdbool.h>
#include <stdint.h>

/* The `k` likeliest of logprob[n], best first, into ids[k]; of equally likely ones the lower ids
 * come first.  k is at most n. */
void likeliest(const float *logprob, int32_t n, int32_t *ids, int32_t k);

/* The rank of `id` in logprob[n], from 1 for the likeliest; of equally likely ones the lower ids
 * come first. */
int32_t rank_of(int32_t id, const float *logprob, int32_t n);

/* -sum p log p, in nats. */
double entropy_of(const float *logprob, int32_t n);

/* The log-probability of the tokens of `of`, [n], together. */
double log_mass(const bool *of, const float *logprob, int32_t n);

/* What is known before a token, from the distribution that predicts it. */
struct moment {
    double begins;  /* ln P(B) (words.h), or 0 */
    double entropy; /* in nats, or 0 */
};

/* `begins`: [n_token], the tokens of B; NULL: that is not needed.  `entropy`: it is. */
struct moment moment_of(const txl_model *model, const bool *begins, bool entropy,
                        const struct scored *token);

#endif
