/* Going on with a text: from the prompt to samples of what follows it, on standard output. */
#ifndef CLI_CONTINUE_H
#define CLI_CONTINUE_H

#include "generation.h"

/* Fills in what says how tokens are drawn, and how many, out of the options.  False with the error
 * printed. */
bool continue_choose_sampling(struct generate *g);

/* OPTIONS_RUN if `turn` is what --turn takes; else the error is printed. */
int continue_check_turn(const struct command *command, const char *turn);

/* Feeds the prompt, generates samples 1 to `samples` of what follows it, and prints them one after
 * the other, also what was made of them when a signal or a failure ended it.  `g->done` says why it
 * ended.  TXL_STOPPED after a signal during the prompt or when the reader of standard output is
 * gone; other failures have had their error printed. */
txl_status continue_prompt(struct generate *g, int64_t samples);

#endif
