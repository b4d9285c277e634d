/* --per-word: a row for each word of the source, which is a run without white space: the sum over
 * the tokens that stand for it.
 *
 * White space and line ends count to the word after them (--space-with next) or to the one before
 * (previous).  What has no such word is a row with an empty one, so that the rows sum to the text's
 * nats.
 *
 * Pieces carry the space before a word within its first token, which cannot be moved.  There
 * `previous` is the correction of Pimentel and Meister (2024, "How to compute the probability of a
 * word", theorem 2): with B the event that a token begins a word or ends a line,
 *
 *     nats(word) = sum over its tokens - ln P(B | after its last) + ln P(B | before its first)
 *
 * in which the last term takes out what it cost that a word begins here, and the other one puts in
 * what it costs that it ends.  Where nothing was scored behind the last token, or the first was not
 * scored itself, the term is left out. */
#ifndef CLI_WORD_ROWS_H
#define CLI_WORD_ROWS_H

#include "score.h"
#include "table.h"

/* Tokens that will be, or are, one row. */
struct word {
    struct place place; /* of the word's bytes; of an empty one where its tokens begin */
    uint64_t tokens;
    double nats;
    double before;                    /* ln P(B | before its first), 0 where that is not known */
    uint64_t first_index, last_index; /* of its tokens */
};

struct word_rows {
    struct table table;
    const txl_model *model;
    const char *file; /* of the text at hand, as the table names it */
    struct source *source;
    bool has_marks; /* a byte order mark is no text */
    bool previous;
    bool *begins; /* [n_token]: the tokens of B; NULL: there is no correction */

    struct word word, space; /* at hand; and white space that waits for its word */
    bool in_word;            /* there is one at hand */
    bool boundary;           /* `space` ends a line before the first word, and is a row by itself */

    /* The source up to `at`: the last word in it, and its line. */
    uint64_t at, line;
    uint64_t word_begin, word_end, word_line;
    bool reading_word; /* it may go on behind `at` */
};

/* True where --space-with previous needs distributions. */
bool word_rows_correct(const txl_model *model, bool previous);

/* Opens the table at `path`.  False with the error printed; end with table_commit of its table, and
 * word_rows_close. */
bool word_rows_open(struct word_rows *rows, const char *path, const txl_model *model,
                    bool previous);
void word_rows_close(struct word_rows *rows);

/* Begins a text. */
void word_rows_start(struct word_rows *rows, const char *file, struct source *source);

/* An observer; `rows` is its context. */
txl_status word_rows_token(void *rows, const struct scored *token, txl_error *error);

/* What follows was scored without what came before: writes the rows that wait. */
txl_status word_rows_end(struct word_rows *rows, txl_error *error);

#endif
