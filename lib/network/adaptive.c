/* The memory, the costs and the embedding of the vocabulary's bands, and the logits that scores and
 * distributions begin with. */
#include "adaptive.h"
#include "lib/base/exact_math.h"
#include "lib/base/limits.h"
#include "lib/base/memory.h"
#include "lib/base/numbers.h"

#include <math.h>
#include <string.h>

/* ---- Memory ------------------------------------------------------------------------------- */

/* The blocks in which a softmax's entries are computed. */
static size_t softmax_blocks(const struct matrix *w) {
    return (w->n_row + compute_block_rows(w) - 1) / compute_block_rows(w);
}

/* Blocks of the largest softmax: a band's, or the head's with its clusters. */
static size_t max_blocks(const struct bands *bands) {
    size_t most = 0;
    for (int i = 0; i < bands->n_band; i++) {
        size_t n = softmax_blocks(&bands->band[i].softmax);
        most = n > most ? n : most;
    }
    return most + (bands->n_band > 1 ? softmax_blocks(&bands->cluster) : 0);
}

size_t adaptive_scratch(const struct bands *bands, size_t max_x) {
    size_t most = bands->n_band > 1 ? compute_scratch(&bands->cluster, max_x) : 0;
    for (int i = 0; i < bands->n_band; i++) {
        const struct band *band = &bands->band[i];
        const struct matrix *matrix[] = {&band->softmax, &band->embedding_projection,
                                         &band->softmax_projection};
        for (size_t m = 0; m < 3; m++) {
            size_t n = matrix[m]->data ? compute_scratch(matrix[m], max_x) : 0;
            most = n > most ? n : most;
        }
    }
    return most;
}

size_t bands_most_entries(const struct bands *bands) {
    size_t most = 0;
    for (int i = 0; i < bands->n_band; i++)
        most = larger(most, bands_entries(bands, i));
    return most;
}

/* The exact arithmetic sums a softmax after its last logit is known, so it keeps whole rows, but no
 * more of them than this many logits. */
enum { MOST_LOGITS = 1 << 22 };

static size_t most_logits(const struct bands *bands, size_t max_x) {
    size_t widest = bands_most_entries(bands);
    return larger(widest, smaller(max_x * widest, MOST_LOGITS));
}

void adaptive_lay_out(struct adaptive *a, const struct bands *bands, size_t max_x, bool exact,
                      struct arena *arena) {
    *a = (struct adaptive){.bands = bands, .max_x = max_x};
    a->narrow = arena_take(arena, max_x * bands->band[0].embedding.n_col, sizeof *a->narrow);
    a->gather = arena_take(arena, max_x * bands->d_model, sizeof *a->gather);
    a->member = arena_take(arena, max_x, sizeof *a->member);
    a->entry = arena_take(arena, max_x, sizeof *a->entry);
    a->partial = arena_take(arena, max_x * max_blocks(bands), 2 * sizeof *a->partial);
    a->logit = arena_take(arena, max_x, sizeof *a->logit);
    a->nats = arena_take(arena, max_x, sizeof *a->nats);
    a->cluster = arena_take(arena, max_x * (size_t)bands->n_band, sizeof *a->cluster);
    a->cluster_logit =
        arena_take(arena, max_x * ((size_t)bands->n_band - 1), sizeof *a->cluster_logit);
    if (exact) {
        a->most_logits = most_logits(bands, max_x);
        a->logits = arena_take(arena, a->most_logits, sizeof *a->logits);
        a->waiting_cluster = arena_take(arena, max_x, sizeof *a->waiting_cluster);
        a->found = arena_take(arena, max_x, sizeof *a->found);
    }
    if (bands->n_band > 1) {
        a->waiting_target = arena_take(arena, max_x, sizeof *a->waiting_target);
        a->waiting_nats = arena_take(arena, max_x, sizeof *a->waiting_nats);
        a->waiting_hidden = arena_take(arena, max_x * bands->d_model, sizeof *a->waiting_hidden);
    }
}

void adaptive_order(const struct bands *bands, struct compute *compute) {
    compute_order(compute, &bands->band[0].softmax_projection);
    compute_order(compute, &bands->band[0].softmax);
    compute_order(compute, &bands->cluster);
}

/* ---- Costs -------------------------------------------------------------------------------- */

static void add_matrix(const struct matrix *w, uint64_t *bytes, uint64_t *products) {
    *bytes += matrix_bytes(w);
    *products += (uint64_t)w->n_row * w->n_col;
}

void bands_costs(const struct bands *bands, uint64_t *bytes, uint64_t *products) {
    const struct band *head = &bands->band[0];
    const struct matrix row = matrix_rows(&head->embedding, 0, 1);
    add_matrix(&head->embedding_projection, bytes, products);
    add_matrix(&head->softmax_projection, bytes, products);
    add_matrix(&head->softmax, bytes, products);
    add_matrix(&bands->cluster, bytes, products);
    *bytes += matrix_bytes(&row);
    *bytes += (head->n_token + (uint64_t)bands->n_band - 1) * sizeof(float); /* their biases */
}

