/* The tables of a run, and the source that they show. */
#ifndef CLI_SCORE_TABLES_H
#define CLI_SCORE_TABLES_H

#include "levels.h"
#include "region_rows.h"
#include "token_rows.h"
#include "word_rows.h"

/* Tables that are not asked for have no stream. */
struct tables {
    struct token_rows tokens;
    struct word_rows words;
    struct table lines; /* --per-line: a row for each line, scored by itself */
    struct region_rows regions;
    struct levels *levels; /* NULL: none */
    bool parted;           /* bars part the texts of records into regions */
    const char *file;      /* the current text's name in the table of lines */
    struct source source;  /* of the current text */
    bool shows_source;     /* a report reads it too */
    bool has_marks;        /* byte order marks are not part of the text */
};

/* Opens those that the options ask for; `own`: columns of the user's own table, NULL: none.  False
 * with the error printed; end with tables_close, and before it put tables_files in place. */
bool tables_open(struct tables *tables, const struct table_options *options,
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
