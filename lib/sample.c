/* Drawing the next token.  Of an adaptive softmax only those bands are computed that the draw can
 * depend on: the head gives the probability of each band as a whole, which bounds its tokens'. */
#include "error.h"
#include "random.h"
#include "session.h"

#include <math.h>

static txl_status nothing_left(txl_error *error) {
    return txl_fail(error, TXL_ARGUMENT, "every token is banned");
}

/* Probability of the tokens that may not be drawn. */
static txl_status banned_mass(txl_session *s, const txl_sampling *p, double *mass,
                              txl_error *error) {
    const struct transformer_xl *x = s->model->network;
    *mass = 0;
    for (size_t b = 0; b < p->n_banned; b++) {
        int32_t id = p->banned[b];
        int i = 0;
        if (id < 0 || id >= s->model->vocabulary.n)
            continue;
        while ((size_t)id >= x->band[i].first + x->band[i].n_token)
            i++;
        txl_status status = session_need_band(s, i, error);
        if (status)
            return status;
        *mass += exp(s->logprob[id]);
    }
    return TXL_OK;
}

static bool is_banned(const txl_sampling *p, int32_t id) {
    for (size_t b = 0; b < p->n_banned; b++) {
        if (p->banned[b] == id)
            return true;
    }
    return false;
}

/* Draws among the first n candidates, best first: tempered, then cut to the nucleus of top_p. */
static int32_t draw_candidate(const txl_session *s, const txl_sampling *p, double top_p, size_t n,
                              double u) {
    const struct candidate *c = s->candidate;
    double total = 0, kept = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        total += exp((c[i].logprob - c[0].logprob) / (double)p->temperature);
    size_t nucleus = 0;
    while (nucleus < n && (nucleus == 0 || kept < top_p * total))
        kept += exp((c[nucleus++].logprob - c[0].logprob) / (double)p->temperature);
    for (size_t i = 0; i < nucleus; i++) {
        sum += exp((c[i].logprob - c[0].logprob) / (double)p->temperature);
        if (u * kept < sum)
            return c[i].id;
    }
    return c[nucleus - 1].id;
}

/* At temperature 1 the nucleus's edge is known without the bands beyond it: it is found among ever
 * more of the likeliest. */
static txl_status find_nucleus(txl_session *s, const txl_sampling *p, size_t *n, txl_error *error) {
    double banned;
    txl_status status = banned_mass(s, p, &banned, error);
    for (size_t k = 64; !status; k *= 4) {
        status = session_likeliest(s, k, p->banned, p->n_banned, n, error);
        double mass = 0;
        for (size_t i = 0; !status && i < *n; i++) {
            mass += exp(s->candidate[i].logprob);
            if (mass >= p->top_p * (1 - banned)) {
                *n = i + 1;
                return TXL_OK;
            }
        }
        if (k >= (size_t)s->model->vocabulary.n)
            break;
    }
    return status;
}

/* The token of band i at which the probabilities, summed in the order of ids, exceed `target`. */
static int32_t draw_in_band(const txl_session *s, const txl_sampling *p, int i, double target) {
    const struct band *band = &s->model->network->band[i];
    int32_t last = -1;
    double sum = 0;
    for (size_t j = 0; j < band->n_token; j++) {
        int32_t id = (int32_t)(band->first + j);
        if (is_banned(p, id))
            continue;
        last = id;
        sum += exp(s->logprob[id]);
        if (target < sum)
            break;
    }
    return last;
}

static double mass_of_band(const txl_session *s, const txl_sampling *p, int i) {
    const struct band *band = &s->model->network->band[i];
    double mass = i > 0 ? exp(s->cluster[i]) : 0;
    for (size_t j = 0; i == 0 && j < band->n_token; j++)
        mass += exp(s->logprob[j]);
    for (size_t b = 0; b < p->n_banned; b++) {
        size_t id = (size_t)p->banned[b];
        if (p->banned[b] >= 0 && id >= band->first && id < band->first + band->n_token)
            mass -= exp(s->logprob[id]);
    }
    return mass > 0 ? mass : 0;
}

/* The model's own distribution: first the band, then the token in it. */
static txl_status draw_plain(txl_session *s, const txl_sampling *p, double u, int32_t *id,
                             txl_error *error) {
    int n_band = s->model->network->n_band, chosen = -1;
    double banned, total = 0, below = 0;
    txl_status status = session_need_band(s, 0, error);
    if (!status)
        status = banned_mass(s, p, &banned, error);
    if (status)
        return status;
    for (int i = 0; i < n_band; i++)
        total += mass_of_band(s, p, i);
    for (int i = 0; i < n_band; i++) {
        double mass = mass_of_band(s, p, i);
        if (mass <= 0)
            continue;
        chosen = i;
        if (u * total < below + mass)
            break;
        below += mass;
    }
    if (chosen < 0)
        return nothing_left(error);
    status = session_need_band(s, chosen, error);
    if (!status)
        *id = draw_in_band(s, p, chosen, u * total - below);
    return !status && *id < 0 ? nothing_left(error) : status;
}

txl_status txl_session_sample(txl_session *s, const txl_sampling *p, txl_random *random,
                              int32_t *id, float *logprob, txl_error *error) {
    if (!(p->temperature >= 0) || !(p->top_p > 0) || p->top_k < 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "temperature and top_k must not be negative, top_p must be above 0");
    bool greedy = p->temperature == 0;
    double top_p = p->top_p;
    size_t n = 0;
    txl_status status;
    if (greedy || p->top_k > 0) {
        status =
            session_likeliest(s, greedy ? 1 : (size_t)p->top_k, p->banned, p->n_banned, &n, error);
    } else if (p->temperature == 1 && p->top_p >= 1) {
        txl_random next = *random;
        status = draw_plain(s, p, random_uniform(&next), id, error);
        if (!status) {
            *random = next;
            *logprob = s->logprob[*id];
        }
        return status;
    } else if (p->temperature == 1) {
        status = find_nucleus(s, p, &n, error);
        top_p = 1;
    } else {
        status =
            session_likeliest(s, (size_t)s->model->vocabulary.n, p->banned, p->n_banned, &n, error);
    }
    if (status)
        return status;
    if (n == 0)
        return nothing_left(error);
    *id = greedy ? s->candidate[0].id : draw_candidate(s, p, top_p, n, random_uniform(random));
    *logprob = s->logprob[*id];
    return TXL_OK;
}
