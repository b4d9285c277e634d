/* --per-line: a row for each line, scored by itself. */
#ifndef CLI_LINE_ROWS_H
#define CLI_LINE_ROWS_H

#include "score.h"
#include "table.h"

struct line_rows {
    struct table table;
    const char *file; /* the current text's name in the table */
    struct source *source;
};

/* Opens the table on standard output; `objects`: an object a line.  False with the error printed;
 * end with table_commit of its table. */
bool line_rows_open(struct line_rows *rows, bool objects);

/* Adds a line of the text, from its first byte to before its line end.  `score` is that of its
 * tokens. */
txl_status line_rows_line(struct line_rows *rows, const struct place *place,
                          const struct score *score, txl_error *error);

#endif
