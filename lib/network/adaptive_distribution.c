/* Whole distributions: the log-probabilities of a band's tokens, or the terms of its softmax.  Each
 * row is a task. */
#include "adaptive_softmax.h"
#include "lib/base/limits.h"

#include <math.h>
#include <string.h>

/* Computes log-probabilities from logits, each row in a task of its own. */
struct distributions {
    const struct ends *ends;
    const struct kernels *kernels;
    int band;
    float *logprob;       /* [n, n_token] */
    const float *logit;   /* [n, n_band - 1]: of the clusters */
    double *cluster;      /* [n, n_band]: what head_task finds */
    const double *before; /* [n, n_band]: what it found before */
};

/* The softmax over band 0's tokens and the clusters, whose logits are in the order of their
 * matrix. */
static void head_task(void *context, int t, int thread) {
    (void)thread;
    const struct distributions *d = context;
    const struct ends *ends = d->ends;
    size_t n = ends->band[0].n_token, n_cluster = (size_t)ends->n_band - 1;
    float *logprob = d->logprob + (size_t)t * ends_n_token(ends);
    const float *tail = d->logit + (size_t)t * n_cluster;
    double *cluster = d->cluster + (size_t)t * (size_t)ends->n_band;
    float max, sum, top = -INFINITY;
    d->kernels->sum_exp(n, logprob, &max, &sum);
    for (size_t i = 0; i < n_cluster; i++)
        top = tail[i] > top ? tail[i] : top;
    double total = sum;
    if (top > max) {
        total *= exp((double)max - top);
        max = top;
    }
    for (size_t i = 0; i < n_cluster; i++)
        total += exp((double)tail[i] - max);
    float norm = (float)(max + log(total));
    for (size_t i = 0; i < n; i++)
        logprob[i] -= norm;
    for (int i = 1; i < ends->n_band; i++)
        cluster[i] = tail[ends_cluster_row(ends, i)] - norm;
}

static void exact_head_task(void *context, int t, int thread) {
    (void)thread;
    const struct distributions *d = context;
    const struct ends *ends = d->ends;
    size_t n = ends->band[0].n_token, n_cluster = (size_t)ends->n_band - 1;
    float *logprob = d->logprob + (size_t)t * ends_n_token(ends);
    const float *tail = d->logit + (size_t)t * n_cluster;
    double norm = adaptive_norm(d->kernels, logprob, n, tail, n_cluster);
    for (size_t i = 0; i < n; i++)
        logprob[i] = adaptive_round((double)logprob[i] - norm);
    for (int i = 1; i < ends->n_band; i++)
        d->cluster[(size_t)t * (size_t)ends->n_band + (size_t)i] =
            (double)tail[ends_cluster_row(ends, i)] - norm;
}

void adaptive_head(struct adaptive *a, const struct compute *compute, const float *hidden, size_t n,
                   float *logprob, double *cluster) {
    const struct ends *ends = a->ends;
    struct distributions d = {.ends = ends,
                              .kernels = compute->kernels,
                              .logprob = logprob,
                              .logit = a->cluster_logit,
                              .cluster = cluster};
    adaptive_logits(a, compute, 0, hidden, n, logprob, ends_n_token(ends), a->cluster_logit,
                    (size_t)ends->n_band - 1);
    pool_run(compute->pool, (int)n, compute->kernels->is_exact ? exact_head_task : head_task, &d);
}

/* Where the logits of task t's band are, and what its cluster has. */
static float *tail_row(const struct distributions *d, int t) {
    return d->logprob + (size_t)t * ends_n_token(d->ends) + d->ends->band[d->band].first;
}

static double tail_cluster(const struct distributions *d, int t) {
    return d->before[(size_t)t * (size_t)d->ends->n_band + (size_t)d->band];
}

static void tail_task(void *context, int t, int thread) {
    (void)thread;
    const struct distributions *d = context;
    const struct band *band = &d->ends->band[d->band];
    float *logprob = tail_row(d, t), cluster = (float)tail_cluster(d, t);
    float max, sum;
    d->kernels->sum_exp(band->n_token, logprob, &max, &sum);
    float shift = (float)(cluster - max - log((double)sum));
    for (size_t j = 0; j < band->n_token; j++)
        logprob[j] += shift;
}

static void exact_tail_task(void *context, int t, int thread) {
    (void)thread;
    const struct distributions *d = context;
    size_t n = d->ends->band[d->band].n_token;
    float *logprob = tail_row(d, t);
    double norm = adaptive_norm(d->kernels, logprob, n, NULL, 0), cluster = tail_cluster(d, t);
    for (size_t j = 0; j < n; j++)
        logprob[j] = adaptive_round((double)logprob[j] - norm + cluster);
}

void adaptive_tail(struct adaptive *a, const struct compute *compute, const float *hidden, size_t n,
                   int i, const double *cluster, float *logprob) {
    struct distributions d = {.ends = a->ends,
                              .kernels = compute->kernels,
                              .band = i,
                              .logprob = logprob,
                              .before = cluster};
    adaptive_logits(a, compute, i, hidden, n, logprob + a->ends->band[i].first,
                    ends_n_token(a->ends), NULL, 0);
    pool_run(compute->pool, (int)n, compute->kernels->is_exact ? exact_tail_task : tail_task, &d);
}

/* ---- Before the division ------------------------------------------------------------------ */

struct weighed {
    const struct ends *ends;
    const struct kernels *kernels;
    int band;
    float *e; /* [n, lde] */
    size_t lde;
    double *sum; /* [n] */
};

static void weigh_row(void *context, int t, int thread) {
    (void)thread;
    const struct weighed *w = context;
    size_t n = w->ends->band[w->band].n_token, n_cluster = ends_entries(w->ends, w->band) - n;
    float *e = w->e + (size_t)t * w->lde, max, moved[MAX_BAND];
    w->sum[t] = adaptive_sum(w->kernels, e, n, e + n, n_cluster, &max, e);
    memcpy(moved, e + n, n_cluster * sizeof *moved);
    for (size_t i = 1; i <= n_cluster; i++)
        e[n + i - 1] = moved[ends_cluster_row(w->ends, (int)i)];
}

void adaptive_weights(struct adaptive *a, const struct compute *compute, const float *hidden,
                      size_t n, int i, float *e, size_t lde, double *sum) {
    struct weighed w = {a->ends, compute->kernels, i, e, lde, sum};
    adaptive_logits(a, compute, i, hidden, n, e, lde, e + a->ends->band[i].n_token, lde);
    pool_run(compute->pool, (int)n, weigh_row, &w);
}
