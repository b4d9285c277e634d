/* The options that each text may have of its own: on the command line of txl generate, in a line of
 * --prompts, in a request.  How a token is drawn, and where the text ends. */
#ifndef CLI_TEXT_OPTIONS_H
#define CLI_TEXT_OPTIONS_H

#include "cli/model/sampling.h"

/* Tokens of a text by default. */
#define WORDS_N 300 /* of words or pieces of them */
#define CHARACTERS_N 1000

/* What <eos> does: --eos. */
enum { EOS_NEWLINE, EOS_STOP, EOS_BAN };
extern const char *const eos_ways[]; /* newline, stop, ban */

/* What ends a text after -n tokens: --end. */
enum { END_TOKEN, END_SENTENCE };
extern const char *const ends[]; /* token, sentence */
#define SENTENCE_TOKENS 100      /* the most after -n */

struct text_options {
    struct sampling_options sampling;
    struct string_list stop;
    int eos, end;
    int64_t n, seed;
    bool allow_unk;
};

#define TEXT_OPTIONS_STANDARD                                                                      \
    {                                                                                              \
        .sampling = SAMPLING_STANDARD(TXL_TEMPERATURE), .eos = EOS_NEWLINE, .end = CHOICE_UNSET,   \
        .n = INTEGER_UNSET, .seed = INTEGER_UNSET                                                  \
    }

/* `place` is the offset of the struct text_options. */
#define TEXT_LENGTH_ROWS(place)                                                                    \
    OPTION_ROW("tokens", OPTION_INTEGER, (place) + offsetof(struct text_options, n),               \
               "generate N tokens; 0: until interrupted", .section = "Length", .letter = 'n',      \
               .standard =                                                                         \
                   TEXT_OF(WORDS_N) " words or subwords, " TEXT_OF(CHARACTERS_N) " characters",    \
               .most = MOST_INTEGER),                                                              \
        OPTION_ROW("end", OPTION_CHOICE, (place) + offsetof(struct text_options, end),             \
                   "end after --tokens, or with the sentence, at most " TEXT_OF(                   \
                       SENTENCE_TOKENS) " tokens later",                                           \
                   .choices = ends, .standard = "sentence for text on a terminal, else token"),    \
        OPTION_ROW("stop", OPTION_LIST, (place) + offsetof(struct text_options, stop),             \
                   "end before STRING, which is not printed; may be repeated",                     \
                   .argument = "STRING"),                                                          \
        OPTION_ROW("eos", OPTION_CHOICE, (place) + offsetof(struct text_options, eos),             \
                   "take <eos> for a line end, end the text there, or never sample it",            \
                   .choices = eos_ways, .standard = "newline")

#define TEXT_DRAW_ROWS(type, member)                                                               \
    SAMPLING_ROWS(type, member.sampling, TEXT_OF(TXL_TEMPERATURE)), SEED_ROW(type, member.seed),   \
        OPTION_ROW("allow-unk", OPTION_FLAG, offsetof(type, member.allow_unk),                     \
                   "let <unk> and control symbols be sampled")

/* The rows of a struct text_options alone, up to one without a name. */
extern const struct option_row text_option_rows[];

/* The row of an option's name, also with _ for -, or of its letter; NULL: each text has it as the
 * others. */
const struct option_row *text_option_row(const struct option_row *rows, const char *name);

/* What is wrong with the options and their rows cannot say, or NULL; `ids`: the text is ids,
 * `turns`: it is written by turns. */
const char *text_options_wrong(const struct text_options *options, bool ids, bool turns);

#endif
