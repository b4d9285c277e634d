/* Sums tokens over the words of a text, which are runs without white space.
 *
 * White space and line ends count with the word after them (`nats`).  As a reading time of a word
 * ends before the space that follows it, `corrected` counts them with the word before:
 *
 * - Of subword models a word's first token contains the space before it, which cannot be moved.  So
 *   their words are corrected as Pimentel and Meister have it (2024, "How to compute the
 *   probability of a word", theorem 2): with B the event that a token begins a word or ends a line,
 *
 *       corrected = sum over its tokens - ln P(B | after its last) + ln P(B | before its first)
 *
 * - Of models of characters and bytes the nats of white space move to the word before.  The last
 *   word, whose white space is the end of the text, has - ln P(B | after its last) in their place.
 * - Models of words have no token for a space: both are equal.
 *
 * What stands after the last word belongs to no word. */
#ifndef CLI_SCORE_WORDS_H
#define CLI_SCORE_WORDS_H

#include "distribution.h"
#include "scorer.h"
#include "source.h"

/* Sums over tokens. */
struct sums {
    uint64_t tokens, unknown; /* unknown: of these are <unk> */
    double nats;
    double nats_other, kl; /* --compare */
};
void sums_add(struct sums *sums, const struct sums *more);

struct found_word {
    uint64_t number;    /* in the text, from 1 */
    struct place place; /* line, offset and bytes */
    struct sums sums;
    double corrected; /* in nats */
    double entropy;   /* before its first token */
    double reduction; /* that less the entropy before the next word's; NAN: no token follows */
};

struct words {
    const txl_model *model;
    const bool *begins; /* [n_token], the tokens of B; NULL: of models of words */
    bool subwords;
    bool has_marks; /* byte order marks are not part of the text */
    txl_status (*found)(void *context, const struct found_word *word, txl_error *error);
    void *context;

    struct source *source;
    struct found_word word;
    bool in_word;
    uint64_t reached;           /* where the word's last token ends */
    struct moment first;        /* before the corrected word's first token */
    struct sums white;          /* tokens since the word, of no word yet */
    struct moment before_white; /* before the first of them */
    double tail, lead;          /* their nats, that go to the word before or after it */
    struct moment before_lead;
    bool has_lead;

    /* The source up to `at`: the last word in it, and its line. */
    uint64_t at, line;
    uint64_t record; /* > 0: the line of all of the text */
    uint64_t word_begin, word_end, word_line;
    bool reading_word; /* the word may continue after `at` */
};

/* [n_token]: the tokens of B; NULL when memory is short. */
bool *words_boundaries(const txl_model *model);

/* Starts a text.  `record` > 0: the line in which all of it stands. */
void words_start(struct words *words, struct source *source, uint64_t record);

/* Adds a token, with what is known before it. */
txl_status words_token(struct words *words, const struct scored *token, const struct sums *sums,
                       const struct moment *before, txl_error *error);

/* The word that the last token counts with; 0: none, for no word follows. */
uint64_t words_number(const struct words *words);

/* Ends the text, of which the last word may be cut off; then `white` has what belongs to none. */
txl_status words_end(struct words *words, bool cut, txl_error *error);

#endif
