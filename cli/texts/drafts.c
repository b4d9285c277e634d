/* Guesses by the last tokens, as in Mahoney's indirect context models: for each context of some
 * orders, which token came there last, and how often it came there again.  How often guesses of
 * that kind are right is counted, and a draft grows while its next token is worth its time. */
#include "drafts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ORDERS = 3,
    MOST_ORDER = 6,
    SLOT_BITS = 17,
    MOST_COUNT = 15,
    TRIED = 512 /* guesses of a kind after which older ones count half */
};

/* Tokens of a context: characters say less than words. */
static const size_t orders[2][ORDERS] = {{6, 4, 2}, {3, 2, 1}};

/* What came in a context; the table forgets the contexts that others replace. */
struct slot {
    uint16_t check; /* of the context; with others' slots are not taken for it */
    uint8_t count;  /* how often the id has come again; 0 in an empty slot too, whose check is 0 */
    int32_t id;
};

struct rate {
    uint32_t right, tried;
};

/* Seconds of passes, the older ones counting less. */
struct pace {
    double seconds, passes, drafted;
};

struct drafts {
    const size_t *order; /* [ORDERS] */
    size_t most;
    bool always;
    struct slot *slot; /* [ORDERS, 2^SLOT_BITS] */
    struct rate rate[ORDERS][MOST_COUNT + 1];
    int32_t last[MOST_ORDER]; /* the last tokens, the newest first */
    size_t n_last;

    int32_t ids[DRAFT_MOST]; /* [n]: the draft, of which `come` tokens have come */
    size_t n, come;
    struct pace plain, drafting; /* passes without a draft, and with one */
    double began;                /* the last pass; 0: none has */
    uint64_t passes;
    uint64_t accepted;
};

struct drafts *drafts_new(txl_unit unit, size_t most, bool always) {
    struct drafts *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->slot = calloc((size_t)ORDERS << SLOT_BITS, sizeof *d->slot);
    if (!d->slot) {
        free(d);
        return NULL;
    }
    d->order = orders[unit == TXL_UNIT_CHARACTER ? 0 : 1];
    d->most = most;
    d->always = always;
    return d;
}

void drafts_free(struct drafts *d) {
    if (!d)
        return;
    free(d->slot);
    free(d);
}

uint64_t drafts_accepted(const struct drafts *d) {
    return d->accepted;
}

/* ---- Guesses ------------------------------------------------------------------------------ */

/* The slot of the last tokens in order `o`, and in *check what its check is if it is theirs. */
static struct slot *find_slot(const struct drafts *d, const int32_t *last, size_t o,
                              uint16_t *check) {
    uint64_t hash = o;
    for (size_t i = 0; i < d->order[o]; i++)
        hash = (hash ^ (uint32_t)last[i]) * 0x9e3779b97f4a7c15u + (hash >> 29);
    hash ^= hash >> 32;
    *check = (uint16_t)(hash >> SLOT_BITS | 1);
    return d->slot + (o << SLOT_BITS) + (hash & ((1u << SLOT_BITS) - 1));
}

/* The share of such guesses that were right. */
static double share_right(const struct rate *rate) {
    return (rate->right + 0.5) / (rate->tried + 1.0);
}

/* The guess after the last tokens that is most often right, and how often; -1: there is none. */
static int32_t guess_next(const struct drafts *d, const int32_t *last, size_t n_last,
                          double *chance) {
    int32_t best = -1;
    *chance = 0;
    for (size_t o = 0; o < ORDERS; o++) {
        uint16_t check;
        const struct slot *slot = find_slot(d, last, o, &check);
        if (n_last < d->order[o] || slot->check != check)
            continue;
        double share = share_right(&d->rate[o][slot->count]);
        if (share > *chance) {
            *chance = share;
            best = slot->id;
        }
    }
    return best;
}

static void push(int32_t last[MOST_ORDER], int32_t id) {
    memmove(last + 1, last, (MOST_ORDER - 1) * sizeof *last);
    last[0] = id;
}

static void count_guess(struct rate *rate, bool right) {
    rate->right += right;
    if (++rate->tried == TRIED) {
        rate->right /= 2;
        rate->tried /= 2;
    }
}

