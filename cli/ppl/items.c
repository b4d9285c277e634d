/* Scores the texts of --items, and compares conditions (--prefer). */
#include "items.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/white_space.h"
#include "source.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Counts which condition of each item is likelier. */

/* What is known of a text, and what keeps its item out. */
enum { IS_A = 1, IS_B = 2, NO_REGION = 4, NO_TOKEN = 8, TWICE = 16, LACKS_A = 32, LACKS_B = 64 };

/* A message shows this much of a condition. */
enum { SHOWN = 80 };

bool preference_parse(struct preference *p, const char *text) {
    const char *comma = strchr(text, ',');
    if (!comma || comma == text || comma[1] == '\0' || strchr(comma + 1, ','))
        return false;
    p->a = text;
    p->n_a = (size_t)(comma - text);
    p->b = comma + 1;
    p->n_b = strlen(p->b);
    p->on = true;
    return p->n_a != p->n_b || memcmp(p->a, p->b, p->n_a) != 0;
}

/* ---- Texts -------------------------------------------------------------------------------- */

static bool is_named(const struct own_value *value, const char *name, size_t length) {
    return value->length == length && memcmp(value->text, name, length) == 0;
}

/* Remembers a condition that may be meant; conditions that are long are not listed. */
static bool list_condition(struct preference *p, const struct own_value *condition) {
    const char *list = p->conditions.data;
    char quoted[SHOWN + 4];
    if (p->n_condition == PREFERENCE_LISTED || condition->length > SHOWN)
        return true;
    int n = snprintf(quoted, sizeof quoted, "'%.*s'", (int)condition->length, condition->text);
    if (list && memmem(list, p->conditions.length, quoted, (size_t)n))
        return true;
    p->n_condition++;
    return (!list || buffer_append(&p->conditions, ", ", 2)) &&
           buffer_append(&p->conditions, quoted, (size_t)n);
}

static bool is_value(const struct preference_value *known, const struct own_value *value) {
    bool there = known->text && value->text;
    return there ? is_named(value, known->text, known->length) : !known->text && !value->text;
}

/* The number of the column's value, perhaps a new one; p->n_value if memory is short or there are
 * too many.  Values mostly come in a row. */
static size_t find_value(struct preference *p, const struct own_value *value) {
    for (size_t i = p->n_value; i-- > 0;)
        if (is_value(&p->values[i], value))
            return i;
    struct preference_value *values = p->n_value < PREFERENCE_VALUES
                                          ? reallocarray(p->values, p->n_value + 1, sizeof *values)
                                          : NULL;
    if (!values)
        return p->n_value;
    p->values = values;
    struct preference_value *made = &values[p->n_value];
    *made = (struct preference_value){.length = value->length};
    made->text = value->text ? malloc(value->length + 1) : NULL;
    if (value->text && !made->text)
        return p->n_value;
    if (value->text)
        memcpy(made->text, value->text, value->length);
    return p->n_value++;
}

bool preference_add(struct preference *p, const char *name, const struct preference_text *text) {
    const struct own_value *condition = &text->condition;
    size_t value = p->by ? find_value(p, &text->value) : 0;
    if (p->by && value == p->n_value)
        return p->n_value == PREFERENCE_VALUES
                   ? terminal_error("%s: --prefer-by %s: there are more than %d values", name,
                                    p->by, PREFERENCE_VALUES)
                   : terminal_error("out of memory");
    if (p->n == p->room) {
        size_t room = p->room + p->room / 4 + 64;
        struct compared_text *texts = reallocarray(p->texts, room, sizeof *texts);
        if (!texts)
            return terminal_error("out of memory");
        p->texts = texts;
        p->room = room;
    }
    if (!list_condition(p, condition))
        return terminal_error("out of memory");
    const XXH128_hash_t hash = XXH3_128bits(text->item.text, text->item.length);
    p->texts[p->n++] =
        (struct compared_text){.item = {hash.low64, hash.high64},
                               .nats = text->nats ? *text->nats : 0,
                               .line = text->line & ((UINT64_C(1) << 44) - 1),
                               .value = value & 4095,
                               .what = (uint8_t)((is_named(condition, p->a, p->n_a)   ? IS_A
                                                  : is_named(condition, p->b, p->n_b) ? IS_B
                                                                                      : 0) |
                                                 (text->nats    ? 0
                                                  : text->empty ? NO_TOKEN
                                                                : NO_REGION))};
    return true;
}

