/* Scores of targets: the head's softmax for all positions, then each other band's for the positions
 * that wait for it.  No log-probability but the target's is kept. */
#include "adaptive_softmax.h"
#include "lib/base/memory.h"

#include <math.h>
#include <string.h>

/* ---- Fast arithmetic: by blocks of entries ------------------------------------------------ */

/* A softmax at `count` positions over the rows of one matrix, or of two matrices, one after the
 * other (the head's tokens and its clusters). */
struct softmax {
    struct adaptive *adaptive;
    const struct compute *compute;
    size_t count;
    struct operand operand; /* `count` rows, projected to the band's width */
    const struct matrix *w[2];
    const float *bias[2];
};

/* Computes block i of the entries: its largest logit, its sum of exponentials, and the logits of
 * the targets in it. */
static void softmax_task(void *context, int i, int thread) {
    const struct softmax *s = context;
    struct adaptive *a = s->adaptive;
    size_t block = (size_t)i, before = 0;
    int part = 0;
    if (block >= adaptive_blocks(s->w[0])) {
        part = 1;
        block -= adaptive_blocks(s->w[0]);
        before = s->w[0]->n_row;
    }
    const struct matrix *w = s->w[part];
    size_t rows = compute_block_rows(w), first = block * rows;
    size_t n = w->n_row - first < rows ? w->n_row - first : rows;
    /* The logits follow the scratch in which the block's weights are widened. */
    float *logit = s->compute->scratch[thread] + compute_scratch(w, a->max_x) - a->max_x * rows;
    compute_product_block(s->compute, thread, &s->operand, w, first, n, s->bias[part], LINEAR,
                          logit, n);
    for (size_t t = 0; t < s->count; t++) {
        float *partial = a->partial + ((size_t)i * a->max_x + t) * 2;
        s->compute->kernels->sum_exp(n, logit + t * n, &partial[0], &partial[1]);
        if (a->entry[t] >= before + first && a->entry[t] < before + first + n)
            a->logit[t] = logit[t * n + a->entry[t] - before - first];
    }
}

/* log(sum of exp) at position t, combined from all blocks. */
static double log_sum_exp(const struct adaptive *a, size_t blocks, size_t t) {
    double max = -INFINITY, sum = 0;
    for (size_t b = 0; b < blocks; b++) {
        double x = a->partial[(b * a->max_x + t) * 2];
        max = x > max ? x : max; /* GCC 12 for 64-bit ARM cannot compile fmax here */
    }
    for (size_t b = 0; b < blocks; b++) {
        const float *partial = a->partial + (b * a->max_x + t) * 2;
        sum += partial[1] * exp(partial[0] - max);
    }
    return max + log(sum);
}

/* ---- Exact arithmetic: by rows ------------------------------------------------------------ */

/* Rows of a softmax, each a task. */
struct exact_rows {
    struct adaptive *adaptive;
    const struct kernels *kernels;
    int band;
    float *logit; /* [n, ld] */
    size_t ld;
    float *nats;           /* [n] */
    const double *cluster; /* [n]: to be added, or NULL */
    const size_t *entry;   /* [n]: of the targets */
    double *found;         /* [n]: the targets' log-probabilities */
};

static void score_row(void *context, int t, int thread) {
    (void)thread;
    const struct exact_rows *r = context;
    const struct ends *ends = r->adaptive->ends;
    size_t n = ends->band[r->band].n_token, n_cluster = ends_entries(ends, r->band) - n;
    const float *logit = r->logit + (size_t)t * r->ld;
    double norm = adaptive_norm(r->kernels, logit, n, logit + n, n_cluster);
    double logprob = (double)logit[r->entry[t]] - norm;
    r->found[t] = logprob;
    r->nats[t] = -adaptive_round(r->cluster ? logprob + r->cluster[t] : logprob);
}

/* Scores `count` positions in band i: a->entry[count] are the targets' entries, nats[count] the
 * results.  cluster[count] is added, unless it is NULL; found[count] is as in exact_rows. */
static void score_rows(struct adaptive *a, const struct compute *compute, int i,
                       const float *hidden, size_t count, const double *cluster, double *found,
                       float *nats) {
    size_t n = ends_entries(a->ends, i), most = a->most_logits / n, rows;
    for (size_t done = 0; done < count; done += rows) {
        rows = smaller(most, count - done);
        struct exact_rows r = {.adaptive = a,
                               .kernels = compute->kernels,
                               .band = i,
                               .logit = a->logits,
                               .ld = n,
                               .nats = nats + done,
                               .cluster = cluster ? cluster + done : NULL,
                               .entry = a->entry + done,
                               .found = found + done};
        adaptive_logits(a, compute, i, hidden + done * a->ends->d_model, rows, a->logits, n,
                        a->logits + a->ends->band[i].n_token, n);
        pool_run(compute->pool, (int)rows, score_row, &r);
    }
}

