/* Going on with a text: from the prompt to tokens, and from tokens to standard output. */
#ifndef CLI_CONTINUE_H
#define CLI_CONTINUE_H

#include "bytes.h"
#include "model.h"
#include "prompt.h"
#include "sampling.h"
#include "stop.h"

enum { EOS_NEWLINE, EOS_STOP, EOS_BAN };
extern const char *const eos_ways[]; /* newline, stop, ban */

struct generate_options {
    struct common_options common;
    struct session_options session;
    const char *prompt, *prompt_text, *save_memory, *load_memory;
    int text, eos;
    int64_t n, seed, samples, logprobs;
    struct sampling_options sampling;
    bool allow_unk, skip_unknown, no_echo, ids, json, interactive;
    struct string_list stop;
};

/* One run of the command.  Texts are continued one after the other, each from the prompt. */
struct generate {
    const struct generate_options *options;
    struct model model;
    txl_settings settings;
    txl_session *session;
    txl_decoder *decoder;
    struct prompt prompt;
    struct stop_search stops;
    int32_t banned[2];
    txl_sampling sampling;
    txl_history *history; /* the prompt and the sample so far */
    uint64_t seed;
    txl_random random;  /* of the sample's next draw */
    txl_memory *memory; /* from which a text starts; NULL: afresh */
    bool keeps;         /* it is to be saved, so that the last token drawn is fed too */
    uint64_t n;         /* tokens of a sample; 0: no end */

    struct bytes decoded; /* from the decoder, or an id, on its way to the stop strings */
    struct bytes text;    /* on its way out; with --json perhaps an incomplete character */
    int32_t *top_ids;     /* [logprobs] */
    float *top_logprobs;
    const char *done; /* why the last sample ended */
    uint64_t tokens;  /* of all samples */
    double seconds;   /* without the prompt */
};

/* Fills in what says how tokens are drawn, and how many, out of the options; a history that there
 * was is forgotten.  False with the error printed. */
bool continue_choose_sampling(struct generate *g);

/* Feeds the prompt and generates what follows it.  `g->done` says why it ended.  TXL_STOPPED after
 * a signal during the prompt or when the reader of standard output is gone; other failures have had
 * their error printed. */
txl_status continue_prompt(struct generate *g, int64_t sample);

/* Copies the text's memory, with all that going on with it takes.  False with the error printed. */
bool continue_save(const struct generate *g, txl_memory **memory);

#endif
