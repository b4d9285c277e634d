/* Tables of items: the first byte says what the file is called and whether its rows are
 * regions.  Every value of a record can be read, and its text has as many regions as bars say, each
 * within the text. */
#include "fuzz.h"

#include "cli/items/items_table.h"
#include "cli/score/regions.h"
#include "cli/text/tokens.h"

#include <stdlib.h>
#include <string.h>

static unsigned sum; /* of what was read, so that it is */

static void read_value(const struct own_value *value) {
    for (size_t i = 0; value->text && i < value->length; i++)
        sum += (unsigned char)value->text[i];
    fuzz_require(value->text || value->length == 0, "a null value has bytes");
}

static void check_regions(const struct regions *regions) {
    size_t length = regions->text.length, end = 0;
    fuzz_require(regions->n >= 2 && regions->list[0].end == 0, "a text without a region");
    for (size_t i = 1; i < regions->n; i++) {
        fuzz_require(regions->list[i].end >= end, "regions that do not follow each other");
        end = regions->list[i].end;
    }
    fuzz_require(end == length, "a text that goes on behind its regions");
    for (size_t at = 0; at <= length; at += 1 + length / 16) {
        const size_t region = regions_at(regions, at);
        fuzz_require(region >= 1 && region < regions->n, "no region");
    }
}

static void check_text(struct items_table *table, enum items_role role, struct own_columns *own) {
    struct own_value text, item, condition = items_table_value(table, ROLE_CONDITION);
    struct regions regions = {0};
    struct blanks blanks;
    fuzz_require(items_table_text(table, role, &text), "out of memory");
    if (items_table_missing(table, &text))
        return;
    fuzz_require(items_table_item(table, &item) && regions_part(&regions, text.text, text.length) &&
                     items_table_pass(table, own, &item, &condition),
                 "out of memory");
    fuzz_require(own->per_copy == (own->by_region ? regions.n : 1),
                 "rows that are not the regions");
    for (size_t i = 0; i < own->copies * own->per_copy * own->n; i++)
        read_value(&own->values[i]);
    size_t there = 0;
    for (size_t i = 0; table->rows && i < own->copies * own->per_copy; i++)
        there += own->there[i];
    fuzz_require(!table->rows || there == table->text_end - table->text + own->by_region,
                 "rows that get no numbers, or that are none");
    check_regions(&regions);
    blanks_start(&blanks, false, true);
    blanks_see(&blanks, regions.text.data, regions.text.length);
    blanks_end(&blanks);
    fuzz_require(blanks.units == 1, "a text that is not one");
    regions_free(&regions);
}

static void check_table(struct items_table *table) {
    struct own_columns own = {0};
    fuzz_require(items_table_offer(table, &own), "out of memory");
    const char **names = reallocarray(own.names, own.n + 2, sizeof *names);
    fuzz_require(names, "out of memory");
    own.names = names;
    names[own.n++] = "item";
    names[own.n++] = "condition";
    fuzz_require(items_table_take(table, &own), "out of memory");
    uint64_t last = 0;
    while (items_table_next(table)) {
        fuzz_require(table->rows || table->array || table->record > last, "a record that is none");
        last = table->record;
        for (size_t i = 0; i < table->n_column; i++) {
            const struct own_value value = items_table_cell(table, i);
            read_value(&value);
        }
        if (table->pairs) {
            check_text(table, ROLE_GOOD, &own);
            check_text(table, ROLE_BAD, &own);
        } else {
            check_text(table, ROLE_TEXT, &own);
        }
        items_table_right(table);
    }
    items_table_end(table);
    items_table_note(table);
    free(own.names);
    free(own.values);
    free(own.there);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const paths[] = {"items.csv", "items.tsv", "items.jsonl", "items"};
    static const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    const char *list = "region=r";
    const struct string_list lists = {.items = &list, .n = size > 0 && *data & 4 ? 1 : 0};
    struct items_names item_names = {0};
    const struct input_form form = {.binary = size > 0 && *data & 8};
    struct items_table table;
    /* Expanding a file takes as much memory as its maker's zstd did. */
    if (size == 0 || (size > sizeof zstd && memcmp(data + 1, zstd, sizeof zstd) == 0))
        return 0;
    fuzz_silence();
    fuzz_require(!items_names_parse(&item_names, &lists), "a list that is refused");
    if (items_table_open(&table, fuzz_write(paths[*data % 4], data + 1, size - 1), &form,
                         &item_names))
        check_table(&table);
    items_table_close(&table);
    items_names_free(&item_names);
    return 0;
}