uint64_t bands_target_products(const struct bands *bands, int32_t id) {
    int i = bands_band_of(bands, (size_t)id);
    uint64_t bytes = 0, products = 0;
    if (i > 0) {
        add_matrix(&bands->band[i].softmax_projection, &bytes, &products);
        add_matrix(&bands->band[i].softmax, &bytes, &products);
    }
    return products;
}

/* ---- Embedding ---------------------------------------------------------------------------- */

size_t bands_members(const struct bands *bands, int i, const int32_t *ids, size_t n,
                     size_t *member) {
    size_t count = 0;
    for (size_t t = 0; t < n; t++)
        if (bands_band_of(bands, (size_t)ids[t]) == i)
            member[count++] = t;
    return count;
}

void adaptive_embed(struct adaptive *a, const struct compute *compute, const int32_t *ids, size_t n,
                    float *out) {
    const struct bands *bands = a->bands;
    size_t d_model = bands->d_model;
    for (int i = 0; i < bands->n_band; i++) {
        const struct band *band = &bands->band[i];
        const struct matrix *e = &band->embedding;
        size_t d_band = e->n_col, count = bands_members(bands, i, ids, n, a->member);
        if (count == 0)
            continue;
        for (size_t m = 0; m < count; m++) {
            size_t row = (size_t)ids[a->member[m]] - band->first;
            compute_widen(compute, e, row, 1, a->narrow + m * d_band);
        }
        const float *rows = a->narrow;
        if (band->embedding_projection.data) {
            compute_product(compute, count, a->narrow, d_band, &band->embedding_projection, NULL,
                            LINEAR, a->gather, d_model);
            rows = a->gather;
        }
        for (size_t m = 0; m < count; m++)
            for (size_t j = 0; j < d_model; j++)
                out[a->member[m] * d_model + j] = rows[m * d_model + j] * bands->scale;
    }
}

/* ---- Logits ------------------------------------------------------------------------------- */

/* Projects n rows of hidden to the width of band i, if it has a projection. */
static const float *project(struct adaptive *a, const struct compute *compute, int i,
                            const float *hidden, size_t n) {
    const struct matrix *p = &a->bands->band[i].softmax_projection;
    if (!p->data)
        return hidden;
    compute_product(compute, n, hidden, p->n_col, p, NULL, LINEAR, a->narrow, p->n_row);
    return a->narrow;
}

/* logit[n, ld] = band i's tokens in its softmax; for band 0, cluster[n, ldc] = the clusters in the
 * order of their matrix. */
static void band_logits(struct adaptive *a, const struct compute *compute, int i,
                        const float *hidden, size_t n, float *logit, size_t ld, float *cluster,
                        size_t ldc) {
    const struct bands *bands = a->bands;
    const struct band *band = &bands->band[i];
    const float *projected = project(a, compute, i, hidden, n);
    compute_product(compute, n, projected, band->softmax.n_col, &band->softmax, band->softmax_bias,
                    LINEAR, logit, ld);
    if (i == 0 && bands->n_band > 1)
        compute_product(compute, n, projected, bands->cluster.n_col, &bands->cluster,
                        bands->cluster_bias, LINEAR, cluster, ldc);
}

/* The sum of exp(x - *max) over a row of a softmax's entries: n tokens and n_cluster clusters, one
 * after the other.  e[n + n_cluster] receives the terms, unless it is NULL.  Like log_norm for
 * the exact arithmetic. */
static double sum_row(const struct kernels *kernels, const float *logit, size_t n,
                      const float *cluster, size_t n_cluster, float *max, float *e) {
    float tokens = kernels->largest(n, logit), clusters = kernels->largest(n_cluster, cluster);
    *max = clusters > tokens ? clusters : tokens;
    double sum = kernels->exponentials(n, logit, *max, e);
    return sum + kernels->exponentials(n_cluster, cluster, *max, e ? e + n : NULL);
}

/* The number to subtract from a logit for its log-probability. */
static double log_norm(const struct kernels *kernels, const float *logit, size_t n,
                       const float *cluster, size_t n_cluster) {
    float max;
    double sum = sum_row(kernels, logit, n, cluster, n_cluster, &max, NULL);
    return (double)max + exact_log(sum);
}

/* Rounds a log-probability; every NaN becomes the same. */
static float round_logprob(double x) {
    return x == x ? (float)x : float_of_bits(0x7fc00000);
}

