/* Continues a text: from the prompt to samples of its continuation on standard output. */
#ifndef CLI_CONTINUE_H
#define CLI_CONTINUE_H

#include "generation.h"

/* Sets how tokens are drawn, and how many, from the options.  False with the error printed. */
bool continue_choose_sampling(struct generate *g);

/* OPTIONS_RUN if `turn` is valid for --turn; else the error is printed. */
int continue_check_turn(const struct command *command, const char *turn);

/* Feeds the prompt, generates samples 1 to `samples` of its continuation, and prints them one after
 * the other, also incomplete ones after a signal or a failure.  `g->done` says why the last one
 * ended.  TXL_STOPPED after a signal during the prompt or when the reader of standard output is
 * gone; other failures have had their error printed. */
txl_status continue_prompt(struct generate *g, int64_t samples);

#endif
