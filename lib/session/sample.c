/* Drawing the next token.  Of an adaptive softmax, only those bands are computed that the draw can
 * depend on: the head gives the probability of each band as a whole, which bounds those of its
 * tokens. */
#include "lib/base/error.h"
#include "lib/base/exact_math.h"
#include "lib/base/numbers.h"
#include "session.h"

#include <math.h>
#include <string.h>

static bool penalises(const txl_sampling *p) {
    return p->repetition_penalty != 0 && p->repetition_penalty != 1;
}

static bool is_typical(const txl_sampling *p) {
    return p->typical > 0 && p->typical < 1;
}

static bool is_top_p(const txl_sampling *p) {
    return p->top_p > 0 && p->top_p < 1;
}

static txl_status check_sampling(const txl_sampling *p, txl_error *error) {
    if (CHECK_RESERVED(txl_sampling, p, error))
        return TXL_ARGUMENT;
    if (!(p->temperature >= 0) || !(p->top_p >= 0) || p->top_k < 0)
        return txl_fail(error, TXL_ARGUMENT, "temperature, top_k and top_p must not be negative");
    if (!(p->min_p >= 0 && p->min_p <= 1) || !(p->typical >= 0 && p->typical <= 1))
        return txl_fail(error, TXL_ARGUMENT, "min_p and typical must be from 0 to 1");
    if (!(p->repetition_penalty >= 0) || isinf(p->repetition_penalty))
        return txl_fail(error, TXL_ARGUMENT, "repetition_penalty must be finite and not negative");
    if (penalises(p) && (!p->history || p->repeat_last > history_window(p->history)))
        return txl_fail(error, TXL_ARGUMENT,
                        "repetition_penalty needs a history whose window holds repeat_last ids");
    return TXL_OK;
}

void txl_sampling_defaults(const txl_model *model, txl_sampling *sampling) {
    txl_kind kind = txl_model_kind(model);
    bool words = txl_kind_unit(kind) == TXL_UNIT_WORD;
    float min_p = (float)(kind == TXL_PIECES ? TXL_MIN_P_PIECES : TXL_MIN_P);
    *sampling = (txl_sampling){.temperature = (float)TXL_TEMPERATURE,
                               .top_k = words ? TXL_TOP_K : 0,
                               .min_p = words ? 0 : min_p,
                               .repeat_last = TXL_REPEAT_LAST};
    sampling->banned = txl_model_banned(model, &sampling->n_banned);
}

static txl_status nothing_left(const txl_sampling *p, txl_error *error) {
    int32_t id;
    if (p->history && history_next_repeat(p->history, 0, &id) != 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "every token is banned or would repeat an n-gram; longer n-grams repeat "
                        "later");
    return txl_fail(error, TXL_ARGUMENT, "every token is banned");
}

/* ---- Bans and the penalty ----------------------------------------------------------------- */

static void mark_id(txl_session *s, int32_t id, unsigned char how) {
    if (id >= 0 && id < s->model->vocabulary.n)
        s->mark[id] |= how;
}

static struct adjustment adjustment_of(txl_session *s, const txl_sampling *p) {
    const txl_history *h = p->history;
    memset(s->mark, 0, (size_t)s->model->vocabulary.n);
    for (size_t i = 0; i < p->n_banned; i++)
        mark_id(s, p->banned[i], MARK_BANNED);
    int32_t id;
    for (uint64_t at = 0; h && (at = history_next_repeat(h, at, &id)) != 0;)
        mark_id(s, id, MARK_BANNED);
    if (!penalises(p))
        return (struct adjustment){s->mark, 1};
    for (size_t i = 0; i < p->repeat_last && i < history_length(h); i++)
        mark_id(s, history_id(h, i), MARK_PENALISED);
    return (struct adjustment){s->mark, (double)p->repetition_penalty};
}

/* ---- Weights at temperature 1 ------------------------------------------------------------- */

/* The adjusted probability of a token, relative to exp(best) so that it does not underflow; not
 * normalised. */
static double weigh_token(const txl_session *s, const struct adjustment *a, double best,
                          size_t id) {
    double score = (double)s->logprob[id];
    if (a->mark[id] & MARK_BANNED)
        return 0;
    return exact_exp((a->mark[id] & MARK_PENALISED ? a->penalty * score : score) - best);
}

