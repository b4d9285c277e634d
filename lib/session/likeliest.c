/* The likeliest next tokens, found with as few bands of the softmax as possible. */
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "session.h"

#include <math.h>

/* Whether a comes after b in the order of likelihood. */
static bool is_worse(struct candidate a, struct candidate b) {
    return a.score < b.score || (a.score == b.score && a.id > b.id);
}

/* heap[0] is the worst of the n; sifts the element at i down to its place. */
static void sift_down(struct candidate *heap, size_t n, size_t i) {
    struct candidate moved = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && is_worse(heap[child + 1], heap[child]))
            child++;
        if (!is_worse(heap[child], moved))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static void heap_push(struct candidate *heap, size_t *n, struct candidate added) {
    size_t i = (*n)++;
    while (i > 0 && is_worse(added, heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = added;
}

/* A number that is exceeded by whatever in f32 reaches x. */
static float just_below(double x) {
    return nextafterf((float)x, -INFINITY);
}

/* Lets band i's tokens compete for the k places of the heap, those that score `least` or more.  A
 * place in the heap is for few: the others are passed over many at a time. */
static void compete(const txl_session *s, int i, size_t k, double least, const struct adjustment *a,
                    struct candidate *heap, size_t *n) {
    const struct kernels *kernels = s->timeline->compute.kernels;
    const struct band *band = &s->model->network->bands.band[i];
    size_t end = band->first + band->n_token;
    bool raises = a && a->penalty < 1; /* scores above their log-probabilities */
    float bound = raises ? -INFINITY : just_below(least);
    for (size_t id = band->first;; id++) {
        if (bound > -INFINITY && id < end)
            id = kernels->find_above(id, end, s->logprob, bound);
        if (id >= end)
            break;
        struct candidate token = {(double)s->logprob[id], (int32_t)id};
        if (a && a->mark[id] & MARK_BANNED)
            continue;
        if (a && a->mark[id] & MARK_PENALISED)
            token.score *= a->penalty;
        if (token.score < least)
            continue;
        if (*n < k) {
            heap_push(heap, n, token);
        } else if (is_worse(heap[0], token)) {
            heap[0] = token;
            sift_down(heap, k, 0);
        }
        if (*n == k && !raises)
            bound = just_below(heap[0].score > least ? heap[0].score : least);
    }
}

/* The likeliest band that has not competed, or 0. */
static int next_band(const txl_session *s, const bool *done) {
    int best = 0;
    for (int i = 1; i < s->model->network->bands.n_band; i++)
        if (!done[i] && (best == 0 || s->cluster[i] > s->cluster[best]))
            best = i;
    return best;
}

txl_status session_likeliest(txl_session *s, size_t k, double least, const struct adjustment *a,
                             size_t *n, txl_error *error) {
    struct candidate *heap = s->candidate;
    /* No token of a band is likelier than the band, nor has a score above this times the band's. */
    double bound = a && a->penalty < 1 ? a->penalty : 1;
    bool done[MAX_BAND] = {false};
    *n = 0;
    if (k > (size_t)s->model->vocabulary.n)
        k = (size_t)s->model->vocabulary.n;
    txl_status status = session_need_band(s, 0, error);
    if (status || k == 0)
        return status;
    compete(s, 0, k, least, a, heap, n);
    int i;
    while ((i = next_band(s, done)) > 0) {
        double most = bound * (double)(float)s->cluster[i];
        if (most < least || (*n == k && most < heap[0].score))
            break;
        status = session_need_band(s, i, error);
        if (status)
            return status;
        compete(s, i, k, least, a, heap, n);
        done[i] = true;
    }
    /* Taking the worst again and again sorts them. */
    for (size_t left = *n; left > 1; left--) {
        struct candidate worst = heap[0];
        heap[0] = heap[left - 1];
        sift_down(heap, left - 1, 0);
        heap[left - 1] = worst;
    }
    return TXL_OK;
}

txl_status txl_session_top(txl_session *s, int k, int32_t *ids, float *logprobs, txl_error *error) {
    size_t n;
    if (k < 0 || k > s->model->vocabulary.n)
        return txl_fail(error, TXL_ARGUMENT,
                        "the number of most likely tokens must be from 0 to %d",
                        s->model->vocabulary.n);
    txl_status status = session_likeliest(s, (size_t)k, -INFINITY, NULL, &n, error);
    for (size_t i = 0; !status && i < n; i++) {
        ids[i] = s->candidate[i].id;
        logprobs[i] = (float)s->candidate[i].score;
    }
    return status;
}
