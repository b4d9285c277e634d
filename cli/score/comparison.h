/* Compares two models on the same text (--compare): how much the second's predictions differ. */
#ifndef CLI_SCORE_COMPARISON_H
#define CLI_SCORE_COMPARISON_H

#include "scorer.h"

#include <jansson.h>

/* Sums over tokens that both scored. */
struct divergence {
    struct score other;      /* by the second model */
    struct score difference; /* the second's nats minus the first's, token by token */
    double kl;               /* sum of KL(first || second) of the distributions */
    uint64_t agreed;         /* tokens for which both find the same token likeliest */
    double largest;          /* the largest difference in nats, of either sign */
    uint64_t largest_index;  /* the token with that difference */
};

void divergence_merge(struct divergence *divergence, const struct divergence *other);

struct comparison {
    size_t n_token;
    struct divergence divergence;
    double last_divergence; /* KL at the last token, in nats */
};

/* Adds up one token; `comparison` is the context of an observer that asked for distributions. */
txl_status comparison_token(void *comparison, const struct scored *token, txl_error *error);

/* Whether ids mean the same to both; if not, prints why. */
bool comparison_possible(const struct model *model, const struct model *other);

/* Adds the differences' fields to `object`. */
bool divergence_to_json(json_t *object, const struct divergence *divergence);

#endif
