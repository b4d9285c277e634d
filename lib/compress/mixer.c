/* The mixer of predictions. */
#include "mixer.h"
#include "lib/base/error.h"

#include <stdlib.h>

enum {
    FIRST_MODEL = 56000, /* weights at first */
    FIRST_OTHER = 5500,
    RATE_LAST = 2, /* of a set that was used often; one that was not learns faster */
    RATE_MORE = 22,
    RATE_HALF = 1024,
    MOST_WEIGHT = 1 << 24
};

txl_status mixer_open(struct mixer *m, const size_t sets[MIXER_LAYERS], size_t last_sets,
                      txl_error *error) {
    *m = (struct mixer){.last = calloc(last_sets * MIXER_LAYERS, sizeof *m->last)};
    bool good = m->last;
    for (int i = 0; i < MIXER_LAYERS; i++) {
        m->layer[i].weight = calloc(sets[i] * N_INPUT, sizeof *m->layer[i].weight);
        m->layer[i].used = calloc(sets[i], sizeof *m->layer[i].used);
        good = good && m->layer[i].weight && m->layer[i].used;
        for (size_t k = 0; good && k < sets[i] * N_INPUT; k++)
            m->layer[i].weight[k] = k % N_INPUT == 0   ? FIRST_MODEL
                                    : k % N_INPUT == 1 ? 0
                                                       : FIRST_OTHER;
    }
    for (size_t k = 0; good && k < last_sets * MIXER_LAYERS; k++)
        m->last[k] = 65536 / MIXER_LAYERS;
    return good ? TXL_OK : txl_fail_memory(error, "a mixer", last_sets * N_INPUT * 4);
}

void mixer_close(struct mixer *m) {
    for (int i = 0; i < MIXER_LAYERS; i++) {
        free(m->layer[i].weight);
        free(m->layer[i].used);
    }
    free(m->last);
    *m = (struct mixer){0};
}

void mixer_mix(const struct mixer *m, const struct logistic *logistic, struct mixed *mixture) {
    const int32_t *last = m->last + mixture->last * MIXER_LAYERS;
    int64_t all = 0;
    for (int i = 0; i < MIXER_LAYERS; i++) {
        const int32_t *weight = m->layer[i].weight + mixture->set[i] * N_INPUT;
        int64_t sum = 0;
        for (int k = 0; k < N_INPUT; k++)
            sum += (int64_t)weight[k] * mixture->input[k];
        mixture->out[i] = logit_of_sum(sum);
        all += (int64_t)last[i] * mixture->out[i];
    }
    mixture->logit = logit_of_sum(all);
    mixture->probability = squash(logistic, mixture->logit);
}

/* Bounded, so that damaged data make nothing overflow. */
static int32_t moved(int32_t weight, int64_t by) {
    const int64_t sum = weight + ((by + (1 << 17)) >> 18);
    return (int32_t)(sum > MOST_WEIGHT ? MOST_WEIGHT : sum < -MOST_WEIGHT ? -MOST_WEIGHT : sum);
}

void mixer_learn(struct mixer *m, const struct logistic *logistic, const struct mixed *mixture,
                 int bit) {
    const int64_t target = bit * PROBABILITY_ONE, error = target - mixture->probability;
    int32_t *last = m->last + mixture->last * MIXER_LAYERS;
    for (int i = 0; i < MIXER_LAYERS; i++) {
        int32_t *weight = m->layer[i].weight + mixture->set[i] * N_INPUT;
        uint16_t *used = &m->layer[i].used[mixture->set[i]];
        const int64_t rate = RATE_LAST + RATE_MORE * RATE_HALF / (RATE_HALF + *used),
                      gain = (target - squash(logistic, mixture->out[i])) * rate;
        for (int k = 0; k < N_INPUT; k++)
            weight[k] = moved(weight[k], mixture->input[k] * gain);
        *used = (uint16_t)(*used + (*used < UINT16_MAX));
        last[i] = moved(last[i], mixture->out[i] * error * RATE_LAST);
    }
}
