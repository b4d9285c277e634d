/* Holds the rows of tables of items, and puts those together that belong together. */
#include "items_rows.h"

#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/white_space.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unictype.h>
#include <unistr.h>
#include <xxhash.h>

static const size_t NONE = SIZE_MAX;

/* The columns that tell one text from another, in the long form and in the other. */
static const enum items_role long_keys[] = {ROLE_ITEM, ROLE_CONDITION},
                             text_keys[] = {ROLE_ITEM, ROLE_CONDITION, ROLE_TEXT, ROLE_CONTEXT};

static size_t key_count(const struct items_table *t) {
    return t->whole ? sizeof text_keys / sizeof *text_keys : sizeof long_keys / sizeof *long_keys;
}

static enum items_role key_role(const struct items_table *t, size_t i) {
    return t->whole ? text_keys[i] : long_keys[i];
}

/* ---- Order -------------------------------------------------------------------------------- */

static int compare_values(const struct own_value *a, const struct own_value *b) {
    size_t n = a->length < b->length ? a->length : b->length;
    int order = n > 0 ? memcmp(a->text, b->text, n) : 0;
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

/* Compares the cells of a role; without such a column they are equal. */
static int compare_role(const struct items_table *t, enum items_role role, const struct long_row *x,
                        const struct long_row *y) {
    size_t column = t->role[role];
    return column == NONE ? 0 : compare_values(&x->cells[column], &y->cells[column]);
}

static int compare_keys(const struct items_table *t, const struct long_row *x,
                        const struct long_row *y) {
    int order = 0;
    for (size_t i = 0; i < key_count(t) && order == 0; i++)
        order = compare_role(t, key_role(t, i), x, y);
    return order;
}

static int compare_lines(const struct long_row *x, const struct long_row *y) {
    return (x->line > y->line) - (x->line < y->line);
}

/* Orders rows by what tells texts apart, then by line. */
static int compare_texts(const void *a, const void *b, void *table) {
    int order = compare_keys(table, a, b);
    return order != 0 ? order : compare_lines(a, b);
}

/* Orders the rows of texts by the texts' first lines, then by their numbers, or by line. */
static int compare_rows(const void *a, const void *b) {
    const struct long_row *x = a, *y = b;
    if (x->first != y->first)
        return x->first > y->first ? 1 : -1;
    if (x->number != y->number && !isnan(x->number))
        return x->number > y->number ? 1 : -1;
    return compare_lines(x, y);
}

/* The row after the last one of the text of row `i`, where rows are ordered by text. */
static size_t end_of_text(const struct items_table *t, size_t i) {
    size_t end = i + 1;
    while (end < t->n_row && compare_keys(t, &t->rows[i], &t->rows[end]) == 0)
        end++;
    return end;
}

/* ---- Places of regions -------------------------------------------------------------------- */

/* The number that all of the text is, such as 12, -1.5 or +2; NAN: it is none. */
static double number_of(const char *text, size_t length) {
    static const char minus[] = "\xe2\x88\x92"; /* U+2212 */
    char plain[64], *end;
    bool negative = length >= 3 && memcmp(text, minus, 3) == 0;
    text += negative ? 3 : 0;
    length -= negative ? 3 : 0;
    if (length == 0 || length >= sizeof plain)
        return NAN;
    memcpy(plain, text, length);
    plain[length] = '\0';
    if (strspn(plain, "0123456789+-.eE") != length)
        return NAN;
    double number = strtod(plain, &end);
    return end == plain + length && isfinite(number) ? negative ? -number : number : NAN;
}

/* The number at the label's end; NAN: it ends in none. */
static double last_number(const char *text, size_t length) {
    size_t from = length;
    while (from > 0 && isdigit((unsigned char)text[from - 1]))
        from--;
    return number_of(text + from, length - from);
}

static struct own_value label_of(const struct items_table *t, const struct long_row *row) {
    struct own_value label = row->cells[t->role[ROLE_REGION]];
    items_trim(&label.text, &label.length);
    return label;
}

/* Numbers the rows of a text by `of`, if all of their labels have such a number and no two that
 * differ have the same. */
static bool number_rows(struct items_table *t, size_t from, size_t end,
                        double of(const char *, size_t), bool labels_differ) {
    struct long_row *rows = t->rows;
    for (size_t i = from; i < end; i++) {
        const struct own_value label = label_of(t, &rows[i]);
        rows[i].number = label.length > 0 ? of(label.text, label.length) : NAN;
        if (isnan(rows[i].number))
            return false;
    }
    qsort(rows + from, end - from, sizeof *rows, compare_rows);
    for (size_t i = from + 1; i < end && labels_differ; i++) {
        const struct own_value a = label_of(t, &rows[i - 1]), b = label_of(t, &rows[i]);
        if (rows[i].number == rows[i - 1].number && compare_values(&a, &b) != 0)
            return false;
    }
    return true;
}

/* Whether two rows are the same region of the same text. */
static bool are_equal(const struct items_table *t, const struct long_row *a,
                      const struct long_row *b) {
    return compare_role(t, ROLE_TEXT, a, b) == 0 && compare_role(t, ROLE_CONTEXT, a, b) == 0 &&
           compare_role(t, ROLE_REGION, a, b) == 0;
}

/* Rows that have numbers: equal numbers are copies of one region, and must have the same text. */
static void place_numbered(struct items_table *t, size_t from, size_t end) {
    struct long_row *rows = t->rows;
    for (size_t i = from; i < end; i++) {
        bool again = i > from && rows[i].number == rows[i - 1].number;
        const struct long_row *before = i > from ? &rows[i - 1] : NULL;
        rows[i].region = before ? before->region + !again : 1;
        rows[i].copy = again ? before->copy + 1 : 0;
        rows[i].clash = again && (compare_role(t, ROLE_TEXT, before, &rows[i]) != 0 ||
                                  compare_role(t, ROLE_CONTEXT, before, &rows[i]) != 0)
                            ? before->line
                            : 0;
    }
}

/* A column by which rows are ordered, then by line. */
struct by_column {
    const struct items_table *table;
    size_t column;
};

static int compare_column(const void *a, const void *b, void *by) {
    const struct by_column *c = by;
    const struct long_row *const *x = a, *const *y = b;
    int order = compare_values(&(*x)->cells[c->column], &(*y)->cells[c->column]);
    return order != 0 ? order : compare_lines(*x, *y);
}

/* Places rows whose labels are no numbers, if the column parts them into blocks that are equal row
 * by row, as the name of a participant does. */
static bool place_blocks(struct items_table *t, size_t column, struct long_row **sorted, size_t n) {
    struct by_column by = {t, column};
    size_t block = 1;
    qsort_r(sorted, n, sizeof *sorted, compare_column, &by);
    while (block < n &&
           compare_values(&sorted[0]->cells[column], &sorted[block]->cells[column]) == 0)
        block++;
    if (block < 2 || block == n || n % block != 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool within = i % block > 0;
        const struct own_value *value = &sorted[i]->cells[column];
        if (!are_equal(t, sorted[i], sorted[i % block]) ||
            (i > 0 && (compare_values(&sorted[i - 1]->cells[column], value) == 0) != within))
            return false;
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i]->region = i % block + 1;
        sorted[i]->copy = i / block;
    }
    return true;
}