/* ---- Counting ----------------------------------------------------------------------------- */

static int compare_lines(const void *a, const void *b) {
    const struct compared_text *x = a, *y = b;
    if (x->line != y->line)
        return x->line > y->line ? 1 : -1;
    return (x->what > y->what) - (x->what < y->what);
}

/* Orders texts by item, then by line. */
static int compare_items(const void *a, const void *b) {
    const struct compared_text *x = a, *y = b;
    for (size_t i = 0; i < 2; i++)
        if (x->item[i] != y->item[i])
            return x->item[i] > y->item[i] ? 1 : -1;
    return compare_lines(a, b);
}

static void count_pair(struct preference_counts *counts, double a, double b) {
    counts->pairs++;
    counts->preferred += a < b;
    counts->ties += a == b;
    score_add(&counts->difference, b - a);
}

/* Counts an item by its texts[n].  If it cannot be compared, returns the text that says why, with a
 * flag for the reason, else NULL. */
static struct compared_text *count_item(struct preference *p, struct compared_text *texts,
                                        size_t n) {
    struct compared_text *a = NULL, *b = NULL;
    for (size_t i = 0; i < n; i++) {
        struct compared_text *text = &texts[i], **place = text->what & IS_A ? &a : &b;
        if (!(text->what & (IS_A | IS_B)))
            continue;
        if (*place)
            text->what |= TWICE;
        if (text->what & (TWICE | NO_REGION | NO_TOKEN))
            return text;
        *place = text;
    }
    if (!a || !b) {
        texts->what = a ? LACKS_B : LACKS_A;
        return texts;
    }
    count_pair(&p->all, a->nats, b->nats);
    if (p->by)
        count_pair(&p->values[a->value].counts, a->nats, b->nats);
    return NULL;
}

/* Why the text's item cannot be compared. */
static void say_reason(const struct preference *p, const char *name,
                       const struct compared_text *text, const char *end) {
    bool is_a = text->what & (IS_A | LACKS_A);
    int n = (int)(is_a ? p->n_a : p->n_b);
    const char *condition = is_a ? p->a : p->b;
    if (text->what & TWICE)
        terminal_error("%s: line %" PRIu64 ": its item has condition '%.*s' twice%s", name,
                       (uint64_t)text->line, n, condition, end);
    else if (text->what & (NO_REGION | NO_TOKEN))
        terminal_error("%s: line %" PRIu64 ": %s region %" PRId64 "%s", name, (uint64_t)text->line,
                       text->what & NO_REGION ? "there is no" : "no token is in", p->region, end);
    else
        terminal_error("%s: line %" PRIu64 ": its item has no condition '%.*s'%s", name,
                       (uint64_t)text->line, n, condition, end);
}

/* Tells which items are left out, by the texts[n] that say why; or, if no item is compared, why. */
static void tell_left_out(const struct preference *p, const char *name,
                          const struct compared_text *texts, size_t n, bool has_a, bool has_b) {
    char end[96];
    snprintf(end, sizeof end, "; none of the %zu items can be compared", n);
    if (p->all.pairs == 0 && !(has_a && has_b))
        terminal_error("%s: no text has condition '%.*s'; there %s %.*s%s", name,
                       (int)(has_a ? p->n_b : p->n_a), has_a ? p->b : p->a,
                       p->n_condition == 1 ? "is" : "are", (int)p->conditions.length,
                       p->conditions.data ? p->conditions.data : "",
                       p->n_condition == PREFERENCE_LISTED ? " and perhaps more" : "");
    else if (p->all.pairs == 0 && n > 1)
        say_reason(p, name, texts, end);
    else
        for (size_t i = 0; i < n; i++)
            say_reason(p, name, &texts[i], "; the item is left out of --prefer");
}

