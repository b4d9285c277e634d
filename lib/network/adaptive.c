/* Embedding and softmax over bands of the vocabulary. */
#include "adaptive.h"

#include <math.h>
#include <string.h>

/* ---- Memory ------------------------------------------------------------------------------- */

static size_t n_block(const struct matrix *w) {
    return (w->n_row + compute_block_rows(w) - 1) / compute_block_rows(w);
}

/* Blocks of the largest softmax: a band's, or the head's with its clusters. */
static size_t max_blocks(const struct ends *ends) {
    size_t most = 0;
    for (int i = 0; i < ends->n_band; i++) {
        size_t n = n_block(&ends->band[i].softmax);
        most = n > most ? n : most;
    }
    return most + (ends->n_band > 1 ? n_block(&ends->cluster) : 0);
}

size_t adaptive_scratch(const struct ends *ends, size_t max_x) {
    size_t most = ends->n_band > 1 ? compute_scratch(&ends->cluster, max_x) : 0;
    for (int i = 0; i < ends->n_band; i++) {
        const struct band *band = &ends->band[i];
        const struct matrix *matrix[] = {&band->softmax, &band->embedding_projection,
                                         &band->softmax_projection};
        for (size_t m = 0; m < 3; m++) {
            size_t n = matrix[m]->data ? compute_scratch(matrix[m], max_x) : 0;
            most = n > most ? n : most;
        }
    }
    return most;
}

void adaptive_lay_out(struct adaptive *a, const struct ends *ends, size_t max_x,
                      struct arena *arena) {
    *a = (struct adaptive){.ends = ends, .max_x = max_x};
    a->narrow = arena_take(arena, max_x * ends->band[0].embedding.n_col, sizeof *a->narrow);
    a->gather = arena_take(arena, max_x * ends->d_model, sizeof *a->gather);
    a->member = arena_take(arena, max_x, sizeof *a->member);
    a->entry = arena_take(arena, max_x, sizeof *a->entry);
    a->partial = arena_take(arena, max_x * max_blocks(ends), 2 * sizeof *a->partial);
    a->logit = arena_take(arena, max_x, sizeof *a->logit);
    a->cluster = arena_take(arena, max_x * (size_t)ends->n_band, sizeof *a->cluster);
    if (ends->n_band > 1) {
        a->waiting_target = arena_take(arena, max_x, sizeof *a->waiting_target);
        a->waiting_nats = arena_take(arena, max_x, sizeof *a->waiting_nats);
        a->waiting_hidden = arena_take(arena, max_x * ends->d_model, sizeof *a->waiting_hidden);
    }
}

void adaptive_order(const struct ends *ends, struct compute *compute) {
    compute_order(compute, &ends->band[0].softmax_projection);
    compute_order(compute, &ends->band[0].softmax);
    compute_order(compute, &ends->cluster);
}

static void add_matrix(const struct matrix *w, uint64_t *bytes, uint64_t *products) {
    *bytes += matrix_bytes(w);
    *products += (uint64_t)w->n_row * w->n_col;
}

void ends_costs(const struct ends *ends, uint64_t *bytes, uint64_t *products) {
    const struct band *head = &ends->band[0];
    const struct matrix row = matrix_rows(&head->embedding, 0, 1);
    add_matrix(&head->embedding_projection, bytes, products);
    add_matrix(&head->softmax_projection, bytes, products);
    add_matrix(&head->softmax, bytes, products);
    add_matrix(&ends->cluster, bytes, products);
    *bytes += matrix_bytes(&row);
    *bytes += (head->n_token + (uint64_t)ends->n_band - 1) * sizeof(float); /* their biases */
}

/* ---- Embedding ---------------------------------------------------------------------------- */

static int band_of(const struct ends *ends, size_t id) {
    int i = 0;
    while (id >= ends->band[i].first + ends->band[i].n_token)
        i++;
    return i;
}

uint64_t ends_target_products(const struct ends *ends, int32_t id) {
    int i = band_of(ends, (size_t)id);
    uint64_t bytes = 0, products = 0;
    if (i > 0) {
        add_matrix(&ends->band[i].softmax_projection, &bytes, &products);
        add_matrix(&ends->band[i].softmax, &bytes, &products);
    }
    return products;
}

