/* txl generate --interactive: a text that a person and the model write by turns. */
#ifndef CLI_INTERACTIVE_H
#define CLI_INTERACTIVE_H

#include "cli/options/options.h"
#include "generation.h"

/* Begins with the prompt if one was named, and goes on until the input ends; `g->memory` then holds
 * the text, the prompt's counts are of all that was typed, and `*texts` says how often the model
 * had its turn.  The status is that of what cannot be mended by typing something else. */
txl_status interactive_run(struct generate *g, struct generate_options *options,
                           const struct command *command, int64_t *texts);

#endif
