/* Counts of tokens after their contexts, and the weights of the mixture. */
#include "cache.h"
#include "lib/base/error.h"
#include "lib/base/secret.h"
#include "lib/session/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Of the weights: the model's first one, and the share that all have in common again. */
#define FIRST_WEIGHT 0.8
#define FIXED_SHARE 0.01

enum { LEAST_PAIRS = 1 << 10 };

struct context {
    uint64_t key; /* of its tokens */
    uint32_t n, d;
    uint32_t last; /* its newest pair, plus 1 */
};

struct pair {
    uint32_t context;
    int32_t id;
    uint32_t count;
    uint32_t next; /* an older pair of the context, plus 1; 0: there is none */
};

/* Pairs are in the order in which they came.  Both tables have room for twice as many entries as
 * there are pairs, and keep places plus 1. */
struct cache_order {
    uint64_t secret;    /* of the tables' hashes; it decides where entries are, and nothing else */
    struct pair *pairs; /* [room] */
    struct context *contexts;             /* [room] */
    uint32_t *pair_table, *context_table; /* [2 room] */
    size_t n_pair, n_context, room;
};

/* ---- Tables ------------------------------------------------------------------------------- */

/* The finaliser of SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

/* Contexts of equal keys are one; a text of tokens has none by chance. */
static uint64_t context_key(const struct cache_history *history, int k) {
    uint64_t key = (uint64_t)k;
    for (int i = history->n - k; i < history->n; i++)
        key = mix(key + 0x9E3779B97F4A7C15 + (uint32_t)history->id[i]);
    return key;
}

static size_t first_place(const struct cache_order *o, uint64_t key) {
    return (size_t)XXH3_64bits_withSeed(&key, sizeof key, o->secret) & (2 * o->room - 1);
}

/* The place in the table where the context stands or would. */
static size_t find_context(const struct cache_order *o, uint64_t key) {
    size_t at = first_place(o, key);
    while (o->context_table[at] && o->contexts[o->context_table[at] - 1].key != key)
        at = (at + 1) & (2 * o->room - 1);
    return at;
}

static size_t find_pair(const struct cache_order *o, uint32_t context, int32_t id) {
    size_t at = first_place(o, (uint64_t)context << 32 | (uint32_t)id);
    for (uint32_t i; (i = o->pair_table[at]); at = (at + 1) & (2 * o->room - 1))
        if (o->pairs[i - 1].context == context && o->pairs[i - 1].id == id)
            break;
    return at;
}

