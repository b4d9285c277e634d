/* The common part of txl help and txl man: each explains one command, or lists all. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include "cli/options/options.h"

/* Their tables. */
extern const struct option_row explain_options[];
extern const struct operand_row explain_operands[];

/* Runs `command`: calls `one` to print the command that the command line names, or `all` if it
 * names none.  Returns the exit status. */
int explain(const struct command *command, const struct operands *operands, void (*all)(void),
            void (*one)(const struct command *topic));

#endif
