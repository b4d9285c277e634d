/* Items: tables of texts, each scored alone, after its context. */
#ifndef CLI_ITEMS_ITEMS_H
#define CLI_ITEMS_ITEMS_H

#include "cli/score/evaluate.h"
#include "items_table.h"
#include "preference.h"

/* What one of the tables gave, or all of them. */
struct items_result {
    uint64_t texts;    /* scored */
    uint64_t left_out; /* records and texts that could not be scored */
    struct preference preference;
};

struct items {
    struct items_names names;
    struct preference preference; /* as asked for */
    struct items_table *tables;   /* [n] */
    struct items_result *results; /* [n] */
    char **paths;                 /* [n] */
    int n;
    struct own_columns own;
    bool names_files; /* the own columns have the name of the file */
    struct items_result total;
    struct regions regions; /* of the current text */
    struct buffer before;   /* what is before it */
};

/* Makes room for `most` tables; false with the error printed.  End with items_close. */
bool items_new(struct items *items, size_t most);
void items_close(struct items *items);

/* Opens a table and finds its columns; with pairs, good and bad become the default of --prefer.
 * False with the error printed. */
bool items_add(struct items *items, const char *path, const struct input_form *form);

/* All tables are open: gathers the columns that are passed on.  False with the error printed. */
bool items_ready(struct items *items);

/* Sets the name of the user's table in every row of the own columns. */
void items_pass_file(struct items *items, const char *path);

/* Sets the own columns of a text that is of no table.  False when memory is short. */
bool items_pass_plain(struct items *items, const char *path, const struct own_value *item);

/* Scores the texts of table `i` as evaluate does.  Errors of single records were printed. */
txl_status items_evaluate(struct items *items, int i, struct evaluation *evaluation,
                          struct result *result);

/* Whether anything was left out of table `i`. */
bool items_lack(const struct items *items, int i);

/* Sums up all tables.  False with the error printed. */
bool items_sum(struct items *items);

/* Adds "items" to a result, and after a line of text its own. */
bool items_to_json(json_t *object, const struct items_result *result);
bool items_print(const struct items_result *result, const char *name);

#endif
