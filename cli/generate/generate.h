/* One run of txl generate: its options, the state that all samples share, and what is printed of
 * each. */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "cli/model/dynamic.h"
#include "cli/model/settings.h"
#include "cli/texts/text.h"
#include "prompt.h"

#include <jansson.h>

struct generate_options {
    struct common_options common;
    struct session_options session;
    struct text_options own;
    const char *prompt, *prompt_text, *prompts, *context, *context_text, *save_memory, *load_memory,
        *turn;
    int text, begin_word;
    int64_t refresh, samples, logprobs, draft_length;
    bool skip_unknown, no_echo, escapes, ids, json, interactive, raw_output;
    struct dynamic_options dynamic;
};

/* Without any option given. */
extern const struct generate_options generate_defaults;

/* A text, and what is printed of it. */
struct sample {
    struct text text;
    int64_t number; /* from 1 */
    double start;
    struct buffer output; /* for standard output, when it is the sample's turn */
};

/* One run of the command: the state that all samples share. */
struct generate {
    const struct generate_options *options;
    uint64_t line; /* of --prompts; 0: the run has one prompt */
    struct model model;
    struct text_rules rules;
    struct prompt prompt;
    struct sample sample;        /* it is fed the prompt; the others are copies of it */
    struct id_list first_banned; /* what may not be the first token of a text */
    uint64_t seed;
    txl_memory *memory;       /* from which a text starts; NULL: from the beginning */
    struct dynamic dynamic;   /* learns from the prompt */
    uint64_t retries;         /* of a turn, each with its own random numbers */
    struct buffer transcript; /* what was printed of an interactive text */
    bool unprinted;           /* what is made is no output, but the transcript's alone */

    const char *done; /* why the sample that ended last did so */
    int64_t samples;  /* begun */
    uint64_t tokens;  /* of all samples */
    double seconds;   /* without the prompt */
};

/* Functions that fail have printed the error. */

/* What results state about the run in addition to the session's settings. */
struct run_settings generate_settings(const struct generate *g);

/* Sets how tokens are drawn, and how many, from the options. */
bool generate_choose(struct generate *g);

/* OPTIONS_RUN if `turn` is valid for --turn. */
int generate_check_turn(const struct command *command, const char *turn);

/* After the prompt was fed: lists what may not come first, if the prompt ends with a blank or
 * --begin-word asks for it. */
bool generate_choose_first(struct generate *g);

/* Begins sample `number` after the prompt. */
bool sample_start(const struct generate *g, struct sample *sample, int64_t number);

/* Adds to the output what was drawn, and with --json why the text has ended, and its figures. */
txl_status sample_put(const struct generate *g, struct sample *sample);
txl_status sample_end(const struct generate *g, struct sample *sample, const char *done);
void sample_close(struct sample *sample);

/* Feeds the prompt, generates samples 1 to `samples` of its continuation, and prints them one after
 * the other, also incomplete ones after a signal or a failure.  `g->done` says why the last one
 * ended.  TXL_STOPPED after a signal during the prompt or when the reader of standard output is
 * gone. */
txl_status continue_prompt(struct generate *g, int64_t samples);

/* txl generate --interactive: a text that a person and the model write by turns.
 *
 * Begins with the prompt if one was given, and continues until the input ends.  Then `g->memory`
 * holds the text, the prompt's counts include all typed lines, and `*texts` is the number of the
 * model's turns.  Fails only where typing something else cannot help. */
txl_status interactive_run(struct generate *g, struct generate_options *options,
                           const struct command *command, int64_t *texts);

/* txl generate --prompts: continues the prompts of a file, several at a time. */

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
 * when the reader of standard output is gone. */
txl_status prompts_run(struct generate *g, const struct command *command,
                       struct prompts_result *result);

#endif
