/* Scores the texts of tables of items. */
#include "items.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
    const char **names = good ? reallocarray(own->names, own->n + 3, sizeof *names) : NULL;
    if (!names)
        return terminal_error("out of memory");
    own->names = names;
    const size_t before = own->n;
    if (items->names_files)
        names[own->n++] = "file";
    own->item = own->n;
    names[own->n++] = "item";
    if (!items->names.classifies && !items->names.answers)
        names[own->n++] = "condition";
    own->fixed = own->n - before;
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
    free(items->tables);
    free(items->results);
    free(items->paths);
    free(items->own.names);
    free(items->own.values);
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

void items_pass_file(struct items *items, const char *path) {
    struct own_columns *own = &items->own;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    const struct own_value file = {.text = name, .length = strlen(name)};
    for (size_t i = 0; items->names_files && i < own->copies * own->per_copy; i++)
        own->values[i * own->n + own->item - 1] = file;
}

bool items_pass_plain(struct items *items, const char *path, const struct own_value *item) {
    struct own_columns *own = &items->own;
    struct own_value *values = reallocarray(own->values, own->n, sizeof *values);
    if (!values)
        return false;
    memset(values, 0, own->n * sizeof *values);
    own->values = values;
    own->by_region = false;
    own->copies = own->per_copy = 1;
    items_pass_file(items, path);
    values[own->item] = *item;
    return true;
}

/* Parts the text into regions, and passes on what the table has beside it. */
static bool prepare_text(struct items *items, struct items_table *table,
                         const struct own_value *item, const struct own_value *condition,
                         const struct own_value *text) {
    struct regions *regions = &items->regions;
    if (!regions_part(regions, text->text, text->length) ||
        !items_table_pass(table, &items->own, item, condition))
        return false;
    items_pass_file(items, table->input.name);
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
    }
    return !preference->on || preference_add(preference, table->input.name, &text);
}

/* Scores a text of the current record. */
static txl_status score_text(struct items *items, int i, struct evaluation *e,
                             const struct own_value *item, const struct own_value *condition,
                             enum items_role role) {
    struct items_table *table = &items->tables[i];
    struct own_value text;
    char where[40], problem[512];
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
    if (e->report)
        report_start_item(e->report, e->counts.tokens);
    txl_status status = evaluation_text(e, &(struct lone_text){.regions = &items->regions,
                                                               .parted = true,
                                                               .before = items->before.data,
                                                               .n_before = items->before.length,
                                                               .n_shared = e->before.length,
                                                               .line = table->record,
                                                               .where = where,
                                                               .problem = problem,
                                                               .n_problem = sizeof problem});
    if (status == TXL_TEXT) {
        items_table_wrong(table, "%s", problem);
        return TXL_OK;
    }
    if (!status)
        items_table_right(table);
    if (!status && !compare_text(items, i, e, item, condition))
        status = TXL_IO;
    if (!status && e->report && !report_item(e->report, item, condition, &items->regions))
        status = TXL_IO;
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
        progress_update(e->progress, input_fraction(&table->input, table->input.read),
                        e->counts.tokens);
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
    return status;
}

/* ---- Results ------------------------------------------------------------------------------ */

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
