/* The table of --items, read record by record: comma- or tab-separated as RFC 4180 says, or an
 * object a line.  A wrong record is left out, with its error printed.
 *
 * The columns item, condition and text are needed, context may be there, and all others are passed
 * on.  Without text, sentence_good and sentence_bad (BLiMP) are two conditions of one item. */
#ifndef CLI_ITEMS_TABLE_H
#define CLI_ITEMS_TABLE_H

#include "cli/options/options.h"
#include "cli/system/input.h"
#include "lib/base/buffer.h"
#include "table.h"

#include <jansson.h>

/* The longest record, and the most columns. */
#define ITEMS_RECORD (1 << 20)
#define ITEMS_COLUMNS 1000

/* The columns that mean something. */
enum items_role {
    ROLE_ITEM,
    ROLE_CONDITION,
    ROLE_TEXT,
    ROLE_CONTEXT,
    ROLE_GOOD,
    ROLE_BAD,
    ROLE_UID,
    ROLE_PAIR,
    N_ROLE
};

struct items_table {
    struct input input;
    enum table_form form;
    char chunk[1 << 16];
    size_t at, n;
    bool ended;
    uint64_t line; /* of the next byte, from 1 */

    bool pairs;   /* the records are BLiMP's */
    char **names; /* [n_names]: of all columns; of objects those that are passed on */
    size_t n_names;
    size_t role[N_ROLE]; /* columns; SIZE_MAX: there is none */
    size_t *passed;      /* [own.n - 2]: columns */
    struct own_columns own;
    struct buffer item; /* of BLiMP */

    /* The current record. */
    uint64_t record; /* its first line */
    struct buffer bytes;
    struct items_field {
        size_t begin, length;
    } * fields; /* [n_fields], at most one more than there are columns */
    size_t n_fields, fields_room;
    bool too_long;
    json_t *object, *texts; /* texts: strings that the values of the object became */
    bool held;              /* it is yet to be returned */
    uint64_t wrong;         /* records that were left out */
};

/* Opens the table and reads its header, or its first object.  False with the error printed; end
 * with items_table_close. */
bool items_table_open(struct items_table *table, const char *path, bool binary);
void items_table_close(struct items_table *table);

/* Reads the next record.  False at the end, after a signal, or after a failure; then input.failed
 * is true. */
bool items_table_next(struct items_table *table);

/* The record's value; its text is NULL if there is none. */
struct own_value items_table_value(struct items_table *table, enum items_role role);

/* Sets the values of the own columns. */
void items_table_pass(struct items_table *table, const struct own_value *item,
                      const struct own_value *condition);

/* The item of the record: its column, or of BLiMP's UID and pairID, or the record's line.  False
 * when memory is short. */
bool items_table_item(struct items_table *table, struct own_value *item);

#endif
