/* Scores a stream of tokens that comes one by one, in constant memory. */
#ifndef CLI_SCORE_H
#define CLI_SCORE_H

#include "txl.h"

#include <stdio.h>

/* Sums over scored tokens; mean and squares as Welford (1962) keeps them. */
struct score {
    uint64_t predicted;
    double nats;    /* sum */
    double mean;    /* of the nats of a token */
    double squares; /* sum of squared differences from the mean */
};

void score_add(struct score *score, double nats);
void score_merge(struct score *score, const struct score *other);

/* Of the mean; NAN below two tokens. */
double score_standard_error(const struct score *score);

struct scorer {
    const txl_model *model;
    txl_session *session;
    size_t window; /* > 0: every token from a fresh segment of that many before it */
    size_t chunk;  /* ids scored in one call */
    int32_t *ids;  /* [chunk + 1] or [window + 1]: read and not yet context of all that follows */
    size_t n;
    float *nats;    /* [chunk] */
    uint64_t index; /* in the stream, of ids[0] */
    FILE *rows;     /* NULL, or receives a line for each scored token */
    struct score score;
};

/* `window` 0: segment after segment, with the session's memory.  Otherwise the session must have
 * tgt_len `window` and no memory.  False when memory is short; end with scorer_free. */
bool scorer_new(struct scorer *scorer, const txl_model *model, txl_session *session, size_t window);
void scorer_free(struct scorer *scorer);

/* Starts a stream at the first memory; its first token, number `index`, is context. */
void scorer_start(struct scorer *scorer, uint64_t index);

/* TXL_STOPPED when a signal asked to stop. */
txl_status scorer_push(struct scorer *scorer, int32_t id, txl_error *error);

/* Scores what was pushed and is still waiting. */
txl_status scorer_flush(struct scorer *scorer, txl_error *error);

#endif
