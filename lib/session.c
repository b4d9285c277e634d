/* Sessions: feeding, scoring, and the distribution of the next token. */
#include "session.h"
#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

txl_status txl_session_new(const txl_model *model, const txl_settings *settings,
                           txl_session **session, txl_error *error) {
    txl_session *s = calloc(1, sizeof *s);
    if (!s)
        return txl_fail_memory(error, "a session", sizeof *s);
    size_t n_token = (size_t)model->vocabulary.n, n_band = (size_t)model->network->n_band;
    s->model = model;
    txl_status status = network_open(&s->network, model, settings, error);
    if (!status) {
        s->last = calloc((size_t)model->network->d_model, sizeof *s->last);
        s->logprob = calloc(n_token, sizeof *s->logprob);
        s->cluster = calloc(n_band, sizeof *s->cluster);
        s->have = calloc(n_band, sizeof *s->have);
        s->candidate = calloc(n_token, sizeof *s->candidate);
        if (!s->last || !s->logprob || !s->cluster || !s->have || !s->candidate)
            status = txl_fail_memory(error, "a distribution", n_token * sizeof *s->candidate);
    }
    if (status) {
        txl_session_free(s);
        return status;
    }
    *session = s;
    return TXL_OK;
}

void txl_session_free(txl_session *s) {
    if (!s)
        return;
    network_close(&s->network);
    free(s->last);
    free(s->logprob);
    free(s->cluster);
    free(s->have);
    free(s->candidate);
    free(s);
}

void txl_session_settings(const txl_session *s, txl_settings *settings) {
    *settings = s->network.settings;
}

uint64_t txl_session_bytes(const txl_model *model, const txl_settings *settings) {
    return network_bytes(model, settings);
}

static void forget_distribution(txl_session *s) {
    memset(s->have, 0, (size_t)s->model->network->n_band * sizeof *s->have);
}

void txl_session_reset(txl_session *s) {
    network_reset(&s->network);
    s->started = false;
    forget_distribution(s);
}

/* ---- Feeding and scoring ------------------------------------------------------------------ */

static txl_status check_ids(const txl_session *s, const int32_t *ids, size_t n, txl_error *error) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= s->model->vocabulary.n)
            return txl_fail(error, TXL_ARGUMENT, "id %d is not from 0 to %d", ids[i],
                            s->model->vocabulary.n - 1);
    }
    return TXL_OK;
}

static txl_status not_finite(const txl_session *s, txl_error *error) {
    return txl_fail(error, TXL_FORMAT,
                    "%s: the network's results are not finite; txl verify tells whether the file "
                    "is damaged",
                    s->model->weights->name);
}

/* Feeds ids, and scores targets unless they are NULL. */
static txl_status advance(txl_session *s, const int32_t *ids, size_t n, const int32_t *targets,
                          float *nats, txl_error *error) {
    size_t d_model = (size_t)s->model->network->d_model;
    for (size_t done = 0; done < n;) {
        size_t room = network_room(&s->network), pass = n - done < room ? n - done : room;
        const float *hidden = network_advance(&s->network, ids + done, pass);
        if (targets) {
            adaptive_score(&s->network.adaptive, &s->network.compute, hidden, pass, targets + done,
                           nats + done);
            for (size_t i = done; i < done + pass; i++) {
                if (!isfinite(nats[i]))
                    return not_finite(s, error);
            }
        }
        memcpy(s->last, hidden + (pass - 1) * d_model, d_model * sizeof *s->last);
        s->started = true;
        done += pass;
    }
    forget_distribution(s);
    return TXL_OK;
}

txl_status txl_session_feed(txl_session *s, const int32_t *ids, size_t n, txl_error *error) {
    txl_status status = check_ids(s, ids, n, error);
    return status ? status : advance(s, ids, n, NULL, NULL, error);
}

