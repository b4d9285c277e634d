/* txl generate --interactive: a text that a person and the model write by turns. */
#ifndef CLI_INTERACTIVE_H
#define CLI_INTERACTIVE_H

#include "cli/options/options.h"
#include "generation.h"

/* Begins with the prompt if one was given, and continues until the input ends.  Then `g->memory`
 * holds the text, the prompt's counts include all typed lines, and `*texts` is the number of the
 * model's turns.  Fails only where typing something else cannot help. */
txl_status interactive_run(struct generate *g, struct generate_options *options,
                           const struct command *command, int64_t *texts);

#endif
