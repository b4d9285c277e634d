/* The tables of probabilities and logits. */
#include "logistic.h"

/* exp(-x / 256) of 2^31, by a recurrence: each is the one before times exp(-1 / 256) of 2^32. */
void logistic_start(struct logistic *l) {
    const uint64_t one = (uint64_t)1 << 31, step = 4278222805;
    uint64_t e = one;
    for (int x = 0; x <= LOGIT_LIMIT; x++) {
        const uint64_t all = one + e, p = ((one << 16) + all / 2) / all;
        l->squash[LOGIT_LIMIT + x] = (uint16_t)(p < PROBABILITY_ONE ? p : PROBABILITY_ONE - 1);
        l->squash[LOGIT_LIMIT - x] = (uint16_t)(p < PROBABILITY_ONE ? PROBABILITY_ONE - p : 1);
        e = (e * step + one) >> 32;
    }
    for (int p = 0, x = -LOGIT_LIMIT; p < PROBABILITY_ONE; p++) {
        while (x < LOGIT_LIMIT && squash(l, x) < p)
            x++;
        l->stretch[p] = (int16_t)x;
    }
}
