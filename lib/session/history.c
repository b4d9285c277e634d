/* The ids seen so far, and an index of their n-grams.
 *
 * The ids lie in a ring.  The index is a hash table as in LZ77 compressors.  An n-gram is
 * identified by its end: the count of ids up to and including its last one.  N-grams whose first n
 * - 1 ids have the same hash form a chain, the latest first, linked through a second ring.  N-grams
 * that leave the window need no deletion: a chain ends at the first one that lies too far back.
 * Each n-gram is in its chain once, at its latest place, so a chain is no longer than the
 * vocabulary, except for collisions. */
#include "lib/base/error.h"
#include "lib/base/secret.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct txl_history {
    size_t window; /* ids remembered */
    size_t n;      /* of an n-gram; 0: no index */
    uint64_t secret;
    uint64_t count;
    int32_t *id;       /* [window] id i, from 0, at i % window */
    uint64_t *first;   /* [window] by hash: the chain's latest end, 0: none */
    uint64_t *earlier; /* [window] end e's next at e % window */
};

txl_status txl_history_new(size_t window, size_t n, txl_history **history, txl_error *error) {
    if (window == 0 || n > window)
        return txl_fail(error, TXL_ARGUMENT,
                        "a history needs a window of at least one id and of one n-gram");
    txl_history *h = calloc(1, sizeof *h);
    if (!h)
        return txl_fail_memory(error, "a history", sizeof *h);
    *h = (txl_history){.window = window, .n = n, .secret = secret_number()};
    h->id = calloc(window, sizeof *h->id);
    bool good = h->id;
    if (n > 0) {
        h->first = calloc(window, sizeof *h->first);
        h->earlier = calloc(window, sizeof *h->earlier);
        good = good && h->first && h->earlier;
    }
    if (!good) {
        txl_history_free(h);
        return txl_fail_memory(error, "a history", window * sizeof(int32_t));
    }
    *history = h;
    return TXL_OK;
}

void txl_history_free(txl_history *h) {
    if (!h)
        return;
    free(h->id);
    free(h->first);
    free(h->earlier);
    free(h);
}

void txl_history_reset(txl_history *h) {
    h->count = 0;
    if (h->n > 0)
        memset(h->first, 0, h->window * sizeof *h->first);
}

size_t history_length(const txl_history *h) {
    return h->count < h->window ? (size_t)h->count : h->window;
}

size_t history_window(const txl_history *h) {
    return h->window;
}

int32_t history_id(const txl_history *h, size_t back) {
    return h->id[(h->count - 1 - back) % h->window];
}

size_t txl_history_recent(const txl_history *h, int32_t *ids, size_t n) {
    size_t length = history_length(h);
    if (n > length)
        n = length;
    for (size_t i = 0; i < n; i++)
        ids[i] = history_id(h, n - 1 - i);
    return n;
}

/* ---- The n-grams -------------------------------------------------------------------------- */

/* The chain of the n-grams that begin with the n - 1 ids ending `back` places before the last
 * id. */
static uint64_t *chain_of(const txl_history *h, size_t back) {
    uint64_t hash = h->secret;
    for (size_t i = 0; i + 1 < h->n; i++) {
        const int32_t id = history_id(h, back + i);
        hash = XXH3_64bits_withSeed(&id, sizeof id, hash);
    }
    return &h->first[hash % h->window];
}

/* Whether the whole n-gram that ends there is still in the window. */
static bool is_remembered(const txl_history *h, uint64_t end) {
    return end != 0 && h->count - (end - h->n) <= h->window;
}

/* Whether the n-gram that ends at `end` begins with the n - 1 ids that end `back` places before the
 * last id. */
static bool has_start(const txl_history *h, uint64_t end, size_t back) {
    size_t place = (size_t)(h->count - end) + 1;
    for (size_t i = 0; i + 1 < h->n; i++)
        if (history_id(h, place + i) != history_id(h, back + i))
            return false;
    return true;
}

/* Removes an earlier occurrence of the last n-gram from its chain, and adds the last one at the
 * front. */
static void index_last(txl_history *h) {
    uint64_t *first = chain_of(h, 1), *link = first;
    int32_t last = history_id(h, 0);
    while (is_remembered(h, *link)) {
        uint64_t end = *link;
        if (history_id(h, (size_t)(h->count - end)) == last && has_start(h, end, 1)) {
            *link = h->earlier[end % h->window];
            break;
        }
        link = &h->earlier[end % h->window];
    }
    h->earlier[h->count % h->window] = *first;
    *first = h->count;
}

void txl_history_push(txl_history *h, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        h->id[h->count % h->window] = ids[i];
        h->count++;
        if (h->n > 0 && h->count >= h->n)
            index_last(h);
    }
}

uint64_t history_next_repeat(const txl_history *h, uint64_t at, int32_t *id) {
    if (h->n == 0 || h->count + 1 < h->n)
        return 0;
    uint64_t end = at == 0 ? *chain_of(h, 0) : h->earlier[at % h->window];
    while (is_remembered(h, end)) {
        if (has_start(h, end, 0)) {
            *id = history_id(h, (size_t)(h->count - end));
            return end;
        }
        end = h->earlier[end % h->window];
    }
    return 0;
}