/* Of `n` places. */
static size_t longest_run(const uint32_t *table, size_t n) {
    size_t longest = 0, run = 0;
    for (size_t i = 0; i < 2 * n; i++) { /* twice: a run goes on at the beginning */
        run = table[i & (n - 1)] ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

size_t cache_longest_search(const struct cache *c) {
    size_t longest = 0;
    for (int k = 1; k < c->n_order; k++) {
        const struct cache_order *o = &c->order[k];
        const size_t of_pairs = longest_run(o->pair_table, 2 * o->room);
        const size_t of_contexts = longest_run(o->context_table, 2 * o->room);
        longest = of_pairs > longest ? of_pairs : longest;
        longest = of_contexts > longest ? of_contexts : longest;
    }
    return longest;
}

static void free_order(struct cache_order *o) {
    free(o->pairs);
    free(o->contexts);
    free(o->pair_table);
    free(o->context_table);
    *o = (struct cache_order){0};
}

static txl_status open_order(struct cache_order *o, size_t room, txl_error *error) {
    *o = (struct cache_order){.room = room, .secret = secret_number()};
    o->pairs = malloc(room * sizeof *o->pairs);
    o->contexts = malloc(room * sizeof *o->contexts);
    o->pair_table = calloc(2 * room, sizeof *o->pair_table);
    o->context_table = calloc(2 * room, sizeof *o->context_table);
    if (o->pairs && o->contexts && o->pair_table && o->context_table)
        return TXL_OK;
    free_order(o);
    return txl_fail_memory(error, "a cache", room * (sizeof *o->pairs + sizeof *o->contexts + 16));
}

/* Adds `count` of a pair to an order that has room for one more of it and its context. */
static void add_pair(struct cache_order *o, uint64_t key, int32_t id, uint32_t count) {
    const size_t of_context = find_context(o, key);
    if (!o->context_table[of_context]) {
        o->contexts[o->n_context] = (struct context){.key = key};
        o->context_table[of_context] = (uint32_t)++o->n_context;
    }
    const uint32_t number = o->context_table[of_context] - 1;
    struct context *context = &o->contexts[number];
    const size_t of_pair = find_pair(o, number, id);
    if (!o->pair_table[of_pair]) {
        o->pairs[o->n_pair] = (struct pair){number, id, 0, context->last};
        o->pair_table[of_pair] = context->last = (uint32_t)++o->n_pair;
        context->d++;
    }
    o->pairs[o->pair_table[of_pair] - 1].count += count;
    context->n += count;
}

/* Makes the order anew with its pairs from `first` on. */
static txl_status rebuild(struct cache_order *o, size_t first, size_t room, txl_error *error) {
    struct cache_order made;
    txl_status status = open_order(&made, room, error);
    if (status)
        return status;
    for (size_t i = first; i < o->n_pair; i++)
        add_pair(&made, o->contexts[o->pairs[i].context].key, o->pairs[i].id, o->pairs[i].count);
    free_order(o);
    *o = made;
    return TXL_OK;
}

static txl_status count_pair(struct cache_order *o, size_t most, uint64_t key, int32_t id,
                             txl_error *error) {
    txl_status status = TXL_OK;
    const uint32_t context = o->context_table[find_context(o, key)];
    const bool is_new = !context || !o->pair_table[find_pair(o, context - 1, id)];
    if (is_new && o->n_pair == most)
        status = rebuild(o, most / 2, o->room, error); /* the older half goes */
    else if (is_new && o->n_pair == o->room)
        status = rebuild(o, 0, 2 * o->room, error);
    if (!status)
        add_pair(o, key, id, 1);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------------ */

int cache_orders(const txl_model *model) {
    bool letters = txl_kind_unit(txl_model_kind(model)) == TXL_UNIT_CHARACTER;
    return letters ? CACHE_MOST_ORDERS : 5;
}

void cache_reset(struct cache *c) {
    memset(c->count, 0, c->n_token * sizeof *c->count);
    memset(c->band_count, 0, c->n_band * sizeof *c->band_count);
    c->total = c->kinds = 0;
    for (int k = 1; k < c->n_order; k++) {
        struct cache_order *o = &c->order[k];
        o->n_pair = o->n_context = 0;
        memset(o->pair_table, 0, 2 * o->room * sizeof *o->pair_table);
        memset(o->context_table, 0, 2 * o->room * sizeof *o->context_table);
    }
    for (int seen = 0; seen <= c->n_order; seen++) {
        c->weight[seen][0] = FIRST_WEIGHT;
        for (int k = 0; k < c->n_order; k++)
            c->weight[seen][k + 1] = (1 - FIRST_WEIGHT) / c->n_order;
    }
}

txl_status cache_open(struct cache *c, int n_order, int log2_pairs, size_t n_band,
                      const size_t *band_first, txl_error *error) {
    const size_t n_token = band_first[n_band], most = (size_t)1 << log2_pairs;
    txl_status status = TXL_OK;
    *c = (struct cache){.n_order = n_order,
                        .n_token = n_token,
                        .most = most,
                        .n_band = n_band,
                        .band_first = band_first};
    c->order = calloc((size_t)n_order, sizeof *c->order);
    c->count = calloc(n_token, sizeof *c->count);
    c->band_count = calloc(n_band, sizeof *c->band_count);
    if (!c->order || !c->count || !c->band_count)
        status = txl_fail_memory(error, "a cache", n_token * sizeof *c->count);
    for (int k = 1; k < n_order && !status; k++)
        status = open_order(&c->order[k], most < LEAST_PAIRS ? most : LEAST_PAIRS, error);
    if (status)
        cache_close(c);
    else
        cache_reset(c);
    return status;
}

void cache_close(struct cache *c) {
    for (int k = 1; c->order && k < c->n_order; k++)
        free_order(&c->order[k]);
    free(c->order);
    free(c->count);
    free(c->band_count);
    *c = (struct cache){0};
}

/* ---- The mixture -------------------------------------------------------------------------- */

static size_t band_of(const struct cache *c, int32_t id) {
    size_t i = 0;
    while ((size_t)id >= c->band_first[i + 1])
        i++;
    return i;
}

/* What each count of an order adds, of 2^32. */
static uint32_t unit_of(double weight, uint32_t n, uint32_t d) {
    return (uint32_t)(weight * 0x1p32 / ((double)n + (double)d));
}

static void find_orders(const struct cache *c, const struct cache_history *history,
                        struct cache_view *view) {
    *view = (struct cache_view){0};
    view->order[0].n = c->total;
    view->order[0].d = c->kinds;
    view->order[0].context = c->total > 0;
    for (int k = 1; k < c->n_order && k <= history->n; k++) {
        const struct cache_order *o = &c->order[k];
        const uint32_t context = o->context_table[find_context(o, context_key(history, k))];
        if (context) {
            view->order[k].context = context;
            view->order[k].n = o->contexts[context - 1].n;
            view->order[k].d = o->contexts[context - 1].d;
        }
    }
    for (int k = 0; k < c->n_order; k++)
        if (view->order[k].context)
            view->n_seen = k + 1;
}

/* What the model's part is multiplied by: its weight, what seen orders leave to it, and all that
 * unseen ones have. */
static double share_of(const struct cache *c, const struct cache_view *view) {
    const double *w = c->weight[view->n_seen];
    double share = w[0];
    for (int k = 0; k < c->n_order; k++) {
        const double n = (double)view->order[k].n, d = (double)view->order[k].d;
        share += view->order[k].context ? w[k + 1] * d / (n + d) : w[k + 1];
    }
    return share;
}

void cache_look(const struct cache *c, const struct cache_history *history, struct cache_view *view,
                uint32_t *extra, uint32_t *band_extra) {
    find_orders(c, history, view);
    const double *w = c->weight[view->n_seen];
    view->share = (uint32_t)(share_of(c, view) * CACHE_ONE);
    view->share = view->share > 0 ? view->share : 1;
    if (view->order[0].context)
        view->unit = unit_of(w[1], view->order[0].n, view->order[0].d);
    for (int k = 1; k < c->n_order; k++) {
        const struct cache_order *o = &c->order[k];
        if (!view->order[k].context)
            continue;
        const uint32_t unit = unit_of(w[k + 1], view->order[k].n, view->order[k].d);
        for (uint32_t i = o->contexts[view->order[k].context - 1].last; i;
             i = o->pairs[i - 1].next) {
            const struct pair *pair = &o->pairs[i - 1];
            extra[pair->id] += pair->count * unit;
            band_extra[band_of(c, pair->id)] += pair->count * unit;
        }
    }
}

void cache_clear(const struct cache *c, const struct cache_view *view, uint32_t *extra,
                 uint32_t *band_extra) {
    memset(band_extra, 0, c->n_band * sizeof *band_extra);
    for (int k = 1; k < c->n_order; k++) {
        const struct cache_order *o = &c->order[k];
        if (!view->order[k].context)
            continue;
        for (uint32_t i = o->contexts[view->order[k].context - 1].last; i; i = o->pairs[i - 1].next)
            extra[o->pairs[i - 1].id] = 0;
    }
}

void cache_parts(const struct cache *c, const struct cache_view *view, int32_t id, double m,
                 double *part) {
    part[0] = m;
    for (int k = 0; k < c->n_order; k++) {
        const double n = (double)view->order[k].n, d = (double)view->order[k].d;
        uint32_t count = c->count[id];
        if (!view->order[k].context) {
            part[k + 1] = m;
            continue;
        }
        if (k > 0) {
            const struct cache_order *o = &c->order[k];
            const uint32_t pair = o->pair_table[find_pair(o, view->order[k].context - 1, id)];
            count = pair ? o->pairs[pair - 1].count : 0;
        }
        part[k + 1] = ((double)count + d * m) / (n + d);
    }
}

void cache_learn(struct cache *c, const struct cache_view *view, const double *part) {
    double *w = c->weight[view->n_seen], p = 0;
    const double again = FIXED_SHARE / (c->n_order + 1);
    for (int k = 0; k <= c->n_order; k++)
        p += w[k] * part[k];
    for (int k = 0; k <= c->n_order; k++)
        w[k] = (1 - FIXED_SHARE) * (w[k] * part[k] / p) + again;
}

txl_status cache_count(struct cache *c, struct cache_history *history, int32_t id,
                       txl_error *error) {
    txl_status status = TXL_OK;
    for (int k = 1; k < c->n_order && k <= history->n && !status; k++)
        status = count_pair(&c->order[k], c->most, context_key(history, k), id, error);
    c->kinds += c->count[id]++ == 0;
    c->total++;
    c->band_count[band_of(c, id)]++;
    if (history->n == CACHE_MOST_ORDERS - 1)
        memmove(history->id, history->id + 1, sizeof history->id - sizeof *history->id);
    else
        history->n++;
    history->id[history->n - 1] = id;
    return status;
}

/* ---- A cache for one text ----------------------------------------------------------------- */

struct txl_cache {
    struct cache cache;
    struct cache_history history;
    size_t band_first[2]; /* one band of all tokens: sums by band serve compression alone */
    double *extra;        /* [n_token]: all 0 but in txl_cache_mix */
};

txl_status txl_cache_new(const txl_model *model, txl_cache **cache, txl_error *error) {
    const size_t n_token = (size_t)txl_model_n_token(model);
    *cache = NULL;
    if (txl_model_family(model) == TXL_FAMILY_XLNET)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "an XLNet reads both sides: there is no text so far to count");
    struct txl_cache *made = calloc(1, sizeof *made);
    if (!made || !(made->extra = calloc(n_token, sizeof *made->extra))) {
        free(made);
        return txl_fail_memory(error, "a cache", n_token * sizeof *made->extra);
    }
    made->band_first[1] = n_token;
    txl_status status =
        cache_open(&made->cache, cache_orders(model), CACHE_PAIRS, 1, made->band_first, error);
    if (status)
        txl_cache_free(made);
    else
        *cache = made;
    return status;
}

void txl_cache_free(txl_cache *cache) {
    if (!cache)
        return;
    cache_close(&cache->cache);
    free(cache->extra);
    free(cache);
}

void txl_cache_reset(txl_cache *cache) {
    cache_reset(&cache->cache);
    cache->history.n = 0;
}

/* Adds what a token of the order's context gets, `unit` a count; or sets it to 0. */
static void add_extra(txl_cache *cache, const struct cache_order *o, uint32_t context,
                      double unit) {
    for (uint32_t i = o->contexts[context - 1].last; i; i = o->pairs[i - 1].next) {
        double *extra = &cache->extra[o->pairs[i - 1].id];
        *extra = unit > 0 ? *extra + unit * o->pairs[i - 1].count : 0;
    }
}

void txl_cache_mix(txl_cache *cache, float *logprob) {
    const struct cache *c = &cache->cache;
    struct cache_view view;
    find_orders(c, &cache->history, &view);
    const double *w = c->weight[view.n_seen], share = share_of(c, &view);
    double unit[CACHE_MOST_ORDERS];
    for (int k = 0; k < c->n_order; k++) {
        unit[k] = w[k + 1] / ((double)view.order[k].n + view.order[k].d);
        if (k > 0 && view.order[k].context)
            add_extra(cache, &c->order[k], view.order[k].context, unit[k]);
    }
    for (size_t id = 0; id < c->n_token; id++) {
        double extra = cache->extra[id];
        if (c->count[id] > 0)
            extra += unit[0] * c->count[id];
        logprob[id] = (float)(extra > 0 ? log(share * exp((double)logprob[id]) + extra)
                                        : (double)logprob[id] + log(share));
    }
    for (int k = 1; k < c->n_order; k++)
        if (view.order[k].context)
            add_extra(cache, &c->order[k], view.order[k].context, 0);
}

txl_status txl_cache_add(txl_cache *cache, int32_t id, double logprob, double *mixed,
                         txl_error *error) {
    struct cache *c = &cache->cache;
    struct cache_view view;
    double part[CACHE_PART], p = 0;
    if (id < 0 || (size_t)id >= c->n_token)
        return txl_fail(error, TXL_ARGUMENT, "id %d is not below %zu", (int)id, c->n_token);
    if (mixed) {
        find_orders(c, &cache->history, &view);
        cache_parts(c, &view, id, exp(logprob), part);
        for (int k = 0; k <= c->n_order; k++)
            p += c->weight[view.n_seen][k] * part[k];
        *mixed = p > 0 ? log(p) : logprob;
        if (p > 0)
            cache_learn(c, &view, part);
    }
    return cache_count(c, &cache->history, id, error);
}