/* Learns what came after the last tokens. */
static void learn(struct drafts *d, int32_t id) {
    for (size_t o = 0; o < ORDERS; o++) {
        if (d->n_last < d->order[o])
            continue;
        uint16_t check;
        struct slot *slot = find_slot(d, d->last, o, &check);
        if (slot->check != check) {
            *slot = (struct slot){check, 0, id};
            continue;
        }
        count_guess(&d->rate[o][slot->count], slot->id == id);
        if (slot->id != id)
            *slot = (struct slot){check, slot->count / 2, slot->count > 1 ? slot->id : id};
        else if (slot->count < MOST_COUNT)
            slot->count++;
    }
    push(d->last, id);
    d->n_last += d->n_last < MOST_ORDER;
}

void drafts_start(struct drafts *d, const int32_t *ids, size_t n) {
    memset(d->slot, 0, ((size_t)ORDERS << SLOT_BITS) * sizeof *d->slot);
    memset(d->rate, 0, sizeof d->rate);
    d->n_last = d->n = d->come = 0;
    d->began = 0;
    for (size_t i = 0; i < n; i++)
        learn(d, ids[i]);
}

/* ---- What pays ---------------------------------------------------------------------------- */

/* Passes that count; how many are needed of either kind; and how often one is made without a draft
 * in any case, and one with a draft though that has been slow, because times change. */
enum { PASSES = 16, LEAST_PASSES = 8, PLAIN_EVERY = 32, DRAFT_EVERY = 256 };

/* How much longer a pass takes for each token of its draft, as a share of a pass without one.
 * What is measured decides about time alone, never about the text. */
static double extra_time(const struct drafts *d) {
    const double guessed = 0.1;
    if (d->always)
        return 0;
    if (d->plain.passes < LEAST_PASSES || d->passes % PLAIN_EVERY == 0)
        return INFINITY;
    if (d->drafting.passes < LEAST_PASSES || d->passes % DRAFT_EVERY == 1)
        return guessed;
    double plain = d->plain.seconds / d->plain.passes;
    double more = d->drafting.seconds - d->drafting.passes * plain;
    return more > 0 ? more / d->drafting.drafted / plain : 0;
}

/* The processor's time, which other programs do not add to. */
static double processor_seconds(void) {
    struct timespec t;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0
               ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec
               : 0;
}

/* Adds the pass that has ended, unless it took unusually long. */
static void measure_pass(struct drafts *d) {
    const double now = processor_seconds(), seconds = now - d->began;
    struct pace *pace = d->n > 0 ? &d->drafting : &d->plain;
    const bool first = pace->passes == 0 || d->began == 0;
    const double usual = first ? 0 : pace->seconds / pace->passes;
    if (d->began > 0 && (first || seconds < 4 * usual)) {
        const double keep = 1 - 1.0 / PASSES;
        *pace = (struct pace){pace->seconds * keep + seconds, pace->passes * keep + 1,
                              pace->drafted * keep + (double)d->n};
    }
    d->began = now;
    d->passes++;
}

static const double LEAST_GAIN = 1.05; /* below it, what is measured decides nothing */

/* Makes the draft after the last tokens: each token that raises the tokens per time. */
static void make_draft(struct drafts *d) {
    int32_t last[MOST_ORDER];
    double chance = 1, tokens = 1, time = 1;
    const double extra = extra_time(d);
    memcpy(last, d->last, sizeof last);
    d->n = d->come = 0;
    for (size_t n_last = d->n_last; d->n < d->most; n_last += n_last < MOST_ORDER) {
        double share;
        int32_t id = guess_next(d, last, n_last, &share);
        chance *= share;
        if (id < 0 || chance * time <= extra * tokens)
            break;
        tokens += chance;
        time += extra;
        d->ids[d->n++] = id;
        push(last, id);
    }
    if (tokens < LEAST_GAIN * time)
        d->n = 0;
}

txl_status drafts_feed(struct drafts *d, txl_session *session, int32_t id, txl_error *error) {
    bool right = d->come < d->n && d->ids[d->come] == id;
    learn(d, id);
    if (right) {
        d->come++;
        d->accepted++;
        return TXL_OK;
    }
    measure_pass(d);
    make_draft(d);
    return txl_session_expect(session, d->ids, d->n, &d->n, error);
}
