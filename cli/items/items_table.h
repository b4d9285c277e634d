/* A table of items, read record by record: separated by commas, tabs or semicolons as RFC 4180
 * says, or an object a line.  A wrong record is left out, with its error printed.
 *
 * The column text is needed, or is the only one; item, condition and context may be there, and all
 * others are passed on.  --columns says what they are called; case does not matter.  An item that
 * has no name is called by its row's number.  Without text, sentence_good and sentence_bad (BLiMP)
 * are two conditions of one item.
 *
 * With a column of regions the table is in the long form: each row is a region, and the rows of one
 * item and condition are one text (items_rows.h). */
#ifndef CLI_ITEMS_TABLE_H
#define CLI_ITEMS_TABLE_H

#include "cli/io/input.h"
#include "cli/options/options.h"
#include "cli/score/table_writer.h"
#include "lib/base/memory.h"

#include <jansson.h>

/* The longest record, the most columns, and the most bytes of a table in the long form. */
#define ITEMS_RECORD (1 << 20)
#define ITEMS_COLUMNS 1000
#define ITEMS_LONG (256 << 20)

/* The columns that mean something. */
enum items_role {
    ROLE_ITEM,
    ROLE_CONDITION,
    ROLE_TEXT,
    ROLE_CONTEXT,
    ROLE_REGION,
    ROLE_GOOD,
    ROLE_BAD,
    ROLE_SECOND,   /* the other text of a pair; of txl classify alone */
    ROLE_QUESTION, /* of txl answer alone */
    ROLE_LABEL,    /* of txl train --task alone */
    ROLE_UID,
    ROLE_PAIR,
    ROLE_CANDIDATES, /* for a gap, with bars between; of txl fill alone */
    N_ROLE
};

/* What the columns are called. */
struct items_names {
    char *name[N_ROLE]; /* NULL: as usual; regions have no usual name */
    bool cloze;         /* `candidates` has, context has none */
    /* Of txl classify and txl answer: a second text or a question has, condition and what is scored
     * have none.  Each record is a text. */
    bool classifies, answers;
    bool labelled;   /* txl train --task: as txl classify, and each text needs a label */
    bool joins_bare; /* rows of the long form have nothing between them */
    bool lacks_memory;
};

/* Takes lists of role=NAME.  NULL, or the part that is none, or for which there was no memory; end
 * with items_names_free. */
const char *items_names_parse(struct items_names *names, const struct string_list *lists);
void items_names_free(struct items_names *names);

/* Where wrong records are told.  Until a record is right their errors wait: if all are wrong, there
 * is one. */
struct items_errors {
    uint64_t wrong;        /* records that were left out */
    bool right;            /* one was not */
    struct buffer waiting; /* messages, each ended by NUL */
    uint64_t untold;       /* those that found no room in it */
};

struct items_table {
    const struct items_names *names;
    struct input input;
    enum table_form form;
    char separator;
    bool array;     /* objects between brackets */
    bool lines;     /* there is one column, and each line is a text */
    bool trims;     /* a blank follows each separator */
    bool begun;     /* the first record was seen, */
    bool row_names; /* and it has a name before its first field */
    uint64_t row;   /* of the current record, from 1 */
    char chunk[1 << 16];
    size_t at, n;
    uint64_t chunks; /* that were read */
    bool ended;
    uint64_t line; /* of the next byte, from 1 */

    bool pairs;     /* the records are BLiMP's */
    char **columns; /* [n_column]: their names; of objects all that any of them has */
    size_t n_column;
    json_t *index;       /* of objects: the number of each column */
    size_t role[N_ROLE]; /* columns; SIZE_MAX: there is none */
    size_t *choices;     /* [n_choice]: columns */
    size_t n_choice;
    size_t *passed; /* [own.n - 2]: the column of each own one, or SIZE_MAX */

    /* The current record. */
    uint64_t record; /* its first line */
    struct buffer bytes;
    struct items_field {
        size_t begin, length;
        bool quoted;
    } * fields; /* [n_fields], at most one more than there are columns */
    size_t n_fields, fields_room;
    bool too_long;
    json_t *object;
    struct own_value *cells; /* [n_column] */
    struct buffer item;      /* of BLiMP */

