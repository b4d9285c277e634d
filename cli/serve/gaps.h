/* POST /v1/fill: fills the gaps of a text, by an XLNet. */
#ifndef CLI_GAPS_H
#define CLI_GAPS_H

#include "work.h"

/* Takes the request, which waits for its turn.  False with the problem. */
bool gaps_take(struct work *work, struct exchange *exchange, const struct generate_options *usual,
               const json_t *body, struct problem *problem);

#endif