txl_status txl_session_score(txl_session *s, const int32_t *ids, size_t n, const int32_t *targets,
                             float *nats, txl_error *error) {
    txl_status status = check_ids(s, ids, n, error);
    if (!status)
        status = check_ids(s, targets, n, error);
    return status ? status : advance(s, ids, n, targets, nats, error);
}

/* ---- The next token's distribution -------------------------------------------------------- */

txl_status session_need_band(txl_session *s, int i, txl_error *error) {
    struct network *net = &s->network;
    if (!s->started)
        return txl_fail(error, TXL_ARGUMENT, "no token has been fed yet");
    if (!s->have[0])
        adaptive_head(&net->adaptive, &net->compute, s->last, s->logprob, s->cluster);
    s->have[0] = true;
    if (!s->have[i])
        adaptive_tail(&net->adaptive, &net->compute, s->last, i, s->cluster[i], s->logprob);
    s->have[i] = true;
    return isfinite(s->logprob[s->model->network->band[i].first]) ? TXL_OK : not_finite(s, error);
}

txl_status txl_session_logprobs(txl_session *s, float *out, txl_error *error) {
    txl_status status = TXL_OK;
    for (int i = 0; i < s->model->network->n_band && !status; i++)
        status = session_need_band(s, i, error);
    if (!status)
        memcpy(out, s->logprob, (size_t)s->model->vocabulary.n * sizeof *out);
    return status;
}

/* Whether a comes after b in the order of likelihood. */
static bool is_worse(struct candidate a, struct candidate b) {
    return a.logprob < b.logprob || (a.logprob == b.logprob && a.id > b.id);
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

static void push(struct candidate *heap, size_t *n, struct candidate added) {
    size_t i = (*n)++;
    while (i > 0 && is_worse(added, heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = added;
}

static bool contains(const int32_t *ids, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

/* Lets band i's tokens compete for the k places of the heap. */
static void compete(const txl_session *s, int i, size_t k, const int32_t *banned, size_t n_banned,
                    struct candidate *heap, size_t *n) {
    const struct band *band = &s->model->network->band[i];
    for (size_t id = band->first; id < band->first + band->n_token; id++) {
        struct candidate token = {s->logprob[id], (int32_t)id};
        if (*n == k && !is_worse(heap[0], token))
            continue;
        if (contains(banned, n_banned, token.id))
            continue;
        if (*n < k) {
            push(heap, n, token);
        } else {
            heap[0] = token;
            sift_down(heap, k, 0);
        }
    }
}

/* The likeliest band that has not competed, or 0. */
static int next_band(const txl_session *s, const bool *done) {
    int best = 0;
    for (int i = 1; i < s->model->network->n_band; i++) {
        if (!done[i] && (best == 0 || s->cluster[i] > s->cluster[best]))
            best = i;
    }
    return best;
}

txl_status session_likeliest(txl_session *s, size_t k, const int32_t *banned, size_t n_banned,
                             size_t *n, txl_error *error) {
    struct candidate *heap = s->candidate;
    bool done[128] = {false};
    *n = 0;
    if (k > (size_t)s->model->vocabulary.n)
        k = (size_t)s->model->vocabulary.n;
    txl_status status = session_need_band(s, 0, error);
    if (status || k == 0)
        return status;
    compete(s, 0, k, banned, n_banned, heap, n);
    int i;
    while ((i = next_band(s, done)) > 0) {
        /* No token of a band is likelier than the band. */
        if (*n == k && s->cluster[i] < heap[0].logprob)
            break;
        status = session_need_band(s, i, error);
        if (status)
            return status;
        compete(s, i, k, banned, n_banned, heap, n);
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
        return txl_fail(error, TXL_ARGUMENT, "the number of likeliest tokens must be from 0 to %d",
                        s->model->vocabulary.n);
    txl_status status = session_likeliest(s, (size_t)k, NULL, 0, &n, error);
    for (size_t i = 0; !status && i < n; i++) {
        ids[i] = s->candidate[i].id;
        logprobs[i] = s->candidate[i].logprob;
    }
    return status;
}
