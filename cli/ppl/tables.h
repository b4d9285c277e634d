/* The tables of txl ppl: rows of tokens, of words, of lines and of regions. */
#ifndef TXL_PPL_TABLES_H
#define TXL_PPL_TABLES_H

#include "ppl_options.h"
#include "region_rows.h"
#include "score.h"
#include "table_writer.h"

/* --per-token: a row for each scored token, with its place in the source and the bytes there. */

struct token_rows {
    struct table table;
    const txl_model *model;
    const struct comparison *comparison; /* NULL unless there is another model */
    const char *file;                    /* the current text's name in the table */
    struct source *source;               /* NULL: the text is that of the id, by `decoder` */
    txl_decoder *decoder;
    int32_t n_top;                 /* --logprobs */
    int32_t *top;                  /* [n_top] */
    const struct own_columns *own; /* NULL: none */
};

/* Opens the table.  A comparison must see each token before the rows do.  With --logprobs they need
 * distributions.  False with the error printed; end with table_commit of its table, and
 * token_rows_close. */
bool token_rows_open(struct token_rows *rows, const struct ppl_options *options,
                     const struct own_columns *own, const txl_model *model,
                     const struct comparison *comparison);
void token_rows_close(struct token_rows *rows);

/* An observer; `rows` is its context. */
txl_status token_rows_token(void *rows, const struct scored *token, txl_error *error);

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

/* [n_token]: the tokens that begin a word or end a line; NULL when memory is short. */
bool *word_begins(const txl_model *model);

/* True where --space-with previous corrects words and regions, which takes distributions. */
bool tables_correct(const txl_model *model, const struct ppl_options *options);

/* Opens the table; --entropy takes distributions too.  False with the error printed; end with
 * table_commit of its table, and word_rows_close. */
bool word_rows_open(struct word_rows *rows, const struct ppl_options *options,
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

/* The tables of a run of txl ppl, and the source that they show. */

/* Tables that are not asked for have no stream. */
struct tables {
    struct token_rows tokens;
    struct word_rows words;
    struct table lines; /* --per-line: a row for each line, scored by itself */
    struct region_rows regions;
    const char *file;     /* the current text's name in the table of lines */
    struct source source; /* of the current text */
    bool shows_source;    /* a report reads it too */
    bool has_marks;       /* byte order marks are not part of the text */
};

/* Opens those that the options ask for; `own`: columns of the user's own table, NULL: none.  False
 * with the error printed; end with tables_close, and before it put tables_files in place. */
bool tables_open(struct tables *tables, const struct ppl_options *options,
                 const struct own_columns *own, const txl_model *model,
                 const struct comparison *comparison);
void tables_close(struct tables *tables);

/* The files of all tables, those of standard output first; a table that is not asked for has none
 * open. */
enum { TABLES_FILES = 4 };
void tables_files(struct tables *tables, struct outfile *files[TABLES_FILES]);

/* True where the source is shown at all. */
bool tables_any(const struct tables *tables);

/* Begins a text; false with the error printed.  tables_finish_text writes the rows that wait for
 * more of it; `cut`: tokens follow that are not scored.  tables_end_text ends it: `good`, or its
 * rows are taken back. */
bool tables_start_text(struct tables *tables, const char *file, const struct input *input);
txl_status tables_finish_text(struct tables *tables, bool cut, txl_error *error);
void tables_end_text(struct tables *tables, bool good);

/* The same for a text in memory that stands in one record of `file`; its rows are never taken back.
 */
txl_status tables_start_record(struct tables *tables, const char *file, uint64_t line,
                               struct regions *text);
txl_status tables_end_record(struct tables *tables, bool cut, txl_error *error);

/* The text, piece by piece, before its tokens. */
txl_status tables_see(struct tables *tables, const char *text, size_t length, txl_error *error);

/* Adds a line that was scored by itself, from `*line` to `end`, where its line end is.  `*line`
 * becomes the beginning of the next one. */
txl_status tables_line(struct tables *tables, struct place *line, uint64_t end,
                       const struct score *score, txl_error *error);

#endif