/* Scores of targets: the head's softmax for all positions, then each other band's for the positions
 * that wait for it.  No log-probability but the target's is kept. */

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
    if (block >= softmax_blocks(s->w[0])) {
        part = 1;
        block -= softmax_blocks(s->w[0]);
        before = s->w[0]->n_row;
    }
    const struct matrix *w = s->w[part];
    size_t rows = compute_block_rows(w), first = block * rows;
    size_t n = w->n_row - first < rows ? w->n_row - first : rows;
    /* The logits follow the scratch in which the block's weights are widened. */
    float *logit = s->compute->scratch[thread] + compute_scratch(w, a->max_x) - a->max_x * rows;
    const struct product_block logits = {w, first, n, s->bias[part], LINEAR, logit, n};
    compute_product_block(s->compute, thread, &s->operand, &logits);
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
    const struct bands *bands = r->adaptive->bands;
    size_t n = bands->band[r->band].n_token, n_cluster = bands_entries(bands, r->band) - n;
    const float *logit = r->logit + (size_t)t * r->ld;
    double norm = log_norm(r->kernels, logit, n, logit + n, n_cluster);
    double logprob = (double)logit[r->entry[t]] - norm;
    r->found[t] = logprob;
    r->nats[t] = -round_logprob(r->cluster ? logprob + r->cluster[t] : logprob);
}

/* Scores `count` positions in band i: a->entry[count] are the targets' entries, nats[count] the
 * results.  cluster[count] is added, unless it is NULL; found[count] is as in exact_rows. */
static void score_rows(struct adaptive *a, const struct compute *compute, int i,
                       const float *hidden, size_t count, const double *cluster, double *found,
                       float *nats) {
    size_t n = bands_entries(a->bands, i), most = a->most_logits / n, rows;
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
        band_logits(a, compute, i, hidden + done * a->bands->d_model, rows, a->logits, n,
                    a->logits + a->bands->band[i].n_token, n);
        pool_run(compute->pool, (int)rows, score_row, &r);
    }
}

/* ---- Scores ------------------------------------------------------------------------------- */

/* Lets a position wait to be scored in its target's band. */
static void add_waiting(struct adaptive *a, const struct compute *compute, const float *hidden,
                        int32_t target, double cluster, float *nats) {
    size_t d_model = a->bands->d_model;
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
    const struct bands *bands = a->bands;
    const struct band *band = &bands->band[i];
    const struct matrix *cluster = i == 0 && bands->n_band > 1 ? &bands->cluster : NULL;
    const float *projected = project(a, compute, i, hidden, n);
    struct softmax s = {
        .adaptive = a,
        .compute = compute,
        .count = n,
        .operand = compute_prepare(compute, n, projected, band->softmax.n_col, &band->softmax),
        .w = {&band->softmax, cluster},
        .bias = {band->softmax_bias, bands->cluster_bias}};
    size_t blocks = softmax_blocks(&band->softmax) + (cluster ? softmax_blocks(cluster) : 0);
    pool_run(compute->pool, (int)blocks, softmax_task, &s);
    for (size_t t = 0; t < n; t++)
        nats[t] = (float)(log_sum_exp(a, blocks, t) - a->logit[t]);
}

void adaptive_score(struct adaptive *a, const struct compute *compute, const float *hidden,
                    size_t n, const int32_t *targets, float *nats) {
    const struct bands *bands = a->bands;
    bool exact = compute->kernels->is_exact;
    for (size_t t = 0; t < n; t++) {
        int i = bands_band_of(bands, (size_t)targets[t]);
        a->entry[t] =
            i == 0 ? (size_t)targets[t] : bands->band[0].n_token + bands_cluster_row(bands, i);
    }
    if (exact)
        score_rows(a, compute, 0, hidden, n, NULL, a->found, nats);
    else
        score_blocks(a, compute, 0, hidden, n, nats);
    for (size_t t = 0; t < n; t++)
        if (bands_band_of(bands, (size_t)targets[t]) > 0)
            add_waiting(a, compute, hidden + t * bands->d_model, targets[t],
                        exact ? a->found[t] : 0, &nats[t]);
}

