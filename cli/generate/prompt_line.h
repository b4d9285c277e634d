/* A line of --prompts: an object with a prompt, and with options for this prompt alone. */
#ifndef CLI_PROMPT_LINE_H
#define CLI_PROMPT_LINE_H

#include "generation.h"

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

#endif
