/* Lists of scores. */
#include "token_scores.h"

#include "cli/score/distribution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void token_scores_free(struct token_scores *s) {
    free(s->logprob);
    free(s->top_ids);
    free(s->top_logprobs);
    free(s->entropy);
    free(s->rank);
    free(s->begins);
    *s = (struct token_scores){.k = s->k, .detailed = s->detailed, .of = s->of};
}

static bool grow(void *list, size_t room, size_t size) {
    void **place = list;
    void *grown = reallocarray(*place, room, size);
    if (grown)
        *place = grown;
    return grown != NULL;
}

/* Makes room for n more. */
static bool reserve(struct token_scores *s, size_t n) {
    if (s->room - s->n >= n)
        return true;
    size_t room = s->n + n + s->n / 2 + 16;
    bool good = grow(&s->logprob, room, sizeof *s->logprob) &&
                (s->k == 0 || (grow(&s->top_ids, room, s->k * sizeof *s->top_ids) &&
                               grow(&s->top_logprobs, room, s->k * sizeof *s->top_logprobs))) &&
                (!s->of || grow(&s->begins, room, sizeof *s->begins)) &&
                (!s->detailed || (grow(&s->entropy, room, sizeof *s->entropy) &&
                                  grow(&s->rank, room, sizeof *s->rank)));
    if (good)
        s->room = room;
    return good;
}

/* Ends a token whose distribution is not known as a whole. */
static void end_without_details(struct token_scores *s) {
    if (s->detailed) {
        s->entropy[s->n] = NAN;
        s->rank[s->n] = 0;
    }
    if (s->of)
        s->begins[s->n] = NAN;
    s->n++;
}

bool token_scores_add_none(struct token_scores *s) {
    if (!reserve(s, 1))
        return false;
    s->logprob[s->n] = NAN;
    for (size_t i = 0; i < s->k; i++) {
        s->top_ids[s->n * s->k + i] = -1;
        s->top_logprobs[s->n * s->k + i] = NAN;
    }
    end_without_details(s);
    return true;
}

bool token_scores_add(struct token_scores *s, int32_t id, const float *logprob, int32_t n_token) {
    if (!reserve(s, 1))
        return false;
    int32_t *top = s->k > 0 ? s->top_ids + s->n * s->k : NULL;
    s->logprob[s->n] = logprob[id];
    if (s->k > 0)
        likeliest(logprob, n_token, top, (int32_t)s->k);
    for (size_t i = 0; i < s->k; i++)
        s->top_logprobs[s->n * s->k + i] = logprob[top[i]];
    if (s->detailed) {
        s->entropy[s->n] = (float)entropy_of(logprob, n_token);
        s->rank[s->n] = rank_of(id, logprob, n_token);
    }
    if (s->of)
        s->begins[s->n] = (float)log_mass(s->of, logprob, n_token);
    s->n++;
    return true;
}

bool token_scores_add_drawn(struct token_scores *s, int32_t id, float logprob,
                            const int32_t *top_ids, const float *top_logprobs) {
    if (!reserve(s, 1))
        return false;
    s->logprob[s->n] = logprob;
    for (size_t i = 0; i < s->k; i++) {
        s->top_ids[s->n * s->k + i] = top_ids[i];
        s->top_logprobs[s->n * s->k + i] = top_logprobs[i];
        if (top_ids[i] == id) /* computed in another way, it may differ in the last digit */
            s->logprob[s->n] = top_logprobs[i];
    }
    end_without_details(s);
    return true;
}

bool token_scores_add_first(struct token_scores *s, const struct token_scores *other, size_t n) {
    if (!reserve(s, n))
        return false;
    for (size_t i = 0; i < n; i++, s->n++) {
        s->logprob[s->n] = other->logprob[i];
        for (size_t j = 0; j < s->k; j++) {
            s->top_ids[s->n * s->k + j] = other->top_ids[i * other->k + j];
            s->top_logprobs[s->n * s->k + j] = other->top_logprobs[i * other->k + j];
        }
        if (s->detailed) {
            s->entropy[s->n] = other->entropy[i];
            s->rank[s->n] = other->rank[i];
        }
        if (s->of)
            s->begins[s->n] = other->begins[i];
    }
    return true;
}