static bool has_role(const struct items_table *t, size_t column) {
    for (size_t k = 0; k < N_ROLE; k++)
        if (t->role[k] == column)
            return true;
    return false;
}

/* Rows without numbers stand in the table's order; those of several participants are copies.  False
 * when memory is short. */
static bool place_by_line(struct items_table *t, size_t from, size_t end) {
    const size_t n = end - from;
    bool again = false, placed = false;
    for (size_t i = from; i < end; i++) {
        struct long_row *row = &t->rows[i];
        row->number = NAN;
        row->clash = row->copy = 0;
        row->region = i - from + 1;
    }
    qsort(t->rows + from, n, sizeof *t->rows, compare_rows);
    for (size_t i = from; i < end; i++) {
        t->rows[i].region = i - from + 1;
        again = again || (i > from && are_equal(t, &t->rows[from], &t->rows[i]));
    }
    if (!again)
        return true;
    struct long_row **sorted = calloc(n, sizeof *sorted);
    for (size_t i = 0; sorted && i < n; i++)
        sorted[i] = &t->rows[from + i];
    for (size_t c = 0; sorted && c < t->n_column && !placed; c++)
        placed = !has_role(t, c) && place_blocks(t, c, sorted, n);
    t->unplaced += !placed;
    free(sorted);
    return sorted != NULL;
}