/* Lists in a->member which of ids[n] are in band i. */
static size_t members(struct adaptive *a, int i, const int32_t *ids, size_t n) {
    size_t count = 0;
    for (size_t t = 0; t < n; t++)
        if (band_of(a->ends, (size_t)ids[t]) == i)
            a->member[count++] = t;
    return count;
}

void adaptive_embed(struct adaptive *a, const struct compute *compute, const int32_t *ids, size_t n,
                    float *out) {
    const struct ends *ends = a->ends;
    size_t d_model = ends->d_model;
    for (int i = 0; i < ends->n_band; i++) {
        const struct band *band = &ends->band[i];
        const struct matrix *e = &band->embedding;
        size_t d_band = e->n_col, count = members(a, i, ids, n);
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
                out[a->member[m] * d_model + j] = rows[m * d_model + j] * ends->scale;
    }
}

/* ---- Softmax of many positions ------------------------------------------------------------ */

/* A softmax at `count` positions over the rows of one matrix, or of two matrices, one after the
 * other (the head's tokens and its clusters). */
struct softmax {
    struct adaptive *adaptive;
    const struct compute *compute;
    size_t count;
    const float *projected; /* [count, d_band] */
    struct operand operand; /* the same as an operand; add_nats prepares it */
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
    if (block >= n_block(s->w[0])) {
        part = 1;
        block -= n_block(s->w[0]);
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

/* Computes all blocks, and returns how many they are. */
static size_t run_softmax(struct softmax *s) {
    size_t blocks = n_block(s->w[0]) + (s->w[1] ? n_block(s->w[1]) : 0);
    s->operand = compute_prepare(s->compute, s->count, s->projected, s->w[0]->n_col, s->w[0]);
    pool_run(s->compute->pool, (int)blocks, softmax_task, s);
    return blocks;
}

/* The nats of entry[m]. */
static float nats_of(const struct adaptive *a, size_t blocks, size_t m) {
    return (float)(log_sum_exp(a, blocks, m) - a->logit[m]);
}

/* Projects n rows of hidden to the width of band i, if it has a projection. */
static const float *project(struct adaptive *a, const struct compute *compute, int i,
                            const float *hidden, size_t n) {
    const struct matrix *p = &a->ends->band[i].softmax_projection;
    if (!p->data)
        return hidden;
    compute_product(compute, n, hidden, p->n_col, p, NULL, LINEAR, a->narrow, p->n_row);
    return a->narrow;
}

/* The row of the head's clusters that stands for band i >= 1. */
static size_t cluster_row(const struct ends *ends, int i) {
    return (size_t)(ends->forward_order ? i - 1 : ends->n_band - 1 - i);
}

/* Lets a position wait to be scored in its target's band. */
static void add_waiting(struct adaptive *a, const struct compute *compute, const float *hidden,
                        int32_t target, float *nats) {
    size_t d_model = a->ends->d_model;
    if (a->n_waiting == a->max_x)
        adaptive_score_end(a, compute);
    a->waiting_target[a->n_waiting] = target;
    a->waiting_nats[a->n_waiting] = nats;
    memcpy(a->waiting_hidden + a->n_waiting * d_model, hidden, d_model * sizeof *hidden);
    a->n_waiting++;
}

void adaptive_score(struct adaptive *a, const struct compute *compute, const float *hidden,
                    size_t n, const int32_t *targets, float *nats) {
    const struct ends *ends = a->ends;
    struct softmax head = {.adaptive = a,
                           .compute = compute,
                           .count = n,
                           .projected = project(a, compute, 0, hidden, n),
                           .w = {&ends->band[0].softmax, ends->n_band > 1 ? &ends->cluster : NULL},
                           .bias = {ends->band[0].softmax_bias, ends->cluster_bias}};
    for (size_t t = 0; t < n; t++) {
        int i = band_of(ends, (size_t)targets[t]);
        a->entry[t] = i == 0 ? (size_t)targets[t] : ends->band[0].n_token + cluster_row(ends, i);
    }
    size_t blocks = run_softmax(&head);
    for (size_t t = 0; t < n; t++)
        nats[t] = nats_of(a, blocks, t);
    for (size_t t = 0; t < n; t++)
        if (band_of(ends, (size_t)targets[t]) > 0)
            add_waiting(a, compute, hidden + t * ends->d_model, targets[t], &nats[t]);
}

void adaptive_score_end(struct adaptive *a, const struct compute *compute) {
    size_t d_model = a->ends->d_model;
    for (int i = 1; i < a->ends->n_band && a->n_waiting > 0; i++) {
        const struct band *band = &a->ends->band[i];
        size_t count = members(a, i, a->waiting_target, a->n_waiting);
        if (count == 0)
            continue;
        for (size_t m = 0; m < count; m++) {
            a->entry[m] = (size_t)a->waiting_target[a->member[m]] - band->first;
            memcpy(a->gather + m * d_model, a->waiting_hidden + a->member[m] * d_model,
                   d_model * sizeof *a->gather);
        }
        struct softmax tail = {.adaptive = a,
                               .compute = compute,
                               .count = count,
                               .projected = project(a, compute, i, a->gather, count),
                               .w = {&band->softmax, NULL},
                               .bias = {band->softmax_bias, NULL}};
        size_t blocks = run_softmax(&tail);
        for (size_t m = 0; m < count; m++)
            *a->waiting_nats[a->member[m]] += nats_of(a, blocks, m);
    }
    a->n_waiting = 0;
}

/* ---- Whole distributions ------------------------------------------------------------------ */

/* Computes log-probabilities from logits, each row in a task of its own. */
struct distributions {
    const struct ends *ends;
    const struct kernels *kernels;
    int band;
    float *logprob; /* [n, n_token] */
    float *cluster; /* [n, n_band] */
};

static size_t n_token(const struct ends *ends) {
    const struct band *last = &ends->band[ends->n_band - 1];
    return last->first + last->n_token;
}

/* The softmax over band 0's tokens and the clusters; clusters are in the order of their matrix. */
static void head_task(void *context, int t, int thread) {
    (void)thread;
    const struct distributions *d = context;
    const struct ends *ends = d->ends;
    size_t n = ends->band[0].n_token, n_cluster = (size_t)ends->n_band - 1;
    float *logprob = d->logprob + (size_t)t * n_token(ends);
    float *cluster = d->cluster + (size_t)t * (size_t)ends->n_band;
    float max, sum, top = -INFINITY, tail[64];
    d->kernels->sum_exp(n, logprob, &max, &sum);
    for (size_t i = 0; i < n_cluster; i++) {
        tail[i] = cluster[i + 1];
        top = tail[i] > top ? tail[i] : top;
    }
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
        cluster[i] = tail[cluster_row(ends, i)] - norm;
}

void adaptive_head(struct adaptive *a, const struct compute *compute, const float *hidden, size_t n,
                   float *logprob, float *cluster) {
    const struct ends *ends = a->ends;
    const struct band *band = &ends->band[0];
    const float *projected = project(a, compute, 0, hidden, n);
    struct distributions d = {ends, compute->kernels, 0, logprob, cluster};
    compute_product(compute, n, projected, band->softmax.n_col, &band->softmax, band->softmax_bias,
                    LINEAR, logprob, n_token(ends));
    if (ends->n_band > 1)
        compute_product(compute, n, projected, ends->cluster.n_col, &ends->cluster,
                        ends->cluster_bias, LINEAR, cluster + 1, (size_t)ends->n_band);
    pool_run(compute->pool, (int)n, head_task, &d);
}

static void tail_task(void *context, int t, int thread) {
    (void)thread;
    const struct distributions *d = context;
    const struct band *band = &d->ends->band[d->band];
    float *logprob = d->logprob + (size_t)t * n_token(d->ends) + band->first;
    float cluster = d->cluster[(size_t)t * (size_t)d->ends->n_band + (size_t)d->band];
    float max, sum;
    d->kernels->sum_exp(band->n_token, logprob, &max, &sum);
    float shift = (float)(cluster - max - log((double)sum));
    for (size_t j = 0; j < band->n_token; j++)
        logprob[j] += shift;
}

void adaptive_tail(struct adaptive *a, const struct compute *compute, const float *hidden, size_t n,
                   int i, float *cluster, float *logprob) {
    const struct band *band = &a->ends->band[i];
    const float *projected = project(a, compute, i, hidden, n);
    struct distributions d = {a->ends, compute->kernels, i, logprob, cluster};
    compute_product(compute, n, projected, band->softmax.n_col, &band->softmax, band->softmax_bias,
                    LINEAR, logprob + band->first, n_token(a->ends));
    pool_run(compute->pool, (int)n, tail_task, &d);
}
