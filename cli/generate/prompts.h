/* txl generate --prompts: continues the prompts of a file, several at a time. */
#ifndef CLI_PROMPTS_H
#define CLI_PROMPTS_H

#include "generation.h"

/* A line of --prompts: an object with a prompt, and with options for this prompt alone. */

struct prompt_line {
    json_t *object; /* has the strings */
    struct generate_options options;
    struct string_list stop; /* the line's own */
};

/* What is wrong with a line. */
struct prompt_line_problem {
    char text[1024];
};

/* Reads the object, which becomes the line's, over the command line's options.  False if it is
 * wrong; end with prompt_line_free either way. */
bool prompt_line_read(struct prompt_line *line, json_t *object, const struct command *command,
                      const struct generate_options *options, struct prompt_line_problem *problem);
void prompt_line_free(struct prompt_line *line);

/* What became of the lines. */
struct prompts_result {
    uint64_t prompts, failed;
};

/* Prints an object for each prompt, in their order.  `g` receives the counts of all.  TXL_STOPPED
 * when the reader of standard output is gone; other failures have had their error printed. */
txl_status prompts_run(struct generate *g, const struct command *command,
                       struct prompts_result *result);

#endif