void preference_end(struct preference *p, const char *name, bool all) {
    bool has_a = false, has_b = false;
    size_t n = 0; /* items left out */
    if (p->n > 0)
        qsort(p->texts, p->n, sizeof *p->texts, compare_items);
    for (size_t i = 0, end; i < p->n; i = end) {
        for (end = i; end < p->n &&
                      memcmp(p->texts[i].item, p->texts[end].item, sizeof p->texts[i].item) == 0;
             end++) {
            has_a = has_a || p->texts[end].what & IS_A;
            has_b = has_b || p->texts[end].what & IS_B;
        }
        const struct compared_text *reason = count_item(p, p->texts + i, end - i);
        if (reason)
            p->texts[n++] = *reason; /* n <= i: its own texts are done */
    }
    p->left_out = n;
    if (all && n > 0) {
        qsort(p->texts, n, sizeof *p->texts, compare_lines);
        tell_left_out(p, name, p->texts, n, has_a, has_b);
    }
    free(p->texts);
    p->texts = NULL;
    p->n = p->room = 0;
}

void preference_free(struct preference *p) {
    for (size_t i = 0; i < p->n_value; i++)
        free(p->values[i].text);
    free(p->values);
    free(p->texts);
    buffer_free(&p->conditions);
    *p = (struct preference){0};
}

static void add_counts(struct preference_counts *to, const struct preference_counts *counts) {
    to->pairs += counts->pairs;
    to->preferred += counts->preferred;
    to->ties += counts->ties;
    score_merge(&to->difference, &counts->difference);
}

bool preference_merge(struct preference *total, const struct preference *other) {
    if (!other->on)
        return true;
    if (!total->on) {
        total->on = true;
        total->a = other->a;
        total->n_a = other->n_a;
        total->b = other->b;
        total->n_b = other->n_b;
        total->region = other->region;
        total->by = other->by;
    }
    add_counts(&total->all, &other->all);
    total->left_out += other->left_out;
    for (size_t i = 0; i < other->n_value; i++) {
        const struct preference_value *value = &other->values[i];
        const struct own_value own = {.text = value->text, .length = value->length};
        size_t k = find_value(total, &own);
        if (k == total->n_value)
            return k == PREFERENCE_VALUES
                       ? terminal_error("--prefer-by %s: there are more than %d values", total->by,
                                        PREFERENCE_VALUES)
                       : terminal_error("out of memory");
        add_counts(&total->values[k].counts, &value->counts);
    }
    return true;
}

/* ---- The result --------------------------------------------------------------------------- */

/* The share of items that prefer A; NAN without items. */
static double share_of(const struct preference_counts *c) {
    return c->pairs > 0 ? (double)c->preferred / (double)c->pairs : NAN;
}

static double standard_error(const struct preference_counts *c) {
    double share = share_of(c);
    return sqrt(share * (1 - share) / (double)c->pairs);
}

/* The 95 % interval of the share (Wilson 1927), which stays within 0 and 1. */
struct interval {
    double low, high;
};

static struct interval interval_of(const struct preference_counts *c) {
    const double z = 1.959964, n = (double)c->pairs, share = share_of(c);
    const double centre = (share + z * z / (2 * n)) / (1 + z * z / n);
    const double half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return (struct interval){c->preferred > 0 ? centre - half : 0,
                             c->preferred < c->pairs ? centre + half : 1};
}

static bool add_share(json_t *o, const struct preference_counts *c) {
    const struct interval interval = interval_of(c);
    const double difference = c->pairs > 0 ? c->difference.mean : NAN;
    return output_json_append(
        o, json_pack("{s:o, s:o, s:[o, o], s:o, s:o}", "share", output_json_number(share_of(c)),
                     "standard_error", output_json_number(standard_error(c)), "interval",
                     output_json_number(interval.low), output_json_number(interval.high),
                     "difference", output_json_number(difference), "difference_standard_error",
                     output_json_number(score_standard_error(&c->difference))));
}

