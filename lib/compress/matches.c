/* Finds matches and follows them. */
#include "matches.h"
#include "lib/base/error.h"

#include <stdlib.h>

enum { TABLE_LOG2 = 18, LONGEST_CHECKED = 32, RIGHT_SHIFT = 7, LEAST_RIGHT = 64 };

/* Of each match: elements that are looked for, and of those found how many must be equal. */
static const uint32_t looked_for[N_MATCH] = {6, 3}, verified[N_MATCH] = {4, 2};

txl_status matches_open(struct matches *m, size_t n_stream, txl_error *error) {
    const size_t places = (size_t)1 << TABLE_LOG2;
    *m = (struct matches){.n_stream = n_stream, .held = calloc(n_stream, sizeof *m->held)};
    bool good = m->held;
    for (int k = 0; k < N_MATCH; k++) {
        m->table[k] = calloc(places, sizeof *m->table[k]);
        good = good && m->table[k];
        for (int i = 0; i < 2 * MATCH_LENGTHS; i++)
            m->right[k][i / MATCH_LENGTHS][i % MATCH_LENGTHS] =
                (uint16_t)(PROBABILITY_ONE - 1 - PROBABILITY_ONE / (i % MATCH_LENGTHS + 2));
    }
    return good ? TXL_OK : txl_fail_memory(error, "matches", N_MATCH * places * 4);
}

void matches_close(struct matches *m) {
    free(m->held);
    for (int k = 0; k < N_MATCH; k++)
        free(m->table[k]);
    *m = (struct matches){0};
}

/* A match may have come to the end of its stream, which then has no next element yet. */
void matches_look(const struct matches *m, const struct history *histories, size_t stream,
                  struct match_guess guess[N_MATCH]) {
    for (int k = 0; k < N_MATCH; k++) {
        const struct match *held = &m->held[stream][k];
        const struct history *there = &histories[held->stream];
        guess[k] = held->length > 0 && held->at < there->n
                       ? (struct match_guess){held->length, there->elements[held->at]}
                       : (struct match_guess){0, NO_ELEMENT};
    }
}

static uint32_t count_equal(const struct history *a, uint32_t at, const struct history *b) {
    uint32_t n = 0;
    while (n < LONGEST_CHECKED && n < at && n < b->n &&
           a->elements[at - 1 - n] == history_element(b, n + 1))
        n++;
    return n;
}

void matches_add(struct matches *m, const struct history *histories, size_t stream,
                 const struct match_guess guess[N_MATCH]) {
    const struct history *h = &histories[stream];
    for (int k = 0; k < N_MATCH; k++) {
        struct match *held = &m->held[stream][k];
        const bool right = guess[k].length > 0 && guess[k].element == history_element(h, 1);
        held->length = right ? held->length + 1 : 0;
        held->at++;
        if (h->n < looked_for[k])
            continue;
        uint64_t key = (uint64_t)k;
        for (uint32_t i = 1; i <= looked_for[k]; i++)
            key = hash_pair(key, (uint32_t)history_element(h, i));
        uint32_t *entry = &m->table[k][hash(key) >> (64 - TABLE_LOG2)];
        if (held->length == 0 && *entry > 0) {
            const uint32_t from = (uint32_t)((*entry - 1) % m->n_stream),
                           at = (uint32_t)((*entry - 1) / m->n_stream),
                           length = count_equal(&histories[from], at, h);
            if (length >= verified[k])
                *held = (struct match){length, from, at};
        }
        *entry = (uint32_t)(h->n * m->n_stream + stream + 1);
    }
}

/* ---- Predictions -------------------------------------------------------------------------- */

/* Lengths from 16 on are told apart by fours, from 32 on not. */
static uint32_t length_class(uint32_t length) {
    return length < 16 ? length : length < 32 ? 16 + (length - 16) / 4 : 20;
}

void matches_predict(const struct matches *m, const struct logistic *logistic,
                     const struct match_guess guess[N_MATCH], const int bit[N_MATCH], bool root,
                     int32_t input[N_MATCH]) {
    for (int k = 0; k < N_MATCH; k++) {
        const int sure = stretch(logistic, m->right[k][root][length_class(guess[k].length)]);
        input[k] = bit[k] < 0 ? 0 : bit[k] ? sure : -sure;
    }
}

void matches_learn(struct matches *m, const struct match_guess guess[N_MATCH],
                   const int said[N_MATCH], bool root, int bit) {
    for (int k = 0; k < N_MATCH; k++) {
        uint16_t *right = &m->right[k][root][length_class(guess[k].length)];
        if (said[k] < 0)
            continue;
        const int target = said[k] == bit ? PROBABILITY_ONE - 1 : 0,
                  next = *right + ((target - *right) >> RIGHT_SHIFT);
        *right = (uint16_t)(next < LEAST_RIGHT ? LEAST_RIGHT : next);
    }
}

int matches_class(const struct match_guess guess[N_MATCH], const int bit[N_MATCH]) {
    const uint32_t l = guess[0].length;
    if (bit[0] >= 0)
        return 2 * (l < 4 ? 1 : l < 8 ? 2 : l < 16 ? 3 : l < 32 ? 4 : 5) + bit[0];
    return bit[1] >= 0 ? 12 + bit[1] : 0;
}
