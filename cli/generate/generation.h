/* One run of txl generate: its options, the state that all samples share, and that of each
 * sample. */
#ifndef CLI_GENERATION_H
#define CLI_GENERATION_H

#include "cli/model/dynamic.h"
#include "cli/model/sampling.h"
#include "cli/model/settings.h"
#include "cli/text/tokens.h"
#include "cli/texts/endings.h"
#include "lib/base/memory.h"
#include "prompt.h"
#include "txl.h"

#include <jansson.h>

/* Tokens of a text by default. */
#define WORDS_N 300 /* of words or pieces of them */
#define CHARACTERS_N 1000

/* What <eos> does: --eos. */
enum { EOS_NEWLINE, EOS_STOP, EOS_BAN };
extern const char *const eos_ways[]; /* newline, stop, ban */

struct generate_options {
    struct common_options common;
    struct session_options session;
    const char *prompt, *prompt_text, *prompts, *context, *context_text, *save_memory, *load_memory,
        *turn;
    int text, eos, end, begin_word;
    int64_t refresh, n, seed, samples, logprobs;
    struct sampling_options sampling;
    bool allow_unk, skip_unknown, no_echo, escapes, ids, json, interactive, raw_output;
    struct string_list stop;
    struct dynamic_options dynamic;
};

/* Without any option given. */
extern const struct generate_options generate_defaults;

/* What ends a text after -n tokens: --end. */
enum { END_TOKEN, END_SENTENCE };
extern const char *const ends[]; /* token, sentence */
#define SENTENCE_TOKENS 100      /* the most after -n */

/* Where a turn of an interactive text ends; -n is the most for all of them. */
enum turn { TURN_NONE, TURN_SENTENCE, TURN_LINE, TURN_TOKENS };

/* The state of one sample. */
struct sample {
    int64_t number; /* from 1 */
    txl_session *session;
    txl_history *history; /* the prompt and the sample so far */
    txl_decoder *decoder; /* NULL for ids */
    struct stop_search stops;
    txl_random random;                  /* of the next draw */
    int32_t id;                         /* the last one drawn */
    float logprob;                      /* the model's, of it */
    const struct id_list *first_banned; /* what the first one may not be; NULL: as any other */
    char tail;                          /* the last byte of the text as shown, 0: none */
    uint64_t made;
    struct sentence sentence; /* of an interactive text's turn */
    bool refused;             /* the id last drawn ends the turn and is no part of it */
    size_t round;             /* tokens since the known ones were read again */
    json_t *top;              /* of the last draw, for --logprobs, until it is printed */
    double start;
    const char *done; /* why it ended; NULL: it goes on */

    struct buffer decoded; /* text from the decoder, or an id, before the search for stop strings */
    struct buffer
        text; /* text after that search; with --json it may end in an incomplete character */
    struct buffer output; /* for standard output, when it is the sample's turn */
};

/* One run of the command: the state that all samples share. */
struct generate {
    const struct generate_options *options;
    uint64_t line; /* of --prompts; 0: the run has one prompt */
    struct model model;
    int text; /* TEXT_RAW, TEXT_TOKENS */
    txl_settings settings;
    struct prompt prompt;
    struct sample sample; /* it is fed the prompt; the others are copies of it */
    struct reading reading;
    struct id_list banned;
    struct id_list first_banned; /* what may not be the first token of a text */
    txl_sampling sampling;       /* without the history, which each sample has of its own */
    uint64_t seed;
    txl_memory *memory;     /* from which a text starts; NULL: from the beginning */
    bool keeps;             /* the memory will be saved, so the last token drawn is fed too */
    struct dynamic dynamic; /* learns from the prompt */
    uint64_t n;             /* tokens of a sample; 0: no end */
    enum turn turn;
    uint64_t retries; /* how many times the turn was retried, each with its own random numbers */
    struct buffer transcript; /* what was printed of an interactive text */
    bool aside;               /* what is made is no output, but the transcript's alone */

