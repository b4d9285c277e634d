/* Going on with a text: from the prompt to samples of what follows it, on standard output. */
#ifndef CLI_CONTINUE_H
#define CLI_CONTINUE_H

#include "cli/model.h"
#include "prompt.h"
#include "sample.h"
#include "sampling.h"

/* Samples made together: as many as the library's sessions can be fed together without a
 * difference to each by itself (txl_session_feed_each). */
enum { TOGETHER = 8 };

enum { ORDER_BLOCK, ORDER_LEFT };
extern const char *const reading_orders[]; /* block, left */

struct generate_options {
    struct common_options common;
    struct session_options session;
    const char *prompt, *prompt_text, *context, *save_memory, *load_memory, *turn;
    int text, eos, order;
    int64_t refresh, n, seed, samples, logprobs;
    struct sampling_options sampling;
    bool allow_unk, skip_unknown, no_echo, ids, json, interactive, raw_output;
    struct string_list stop;
};

/* Where a turn of an interactive text ends; -n is the most for all of them. */
enum turn { TURN_NONE, TURN_SENTENCE, TURN_LINE, TURN_TOKENS };

/* One run of the command: what all samples have in common. */
struct generate {
    const struct generate_options *options;
    struct model model;
    int text; /* TEXT_RAW, TEXT_TOKENS */
    txl_settings settings;
    struct prompt prompt;
    struct sample sample; /* the prompt is fed to it, the others are copies of it */
    struct reading reading;
    int32_t *banned;
    txl_sampling sampling; /* but for the history, which is each sample's own */
    uint64_t seed;
    txl_memory *memory; /* from which a text starts; NULL: afresh */
    bool keeps;         /* it is to be saved, so that the last token drawn is fed too */
    uint64_t n;         /* tokens of a sample; 0: no end */
    enum turn turn;
    uint64_t retries;         /* that the text's random numbers are away from its own */
    struct buffer transcript; /* what generating has printed of an interactive text */

    int32_t *top_ids; /* [logprobs], of the draw at hand */
    float *top_logprobs;
    txl_decoder *scratch; /* gives what their texts would be; NULL for ids, or without them */
    const char *done;     /* why the sample that ended last did so */
    int64_t samples;      /* begun */
    uint64_t tokens;      /* of all samples */
    double seconds;       /* without the prompt */
};

/* What results state about the run besides the session's settings. */
struct run_settings continue_run(const struct generate *g);

/* Fills in what says how tokens are drawn, and how many, out of the options.  False with the error
 * printed. */
bool continue_choose_sampling(struct generate *g);

/* OPTIONS_RUN if `turn` is what --turn takes; else the error is printed. */
int continue_check_turn(const struct command *command, const char *turn);

/* Feeds the prompt, generates samples 1 to `samples` of what follows it, and prints them one after
 * the other, also what was made of them when a signal or a failure ended it.  `g->done` says why it
 * ended.  TXL_STOPPED after a signal during the prompt or when the reader of standard output is
 * gone; other failures have had their error printed. */
txl_status continue_prompt(struct generate *g, int64_t samples);

#endif