/* Scores the waiting positions a->member[count] in band i. */
static void score_members(struct adaptive *a, const struct compute *compute, int i, size_t count) {
    bool exact = compute->kernels->is_exact;
    size_t d_model = a->bands->d_model;
    for (size_t m = 0; m < count; m++) {
        a->entry[m] = (size_t)a->waiting_target[a->member[m]] - a->bands->band[i].first;
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
    for (int i = 1; i < a->bands->n_band && a->n_waiting > 0; i++) {
        size_t count = bands_members(a->bands, i, a->waiting_target, a->n_waiting, a->member);
        if (count > 0)
            score_members(a, compute, i, count);
    }
    a->n_waiting = 0;
}

/* Whole distributions: the log-probabilities of a band's tokens, or the terms of its softmax.  Each
 * row is a task. */

/* Computes log-probabilities from logits, each row in a task of its own. */
struct distributions {
    const struct bands *bands;
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
    const struct bands *bands = d->bands;
    size_t n = bands->band[0].n_token, n_cluster = (size_t)bands->n_band - 1;
    float *logprob = d->logprob + (size_t)t * bands_n_token(bands);
    const float *tail = d->logit + (size_t)t * n_cluster;
    double *cluster = d->cluster + (size_t)t * (size_t)bands->n_band;
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
    for (int i = 1; i < bands->n_band; i++)
        cluster[i] = tail[bands_cluster_row(bands, i)] - norm;
}

static void exact_head_task(void *context, int t, int thread) {
    (void)thread;
    const struct distributions *d = context;
    const struct bands *bands = d->bands;
    size_t n = bands->band[0].n_token, n_cluster = (size_t)bands->n_band - 1;
    float *logprob = d->logprob + (size_t)t * bands_n_token(bands);
    const float *tail = d->logit + (size_t)t * n_cluster;
    double norm = log_norm(d->kernels, logprob, n, tail, n_cluster);
    for (size_t i = 0; i < n; i++)
        logprob[i] = round_logprob((double)logprob[i] - norm);
    for (int i = 1; i < bands->n_band; i++)
        d->cluster[(size_t)t * (size_t)bands->n_band + (size_t)i] =
            (double)tail[bands_cluster_row(bands, i)] - norm;
}

void adaptive_head(struct adaptive *a, const struct compute *compute, const float *hidden, size_t n,
                   float *logprob, double *cluster) {
    const struct bands *bands = a->bands;
    struct distributions d = {.bands = bands,
                              .kernels = compute->kernels,
                              .logprob = logprob,
                              .logit = a->cluster_logit,
                              .cluster = cluster};
    band_logits(a, compute, 0, hidden, n, logprob, bands_n_token(bands), a->cluster_logit,
                (size_t)bands->n_band - 1);
    pool_run(compute->pool, (int)n, compute->kernels->is_exact ? exact_head_task : head_task, &d);
}

/* Where the logits of task t's band are, and what its cluster has. */
static float *tail_row(const struct distributions *d, int t) {
    return d->logprob + (size_t)t * bands_n_token(d->bands) + d->bands->band[d->band].first;
}

static double tail_cluster(const struct distributions *d, int t) {
    return d->before[(size_t)t * (size_t)d->bands->n_band + (size_t)d->band];
}

static void tail_task(void *context, int t, int thread) {
    (void)thread;
    const struct distributions *d = context;
    const struct band *band = &d->bands->band[d->band];
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
    size_t n = d->bands->band[d->band].n_token;
    float *logprob = tail_row(d, t);
    double norm = log_norm(d->kernels, logprob, n, NULL, 0), cluster = tail_cluster(d, t);
    for (size_t j = 0; j < n; j++)
        logprob[j] = round_logprob((double)logprob[j] - norm + cluster);
}

void adaptive_tail(struct adaptive *a, const struct compute *compute, const float *hidden, size_t n,
                   int i, const double *cluster, float *logprob) {
    struct distributions d = {.bands = a->bands,
                              .kernels = compute->kernels,
                              .band = i,
                              .logprob = logprob,
                              .before = cluster};
    band_logits(a, compute, i, hidden, n, logprob + a->bands->band[i].first,
                bands_n_token(a->bands), NULL, 0);
    pool_run(compute->pool, (int)n, compute->kernels->is_exact ? exact_tail_task : tail_task, &d);
}

/* ---- Before the division ------------------------------------------------------------------ */

struct weighed {
    const struct bands *bands;
    const struct kernels *kernels;
    int band;
    float *e; /* [n, lde] */
    size_t lde;
    double *sum; /* [n] */
};

static void weigh_row(void *context, int t, int thread) {
    (void)thread;
    const struct weighed *w = context;
    size_t n = w->bands->band[w->band].n_token, n_cluster = bands_entries(w->bands, w->band) - n;
    float *e = w->e + (size_t)t * w->lde, max, moved[MAX_BAND];
    w->sum[t] = sum_row(w->kernels, e, n, e + n, n_cluster, &max, e);
    memcpy(moved, e + n, n_cluster * sizeof *moved);
    for (size_t i = 1; i <= n_cluster; i++)
        e[n + i - 1] = moved[bands_cluster_row(w->bands, (int)i)];
}

void adaptive_weights(struct adaptive *a, const struct compute *compute, const float *hidden,
                      size_t n, int i, float *e, size_t lde, double *sum) {
    struct weighed w = {a->bands, compute->kernels, i, e, lde, sum};
    band_logits(a, compute, i, hidden, n, e, lde, e + a->bands->band[i].n_token, lde);
    pool_run(compute->pool, (int)n, weigh_row, &w);
}
