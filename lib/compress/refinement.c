/* The refinement of probabilities. */
#include "refinement.h"
#include "lib/base/error.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXTS_LOG2 = 15, LEARN_SHIFT = 5, STEP = 2 * LOGIT_LIMIT / (REFINEMENT_POINTS - 1) };

txl_status refinement_open(struct refinement *r, const struct logistic *logistic,
                           txl_error *error) {
    const size_t n = (size_t)1 << CONTEXTS_LOG2;
    *r = (struct refinement){0};
    for (int i = 0; i < N_REFINEMENT; i++) {
        r->points[i] = calloc(n, sizeof *r->points[i]);
        if (!r->points[i])
            return txl_fail_memory(error, "refined probabilities", n * sizeof *r->points[i]);
        for (int k = 0; k < REFINEMENT_POINTS; k++)
            r->points[i][0][k] = (uint16_t)squash(logistic, k * STEP - LOGIT_LIMIT);
        for (size_t c = 1; c < n; c++)
            memcpy(r->points[i][c], r->points[i][0], sizeof r->points[i][0]);
    }
    return TXL_OK;
}

void refinement_close(struct refinement *r) {
    for (int i = 0; i < N_REFINEMENT; i++)
        free(r->points[i]);
    *r = (struct refinement){0};
}

struct refined refine(const struct refinement *r, const uint64_t contexts[N_REFINEMENT], int logit,
                      int probability) {
    const int from = (logit + LOGIT_LIMIT) / STEP, part = (logit + LOGIT_LIMIT) % STEP;
    struct refined refined;
    int sum = 2 * probability + 2;
    for (int i = 0; i < N_REFINEMENT; i++) {
        uint16_t *points = r->points[i][hash(contexts[i]) >> (64 - CONTEXTS_LOG2)] + from;
        sum += (points[0] * (STEP - part) + points[1] * part) / STEP;
        refined.nearer[i] = points + (part >= STEP / 2);
    }
    sum /= 4;
    refined.probability = (unsigned)(sum < 1                 ? 1
                                     : sum < PROBABILITY_ONE ? sum
                                                             : PROBABILITY_ONE - 1);
    return refined;
}

void refinement_learn(const struct refined *refined, int bit) {
    const int target = bit ? PROBABILITY_ONE - 1 : 0;
    for (int i = 0; i < N_REFINEMENT; i++) {
        uint16_t *point = refined->nearer[i];
        *point = (uint16_t)(*point + ((target - *point) >> LEARN_SHIFT));
    }
}
