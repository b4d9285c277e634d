/* How the known text reaches the session: from left to right; or, by models that see both sides, as
 * blocks, perhaps all of it afresh every so many new tokens. */
#ifndef CLI_READING_H
#define CLI_READING_H

#include "txl.h"

struct reading {
    bool both_sides; /* else the rest means nothing */
    bool left;       /* the prompt from left to right all the same */
    size_t
        refresh; /* new tokens of a round, before which all known ones are read afresh; 0: never */
    size_t tgt_len; /* tokens of a block */
};

/* How many ids of a prompt are fed in one call, at least. */
size_t reading_chunk(const struct reading *reading);

/* Feeds ids of the prompt.  In rounds they wait for reading_afresh. */
txl_status reading_feed(const struct reading *reading, txl_session *session, const int32_t *ids,
                        size_t n, txl_error *error);

/* Reads the last tgt_len known ids as a block, without memory. */
txl_status reading_afresh(const struct reading *reading, txl_session *session,
                          const txl_history *known, txl_error *error);

#endif
