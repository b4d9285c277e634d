/* --items: a table of texts, each scored alone, after its context. */
#ifndef CLI_ITEMS_H
#define CLI_ITEMS_H

#include "evaluate.h"
#include "items_table.h"
#include "preference.h"

struct items {
    const char *path; /* NULL: there are none */
    struct items_table table;
    struct regions regions; /* of the current text */
    struct buffer before;   /* what is before it */
    uint64_t texts;         /* scored */
    uint64_t wrong;         /* texts that could not be scored; table.wrong counts records */
    double correction;      /* what the terms of word_rows.h add to the sums of all texts */
    struct preference preference;
};

/* Opens the table and reads its header; with pairs, good and bad become the default of --prefer.
 * False with the error printed; end with items_close. */
bool items_open(struct items *items, const char *path, bool binary);
void items_close(struct items *items);

/* Scores the texts as evaluate does.  Errors of single records were printed. */
txl_status items_evaluate(struct items *items, struct evaluation *evaluation,
                          struct result *result);

/* Records and texts that were left out. */
uint64_t items_left_out(const struct items *items);

/* Adds "items" to a result, and after a line of text its own. */
bool items_to_json(json_t *object, const struct items *items);
bool items_print(const struct items *items);

#endif
