/* One run of txl generate: its options, the state that all samples share, and that of each
 * sample. */
#ifndef CLI_GENERATION_H
#define CLI_GENERATION_H

#include "cli/model/dynamic.h"
#include "cli/model/sampling.h"
#include "cli/model/settings.h"
#include "cli/text/tokens.h"
#include "lib/base/memory.h"
#include "prompt.h"
#include "sentence.h"
#include "stop.h"
#include "txl.h"

#include <jansson.h>

/* Tokens of a text by default. */
#define WORDS_N 300 /* of words or pieces of them */
#define CHARACTERS_N 1000

/* What <eos> does: --eos. */
enum { EOS_NEWLINE, EOS_STOP, EOS_BAN };
extern const char *const eos_ways[]; /* newline, stop, ban */

enum { ORDER_BLOCK, ORDER_LEFT };
extern const char *const reading_orders[]; /* block, left */

struct generate_options {
    struct common_options common;
    struct session_options session;
    const char *prompt, *prompt_text, *prompts, *context, *context_text, *save_memory, *load_memory,
        *turn;
    int text, eos, order, end;
    int64_t refresh, n, seed, samples, logprobs;
    struct sampling_options sampling;
    bool allow_unk, skip_unknown, no_echo, escapes, ids, json, interactive, raw_output;
    struct string_list stop;
    struct dynamic_options dynamic;
};

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
    txl_random random; /* of the next draw */
    int32_t id;        /* the last one drawn */
    char tail;         /* the last byte of the text as shown, 0: none */
    uint64_t made;
    struct sentence sentence; /* of an interactive text's turn */
    bool refused;             /* the id last drawn ends the turn and is no part of it */
    size_t round;             /* tokens since the known ones were read again */
    json_t *top;              /* of the last draw, for --logprobs, until it is printed */
    double start;
    const char *done; /* why it ended; NULL: it goes on */

    struct buffer decoded; /* text from the decoder, or an id, before the search for stop strings */
    struct buffer
        text; /* text behind that search; with --json it may end in an incomplete character */
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
    txl_sampling sampling; /* without the history, which each sample has of its own */
    uint64_t seed;
    txl_memory *memory;     /* from which a text starts; NULL: from the beginning */
    bool keeps;             /* the memory will be saved, so the last token drawn is fed too */
    struct dynamic dynamic; /* learns from the prompt */
    uint64_t n;             /* tokens of a sample; 0: no end */
    enum turn turn;
    uint64_t retries; /* how many times the turn was retried, each with its own random numbers */
    struct buffer transcript; /* what was printed of an interactive text */

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

#endif
