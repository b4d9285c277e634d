/* --per-token: a row for each scored token, with its place in the source and the bytes there. */
#ifndef CLI_SCORE_TOKEN_ROWS_H
#define CLI_SCORE_TOKEN_ROWS_H

#include "comparison.h"
#include "table_writer.h"

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
bool token_rows_open(struct token_rows *rows, const struct table_options *options,
                     const struct own_columns *own, const txl_model *model,
                     const struct comparison *comparison);
void token_rows_close(struct token_rows *rows);

/* An observer; `rows` is its context. */
txl_status token_rows_token(void *rows, const struct scored *token, txl_error *error);

#endif
