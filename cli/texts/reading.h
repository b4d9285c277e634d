/* How known text is fed to a session, and the end of a text, as ids: what is needed to go on with
 * it. */
#ifndef CLI_READING_H
#define CLI_READING_H

#include "lib/base/memory.h"
#include "txl.h"

/* From left to right; or, for models that see both sides, as blocks, which may be read again before
 * every round of new tokens. */
struct reading {
    bool both_sides; /* if false, the other members have no meaning */
    size_t refresh;  /* new tokens of a round; 0: nothing is read again */
    size_t tgt_len;  /* tokens of a block */
};

/* The least number of ids of a prompt that a call feeds, except the last call. */
size_t reading_chunk(const struct reading *reading);

/* Feeds ids of the prompt.  In rounds they wait for reading_refresh. */
txl_status reading_feed(const struct reading *reading, txl_session *session, const int32_t *ids,
                        size_t n, txl_error *error);

/* Reads the last tgt_len known ids as a block, without memory. */
txl_status reading_refresh(const struct reading *reading, txl_session *session,
                           const txl_history *known, txl_error *error);

/* Copies all that the history remembers. */
txl_status recent_copy(struct id_list *recent, const txl_history *history, txl_error *error);

/* The index from which on the ids affect how a decoder shows the next one. */
size_t recent_line(const int32_t *ids, size_t n, const txl_model *model);

/* The symbol that ends a line, or the blank if line ends are no symbols; -1: there is none. */
int32_t recent_line_end(const txl_model *model);

/* The symbol that is a blank and nothing else, or -1. */
int32_t recent_blank(const txl_model *model);

/* Whether the text is within a line.  Where lines stand between two boundaries (lm1b): whether the
 * next boundary would close one. */
bool recent_line_is_open(const int32_t *ids, size_t n, const txl_model *model);

#endif
