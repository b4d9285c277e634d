/* The tables of txl ppl: a row for each scored token (--per-token) or line (--per-line), in a file
 * that appears whole or not at all, or lines on standard output. */
#ifndef CLI_SCORE_ROWS_H
#define CLI_SCORE_ROWS_H

#include "cli/system/output.h"
#include "compare.h"
#include "score.h"

struct rows {
    struct outfile file; /* stream is NULL: there is none */
    bool on_stdout;
    const txl_model *model;
    const struct comparison *comparison; /* NULL unless there is another model */
};

/* Opens the table of lines or of tokens in the file at `path`; NULL: lines go to standard output if
 * `on_stdout`.  A comparison must see each token before the rows do.  False with the error printed;
 * end with rows_commit or rows_abandon. */
bool rows_open_lines(struct rows *rows, const char *path, bool on_stdout);
bool rows_open_tokens(struct rows *rows, const char *path, const txl_model *model,
                      const struct comparison *comparison);
bool rows_commit(struct rows *rows);
void rows_abandon(struct rows *rows);

/* Writes a row; `rows` is the context of an observer. */
txl_status rows_token(void *rows, const struct scored *token, txl_error *error);
txl_status rows_line(struct rows *rows, uint64_t line, const struct score *score);

#endif
