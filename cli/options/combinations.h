/* Which options of a command line go together, as their rows say it. */
#ifndef CLI_COMBINATIONS_H
#define CLI_COMBINATIONS_H

#include "options.h"

/* Whether the option has a value.  Not for commands with defaults of their own. */
bool option_is_given(const struct option_row *row, const void *values);

/* OPTIONS_RUN, or STATUS_USAGE after printing what cannot be combined or is needed. */
int combinations_check(const struct command *command, const void *values, int n_operand);

/* The options with what they exclude, for help; empty where there are none, NULL when memory is
 * short.  To be freed. */
char *combinations_text(const struct command *command);

#endif