/* The same for a whole band; its tokens are computed only if one of them is marked. */
static txl_status weigh_band(txl_session *s, const struct adjustment *a, double best, int i,
                             double *weight, txl_error *error) {
    const struct band *band = &s->model->network->bands.band[i];
    size_t end = band->first + band->n_token;
    bool marked = i == 0;
    for (size_t id = band->first; id < end && !marked; id++)
        marked = a->mark[id] != 0;
    if (!marked) {
        *weight = exact_exp(s->cluster[i] - best);
        return TXL_OK;
    }
    txl_status status = session_need_band(s, i, error);
    *weight = 0;
    for (size_t id = band->first; id < end && !status; id++)
        *weight += weigh_token(s, a, best, id);
    return status;
}

/* Finds the best score and the weight of all tokens, which is 0 if none is left. */
static txl_status weigh_all(txl_session *s, const struct adjustment *a, double *best,
                            double *weight, txl_error *error) {
    size_t n;
    txl_status status = session_likeliest(s, 1, -INFINITY, a, &n, error);
    *best = n > 0 ? s->candidate[0].score : 0;
    *weight = 0;
    for (int i = 0; i < s->model->network->bands.n_band && n > 0 && !status; i++) {
        double band;
        status = weigh_band(s, a, *best, i, &band, error);
        *weight += band;
    }
    return status;
}

/* The token of band i at which the weights, summed in the order of ids, exceed `target`. */
static int32_t draw_in_band(const txl_session *s, const struct adjustment *a, double best, int i,
                            double target) {
    const struct band *band = &s->model->network->bands.band[i];
    int32_t last = -1;
    double sum = 0;
    for (size_t id = band->first; id < band->first + band->n_token; id++) {
        if (a->mark[id] & MARK_BANNED)
            continue;
        last = (int32_t)id;
        sum += weigh_token(s, a, best, id);
        if (target < sum)
            break;
    }
    return last;
}

/* Draws at temperature 1 without filters: first the band, then the token in it. */
static txl_status draw_plain(txl_session *s, const struct adjustment *a, double u, int32_t *id,
                             txl_error *error) {
    int chosen = -1;
    double best, total, target = 0, below = 0;
    txl_status status = weigh_all(s, a, &best, &total, error);
    for (int i = 0; i < s->model->network->bands.n_band && !status; i++) {
        double weight;
        status = weigh_band(s, a, best, i, &weight, error);
        if (weight <= 0)
            continue;
        chosen = i;
        target = u * total - below;
        if (target < weight)
            break;
        below += weight;
    }
    *id = -1;
    if (!status && total > 0)
        status = session_need_band(s, chosen, error);
    if (!status && total > 0)
        *id = draw_in_band(s, a, best, chosen, target);
    return status;
}

/* ---- Filters ------------------------------------------------------------------------------ */

/* Tokens to draw from, best first. */
struct pool {
    const struct candidate *c;
    size_t n;
    double temperature;
};

/* The log-probability of a token relative to the first one's; the probability likewise. */
static double exponent(const struct pool *pool, size_t i) {
    return (pool->c[i].score - pool->c[0].score) / pool->temperature;
}

static double weight_of(const struct pool *pool, size_t i) {
    return exact_exp(exponent(pool, i));
}

static double pool_mass(const struct pool *pool) {
    double total = 0;
    for (size_t i = 0; i < pool->n; i++)
        total += weight_of(pool, i);
    return total;
}

/* Keeps the locally typical set.  The entropy is the mean of -log p, so both can be relative to the
 * first token's.  As log p falls along the pool, the set is a range of it, which grows to both
 * sides from the place of the mean. */
static void keep_typical(struct pool *pool, double typical) {
    double total = pool_mass(pool), mean = 0, kept = 0;
    for (size_t i = 0; i < pool->n; i++) {
        double weight = weight_of(pool, i);
        if (weight > 0)
            mean += weight / total * exponent(pool, i);
    }
    size_t first = 0;
    while (first < pool->n && exponent(pool, first) >= mean)
        first++;
    size_t end = first;
    while (end - first < pool->n && (end == first || kept < typical * total)) {
        bool left = end == pool->n ||
                    (first > 0 && exponent(pool, first - 1) - mean <= mean - exponent(pool, end));
        kept += weight_of(pool, left ? --first : end++);
    }
    pool->c += first;
    pool->n = end - first;
}

/* How many of the likeliest tokens the last two filters keep: the fewest that reach top_p of the
 * weight `total`, and of these the ones that reach min_p of the first one's weight.  Both keep a
 * prefix of the pool, so their order makes no difference. */
