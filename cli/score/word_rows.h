/* --per-word: a row for each word of the source, which is a run without white space: the sum over
 * the tokens that stand for it.
 *
 * White space and line ends count towards the word after them (--space-with next) or before them
 * (previous).  If there is no such word, they are a row with an empty word, so that the rows sum to
 * the text's nats; and so is the line end that closes the text, which no word is to answer for.
 *
 * Pieces contain the space before a word in its first token, which cannot be moved.  For them
 * `previous` is the correction of Pimentel and Meister (2024, "How to compute the probability of a
 * word", theorem 2): with B the event that a token begins a word or ends a line,
 *
 *     nats(word) = sum over its tokens - ln P(B | after its last) + ln P(B | before its first)
 *
 * The last term removes the cost of beginning a word here, the one before it adds the cost of
 * ending the word.  A term is left out if no token after the word, or not its first token, was
 * scored.  The terms of neighbours cancel, so that the rows sum to the text's nats but for the
 * first term of each run of scored tokens.
 *
 * A word that was not scored from its first to its last token has a row with an empty word. */
#ifndef CLI_SCORE_WORD_ROWS_H
#define CLI_SCORE_WORD_ROWS_H

#include "region_rows.h"

/* Tokens that form one row. */
struct word {
    struct place place;       /* of the word's bytes; for an empty word, where its tokens begin */
    uint64_t tokens, unknown; /* unknown: of these are <unk> */
    double nats;
    struct moment before; /* its first token */
    uint64_t last_index;  /* of its tokens */
    uint64_t end;         /* of their bytes */
    bool cut;             /* not all tokens of the word were scored */
};

struct word_rows {
    struct table table;
    const txl_model *model;
    const char *file; /* the current text's name in the table */
    struct source *source;
    bool has_marks; /* byte order marks are not part of the text */
    bool previous;
    bool entropy;                  /* two more columns */
    bool *begins;                  /* [n_token]: the tokens of B; NULL: there is no correction */
    const struct own_columns *own; /* NULL: none */

    struct word word, space; /* the current word, and white space that waits for its word */
    struct word closing;     /* with `previous` a line end after the word: the word's unless it ends
                                the text */
    bool in_word;            /* there is a current word */
    bool boundary;           /* `space` ends a line before the first word, and is a row by itself */
    uint64_t next;           /* the index that follows the last token's */
    double correction;       /* what all terms add to the rows' nats */

    /* The source up to `at`: the last word in it, and its line. */
    uint64_t at, line;
    uint64_t record; /* > 0: the line of all of the text */
    uint64_t word_begin, word_end, word_line;
    bool reading_word; /* the word may continue after `at` */
};

/* True where --space-with previous corrects words and regions, which takes distributions. */
bool tables_correct(const txl_model *model, const struct table_options *options);

/* Opens the table; --entropy takes distributions too.  False with the error printed; end with
 * table_commit of its table, and word_rows_close. */
bool word_rows_open(struct word_rows *rows, const struct table_options *options,
                    const struct own_columns *own, const txl_model *model);
void word_rows_close(struct word_rows *rows);

/* Begins a text.  `record` > 0: the line in which all of it stands. */
void word_rows_start(struct word_rows *rows, const char *file, struct source *source,
                     uint64_t record);

/* An observer; `rows` is its context. */
txl_status word_rows_token(void *rows, const struct scored *token, txl_error *error);

/* Writes the rows that wait, if there is a table, because the next tokens are scored without the
 * ones before.  `cut`: the last word may go on after the last token. */
txl_status word_rows_end(struct word_rows *rows, bool cut, txl_error *error);

#endif
