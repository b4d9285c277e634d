/* The table of bit histories. */
#include "bit_histories.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

#include <stdlib.h>

enum { BUCKETS_LOG2 = 22, WAYS = 4, SURE = (1 << 22) - 1, SEEN_BITS = 10 };

/* What is left of a count when the other bit comes. */
static const uint8_t after_other[16] = {0, 1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5};

/* At first a state's probability is (n1 + 0.3) / (n0 + n1 + 0.6); later it is a mean, to which the
 * newest adds 1 / (n + 1.5). */
txl_status bit_histories_open(struct bit_histories *h, txl_error *error) {
    const size_t n_bucket = (size_t)1 << BUCKETS_LOG2, n_map = N_CONTEXT * HISTORY_STATES;
    /* In pages of its own, no set lies in two lines of the cache. */
    *h = (struct bit_histories){.buckets = pages_map(n_bucket * sizeof *h->buckets),
                                .map = calloc(n_map, sizeof *h->map)};
    if (!h->buckets || !h->map) {
        bit_histories_close(h);
        return txl_fail_memory(error, "bit histories", n_bucket * sizeof *h->buckets);
    }
    for (size_t i = 0; i < n_map; i++) {
        const uint64_t state = i % HISTORY_STATES, n0 = state & 15, n1 = state >> 4;
        h->map[i] = (uint32_t)((10 * n1 + 3) * SURE / (10 * (n0 + n1) + 6) << SEEN_BITS);
    }
    for (uint32_t i = 0; i <= HISTORY_MOST_SEEN; i++)
        h->step[i] = 2 * 65536 / (2 * i + 3);
    return TXL_OK;
}

void bit_histories_close(struct bit_histories *h) {
    pages_unmap(h->buckets, sizeof *h->buckets << BUCKETS_LOG2);
    free(h->map);
    *h = (struct bit_histories){0};
}

/* ---- Buckets ------------------------------------------------------------------------------ */

/* The first of those whose first node has come least often. */
static struct bucket *least_used(struct bucket *set) {
    struct bucket *least = set;
    int fewest = 2 * 16;
    for (int i = 0; i < WAYS; i++) {
        const int used = set[i].check ? 1 + (set[i].state[0] & 15) + (set[i].state[0] >> 4) : 0;
        if (used < fewest) {
            fewest = used;
            least = &set[i];
        }
    }
    return least;
}

static struct bucket *find_bucket(struct bucket *set, uint8_t check) {
    for (int i = 0; i < WAYS; i++)
        if (set[i].check == check)
            return &set[i];
    struct bucket *bucket = least_used(set);
    *bucket = (struct bucket){.check = check};
    return bucket;
}

void bit_histories_find(struct bit_histories *h, const uint64_t *contexts, int32_t anchor,
                        struct bucket **found) {
    const uint64_t node = (uint64_t)anchor * GOLDEN_RATIO;
    uint64_t keys[N_CONTEXT];
    for (int i = 0; i < N_CONTEXT; i++) { /* all are fetched before the first is needed */
        keys[i] = (contexts[i] ^ node) * 0xBF58476D1CE4E5B9;
        found[i] = h->buckets + (keys[i] >> (64 - BUCKETS_LOG2) & ~(size_t)(WAYS - 1));
        __builtin_prefetch(found[i], 1);
    }
    for (int i = 0; i < N_CONTEXT; i++) {
        const uint8_t check = (uint8_t)(keys[i] >> 24);
        found[i] = find_bucket(found[i], check ? check : 1);
    }
}

/* ---- States ------------------------------------------------------------------------------- */

/* A state that has seen nothing says nothing. */
void bit_histories_predict(const struct bit_histories *h, const struct logistic *logistic,
                           struct bucket *const *found, int place, int32_t *input) {
    for (int i = 0; i < N_CONTEXT; i++) {
        const uint8_t state = found[i]->state[place];
        const uint32_t p = h->map[i * HISTORY_STATES + state] >> 16;
        input[i] = state ? stretch(logistic, p) : 0;
    }
}

static void learn_map(const struct bit_histories *h, uint32_t *map, int bit) {
    const uint32_t seen = *map & ((1 << SEEN_BITS) - 1);
    const int64_t old = *map >> SEEN_BITS, gap = (bit ? SURE : 0) - old;
    const uint32_t next = (uint32_t)(old + (gap * h->step[seen] >> 16));
    *map = next << SEEN_BITS | (seen + (seen < HISTORY_MOST_SEEN));
}

static uint8_t next_state(uint8_t state, int bit) {
    int n0 = state & 15, n1 = state >> 4;
    n0 = bit ? after_other[n0] : n0 + (n0 < 15);
    n1 = bit ? n1 + (n1 < 15) : after_other[n1];
    return (uint8_t)(n0 | n1 << 4);
}

void bit_histories_learn(struct bit_histories *h, struct bucket *const *found, int place, int bit) {
    for (int i = 0; i < N_CONTEXT; i++) {
        uint8_t *state = &found[i]->state[place];
        if (*state)
            learn_map(h, &h->map[i * HISTORY_STATES + *state], bit);
        *state = next_state(*state, bit);
    }
}
