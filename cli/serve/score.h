/* POST /v1/score: the texts of txl ppl --items, and the rows of its tables. */
#ifndef CLI_SERVE_SCORE_H
#define CLI_SERVE_SCORE_H

#include "work.h"

/* Takes the request, which waits for its turn.  False with the problem. */
bool score_take(struct work *work, struct exchange *exchange, const struct generate_options *usual,
                const json_t *body, struct problem *problem);

#endif
