/* The rank of a token in a distribution, and the likeliest tokens. */
#ifndef CLI_LIKELIEST_H
#define CLI_LIKELIEST_H

#include <stddef.h>
#include <stdint.h>

/* The `k` likeliest of logprob[n], best first, into ids[k]; of equally likely ones the lower ids
 * come first.  k is at most n. */
void likeliest(const float *logprob, int32_t n, int32_t *ids, int32_t k);

/* The rank of `id` in logprob[n], from 1 for the likeliest; of equally likely ones the lower ids
 * come first. */
int32_t rank_of(int32_t id, const float *logprob, int32_t n);

/* -sum p log p, in nats. */
double entropy_of(const float *logprob, int32_t n);

#endif
