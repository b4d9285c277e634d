/* What a model said about the tokens of a text, in the order of the text. */
#ifndef CLI_TOKEN_SCORES_H
#define CLI_TOKEN_SCORES_H

#include "lib/base/memory.h"

/* Of token i: its log-probability (NAN: nothing was before it), and the k likeliest in its place.
 */
struct token_scores {
    size_t k, n, room;
    float *logprob;      /* [n] */
    int32_t *top_ids;    /* [n, k] best first */
    float *top_logprobs; /* [n, k] */
    bool detailed;       /* the following too */
    float *entropy;      /* [n] in nats */
    int32_t *rank;       /* [n] from 1 */
    const bool *of;      /* [n_token]: tokens that begin a word; NULL: `begins` is not kept */
    float *begins;       /* [n] ln P(one of these) */
};

void token_scores_free(struct token_scores *scores);

/* Adds a token that nothing was before.  These return false when memory is short. */
bool token_scores_add_none(struct token_scores *scores);

/* Adds token `id` with the distribution in its place, logprob[n_token]. */
bool token_scores_add(struct token_scores *scores, int32_t id, const float *logprob,
                      int32_t n_token);

/* Adds a drawn token of that log-probability, with the k likeliest in its place. */
bool token_scores_add_drawn(struct token_scores *scores, int32_t id, float logprob,
                            const int32_t *top_ids, const float *top_logprobs);

/* Adds the first n tokens of another list, whose k is no smaller, with their first k likeliest. */
bool token_scores_add_first(struct token_scores *scores, const struct token_scores *other,
                            size_t n);

#endif
