/* One continuation of the prompt, token by token: from draws to what standard output is to gain.
 * Functions that fail have printed the error. */
#ifndef CLI_SAMPLE_H
#define CLI_SAMPLE_H

#include "generation.h"

/* A session of its own and an empty history.  End with sample_close, also after a failure. */
bool sample_open(const struct generate *g, struct sample *sample);

/* The same at the place of another one, to which the prompt has been fed. */
bool sample_copy(const struct generate *g, const struct sample *from, struct sample *copy);
void sample_close(struct sample *sample);

/* Begins behind the prompt, whose last byte as shown is `tail`. */
txl_status sample_start(const struct generate *g, struct sample *sample, int64_t number, char tail);

/* Draws the next token and appends what comes of it to `output`; the id is yet to be fed.  Ctrl-C
 * ends the sample with it, so that every byte held back belongs to a token. */
txl_status sample_token(const struct generate *g, struct sample *sample);

/* Prints why the sample has ended, and with --json its figures. */
txl_status sample_end(const struct generate *g, struct sample *sample, const char *done);

/* Copies the text's memory, with all that going on with it takes. */
bool sample_save(const struct generate *g, const struct sample *sample, txl_memory **memory);

#endif
