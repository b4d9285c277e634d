/* Refines a probability by what came of such probabilities in a context (secondary symbol
 * estimation, or an adaptive probability map, APM: Mahoney's SSE). */
#ifndef TXL_COMPRESS_REFINEMENT_H
#define TXL_COMPRESS_REFINEMENT_H

#include "logistic.h"
#include "txl.h"

enum { N_REFINEMENT = 2, REFINEMENT_POINTS = 33 };

struct refinement {
    uint16_t (*points[N_REFINEMENT])[REFINEMENT_POINTS]; /* [2^15] probabilities at logits */
};

/* Where a logit lies in its contexts' points. */
struct refined {
    uint16_t *nearer[N_REFINEMENT];
    unsigned probability; /* the final one, from 1 to 65,535 */
};

txl_status refinement_open(struct refinement *refinement, const struct logistic *logistic,
                           txl_error *error);
void refinement_close(struct refinement *refinement); /* all zero is fine */

/* The mean of a mixture's probability, twice, and the refined ones of two contexts. */
struct refined refine(const struct refinement *refinement, const uint64_t contexts[N_REFINEMENT],
                      int logit, int probability);
void refinement_learn(const struct refined *refined, int bit);

#endif
