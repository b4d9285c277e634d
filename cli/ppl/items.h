/* Scores the texts of --items, and compares conditions (--prefer). */
#ifndef TXL_PPL_ITEMS_H
#define TXL_PPL_ITEMS_H

#include "evaluate.h"
#include "items_table.h"
#include "table_writer.h"

#include <jansson.h>

/* --prefer A,B: in how many items condition A has fewer nats than B, in all and by the values of a
 * column (--prefer-by).
 *
 * An item's texts may stand anywhere in the table, so 32 bytes a text are kept until its end: a
 * 128-bit hash of the item's name, which is taken for the name. */

/* The most values of the column of --prefer-by, and conditions that a message lists. */
enum { PREFERENCE_VALUES = 4000, PREFERENCE_LISTED = 8 };

/* What is counted of items. */
struct preference_counts {
    uint64_t pairs;     /* items with both conditions */
    uint64_t preferred; /* of these: A has fewer nats */
    uint64_t ties;
    struct score difference; /* of each pair, B's nats less A's */
};

struct preference {
    bool on;
    const char *a, *b; /* conditions, of [n_a] and [n_b] bytes */
    size_t n_a, n_b;
    int64_t region; /* < 0: the whole text */
    const char *by; /* a column; NULL: none */

    struct compared_text {
        uint64_t item[2]; /* hash of its name */
        double nats;
        uint64_t line : 44;
        uint64_t value : 12; /* of the column: a number of `values` */
        uint64_t what : 8;   /* flags */
    } * texts;               /* [n] */
    size_t n, room;
    struct buffer conditions; /* the first ones that are there, as a message shows them */
    size_t n_condition;

    struct preference_counts all;
    struct preference_value {
        char *text; /* [length]; NULL: null */
        size_t length;
        struct preference_counts counts;
    } * values; /* [n_value] */
    size_t n_value;
    uint64_t left_out; /* items that miss a condition or have one twice */
};

/* Takes "A,B", which must live as long; false if it is no such pair. */
bool preference_parse(struct preference *preference, const char *text);

/* A text of an item.  `value`: of the column of --prefer-by. */
struct preference_text {
    struct own_value item, condition, value;
    uint64_t line;
    const double *nats; /* NULL: it has no such region, or with `empty` no token in it */
    bool empty;
};

/* Adds a text of the table `name`.  False with the error printed. */
bool preference_add(struct preference *preference, const char *name,
                    const struct preference_text *text);

/* Counts; with `all` tells which items cannot be compared, or why none can. */
void preference_end(struct preference *preference, const char *name, bool all);
void preference_free(struct preference *preference);

/* Adds the counts of another table.  False with the error printed. */
bool preference_merge(struct preference *total, const struct preference *other);

/* Both conditions, shares and counts; NULL when memory is short. */
json_t *preference_to_json(const struct preference *preference);

/* Lines for people on standard output. */
bool preference_print(const struct preference *preference, const char *name);

/* --items: tables of texts, each scored alone, after its context. */

/* What one of the tables gave, or all of them. */
struct items_result {
    uint64_t texts;    /* scored */
    uint64_t left_out; /* records and texts that could not be scored */
    struct preference preference;
};

struct items {
    struct items_names names;
    struct buffer orders; /* --factorization: a line a text; without data: none */
    size_t order_at;      /* where its line `order_line` begins */
    uint64_t order_line;
    struct preference preference; /* as asked for */
    struct items_table *tables;   /* [n] */
    struct items_result *results; /* [n] */
    char **paths;                 /* [n] */
    int n;
    struct own_columns own;
    struct items_result total;
    struct regions regions; /* of the current text */
    struct buffer before;   /* what is before it */
    double correction;      /* what the terms of word_rows.h add to the sums of a table's texts */
};

/* Makes room for `most` tables; false with the error printed.  End with items_close. */
bool items_new(struct items *items, size_t most);
void items_close(struct items *items);

/* Opens a table and finds its columns; with pairs, good and bad become the default of --prefer.
 * False with the error printed. */
bool items_add(struct items *items, const char *path, const struct input_form *form);

/* All tables are open: gathers the columns that are passed on.  False with the error printed. */
bool items_ready(struct items *items);

/* Scores the texts of table `i` as evaluate does.  Errors of single records were printed. */
txl_status items_evaluate(struct items *items, int i, struct evaluation *evaluation,
                          struct result *result);

/* Whether texts have orders of factorisation. */
bool items_ordered(const struct items *items);

/* Whether anything was left out of table `i`. */
bool items_lack(const struct items *items, int i);

/* Sums up all tables.  False with the error printed. */
bool items_sum(struct items *items);

/* Adds "items" to a result, and after a line of text its own. */
bool items_to_json(json_t *object, const struct items_result *result);
bool items_print(const struct items_result *result, const char *name);

#endif
