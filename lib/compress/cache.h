/* The cache of a text so far: counts of its tokens after their last tokens, which a mixture adds to
 * the model's softmax.  After the continuous cache (Grave, Joulin and Usunier 2017, "Improving
 * neural language models with a continuous cache"); this one has counts in its place, as PPM has,
 * and learns how much to trust each order (Herbster and Warmuth 1998, fixed share).
 *
 *     p(t) = w[0] m(t) + sum over k of w[k + 1] c[k](t)
 *     c[k](t) = (n[k](t) + d[k] m(t)) / (n[k] + d[k]),  or m(t) where the context is new
 *
 * m is the model; after the last k tokens n[k] tokens followed, d[k] different ones, t n[k](t)
 * times.  weights-format.md states every operation: files depend on each bit. */
#ifndef TXL_COMPRESS_CACHE_H
#define TXL_COMPRESS_CACHE_H

#include "txl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CACHE_MOST_ORDERS = 9, /* of 0 to 8 tokens of context */
    CACHE_PAIRS = 20,      /* log2 of the pairs of context and token that an order keeps */
    CACHE_ONE = 1 << 16,   /* the unit of a share of the model */
    CACHE_PART = CACHE_MOST_ORDERS + 1
};

/* How many orders pay: 9 where tokens are characters or bytes, else 5. */
int cache_orders(const txl_model *model);

struct cache_order;

struct cache {
    int n_order;
    size_t n_token, most; /* most pairs of an order */
    struct cache_order *order;
    uint32_t *count;       /* [n_token] of order 0 */
    uint32_t total, kinds; /* of order 0: tokens, different ones */
    size_t n_band;
    const size_t *band_first; /* [n_band + 1] the caller's: the first token of each band */
    uint32_t *band_count;     /* [n_band] of order 0 */
    /* The weights, by how many orders know their context: the model's, then each order's. */
    double weight[CACHE_PART][CACHE_PART];
};

/* `band_first` must outlive the cache.  The memory grows with the text, up to 56 bytes a pair. */
txl_status cache_open(struct cache *cache, int n_order, int log2_pairs, size_t n_band,
                      const size_t *band_first, txl_error *error);
void cache_close(struct cache *cache); /* all zero is fine */
void cache_reset(struct cache *cache);

/* The most places, less one, that a search in a table looks at now. */
size_t cache_longest_search(const struct cache *cache);

/* The last tokens of a stream, the latest last. */
struct cache_history {
    int32_t id[CACHE_MOST_ORDERS - 1];
    int n;
};

/* What the cache knows where a stream stands. */
struct cache_view {
    uint32_t share; /* of the model, in parts of CACHE_ONE, at least 1 */
    uint32_t unit;  /* what each count of order 0 adds to a token, of 2^32 */
    int n_seen;     /* orders that know their context, and all before the last of them */
    struct {
        uint32_t context; /* its place in the order, plus 1; 0: it is new */
        uint32_t n, d;
    } order[CACHE_MOST_ORDERS];
};

/* Sets the view, and adds to extra[n_token], of 2^32, what the orders from 1 on give to each token,
 * and to band_extra[n_band] their sums.  cache_clear sets the same elements to 0. */
void cache_look(const struct cache *cache, const struct cache_history *history,
                struct cache_view *view, uint32_t *extra, uint32_t *band_extra);
void cache_clear(const struct cache *cache, const struct cache_view *view, uint32_t *extra,
                 uint32_t *band_extra);

/* The parts of the mixture for a token of model's probability m: part[0] is m. */
void cache_parts(const struct cache *cache, const struct cache_view *view, int32_t id, double m,
                 double *part);

/* The weights learn from a token's parts. */
void cache_learn(struct cache *cache, const struct cache_view *view, const double *part);

/* Counts a token, and adds it to its stream's history. */
txl_status cache_count(struct cache *cache, struct cache_history *history, int32_t id,
                       txl_error *error);

#endif
