/* POST /v1/learn: a copy of the model that has learned from a text, as with --dynamic. */
#ifndef CLI_LEARN_H
#define CLI_LEARN_H

#include "work.h"

/* Takes the request, which learns a segment at a time beside the others' work.  False with the
 * problem. */
bool learn_take(struct work *work, struct exchange *exchange, const json_t *body,
                struct problem *problem);

#endif