static bool counts_to_json(json_t *o, const struct preference_counts *c) {
    return output_json_append(o, json_pack("{s:I, s:I, s:I}", "items", (json_int_t)c->pairs,
                                           "preferred", (json_int_t)c->preferred, "ties",
                                           (json_int_t)c->ties));
}

/* The values of the column, each with its counts. */
static json_t *values_to_json(const struct preference *p) {
    json_t *list = json_array();
    bool good = list;
    for (size_t i = 0; i < p->n_value && good; i++) {
        const struct preference_value *value = &p->values[i];
        json_t *o =
            json_pack("{s:o}", "value",
                      value->text ? output_json_bytes(value->text, value->length) : json_null());
        good = counts_to_json(o, &value->counts) && add_share(o, &value->counts);
        good = json_array_append_new(list, o) == 0 && good;
    }
    return output_json_if(good, list);
}

json_t *preference_to_json(const struct preference *p) {
    json_t *o = json_pack("{s:o, s:o, s:o}", "prefer", output_json_bytes(p->a, p->n_a), "over",
                          output_json_bytes(p->b, p->n_b), "region",
                          p->region < 0 ? json_null() : json_integer(p->region));
    bool good = counts_to_json(o, &p->all) &&
                json_object_set_new(o, "left_out", json_integer((json_int_t)p->left_out)) == 0 &&
                add_share(o, &p->all);
    if (p->by)
        good = good && json_object_set_new(o, "by", output_json_string(p->by)) == 0 &&
               json_object_set_new(o, "values", values_to_json(p)) == 0;
    return output_json_if(good, o);
}

/* "in 75.00 % +/- 9.68 of 20 items (95 %: 53.13 to 88.81), 5 ties, by 0.4321 +/- 0.1234 nats" */
static bool print_counts(const char *who, const struct preference_counts *c) {
    const struct interval interval = interval_of(c);
    const double error = score_standard_error(&c->difference);
    char spread[32] = "";
    if (isfinite(error))
        snprintf(spread, sizeof spread, " +/- %.4f", error);
    return output_line("%s in %.2f %% +/- %.2f of %" PRIu64 " items (95 %%: %.2f to %.2f), %" PRIu64
                       " ties, by %.4f%s nats in the mean",
                       who, 100 * share_of(c), 100 * standard_error(c), c->pairs,
                       100 * interval.low, 100 * interval.high, c->ties, c->difference.mean,
                       spread);
}

bool preference_print(const struct preference *p, const char *name) {
    char region[48] = "", *who;
    bool good;
    if (p->region >= 0)
        snprintf(region, sizeof region, " in region %" PRId64, p->region);
    if (p->all.pairs == 0)
        return output_line("%s: no item has both %.*s and %.*s", name, (int)p->n_a, p->a,
                           (int)p->n_b, p->b);
    if (asprintf(&who, "%s: %.*s has fewer nats than %.*s%s", name, (int)p->n_a, p->a, (int)p->n_b,
                 p->b, region) < 0)
        return output_lacks_memory();
    good = print_counts(who, &p->all);
    free(who);
    for (size_t i = 0; i < p->n_value && good; i++) {
        const struct preference_value *value = &p->values[i];
        if (value->counts.pairs == 0)
            continue;
        if (asprintf(&who, "%s: %s %.*s:", name, p->by, (int)value->length,
                     value->text ? value->text : "") < 0)
            return output_lacks_memory();
        good = print_counts(who, &value->counts);
        free(who);
    }
    return good;
}

/* Scores the texts of tables. */

/* ---- The tables --------------------------------------------------------------------------- */