static size_t pool_edge(const struct pool *pool, const txl_sampling *p, double total) {
    double kept = 0, enough = is_top_p(p) ? (double)p->top_p * total : INFINITY;
    size_t i = 0;
    for (; i < pool->n && (i == 0 || kept < enough); i++) {
        double weight = weight_of(pool, i);
        if (i > 0 && weight < (double)p->min_p)
            break;
        kept += weight;
    }
    return i;
}

/* Raises *least to a lower bound of the scores that min_p keeps. */
static txl_status find_least(txl_session *s, const txl_sampling *p, const struct adjustment *a,
                             double *least, txl_error *error) {
    const double margin = 1e-6; /* share of the weight, for rounding: min_p itself decides later */
    size_t n = 0;
    if (p->min_p <= 0)
        return TXL_OK;
    txl_status status = session_likeliest(s, 1, *least, a, &n, error);
    if (n > 0)
        *least =
            s->candidate[0].score + (double)p->temperature * (exact_log((double)p->min_p) - margin);
    return status;
}

/* Gathers only as many of the likeliest tokens as the filters can keep.  For top_p this needs the
 * weight of all tokens, which is known without computing them only at temperature 1. */
static txl_status gather_to_edge(txl_session *s, const txl_sampling *p, const struct adjustment *a,
                                 struct pool *pool, double *total, txl_error *error) {
    double best, least = -INFINITY;
    txl_status status = is_top_p(p) ? weigh_all(s, a, &best, total, error) : TXL_OK;
    if (!status)
        status = find_least(s, p, a, &least, error);
    /* Only top_p may need fewer than those that score `least` or more. */
    const size_t n_token = (size_t)s->model->vocabulary.n;
    for (size_t k = is_top_p(p) ? 64 : n_token; !status; k *= 4) {
        status = session_likeliest(s, k, least, a, &pool->n, error);
        if (k >= n_token || pool->n < k || pool_edge(pool, p, *total) < pool->n)
            break;
    }
    return status;
}

/* Fills the pool with the tokens that the filters after top_k need; `*total` is the weight of which
 * top_p is a share. */
static txl_status gather_pool(txl_session *s, const txl_sampling *p, const struct adjustment *a,
                              struct pool *pool, double *total, txl_error *error) {
    size_t k = (size_t)s->model->vocabulary.n;
    if (p->temperature == 0)
        k = 1;
    else if (p->top_k > 0)
        k = (size_t)p->top_k;
    else if (!is_typical(p) && (!is_top_p(p) || p->temperature == 1))
        return gather_to_edge(s, p, a, pool, total, error);
    txl_status status = session_likeliest(s, k, -INFINITY, a, &pool->n, error);
    if (!status && is_top_p(p))
        *total = pool_mass(pool);
    return status;
}

static int32_t draw_from(const struct pool *pool, double u) {
    double below = 0, target = u * pool_mass(pool);
    for (size_t i = 0; i < pool->n; i++) {
        below += weight_of(pool, i);
        if (target < below)
            return pool->c[i].id;
    }
    return pool->c[pool->n - 1].id;
}

static txl_status draw_filtered(txl_session *s, const txl_sampling *p, const struct adjustment *a,
                                double u, int32_t *id, txl_error *error) {
    struct pool pool = {s->candidate, 0, (double)p->temperature};
    double total = 0;
    txl_status status = gather_pool(s, p, a, &pool, &total, error);
    *id = -1;
    if (status || pool.n == 0)
        return status;
    if (p->temperature == 0) {
        *id = pool.c[0].id;
        return TXL_OK;
    }
    if (is_typical(p)) {
        keep_typical(&pool, (double)p->typical);
        total = pool_mass(&pool);
    }
    pool.n = pool_edge(&pool, p, total);
    *id = draw_from(&pool, u);
    return TXL_OK;
}

txl_status txl_session_sample(txl_session *s, const txl_sampling *p, txl_random *random,
                              int32_t *id, float *logprob, txl_error *error) {
    txl_status status = check_sampling(p, error);
    if (status)
        return status;
    struct adjustment a = adjustment_of(s, p);
    txl_random next = *random;
    double u = p->temperature > 0 ? random_uniform(&next) : 0;
    bool plain =
        p->temperature == 1 && p->top_k == 0 && !is_typical(p) && !is_top_p(p) && p->min_p <= 0;
    const struct rounding before = session_rounding(s);
    status = plain ? draw_plain(s, &a, u, id, error) : draw_filtered(s, p, &a, u, id, error);
    session_restore_rounding(&before);
    if (status)
        return status;
    if (*id < 0)
        return nothing_left(p, error);
    *random = next;
    *logprob = s->logprob[*id];
    return TXL_OK;
}
