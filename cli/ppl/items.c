/* Scores the texts of a table. */
#include "items.h"

#include "before.h"
#include "cli/system/signals.h"

#include <inttypes.h>
#include <string.h>

bool items_open(struct items *items, const char *path, bool binary) {
    items->path = path;
    if (!items_table_open(&items->table, path, binary))
        return false;
    struct preference *preference = &items->preference;
    if (!preference->on && items->table.pairs)
        preference_parse(preference, "good,bad");
    if (preference->region >= 0 && !preference->on)
        return terminal_error("--prefer-region needs --prefer");
    preference->name = items->table.input.name;
    return true;
}

void items_close(struct items *items) {
    if (!items->path)
        return;
    items_table_close(&items->table);
    regions_free(&items->regions);
    buffer_free(&items->before);
    preference_free(&items->preference);
    items->path = NULL;
}

/* What is before a text: --context, then the record's context. */
static bool set_before(struct items *items, const struct evaluation *e) {
    struct own_value context = items_table_value(&items->table, ROLE_CONTEXT);
    struct buffer open = {0};
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

/* The nats that --prefer compares. */
static const double *compared_nats(const struct items *items, const struct evaluation *e) {
    int64_t region = items->preference.region;
    if (region < 0)
        return &e->scorer.score.nats;
    const struct regions *regions = &items->regions;
    bool there = (uint64_t)region < regions->n && (region > 0 || regions->list[0].tokens > 0);
    return there ? &regions->list[region].nats : NULL;
}

/* Scores a text of the current record. */
static txl_status score_text(struct items *items, struct evaluation *e,
                             const struct own_value *item, const struct own_value *condition,
                             const struct own_value *text) {
    struct items_table *table = &items->table;
    char where[40];
    txl_error error;
    snprintf(where, sizeof where, "line %" PRIu64 ": ", table->record);
    items_table_pass(table, item, condition);
    if (table->input.failed || !regions_part(&items->regions, text->text, text->length))
        return terminal_lacks_memory();
    tables_start_record(e->tables, items->path, table->record, &items->regions);
    const struct buffer *bare = &items->regions.text;
    txl_status status = evaluation_text(e, &(struct lone_text){.text = bare->data,
                                                               .length = bare->length,
                                                               .before = items->before.data,
                                                               .n_before = items->before.length,
                                                               .n_shared = e->before.length,
                                                               .line = table->record,
                                                               .where = where});
    if (status == TXL_TEXT) {
        items->wrong++;
        return TXL_OK;
    }
    if (!status) {
        status = tables_end_record(e->tables, &error);
        if (status && status != TXL_STOPPED)
            terminal_error("%s: %s%s", table->input.name, where, error.message);
    }
    if (!status && items->preference.on &&
        !preference_add(&items->preference, item, condition, compared_nats(items, e),
                        table->record))
        status = TXL_IO;
    items->correction += e->tables->words.correction;
    evaluation_end_stream(e);
    items->texts++;
    return status;
}

/* Scores the texts of the current record: one, or of BLiMP two. */
static txl_status score_record(struct items *items, struct evaluation *e) {
    static const struct own_value good = {.text = "good", .length = 4},
                                  bad = {.text = "bad", .length = 3};
    struct items_table *table = &items->table;
    struct own_value item, text;
    if (!items_table_item(table, &item) || !set_before(items, e))
        return terminal_lacks_memory();
    if (!table->pairs) {
        struct own_value condition = items_table_value(table, ROLE_CONDITION);
        text = items_table_value(table, ROLE_TEXT);
        return score_text(items, e, &item, &condition, &text);
    }
    text = items_table_value(table, ROLE_GOOD);
    txl_status status = score_text(items, e, &item, &good, &text);
    text = items_table_value(table, ROLE_BAD);
    return status ? status : score_text(items, e, &item, &bad, &text);
}

static txl_status score_records(struct items *items, struct evaluation *e) {
    struct input *input = &items->table.input;
    txl_status status = TXL_OK;
    while (!status && items_table_next(&items->table)) {
        status = score_record(items, e);
        progress_update(e->progress, input_fraction(input, input->read), e->tokens);
    }
    if (!status && input->failed)
        status = TXL_IO;
    if (!status && signals_stopped())
        status = TXL_STOPPED;
    return status;
}

txl_status items_evaluate(struct items *items, struct evaluation *e, struct result *result) {
    double start = terminal_seconds();
    struct input *input = &items->table.input;
    txl_status status = TXL_MEMORY;
    *result = (struct result){.file = items->path};
    if (evaluation_begin(e, input)) {
        status = score_records(items, e);
        if (!status)
            token_reader_end(&e->reader);
        evaluation_end(e, result);
    }
    bool good = !status || status == TXL_STOPPED;
    if (good && items->preference.on && !preference_end(&items->preference, !status))
        status = TXL_IO;
    if (!status && result->score.predicted == 0) {
        terminal_error("%s: no text has a token to score", input->name);
        status = TXL_TEXT;
    }
    result->file = items->path;
    result->seconds = terminal_seconds() - start;
    result->word_correction = items->correction;
    return status;
}

uint64_t items_left_out(const struct items *items) {
    return items->table.wrong + items->wrong + items->preference.left_out;
}

bool items_to_json(json_t *object, const struct items *items) {
    return output_json_append(
        object,
        json_pack("{s:{s:I, s:I, s:o}}", "items", "texts", (json_int_t)items->texts, "left_out",
                  (json_int_t)(items->table.wrong + items->wrong), "preference",
                  items->preference.on ? preference_to_json(&items->preference) : json_null()));
}

bool items_print(const struct items *items) {
    return !items->preference.on ||
           (preference_print(&items->preference, items->table.input.name) && output_flush());
}