/* What --prefer compares in the table, and the column of --prefer-by. */
static bool prepare_preference(struct items *items, int i) {
    const struct items_table *table = &items->tables[i];
    struct preference *preference = &items->results[i].preference;
    *preference = items->preference;
    if (!preference->on && table->pairs)
        preference_parse(preference, "good,bad");
    if (!preference->on && (preference->region >= 0 || preference->by))
        return terminal_error("%s needs --prefer",
                              preference->by ? "--prefer-by" : "--prefer-region");
    if (preference->on && !table->pairs && table->role[ROLE_CONDITION] == SIZE_MAX)
        return terminal_error("%s: --prefer needs a column condition; --columns condition=NAME "
                              "says what it is called",
                              table->input.name);
    return !preference->by || items_table_column(table, preference->by) != SIZE_MAX ||
           items_table_lacks(table, "--prefer-by", preference->by);
}

bool items_new(struct items *items, size_t most) {
    items->tables = calloc(most, sizeof *items->tables);
    items->results = calloc(most, sizeof *items->results);
    items->paths = calloc(most, sizeof *items->paths);
    return (items->tables && items->results && items->paths) || terminal_error("out of memory");
}

bool items_add(struct items *items, const char *path, const struct input_form *form) {
    struct items_table *table = &items->tables[items->n];
    items->paths[items->n] = (char *)path;
    bool good =
        items_table_open(table, path, form, &items->names) && prepare_preference(items, items->n);
    if (!good)
        items_table_close(table);
    items->n += good;
    return good;
}

bool items_ready(struct items *items) {
    struct own_columns *own = &items->own;
    bool good = true;
    for (int i = 0; i < items->n && good; i++)
        good = items_table_offer(&items->tables[i], own);
    const char **names = good ? reallocarray(own->names, own->n + 2, sizeof *names) : NULL;
    if (!names)
        return terminal_error("out of memory");
    own->names = names;
    names[own->n++] = "item";
    names[own->n++] = "condition";
    for (int i = 0; i < items->n && good; i++)
        good = items_table_take(&items->tables[i], own);
    return good || terminal_error("out of memory");
}

void items_close(struct items *items) {
    for (int i = 0; i < items->n; i++) {
        items_table_close(&items->tables[i]);
        preference_free(&items->results[i].preference);
    }
    preference_free(&items->total.preference);
    items_names_free(&items->names);
    regions_free(&items->regions);
    buffer_free(&items->before);
    buffer_free(&items->orders);
    free(items->tables);
    free(items->results);
    free(items->paths);
    free(items->own.names);
    free(items->own.values);
    free(items->own.ends);
    free(items->own.there);
    *items = (struct items){0};
}

/* ---- Texts -------------------------------------------------------------------------------- */

/* What is before a text: --context, then the record's context. */
static bool set_before(struct items *items, struct items_table *table, const struct evaluation *e) {
    struct own_value context = items_table_value(table, ROLE_CONTEXT);
    struct buffer open = {0};
    if (context.text && items_is_missing(&context)) {
        table->missing_contexts++;
        context.length = 0;
    }
    items->before.length = 0;
    bool good = buffer_append(&items->before, e->before.data, e->before.length);
    if (good && context.length > 0) {
        good = buffer_append(&open, context.text, context.length);
        if (good)
            before_open(&open, e->model);
        good = good && before_join(&items->before, open.data, open.length);
    }
    buffer_free(&open);
    return good;
}

/* Parts the text into regions, and passes on what the table has beside it. */
static bool prepare_text(struct items *items, struct items_table *table,
                         const struct own_value *item, const struct own_value *condition,
                         const struct own_value *text) {
    struct regions *regions = &items->regions;
    if (!regions_part(regions, text->text, text->length) ||
        !items_table_pass(table, &items->own, item, condition))
        return false;
    size_t *ends = reallocarray(items->own.ends, regions->n, sizeof *ends);
    if (!ends)
        return false;
    items->own.ends = ends;
    items->own.n_end = regions->n;
    for (size_t i = 0; i < regions->n; i++)
        ends[i] = regions->list[i].end;
    return true;
}