    /* A table that is held in memory, in the long form or with texts that come again. */
    struct long_row {
        uint64_t line, first;    /* first: the line of its text's first row */
        uint64_t clash;          /* > 0: the line of a row that says something else */
        double number;           /* of its region; NAN: that is no number */
        size_t region, copy;     /* from 1, and from 0 */
        struct own_value *cells; /* [n_column], and after them their bytes */
    } * rows;                    /* [n_row], text by text */
    bool whole;                  /* each row is a whole text */
    size_t n_row, rows_room, long_bytes;
    size_t text, text_end; /* rows of the current text */
    struct buffer joined;  /* it */

    /* What notes tell. */
    uint64_t missing, first_missing, missing_contexts, missing_rows;
    uint64_t repeated, unplaced, seams, first_seam;

    bool quiet; /* errors are not told: another reading is tried */
    struct items_errors errors;
};

/* What reading a record gave. */
enum reading { READ, WRONG, FINISHED, FAILED };

/* Opens the table and finds its columns.  False with the error printed; end with
 * items_table_close. */
bool items_table_open(struct items_table *table, const char *path, const struct input_form *form,
                      const struct items_names *names);
void items_table_close(struct items_table *table);

/* Finds choice1, choice2 and so on, as many as there are, so that they are not passed on.  False
 * when memory is short. */
bool items_table_choices(struct items_table *table);

/* Adds the columns that are passed on and not yet among the own ones.  False when memory is
 * short. */
bool items_table_offer(const struct items_table *table, struct own_columns *own);

/* The own columns are complete: remembers which are the table's.  False when memory is short. */
bool items_table_take(struct items_table *table, const struct own_columns *own);

/* Sets the values of the own columns; of the long form those of each row. */
bool items_table_pass(const struct items_table *table, struct own_columns *own,
                      const struct own_value *item, const struct own_value *condition);

/* The column of that name, or SIZE_MAX. */
size_t items_table_column(const struct items_table *table, const char *name);

/* Prints that there is no such column, which ones there are, and with `option` what may be meant.
 */
bool items_table_lacks(const struct items_table *table, const char *option, const char *name);

/* Reads the next record, or text of the long form.  False at the end, after a signal, or after a
 * failure; then input.failed is true. */
bool items_table_next(struct items_table *table);

/* The record is left out: tells why. */
void items_table_wrong(struct items_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A text of the table was scored, or there are no more records.  At the end tells what is wrong if
 * all are. */
void items_table_right(struct items_table *table);
void items_table_end(struct items_table *table);

/* A value of the record; its text is NULL if there is none. */
struct own_value items_table_cell(const struct items_table *table, size_t column);
struct own_value items_table_value(const struct items_table *table, enum items_role role);

/* What the role's column is called; NULL: it has no usual name. */
const char *items_table_name(const struct items_table *table, enum items_role role);

/* The text of the record's column; in the long form that of its rows, with bars between.  False
 * when memory is short. */
bool items_table_text(struct items_table *table, enum items_role role, struct own_value *text);

/* The item of the record: its column, or of BLiMP's UID and pairID, or the record's line.  False
 * when memory is short. */
bool items_table_item(struct items_table *table, struct own_value *item);

/* Whether the text is a missing value, as R, pandas and Excel write it. */
bool items_is_missing(const struct own_value *value);

/* The same of the current record's text, which is counted for the note. */
bool items_table_missing(struct items_table *table, const struct own_value *text);

/* Tells what of the table changed the result, after its last text. */
void items_table_note(const struct items_table *table);

/* Removes the blanks around a text. */
void items_trim(const char **text, size_t *length);

/* ---- For items_rows.c --------------------------------------------------------------------- */

/* Both fail the table, with the error printed, and return false. */
bool items_table_lacks_memory(struct items_table *table);
bool items_table_fail(struct items_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads the next record into the cells. */
enum reading items_table_read(struct items_table *table);

/* Sets a row of the own columns' values: those of the cells, NULL: none. */
void items_table_pass_cells(const struct items_table *table, const struct own_columns *own,
                            size_t row, const struct own_value *cells);

#endif
