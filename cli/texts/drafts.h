/* Drafts of one text: tokens that will probably come next, because they came after the last few
 * before, in the prompt or in the text.  The session reads them with the token before them
 * (txl_session_expect), so a right guess costs less than a token, and a wrong one costs time
 * alone. */
#ifndef CLI_DRAFTS_H
#define CLI_DRAFTS_H

#include "txl.h"

struct drafts;

/* How many tokens a draft has. */
#define DRAFT_MOST 7
_Static_assert(DRAFT_MOST == TXL_MAX_EXPECTED, "as many as a session takes");

/* Tokens are of the unit; a draft has at most `most` of them.  With `always` it has as many as can
 * be guessed, else as many as will probably save time.  NULL when memory is short. */
struct drafts *drafts_new(txl_unit unit, size_t most, bool always);
void drafts_free(struct drafts *drafts); /* NULL is fine */

/* Begins after ids[n], from which alone the guesses come. */
void drafts_start(struct drafts *drafts, const int32_t *ids, size_t n);

/* The text has got the id, and the session is fed it next, with what it expects now. */
txl_status drafts_feed(struct drafts *drafts, txl_session *session, int32_t id, txl_error *error);

/* How many tokens had been read in a draft before they came. */
uint64_t drafts_accepted(const struct drafts *drafts);

#endif