/* Adds the text to those that --prefer compares. */
static bool compare_text(struct items *items, int i, const struct evaluation *e,
                         const struct own_value *item, const struct own_value *condition) {
    const struct items_table *table = &items->tables[i];
    struct preference *preference = &items->results[i].preference;
    const struct regions *regions = &items->regions;
    const size_t region = (size_t)preference->region;
    struct preference_text text = {.item = *item,
                                   .condition = *condition,
                                   .line = table->record,
                                   .nats = &e->scorer.score.nats};
    if (preference->by)
        text.value = items_table_cell(table, items_table_column(table, preference->by));
    if (preference->region >= 0) {
        text.empty = region < regions->n && regions->list[region].tokens == 0;
        text.nats = region < regions->n && !text.empty ? &regions->list[region].nats : NULL;
        text.empty = text.empty && region > 0;
    }
    return !preference->on || preference_add(preference, table->input.name, &text);
}

/* The nth line of --factorization, from 0, which is no less than in the call before; its text is
 * NULL if there is none. */
static struct own_value order_line(struct items *items, uint64_t n) {
    const char *line, *end = items->orders.data + items->orders.length, *next = NULL;
    for (line = items->orders.data + items->order_at; line < end; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next : end;
        if (items->order_line == n)
            return (struct own_value){.text = line, .length = (size_t)(next - line)};
        items->order_line++;
        items->order_at = (size_t)(next - items->orders.data) + 1;
    }
    return (struct own_value){0};
}

/* The order of factorisation of the current text; false if --factorization lacks it.  Every record
 * before was scored or is wrong. */
static bool find_order(struct items *items, int i, struct own_value *order) {
    struct items_table *table = &items->tables[i];
    uint64_t before = items->results[i].texts + table->errors.wrong + table->missing;
    *order = items_table_value(table, ROLE_ORDER);
    if (!items->orders.data)
        return true;
    for (int k = 0; k < i; k++)
        before += items->results[k].texts + items->results[k].left_out + items->tables[k].missing;
    *order = order_line(items, before);
    if (!order->text)
        items_table_wrong(table, "--factorization has no line %" PRIu64 " for it", before + 1);
    return order->text;
}

/* Scores a text of the current record. */
static txl_status score_text(struct items *items, int i, struct evaluation *e,
                             const struct own_value *item, const struct own_value *condition,
                             enum items_role role) {
    struct items_table *table = &items->tables[i];
    struct own_value text;
    char where[40], problem[512];
    txl_error error;
    snprintf(where, sizeof where, "line %" PRIu64 ": ", table->record);
    if (!items_table_text(table, role, &text))
        return terminal_lacks_memory();
    if (items_table_missing(table, &text))
        return TXL_OK;
    if (!prepare_text(items, table, item, condition, &text))
        return terminal_lacks_memory();
    const struct buffer *bare = &items->regions.text;
    if (is_all_space(bare->data, bare->length)) {
        items_table_wrong(table, "%s is empty", items_table_name(table, role));
        return TXL_OK;
    }
    struct own_value order;
    if (!find_order(items, i, &order))
        return TXL_OK;
    if (tables_start_record(e->tables, items->paths[i], table->record, &items->regions))
        return TXL_IO;
    if (e->report)
        report_start_item(e->report, e->tokens);
    txl_status status = evaluation_text(e, &(struct lone_text){.text = bare->data,
                                                               .length = bare->length,
                                                               .before = items->before.data,
                                                               .n_before = items->before.length,
                                                               .n_shared = e->before.length,
                                                               .line = table->record,
                                                               .order = order.text,
                                                               .n_order = order.length,
                                                               .where = where,
                                                               .problem = problem,
                                                               .n_problem = sizeof problem});
    if (status == TXL_TEXT) {
        items_table_wrong(table, "%s", problem);
        return TXL_OK;
    }
    if (!status) {
        items_table_right(table);
        status =
            tables_end_record(e->tables, e->scorer.order, &error); /* the order may lack its last */
        if (status && status != TXL_STOPPED)
            terminal_error("%s: %s%s", table->input.name, where, error.message);
    }
    if (!status && !compare_text(items, i, e, item, condition))
        status = TXL_IO;
    if (!status && e->report && !report_item(e->report, item, condition, &items->regions))
        status = TXL_IO;
    items->correction +=
        e->options->per_word ? e->tables->words.correction : e->tables->regions.correction;
    evaluation_end_stream(e);
    items->results[i].texts++;
    return status;
}

