/* A table of rows for other programs: comma-separated, tab-separated, or an object a line, as the
 * name of its file says.
 *
 * Fields are quoted as in RFC 4180, but records end in LF; so line feeds, quotes and separators in
 * a field are unchanged.  The table is UTF-8 without NUL: bytes that are no whole character, and
 * NUL, are written \xHH, and a backslash \\. */
#ifndef CLI_TABLE_WRITER_H
#define CLI_TABLE_WRITER_H

#include "cli/io/output.h"
#include "lib/base/memory.h"
#include "source.h"

/* Nats of a bit. */
#define LN_2 0.693147180559945309417

enum table_form { TABLE_TABS, TABLE_COMMAS, TABLE_OBJECTS };

/* Columns that the user's own table has and this one passes on, with the values of the current
 * text's row there; or, if its regions are rows, with the values of each. */
struct own_columns {
    const char **names; /* [n]; the last `fixed` are the program's: perhaps file, item, condition */
    size_t n, fixed;
    size_t item; /* the item's; if another follows, it is the condition's */
    struct own_value {
        const char *text; /* [length]; NULL: null */
        size_t length;
        bool bare; /* it is JSON, and no string */
    } * values;    /* [copies, per_copy, n] */
    bool by_region;
    size_t copies, per_copy; /* how often the rows of a text are written; per_copy: 1, or one more
                                than regions */
    bool *there;             /* [copies, per_copy]: such rows are to be written; NULL: all */
};

struct table {
    struct outfile file; /* stream is NULL: there is no table */
    enum table_form form;
    FILE *out;                /* where rows go: to the file, or to what is held */
    char *names;              /* keys of the objects with their colons, each ended by NUL */
    const char *name;         /* of the next field of a row */
    size_t n_column, n_field; /* of the header, and of the row so far */
    bool in_row;
    bool verbatim;       /* a backslash is not escaped */
    struct buffer field; /* the current text, escaped */
    char partial[4];     /* the beginning of a character, for text in pieces */
    size_t n_partial;
    struct held_rows {
        FILE *stream; /* NULL: nothing is held */
        char *text;
        size_t length;
        struct held_row {
            size_t begin, own, end; /* of its bytes; own: where the own columns belong */
            size_t region;
            const char *name; /* of the first own column */
            bool in_row;      /* something is before that */
        } * rows;             /* [n] */
        size_t n, room;
    } held;
    off_t mark; /* where table_take_back returns to; < 0: it cannot */
};

/* True for the names of standard output. */
bool table_is_standard_output(const char *path);

/* Opens the table and prints the header; `columns` are names with blanks between them, or if there
 * is one with line feeds, where "*" stands for the own columns (NULL: none).  `form`: where the
 * file's name says nothing. False with the error printed; end with table_abandon, and before it put
 * `file` in place. */
bool table_open(struct table *table, const char *path, const char *columns,
                const struct own_columns *own, enum table_form form);
void table_abandon(struct table *table);

/* Remember the rows so far; remove those written since.  A pipe keeps what was written to it.
 * Without a table both do nothing. */
void table_mark(struct table *table);
void table_take_back(struct table *table);

/* The fields of a row, in order. */
void table_integer(struct table *table, uint64_t value);
void table_real(struct table *table, double value);
void table_unknown(struct table *table); /* empty, or null */
void table_text(struct table *table, const char *text, size_t length);

/* The values of the own columns, which are passed on as they are: a backslash stays one. */
void table_own(struct table *table, const struct own_columns *own, size_t region);

/* Where the own columns are of several copies of a text: holds the rows that follow, and writes
 * them once for each copy, with its values.  Without a table, or for one copy, both do nothing. */
txl_status table_hold(struct table *table, const struct own_columns *own);
txl_status table_repeat(struct table *table, const struct own_columns *own);

txl_status table_source(struct table *table, struct source *source, uint64_t offset,
                        uint64_t length, txl_error *error);

/* TXL_STOPPED when the output is not usable any more (outfile_usable). */
txl_status table_end_row(struct table *table);

#endif
