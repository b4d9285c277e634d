/* What the decisions at a node have been in each context: a hashed table of bit histories, and of
 * each history the probability of what comes next (Mahoney's indirect modelling). */
#ifndef TXL_COMPRESS_BIT_HISTORIES_H
#define TXL_COMPRESS_BIT_HISTORIES_H

#include "contexts.h"
#include "logistic.h"

enum {
    HISTORY_STATES = 256,    /* how many 0s, and 16 times how many 1s, each up to 15 */
    HISTORY_MOST_SEEN = 255, /* observations that a state's probability is the mean of */
    BUCKET_STATES = (1 << TREE_LEVELS) - 1
};

/* A context's states at the nodes of TREE_LEVELS levels. */
struct bucket {
    uint8_t check; /* of the context's hash; 0: empty */
    uint8_t state[BUCKET_STATES];
};

struct bit_histories {
    struct bucket *buckets; /* [2^22] */
    uint32_t *map; /* [N_CONTEXT, HISTORY_STATES] of a 1: 22 bits of it, 10 of how many were seen */
    uint32_t step[HISTORY_MOST_SEEN + 1]; /* by which it moves after so many, of 65,536 */
};

txl_status bit_histories_open(struct bit_histories *histories, txl_error *error);
void bit_histories_close(struct bit_histories *histories); /* all zero is fine */

/* Finds each context's bucket at the levels of node `anchor`, or gives it one.  A later one may
 * take an earlier one's: both then use it. */
void bit_histories_find(struct bit_histories *histories, const uint64_t *contexts, int32_t anchor,
                        struct bucket **found);

/* Inputs of the mixer, from the states at that place in the buckets. */
void bit_histories_predict(const struct bit_histories *histories, const struct logistic *logistic,
                           struct bucket *const *found, int place, int32_t *input);
void bit_histories_learn(struct bit_histories *histories, struct bucket *const *found, int place,
                         int bit);

#endif