/* Scores the texts of the current record: one, or of BLiMP two. */
static txl_status score_record(struct items *items, int i, struct evaluation *e) {
    static const struct own_value good = {.text = "good", .length = 4},
                                  bad = {.text = "bad", .length = 3};
    struct items_table *table = &items->tables[i];
    struct own_value item;
    if (!items_table_item(table, &item) || !set_before(items, table, e))
        return terminal_lacks_memory();
    if (!table->pairs) {
        struct own_value condition = items_table_value(table, ROLE_CONDITION);
        return score_text(items, i, e, &item, &condition, ROLE_TEXT);
    }
    txl_status status = score_text(items, i, e, &item, &good, ROLE_GOOD);
    return status ? status : score_text(items, i, e, &item, &bad, ROLE_BAD);
}

static txl_status score_records(struct items *items, int i, struct evaluation *e) {
    struct items_table *table = &items->tables[i];
    txl_status status = TXL_OK;
    while (!status && items_table_next(table)) {
        status = score_record(items, i, e);
        progress_update(e->progress, input_fraction(&table->input, table->input.read), e->tokens);
    }
    if (!status && table->input.failed)
        status = TXL_IO;
    if (!status && signals_stopped())
        status = TXL_STOPPED;
    return status;
}

txl_status items_evaluate(struct items *items, int i, struct evaluation *e, struct result *result) {
    double start = terminal_seconds();
    struct items_table *table = &items->tables[i];
    struct preference *preference = &items->results[i].preference;
    txl_status status = TXL_MEMORY;
    *result = (struct result){.file = items->paths[i]};
    items->correction = 0;
    if (evaluation_begin(e, &table->input)) {
        status = score_records(items, i, e);
        if (!status)
            token_reader_end(&e->reader);
        evaluation_end(e, result);
    }
    items->results[i].left_out = table->errors.wrong;
    if (!status)
        items_table_end(table);
    items_table_note(table);
    if (preference->on)
        preference_end(preference, table->input.name, !status && result->score.predicted > 0);
    if (!status && result->score.predicted == 0) {
        if (table->errors.wrong == 0)
            terminal_error("%s: no text has a token to score", table->input.name);
        status = TXL_TEXT;
    }
    result->file = items->paths[i];
    result->items = &items->results[i];
    result->seconds = terminal_seconds() - start;
    result->word_correction = items->correction;
    return status;
}

/* ---- Results ------------------------------------------------------------------------------ */

bool items_ordered(const struct items *items) {
    bool ordered = items->orders.data;
    for (int i = 0; i < items->n; i++)
        ordered = ordered || items->tables[i].role[ROLE_ORDER] != SIZE_MAX;
    return ordered;
}

bool items_lack(const struct items *items, int i) {
    return items->results[i].left_out + items->results[i].preference.left_out > 0;
}

bool items_sum(struct items *items) {
    bool good = true;
    for (int i = 0; i < items->n && good; i++) {
        const struct items_result *result = &items->results[i];
        items->total.texts += result->texts;
        items->total.left_out += result->left_out;
        good = preference_merge(&items->total.preference, &result->preference);
    }
    return good;
}

bool items_to_json(json_t *object, const struct items_result *result) {
    return output_json_append(
        object,
        json_pack("{s:{s:I, s:I, s:o}}", "items", "texts", (json_int_t)result->texts, "left_out",
                  (json_int_t)result->left_out, "preference",
                  result->preference.on ? preference_to_json(&result->preference) : json_null()));
}

bool items_print(const struct items_result *result, const char *name) {
    return !result->preference.on ||
           (preference_print(&result->preference, name) && output_flush());
}
