/* The rows of a table of items that is held in memory: in the long form, where each row is a region
 * of a text, and where texts come more than once, as in a table with a row for each participant.
 *
 * Rows of one text may stand anywhere.  A text that comes again is one text: it is scored once, and
 * each of its rows gets its numbers.  A copy of a text is what such rows are to its first ones. */
#ifndef CLI_ITEMS_ROWS_H
#define CLI_ITEMS_ROWS_H

#include "items_table.h"

/* Whether a text comes again, with the same item, condition and context.  Reads all records of a
 * table with a row a text; false with `failed` of its input set when memory is short. */
bool items_rows_repeat(struct items_table *table);

/* Reads all rows.  False with the error printed. */
bool items_rows_read(struct items_table *table);
void items_rows_free(struct items_table *table);

/* Goes on to the next text; false at the end. */
bool items_rows_next(struct items_table *table);

/* Sets the values of the own columns, for each copy those of its rows.  False when memory is
 * short. */
bool items_rows_pass(const struct items_table *table, struct own_columns *own,
                     const struct own_value *item, const struct own_value *condition);

/* The rows of the current text in the long form, joined with bars between.  False when memory is
 * short. */
bool items_rows_join(struct items_table *table, struct own_value *text);

/* Tells what was made of the rows. */
void items_rows_note(const struct items_table *table);

#endif