static bool place_rows(struct items_table *t, size_t from, size_t end) {
    if (t->whole) {
        for (size_t i = from; i < end; i++) {
            t->rows[i].number = NAN;
            t->rows[i].region = 1;
            t->rows[i].copy = i - from;
        }
        return true;
    }
    if (!number_rows(t, from, end, number_of, false) &&
        !number_rows(t, from, end, last_number, true))
        return place_by_line(t, from, end);
    place_numbered(t, from, end);
    return true;
}

/* ---- Reading ------------------------------------------------------------------------------ */

/* Keeps the record as a row. */
static bool add_row(struct items_table *t) {
    size_t length = 0, size = t->n_column * sizeof(struct own_value);
    for (size_t i = 0; i < t->n_column; i++)
        length += t->cells[i].length;
    if (t->n_row == t->rows_room) {
        size_t room = 2 * t->rows_room + 64;
        struct long_row *rows = reallocarray(t->rows, room, sizeof *rows);
        if (!rows)
            return items_table_lacks_memory(t);
        t->rows = rows;
        t->rows_room = room;
    }
    t->long_bytes += size + length + 1 + sizeof *t->rows;
    if (t->long_bytes > ITEMS_LONG)
        return items_table_fail(t,
                                "a table %s is held in memory, but takes more than 256 MiB; "
                                "divide it",
                                t->whole ? "in which texts come again" : "with a row a region");
    struct own_value *cells = malloc(size + length + 1);
    if (!cells)
        return items_table_lacks_memory(t);
    char *bytes = (char *)(cells + t->n_column);
    for (size_t i = 0; i < t->n_column; i++) {
        cells[i] = t->cells[i];
        if (!cells[i].text)
            continue;
        cells[i].text = memcpy(bytes, t->cells[i].text, cells[i].length);
        bytes += cells[i].length;
    }
    t->rows[t->n_row++] = (struct long_row){.line = t->record, .cells = cells};
    return true;
}

/* Puts rows together that belong together. */
static bool order_rows(struct items_table *t) {
    qsort_r(t->rows, t->n_row, sizeof *t->rows, compare_texts, t);
    for (size_t i = 0, end; i < t->n_row; i = end) {
        end = end_of_text(t, i);
        for (size_t k = i, first = t->rows[i].line; k < end; k++)
            t->rows[k].first = first;
        if (!place_rows(t, i, end))
            return items_table_lacks_memory(t);
    }
    qsort(t->rows, t->n_row, sizeof *t->rows, compare_rows);
    return true;
}

/* In the long form a text would lack the words of a wrong row, so there must be none. */
bool items_rows_read(struct items_table *t) {
    enum reading reading = READ;
    while ((reading == READ || (reading == WRONG && t->whole)) && !signals_stopped() &&
           !t->input.failed) {
        reading = items_table_read(t);
        if (reading == READ && !add_row(t))
            return false;
    }
    if (reading == FAILED)
        return items_table_lacks_memory(t);
    if (reading == WRONG && t->errors.waiting.length > 0)
        return terminal_error("%s; each row of this table is a part of a text, so none may be "
                              "wrong",
                              t->errors.waiting.data);
    if (t->input.failed || signals_stopped() || reading == WRONG)
        return false;
    return t->n_row == 0 || order_rows(t);
}

void items_rows_free(struct items_table *t) {
    for (size_t i = 0; i < t->n_row; i++)
        free(t->rows[i].cells);
    free(t->rows);
}

