/* The sampling options: their rows, their meaning for the library, and how results state them. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cli/options/options.h"
#include "txl.h"

#include <jansson.h>

struct sampling_options {
    double temperature, top_p, typical;
    double min_p;                                /* REAL_UNSET: not given */
    double repetition_penalty;                   /* 0: not given */
    int64_t top_k, repeat_last, no_repeat_ngram; /* the first two INTEGER_UNSET: not given */
    bool greedy;
};

#define SAMPLING_STANDARD(warmth)                                                                  \
    {                                                                                              \
        .temperature = (warmth), .top_p = 1, .min_p = REAL_UNSET, .typical = 1,                    \
        .top_k = INTEGER_UNSET, .repeat_last = INTEGER_UNSET                                       \
    }

/* Ids that a history keeps.  PLAIN_WINDOW of them are kept even without a rule against repetition:
 * a decoder needs them, and a text that is continued later may use such a rule.  HISTORY_WINDOW is
 * the most. */
#define PLAIN_WINDOW 65536
#define HISTORY_WINDOW 1048576

#define TEMPERATURE_ROW(type, member, warmth)                                                      \
    OPTION_ROW("temperature", OPTION_REAL, offsetof(type, member.temperature),                     \
               "divide log-probabilities by T; 0: take the most likely token",                     \
               .section = "Sampling", .letter = 't', .argument = "T", .standard = warmth,          \
               .most = 1e6)

#define SAMPLING_ROWS(type, member, warmth)                                                        \
    TEMPERATURE_ROW(type, member, warmth),                                                         \
        OPTION_ROW("top-k", OPTION_INTEGER, offsetof(type, member.top_k),                          \
                   "sample from the K most likely tokens; 0: from all", .letter = 'k',             \
                   .argument = "K", .standard = TEXT_OF(TXL_TOP_K) " for words, 0 for all else",   \
                   .most = INT32_MAX),                                                             \
        OPTION_ROW("top-p", OPTION_REAL, offsetof(type, member.top_p),                             \
                   "sample from the fewest most likely tokens that sum to P", .argument = "P",     \
                   .standard = "1", .least = 1e-6, .most = 1),                                     \
        OPTION_ROW(                                                                                \
            "min-p", OPTION_REAL, offsetof(type, member.min_p),                                    \
            "sample from tokens with at least P times the highest probability", .argument = "P",   \
            .standard = "0 for words, " TEXT_OF(TXL_MIN_P_PIECES) " for subwords, " TEXT_OF(       \
                TXL_MIN_P) " for XLNet's, bytes and characters",                                   \
            .most = 1),                                                                            \
        OPTION_ROW("typical", OPTION_REAL, offsetof(type, member.typical),                         \
                   "keep tokens whose surprisal is nearest the entropy, until they sum to P",      \
                   .argument = "P", .standard = "1", .least = 1e-6, .most = 1),                    \
        OPTION_ROW("repetition-penalty", OPTION_REAL, offsetof(type, member.repetition_penalty),   \
                   "multiply the log-probabilities of recent tokens by R; below 1 favours them",   \
                   .argument = "R", .standard = "1", .least = 0.01, .most = 100),                  \
        OPTION_ROW("repeat-last", OPTION_INTEGER, offsetof(type, member.repeat_last),              \
                   "with --repetition-penalty: the last N tokens are recent",                      \
                   .standard = TEXT_OF(TXL_REPEAT_LAST), .least = 1, .most = HISTORY_WINDOW),      \
        OPTION_ROW("no-repeat-ngram", OPTION_INTEGER, offsetof(type, member.no_repeat_ngram),      \
                   "never repeat N tokens in a row; 0: off", .standard = "0", .most = 1024),       \
        OPTION_ROW("greedy", OPTION_FLAG, offsetof(type, member.greedy),                           \
                   "the same as --temperature 0")

#define SEED_ROW(type, member)                                                                     \
    OPTION_ROW("seed", OPTION_INTEGER, offsetof(type, member),                                     \
               "seed the random numbers, from 0 to " TEXT_OF(MOST_INTEGER), .letter = 's',         \
               .argument = "S", .standard = "a fresh one", .most = MOST_INTEGER)

/* What the table's bounds cannot express and is wrong, or NULL. */
const char *sampling_wrong(const struct sampling_options *options);

/* The same, with the error printed.  Returns OPTIONS_RUN or the status. */
int sampling_check(const struct command *command, const struct sampling_options *options);

/* Sets the options that were not given to the library's defaults; those of top_k and min_p depend
 * on the model's kind of text. */
void sampling_choose(struct sampling_options *options, const txl_model *model);

/* Sets `*seed` to `given`, or to a fresh one if that is INTEGER_UNSET.  False with the error
 * printed.
 */
bool sampling_seed(int64_t given, uint64_t *seed);

/* The options as the library takes them; the caller adds the banned ids and the history. */
txl_sampling sampling_terms(const struct sampling_options *options);

/* Makes the history that one text's sampling reads, which is the caller's. */
txl_status sampling_history(const struct sampling_options *options, txl_history **history,
                            txl_error *error);

/* Both state temperature, top_k and top_p, and those of the others that are on: min_p, typical,
 * repetition_penalty with repeat_last, no_repeat_ngram. */
bool sampling_to_json(json_t *object, const struct sampling_options *options);
void sampling_to_text(char *text, size_t size, const struct sampling_options *options);

#endif
