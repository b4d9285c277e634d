/* Counts which condition of each item is likelier. */
#include "preference.h"
#include "cli/io/terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

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
                       p->n_condition == PREFERENCE_LISTED ? " and maybe more" : "");
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

/* NAN of one item, which says nothing of the spread. */
static double standard_error(const struct preference_counts *c) {
    double share = c->pairs > 1 ? share_of(c) : NAN;
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

/* "in 15 of 20 items (95 % interval 53 to 89 %), 5 ties, on average by 0.43 nats (standard error
 * 0.12)" */
static bool print_counts(const char *who, const struct preference_counts *c) {
    const struct interval interval = interval_of(c);
    const struct estimate by = estimate(c->difference.mean, score_standard_error(&c->difference));
    char ties[48] = "";
    if (c->ties > 0)
        snprintf(ties, sizeof ties, ", %" PRIu64 " tie%s", c->ties, plural(c->ties));
    return output_line("%s in %" PRIu64 " of %" PRIu64
                       " item%s (95 %% interval %.0f to %.0f %%)%s, on average by %s nats%s",
                       who, c->preferred, c->pairs, plural(c->pairs), 100 * interval.low,
                       100 * interval.high, ties, by.value, by.error);
}

bool preference_print(const struct preference *p, const char *name) {
    char region[48] = "", *who;
    bool good;
    if (p->region >= 0)
        snprintf(region, sizeof region, " in region %" PRId64, p->region);
    if (p->all.pairs == 0)
        return output_line("%s: no item has both %.*s and %.*s%s", name, (int)p->n_a, p->a,
                           (int)p->n_b, p->b, region);
    if (asprintf(&who, "%s: %.*s is more likely than %.*s%s", name, (int)p->n_a, p->a, (int)p->n_b,
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