static int compare_hashes(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* A hash of what tells the record's text from others.  Two that are equal by chance cost memory,
 * and nothing else. */
static uint64_t hash_record(const struct items_table *t) {
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof text_keys / sizeof *text_keys; i++) {
        const struct own_value value = items_table_value(t, text_keys[i]);
        hash = XXH3_64bits_withSeed(value.text ? value.text : "", value.length, hash);
    }
    return hash;
}

bool items_rows_repeat(struct items_table *t) {
    enum reading reading = READ;
    uint64_t *hashes = NULL;
    size_t n = 0, room = 0;
    bool repeat = false;
    t->quiet = true;
    while ((reading == READ || reading == WRONG) && !signals_stopped() && !t->input.failed) {
        reading = items_table_read(t);
        if (reading != READ)
            continue;
        if (n == room) {
            uint64_t *more = reallocarray(hashes, room = 2 * room + 1024, sizeof *more);
            hashes = more ? more : hashes;
            reading = more ? READ : FAILED;
        }
        if (reading == READ)
            hashes[n++] = hash_record(t);
    }
    t->quiet = false;
    if (n > 0)
        qsort(hashes, n, sizeof *hashes, compare_hashes);
    for (size_t i = 1; i < n && !repeat; i++)
        repeat = hashes[i] == hashes[i - 1];
    free(hashes);
    if (reading == FAILED)
        items_table_lacks_memory(t);
    return repeat && reading != FAILED;
}

/* ---- Texts -------------------------------------------------------------------------------- */

/* One with a region twice is left out. */
bool items_rows_next(struct items_table *t) {
    while (t->text_end < t->n_row && !signals_stopped()) {
        size_t k, copies = 0;
        t->text = t->text_end;
        t->text_end = end_of_text(t, t->text);
        t->record = t->rows[t->text].first;
        for (k = t->text; k < t->text_end && t->rows[k].clash == 0; k++)
            copies = t->rows[k].copy > copies ? t->rows[k].copy : copies;
        t->repeated += copies > 0 && k == t->text_end;
        if (k == t->text_end)
            return true;
        t->record = t->rows[k].line;
        const struct own_value label = label_of(t, &t->rows[k]);
        items_table_wrong(t,
                          "region %.*s of its item and condition was there before, with another "
                          "text, in line %" PRIu64,
                          (int)(label.length < 80 ? label.length : 80), label.text,
                          t->rows[k].clash);
    }
    return false;
}

bool items_rows_pass(const struct items_table *t, struct own_columns *own,
                     const struct own_value *item, const struct own_value *condition) {
    size_t copies = 1, regions = 0;
    for (size_t k = t->text; k < t->text_end; k++) {
        copies = t->rows[k].copy >= copies ? t->rows[k].copy + 1 : copies;
        regions = t->rows[k].region > regions ? t->rows[k].region : regions;
    }
    const size_t per_copy = t->whole ? 1 : regions + 1, n_row = copies * per_copy;
    if (n_row / copies != per_copy)
        return false;
    struct own_value *values = reallocarray(own->values, n_row * own->n, sizeof *values);
    bool *there = values ? realloc(own->there, n_row) : NULL;
    own->values = values ? values : own->values;
    if (!there)
        return false;
    own->there = there;
    own->copies = copies;
    own->per_copy = per_copy;
    own->by_region = !t->whole;
    for (size_t k = 0; k < n_row; k++) {
        there[k] = k == 0; /* the closing symbol, which no row is of, comes once */
        items_table_pass_cells(t, own, k, NULL);
        values[k * own->n + own->item] = *item;
        values[k * own->n + own->item + 1] = *condition;
    }
    for (size_t k = t->text; k < t->text_end; k++) {
        const struct long_row *row = &t->rows[k];
        size_t at = row->copy * per_copy + (t->whole ? 0 : row->region);
        items_table_pass_cells(t, own, at, row->cells);
        there[at] = true;
    }
    return true;
}

