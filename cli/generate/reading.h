/* How known text is fed to the session: from left to right; or, for models that see both sides, as
 * blocks, which may be read again before every round of new tokens. */
#ifndef CLI_READING_H
#define CLI_READING_H

#include "txl.h"

struct reading {
    bool both_sides; /* if false, the other members have no meaning */
    bool left;       /* read the prompt from left to right nevertheless */
    size_t refresh;  /* new tokens of a round; 0: nothing is read again */
    size_t tgt_len;  /* tokens of a block */
};

/* The least number of ids of a prompt that a call feeds, except the last call. */
size_t reading_chunk(const struct reading *reading);

/* Feeds ids of the prompt.  In rounds they wait for reading_afresh. */
txl_status reading_feed(const struct reading *reading, txl_session *session, const int32_t *ids,
                        size_t n, txl_error *error);

/* Reads the last tgt_len known ids as a block, without memory. */
txl_status reading_afresh(const struct reading *reading, txl_session *session,
                          const txl_history *known, txl_error *error);

#endif
