/* --prefer A,B: in how many items condition A has fewer nats than B, in all and by the values of a
 * column (--prefer-by).
 *
 * An item's texts may stand anywhere in the table, so 32 bytes a text are kept until its end: a
 * 128-bit hash of the item's name, which is taken for the name. */
#ifndef CLI_ITEMS_PREFERENCE_H
#define CLI_ITEMS_PREFERENCE_H

#include "cli/score/scorer.h"
#include "cli/score/table_writer.h"

#include <jansson.h>

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

#endif