/* Whether the character is of a script that puts no blanks between words. */
static bool is_unparted(ucs4_t c) {
    return uc_is_property_ideographic(c) || (c >= 0x3001 && c <= 0x30ff) ||
           (c >= 0x0e00 && c <= 0x0eff) || (c >= 0xff01 && c <= 0xff65) ||
           (c >= 0x1000 && c <= 0x109f) || (c >= 0x1780 && c <= 0x17ff);
}

/* Counts blanks that writing does not have, between what was joined and the part that follows. */
static void count_seam(struct items_table *t, const struct own_value *part) {
    const uint8_t *joined = (const uint8_t *)t->joined.data;
    ucs4_t before, after;
    if (part->length == 0 || t->joined.length == 0 ||
        u8_mbtouc(&after, (const uint8_t *)part->text, part->length) < 1)
        return;
    const uint8_t *last = joined + t->joined.length - 1;
    while (last > joined && (*last & 0xc0) == 0x80)
        last--;
    u8_mbtouc(&before, last, (size_t)(joined + t->joined.length - last));
    bool counts = (is_unparted(before) && is_unparted(after)) ||
                  (after < 128 && strchr(".,;:!?)", (int)after) && after != 0);
    t->seams += counts;
    t->first_seam = t->seams == 1 && counts ? t->record : t->first_seam;
}

/* Whether the row stands for no word.  None and null may be words there. */
static bool is_missing_row(const struct own_value *part) {
    struct own_value bare = *part;
    items_trim(&bare.text, &bare.length);
    return items_is_missing(part) && !(bare.text && strncasecmp(bare.text, "no", 2) == 0) &&
           !(bare.text && strncasecmp(bare.text, "nu", 2) == 0);
}

bool items_rows_join(struct items_table *t, struct own_value *text) {
    bool good = true;
    size_t rows = 0, missing = 0;
    const struct own_value *last = NULL;
    t->joined.length = 0;
    for (size_t k = t->text; k < t->text_end && good; k++) {
        const struct own_value *part = &t->rows[k].cells[t->role[ROLE_TEXT]];
        if (t->rows[k].copy > 0)
            continue;
        if (rows++ > 0 && !t->names->joins_bare)
            count_seam(t, part);
        good = rows == 1 || buffer_append(&t->joined, t->names->joins_bare ? "|" : " | ",
                                          t->names->joins_bare ? 1 : 3);
        last = part;
        if (is_missing_row(part)) {
            missing++;
            continue;
        }
        for (size_t i = 0; i < part->length && good; i++)
            good = (part->text[i] != '|' || buffer_append(&t->joined, "\\", 1)) &&
                   buffer_append(&t->joined, part->text + i, 1);
    }
    *text = (struct own_value){.text = t->joined.data ? t->joined.data : "",
                               .length = t->joined.length};
    if (rows == 1 || rows == missing) /* all of the text is missing */
        *text = items_is_missing(last) ? *last : *text;
    else
        t->missing_rows += missing;
    return good;
}

void items_rows_note(const struct items_table *t) {
    const char *name = t->input.name;
    if (t->repeated > 0)
        terminal_note("%s: %" PRIu64 " %s more than once, as with several participants: each is "
                      "scored once, and all of its rows get its numbers",
                      name, t->repeated, t->repeated == 1 ? "text comes" : "texts come");
    if (t->unplaced > 0)
        terminal_note("%s: in %" PRIu64 " %s a region comes again with the same name and text; "
                      "rows stand in the table's order. Where rows are of several participants, "
                      "number the regions",
                      name, t->unplaced, t->unplaced == 1 ? "text" : "texts");
    if (t->seams > 0)
        terminal_note("%s: %" PRIu64 " %s put before punctuation, or between characters that "
                      "writing does not part; the first in the text of line %" PRIu64
                      ". --columns join=none joins rows as they are",
                      name, t->seams, t->seams == 1 ? "space is" : "spaces are", t->first_seam);
    if (t->missing_rows > 0)
        terminal_note("%s: %" PRIu64 " %s missing (NA, NaN ...) and left empty in %s", name,
                      t->missing_rows, t->missing_rows == 1 ? "row is" : "rows are",
                      t->missing_rows == 1 ? "its text" : "their texts");
}
