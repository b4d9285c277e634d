/* Mixes predictions in the logistic domain: sets of weights, chosen by what is known at a decision,
 * whose results a last set mixes; all learn by their own error (gated linear mixing, Mahoney 2005;
 * Mattern 2013). */
#ifndef TXL_COMPRESS_MIXER_H
#define TXL_COMPRESS_MIXER_H

#include "logistic.h"
#include "txl.h"

#include <stddef.h>

enum {
    N_INPUT = 32, /* the first is the model's, the second constant */
    MIXER_LAYERS = 4
};

struct mixer {
    struct {
        int32_t *weight; /* [sets, N_INPUT] of 65,536 */
        uint16_t *used;  /* [sets] how often, to 65,535 */
    } layer[MIXER_LAYERS];
    int32_t *last; /* [last_sets, MIXER_LAYERS] */
};

/* The sets of a decision, and what they make of the inputs. */
struct mixed {
    const int32_t *input; /* [N_INPUT] logits */
    size_t set[MIXER_LAYERS], last;
    int out[MIXER_LAYERS]; /* logits */
    int logit;
    int probability;
};

txl_status mixer_open(struct mixer *mixer, const size_t sets[MIXER_LAYERS], size_t last_sets,
                      txl_error *error);
void mixer_close(struct mixer *mixer); /* all zero is fine */

void mixer_mix(const struct mixer *mixer, const struct logistic *logistic, struct mixed *mixture);
void mixer_learn(struct mixer *mixer, const struct logistic *logistic, const struct mixed *mixture,
                 int bit);

#endif
