/* The tables of txl surprisal: a row for each token, word, region or text.
 *
 * Each text has a number, and its rows begin with what the user's table has beside it.  Words and
 * regions have no row for what stands after the last word, such as the symbol that closes the text:
 * the row of the text has it apart. */
#ifndef CLI_SCORE_LEVELS_H
#define CLI_SCORE_LEVELS_H

#include "comparison.h"
#include "regions.h"
#include "table_writer.h"
#include "words.h"

enum level { LEVEL_TOKEN, LEVEL_WORD, LEVEL_REGION, LEVEL_TEXT, N_LEVEL };

extern const char *const level_names[]; /* [N_LEVEL], then NULL */

/* By which the tables are known (cli/options/own_files.h): of each level, then NULL. */
extern const char *const levels_columns[];

struct levels_wanted {
    const char *path[N_LEVEL]; /* NULL: no such table */
    bool corrects;             /* a column bits_corrected; models of words have it without */
    bool entropy;              /* two more columns, of all but tokens */
    int32_t n_top;             /* of tokens: the most likely ones in their place; 0: none */
    const struct comparison *comparison; /* NULL, or observes before; two more columns */
};

struct levels {
    struct levels_wanted wanted;
    struct table table[N_LEVEL];
    const struct own_columns *own;
    const txl_model *model;
    bool *begins; /* [n_token], for words; NULL: there is nothing to correct by */
    int32_t *top; /* [n_top] */

    /* The current text. */
    uint64_t text_n;
    uint64_t record; /* its line; 0: it is running text */
    struct source *source;
    struct regions *regions; /* NULL: it has none */
    bool parted;             /* they are parts of the text */
    struct words words;
    uint64_t n_word;
    struct sums sums; /* of its words */
    double corrected;
    struct moment first; /* before the first token */
    size_t row;          /* the region of the last token; 0: none */
    size_t region;       /* the same as `corrected` counts it */
    bool is_closing;     /* the tokens since are after the last word */
};

/* Opens the tables; `own` comes first in each row.  False with the error printed; end with
 * levels_close, and before it put levels_files in place. */
bool levels_open(struct levels *levels, const struct levels_wanted *wanted,
                 const struct own_columns *own, const txl_model *model);
void levels_close(struct levels *levels);
void levels_files(struct levels *levels, struct outfile *files[N_LEVEL]);

/* Remember the rows so far; remove those written since. */
void levels_mark(struct levels *levels);
void levels_take_back(struct levels *levels);

/* Whether tokens need their distributions. */
bool levels_need_distributions(const struct levels_wanted *wanted, const txl_model *model);

/* Starts a text.  `regions` NULL: running text.  `parted`: bars part it. */
txl_status levels_start(struct levels *levels, struct source *source, struct regions *regions,
                        bool parted, uint64_t record);

/* An observer; `levels` is its context. */
txl_status levels_token(void *levels, const struct scored *token, txl_error *error);

/* Writes the rows that wait; `cut`: not all of the text was scored. */
txl_status levels_end(struct levels *levels, bool cut, txl_error *error);

#endif
