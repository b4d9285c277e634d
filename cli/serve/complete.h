/* POST /v1/completions: continues prompts. */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "work.h"

/* Takes the request, which waits for its turn.  False with the problem. */
bool complete_take(struct work *work, struct exchange *exchange,
                   const struct generate_options *usual, json_t *body, struct problem *problem);

#endif
