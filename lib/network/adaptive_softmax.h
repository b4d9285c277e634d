/* What the scores and the distributions of an adaptive softmax share; only adaptive*.c use it. */
#ifndef TXL_ADAPTIVE_SOFTMAX_H
#define TXL_ADAPTIVE_SOFTMAX_H

#include "adaptive.h"

/* The blocks in which a softmax's entries are computed. */
size_t adaptive_blocks(const struct matrix *w);

/* Projects n rows of hidden to the width of band i, if it has a projection. */
const float *adaptive_project(struct adaptive *a, const struct compute *compute, int i,
                              const float *hidden, size_t n);

/* logit[n, ld] = band i's tokens in its softmax; for band 0, cluster[n, ldc] = the clusters in the
 * order of their matrix. */
void adaptive_logits(struct adaptive *a, const struct compute *compute, int i, const float *hidden,
                     size_t n, float *logit, size_t ld, float *cluster, size_t ldc);

/* ---- Rows in the exact arithmetic --------------------------------------------------------- */

/* The sum of exp(x - *max) over a row of a softmax's entries: n tokens and n_cluster clusters, one
 * after the other.  e[n + n_cluster] receives the terms, unless it is NULL. */
double adaptive_sum(const struct kernels *kernels, const float *logit, size_t n,
                    const float *cluster, size_t n_cluster, float *max, float *e);

/* The number to subtract from a logit for its log-probability. */
double adaptive_norm(const struct kernels *kernels, const float *logit, size_t n,
                     const float *cluster, size_t n_cluster);

/* Rounds a log-probability; every NaN becomes the same. */
float adaptive_round(double logprob);

#endif
