/* The memory, the costs and the embedding of the vocabulary's bands, and the logits that scores and
 * distributions begin with. */
#include "adaptive_softmax.h"
#include "lib/base/exact_math.h"
#include "lib/base/memory.h"
#include "lib/base/numbers.h"

/* ---- Memory ------------------------------------------------------------------------------- */

size_t adaptive_blocks(const struct matrix *w) {
    return (w->n_row + compute_block_rows(w) - 1) / compute_block_rows(w);
}

/* Blocks of the largest softmax: a band's, or the head's with its clusters. */
static size_t max_blocks(const struct ends *ends) {
    size_t most = 0;
    for (int i = 0; i < ends->n_band; i++) {
        size_t n = adaptive_blocks(&ends->band[i].softmax);
        most = n > most ? n : most;
    }
    return most + (ends->n_band > 1 ? adaptive_blocks(&ends->cluster) : 0);
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

size_t ends_most_entries(const struct ends *ends) {
    size_t most = 0;
    for (int i = 0; i < ends->n_band; i++)
        most = larger(most, ends_entries(ends, i));
    return most;
}

/* The exact arithmetic sums a softmax after its last logit is known, so it keeps whole rows, but no
 * more of them than this many logits. */
enum { MOST_LOGITS = 1 << 22 };

static size_t most_logits(const struct ends *ends, size_t max_x) {
    size_t widest = ends_most_entries(ends);
    return larger(widest, smaller(max_x * widest, MOST_LOGITS));
}

void adaptive_lay_out(struct adaptive *a, const struct ends *ends, size_t max_x, bool exact,
                      struct arena *arena) {
    *a = (struct adaptive){.ends = ends, .max_x = max_x};
    a->narrow = arena_take(arena, max_x * ends->band[0].embedding.n_col, sizeof *a->narrow);
    a->gather = arena_take(arena, max_x * ends->d_model, sizeof *a->gather);
    a->member = arena_take(arena, max_x, sizeof *a->member);
    a->entry = arena_take(arena, max_x, sizeof *a->entry);
    a->partial = arena_take(arena, max_x * max_blocks(ends), 2 * sizeof *a->partial);
    a->logit = arena_take(arena, max_x, sizeof *a->logit);
    a->nats = arena_take(arena, max_x, sizeof *a->nats);
    a->cluster = arena_take(arena, max_x * (size_t)ends->n_band, sizeof *a->cluster);
    a->cluster_logit =
        arena_take(arena, max_x * ((size_t)ends->n_band - 1), sizeof *a->cluster_logit);
    if (exact) {
        a->most_logits = most_logits(ends, max_x);
        a->logits = arena_take(arena, a->most_logits, sizeof *a->logits);
        a->waiting_cluster = arena_take(arena, max_x, sizeof *a->waiting_cluster);
        a->found = arena_take(arena, max_x, sizeof *a->found);
    }
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

/* ---- Costs -------------------------------------------------------------------------------- */

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

uint64_t ends_target_products(const struct ends *ends, int32_t id) {
    int i = ends_band_of(ends, (size_t)id);
    uint64_t bytes = 0, products = 0;
    if (i > 0) {
        add_matrix(&ends->band[i].softmax_projection, &bytes, &products);
        add_matrix(&ends->band[i].softmax, &bytes, &products);
    }
    return products;
}

/* ---- Embedding ---------------------------------------------------------------------------- */

size_t ends_members(const struct ends *ends, int i, const int32_t *ids, size_t n, size_t *member) {
    size_t count = 0;
    for (size_t t = 0; t < n; t++)
        if (ends_band_of(ends, (size_t)ids[t]) == i)
            member[count++] = t;
    return count;
}

void adaptive_embed(struct adaptive *a, const struct compute *compute, const int32_t *ids, size_t n,
                    float *out) {
    const struct ends *ends = a->ends;
    size_t d_model = ends->d_model;
    for (int i = 0; i < ends->n_band; i++) {
        const struct band *band = &ends->band[i];
        const struct matrix *e = &band->embedding;
        size_t d_band = e->n_col, count = ends_members(ends, i, ids, n, a->member);
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

/* ---- Logits ------------------------------------------------------------------------------- */

const float *adaptive_project(struct adaptive *a, const struct compute *compute, int i,
                              const float *hidden, size_t n) {
    const struct matrix *p = &a->ends->band[i].softmax_projection;
    if (!p->data)
        return hidden;
    compute_product(compute, n, hidden, p->n_col, p, NULL, LINEAR, a->narrow, p->n_row);
    return a->narrow;
}

void adaptive_logits(struct adaptive *a, const struct compute *compute, int i, const float *hidden,
                     size_t n, float *logit, size_t ld, float *cluster, size_t ldc) {
    const struct ends *ends = a->ends;
    const struct band *band = &ends->band[i];
    const float *projected = adaptive_project(a, compute, i, hidden, n);
    compute_product(compute, n, projected, band->softmax.n_col, &band->softmax, band->softmax_bias,
                    LINEAR, logit, ld);
    if (i == 0 && ends->n_band > 1)
        compute_product(compute, n, projected, ends->cluster.n_col, &ends->cluster,
                        ends->cluster_bias, LINEAR, cluster, ldc);
}

double adaptive_sum(const struct kernels *kernels, const float *logit, size_t n,
                    const float *cluster, size_t n_cluster, float *max, float *e) {
    float tokens = kernels->largest(n, logit), clusters = kernels->largest(n_cluster, cluster);
    *max = clusters > tokens ? clusters : tokens;
    double sum = kernels->exponentials(n, logit, *max, e);
    return sum + kernels->exponentials(n_cluster, cluster, *max, e ? e + n : NULL);
}

double adaptive_norm(const struct kernels *kernels, const float *logit, size_t n,
                     const float *cluster, size_t n_cluster) {
    float max;
    double sum = adaptive_sum(kernels, logit, n, cluster, n_cluster, &max, NULL);
    return (double)max + exact_log(sum);
}

float adaptive_round(double x) {
    return x == x ? (float)x : float_of_bits(0x7fc00000);
}
