/* What txl help and txl man share: each explains one command, or lists them all. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include "options.h"

/* Their tables. */
extern const struct option_row explain_options[];
extern const struct operand_row explain_operands[];

/* Runs `command`: prints with `one` the command that the command line names, or with `all` the list
 * where it names none.  Returns the exit status. */
int explain(const struct command *command, int argc, char **argv, void (*all)(void),
            void (*one)(const struct command *topic));

#endif
