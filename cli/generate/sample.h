/* One continuation of the prompt, token by token: from draws to the text for standard output.
 * Functions that fail have printed the error. */
#ifndef CLI_SAMPLE_H
#define CLI_SAMPLE_H

#include "generation.h"

/* Samples made together: as many as sessions can be fed together with the same results as alone
 * (txl_session_feed_each). */
enum { SAMPLES_TOGETHER = 8 };

/* How many of them may be made together: fewer where their memories are large. */
size_t sample_most_together(const struct generate *g);

/* Opens a sample with an empty history; the session becomes the sample's.  End with sample_close,
 * also after a failure. */
bool sample_open(const struct generate *g, txl_session *session, struct sample *sample);

/* The same with a copy of the session and the history of `from`, which was fed the prompt. */
bool sample_copy(const struct generate *g, const struct sample *from, struct sample *copy);
void sample_close(struct sample *sample);

/* Begins behind the prompt, whose last byte as shown is `tail`. */
txl_status sample_start(const struct generate *g, struct sample *sample, int64_t number, char tail);

/* Draws the next token and appends its text to `output`; the id is yet to be fed.  Ctrl-C ends the
 * sample after this token, so that every byte held back belongs to a token. */
txl_status sample_token(const struct generate *g, struct sample *sample);

/* Feeds each of the samples the token that it drew last. */
txl_status sample_feed_each(const struct reading *reading, struct sample *const *samples, size_t n);

/* Prints why the sample has ended, and with --json its figures. */
txl_status sample_end(const struct generate *g, struct sample *sample, const char *done);

/* Saves the text's memory, with everything that is needed to continue it. */
bool sample_save(const struct generate *g, const struct sample *sample, txl_memory **memory);

#endif
