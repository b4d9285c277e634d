/* txl generate --prompts: continues the prompts of a file, several at a time. */
#ifndef CLI_PROMPTS_H
#define CLI_PROMPTS_H

#include "generation.h"

/* What became of the lines. */
struct prompts_result {
    uint64_t prompts, failed;
};

/* Prints an object for each prompt, in their order.  `g` receives the counts of all.  TXL_STOPPED
 * when the reader of standard output is gone; other failures have had their error printed. */
txl_status prompts_run(struct generate *g, const struct command *command,
                       struct prompts_result *result);

#endif