    int32_t *top_ids; /* [logprobs], of the current draw */
    float *top_logprobs;
    txl_decoder *scratch; /* decodes them; NULL with --ids or without --logprobs */
    const char *done;     /* why the sample that ended last did so */
    int64_t samples;      /* begun */
    uint64_t tokens;      /* of all samples */
    double seconds;       /* without the prompt */
};

/* What is wrong with a text's options and their rows cannot say, or NULL. */
const char *generation_wrong(const struct generate_options *options);

/* What results state about the run in addition to the session's settings. */
struct run_settings generation_settings(const struct generate *g);

/* One continuation of the prompt, token by token: from draws to the text for standard output.
 * Functions that fail have printed the error. */

/* Samples made together: as many as sessions can be fed together with the same results as alone
 * (txl_session_feed_each). */
enum { SAMPLES_TOGETHER = 8 };

/* How many of them may be made together: fewer where their memories are large. */
size_t sample_most_together(const struct generate *g);

/* Opens a sample with an empty history; the session becomes the sample's.  End with sample_close,
 * also after a failure. */
bool sample_open(const struct generate *g, txl_session *session, struct sample *sample);

/* The same with a copy of the session and the history of `from`, which was fed the prompt. */
bool sample_copy(const struct generate *g, const struct sample *from, struct sample *copy);
void sample_close(struct sample *sample);

/* Begins after the prompt, whose last byte as shown is `tail`. */
txl_status sample_start(const struct generate *g, struct sample *sample, int64_t number, char tail);

/* Draws the next token and appends its text to `output`; the id is yet to be fed.  Ctrl-C ends the
 * sample after this token, so that every byte held back belongs to a token. */
txl_status sample_token(const struct generate *g, struct sample *sample);

/* Appends the text that the id would add behind the last `n` ids and the byte `tail`, as `scratch`
 * decodes it.  False when memory is short. */
bool token_text_behind(txl_decoder *scratch, const int32_t *last, size_t n, char tail, int32_t id,
                       struct buffer *text);

/* Bytes of the text without an incomplete UTF-8 sequence at its end. */
size_t complete_characters(const struct buffer *text);

/* Feeds each of the samples the token that it drew last. */
txl_status sample_feed_each(const struct reading *reading, struct sample *const *samples, size_t n);

/* Prints why the sample has ended, and with --json its figures. */
txl_status sample_end(const struct generate *g, struct sample *sample, const char *done);

/* Saves the text's memory, with everything that is needed to continue it. */
bool sample_save(const struct generate *g, const struct sample *sample, txl_memory **memory);

/* Continues a text: from the prompt to samples of its continuation on standard output. */

/* Sets how tokens are drawn, and how many, from the options.  False with the error printed. */
bool continue_choose_sampling(struct generate *g);

/* OPTIONS_RUN if `turn` is valid for --turn; else the error is printed. */
int continue_check_turn(const struct command *command, const char *turn);

/* Lists `banned`, and the pieces that may not follow a prompt at once: after a blank at its end all
 * that do not begin a word, else those that go on with its last word.  False when memory is
 * short. */
bool generation_list_first(struct id_list *list, const struct id_list *banned,
                           const txl_model *model, bool after_blank);

/* After the prompt was fed: lists these, if it ends with a blank or --begin-word asks for it. False
 * with the error printed. */
bool generation_choose_first(struct generate *g);

/* Feeds the prompt, generates samples 1 to `samples` of its continuation, and prints them one after
 * the other, also incomplete ones after a signal or a failure.  `g->done` says why the last one
 * ended.  TXL_STOPPED after a signal during the prompt or when the reader of standard output is
 * gone; other failures have had their error printed. */
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
 * when the reader of standard output is gone; other failures have had their error printed. */
txl_status prompts_run(struct generate *g, const struct command *command,
                       struct prompts_result *result);

#endif
