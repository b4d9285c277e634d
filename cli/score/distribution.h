/* The rank of a token in a distribution, the likeliest tokens, and sums over all of them. */
#ifndef CLI_SCORE_DISTRIBUTION_H
#define CLI_SCORE_DISTRIBUTION_H

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

#endif