/* ---- Scores ------------------------------------------------------------------------------- */

/* Lets a position wait to be scored in its target's band. */
static void add_waiting(struct adaptive *a, const struct compute *compute, const float *hidden,
                        int32_t target, double cluster, float *nats) {
    size_t d_model = a->ends->d_model;
    if (a->n_waiting == a->max_x)
        adaptive_score_end(a, compute);
    a->waiting_target[a->n_waiting] = target;
    a->waiting_nats[a->n_waiting] = nats;
    if (a->waiting_cluster)
        a->waiting_cluster[a->n_waiting] = cluster;
    memcpy(a->waiting_hidden + a->n_waiting * d_model, hidden, d_model * sizeof *hidden);
    a->n_waiting++;
}

/* nats[n] of band i's a->entry[n], by blocks of its entries. */
static void score_blocks(struct adaptive *a, const struct compute *compute, int i,
                         const float *hidden, size_t n, float *nats) {
    const struct ends *ends = a->ends;
    const struct band *band = &ends->band[i];
    const struct matrix *cluster = i == 0 && ends->n_band > 1 ? &ends->cluster : NULL;
    const float *projected = adaptive_project(a, compute, i, hidden, n);
    struct softmax s = {
        .adaptive = a,
        .compute = compute,
        .count = n,
        .operand = compute_prepare(compute, n, projected, band->softmax.n_col, &band->softmax),
        .w = {&band->softmax, cluster},
        .bias = {band->softmax_bias, ends->cluster_bias}};
    size_t blocks = adaptive_blocks(&band->softmax) + (cluster ? adaptive_blocks(cluster) : 0);
    pool_run(compute->pool, (int)blocks, softmax_task, &s);
    for (size_t t = 0; t < n; t++)
        nats[t] = (float)(log_sum_exp(a, blocks, t) - a->logit[t]);
}

void adaptive_score(struct adaptive *a, const struct compute *compute, const float *hidden,
                    size_t n, const int32_t *targets, float *nats) {
    const struct ends *ends = a->ends;
    bool exact = compute->kernels->is_exact;
    for (size_t t = 0; t < n; t++) {
        int i = ends_band_of(ends, (size_t)targets[t]);
        a->entry[t] =
            i == 0 ? (size_t)targets[t] : ends->band[0].n_token + ends_cluster_row(ends, i);
    }
    if (exact)
        score_rows(a, compute, 0, hidden, n, NULL, a->found, nats);
    else
        score_blocks(a, compute, 0, hidden, n, nats);
    for (size_t t = 0; t < n; t++)
        if (ends_band_of(ends, (size_t)targets[t]) > 0)
            add_waiting(a, compute, hidden + t * ends->d_model, targets[t], exact ? a->found[t] : 0,
                        &nats[t]);
}

/* Scores the waiting positions a->member[count] in band i. */
static void score_members(struct adaptive *a, const struct compute *compute, int i, size_t count) {
    bool exact = compute->kernels->is_exact;
    size_t d_model = a->ends->d_model;
    for (size_t m = 0; m < count; m++) {
        a->entry[m] = (size_t)a->waiting_target[a->member[m]] - a->ends->band[i].first;
        memcpy(a->gather + m * d_model, a->waiting_hidden + a->member[m] * d_model,
               d_model * sizeof *a->gather);
        if (exact)
            a->cluster[m] = a->waiting_cluster[a->member[m]];
    }
    if (exact)
        score_rows(a, compute, i, a->gather, count, a->cluster, a->cluster + a->max_x, a->nats);
    else
        score_blocks(a, compute, i, a->gather, count, a->nats);
    for (size_t m = 0; m < count; m++) {
        float *nats = a->waiting_nats[a->member[m]];
        *nats = exact ? a->nats[m] : *nats + a->nats[m];
    }
}

void adaptive_score_end(struct adaptive *a, const struct compute *compute) {
    for (int i = 1; i < a->ends->n_band && a->n_waiting > 0; i++) {
        size_t count = ends_members(a->ends, i, a->waiting_target, a->n_waiting, a->member);
        if (count > 0)
            score_members(a, compute, i, count);
    }
    a->n_waiting = 0;
}
