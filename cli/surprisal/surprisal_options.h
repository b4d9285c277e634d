/* The command line of txl surprisal: its options, which of them can be combined, and its help. */
#ifndef CLI_SURPRISAL_OPTIONS_H
#define CLI_SURPRISAL_OPTIONS_H

#include "cli/score/run.h"

enum { WITHIN_BOTH, WITHIN_LEFT };

struct surprisal_options {
    struct common_options common;
    struct scoring_options scoring;
    struct string_list per, columns;
    const char *output, *prefer, *prefer_by, *context, *context_text, *compare;
    int64_t prefer_region; /* -1: the whole text */
    int64_t logprobs;
    int within_word;
    bool lines, both_sides, entropy;
};

extern const struct option_row surprisal_option_rows[];
extern const struct operand_row surprisal_operands[];
extern const char surprisal_topics[];
extern const struct example surprisal_examples[];

/* Whether --context or --context-text is given. */
bool surprisal_has_context(const struct surprisal_options *options);

/* OPTIONS_RUN, or the status after printing which options cannot be combined. */
int surprisal_options_check(const struct command *command, const struct surprisal_options *options,
                            const struct operands *files);

/* Takes the tables of --per and -o: of the levels that are asked for, where they go.  OPTIONS_RUN,
 * or the status after printing what is wrong. */
int surprisal_levels(const struct command *command, const struct surprisal_options *options,
                     const char *path[N_LEVEL]);

#endif
