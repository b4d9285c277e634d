/* Opens, feeds and closes all tables together. */
#include "tables.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <string.h>

bool tables_open(struct tables *tables, const struct table_options *options,
                 const struct own_columns *own, const txl_model *model,
                 const struct comparison *comparison) {
    *tables =
        (struct tables){.has_marks = !options->ids && !txl_kind_takes_bytes(txl_model_kind(model))};
    return (!options->tokens ||
            token_rows_open(&tables->tokens, options, own, model, comparison)) &&
           (!options->words || word_rows_open(&tables->words, options, own, model)) &&
           (!(options->regions || options->sums_regions) ||
            region_rows_open(&tables->regions, options, own, model)) &&
           (!options->lines ||
            table_open(&tables->lines, "-", "file line tokens nats bits text unknown", NULL,
                       options->objects ? TABLE_OBJECTS : TABLE_TABS));
}

void tables_files(struct tables *tables, struct outfile *files[TABLES_FILES]) {
    struct table *const all[TABLES_FILES] = {&tables->lines, &tables->tokens.table,
                                             &tables->regions.table, &tables->words.table};
    for (size_t i = 0; i < TABLES_FILES; i++)
        files[i] = &all[i]->file;
}

void tables_close(struct tables *tables) {
    token_rows_close(&tables->tokens);
    word_rows_close(&tables->words);
    region_rows_close(&tables->regions);
    table_abandon(&tables->lines);
}

bool tables_any(const struct tables *tables) {
    return tables->shows_source || tables->levels || tables->tokens.table.file.stream ||
           tables->words.table.file.stream || tables->lines.file.stream;
}

bool tables_start_text(struct tables *tables, const char *file, const struct input *input) {
    if (!tables_any(tables))
        return true;
    if (!source_open(&tables->source, input))
        return false;
    table_mark(&tables->tokens.table);
    table_mark(&tables->words.table);
    table_mark(&tables->lines);
    tables->tokens.file = tables->file = file;
    tables->tokens.source = &tables->source;
    word_rows_start(&tables->words, file, &tables->source, 0);
    return !tables->levels || !levels_start(tables->levels, &tables->source, NULL, false, 0);
}

txl_status tables_finish_text(struct tables *tables, bool cut, txl_error *error) {
    *error = (txl_error){TXL_STOPPED, ""};
    txl_status status = word_rows_end(&tables->words, cut, error);
    return status || !tables->levels ? status : levels_end(tables->levels, cut, error);
}

void tables_end_text(struct tables *tables, bool good) {
    if (!good) {
        table_take_back(&tables->tokens.table);
        table_take_back(&tables->words.table);
        table_take_back(&tables->lines);
    }
    source_close(&tables->source);
}

txl_status tables_start_record(struct tables *tables, const char *file, uint64_t line,
                               struct regions *text) {
    source_of_text(&tables->source, text->text.data ? text->text.data : "", text->text.length);
    tables->tokens.file = file;
    tables->tokens.source = &tables->source;
    word_rows_start(&tables->words, file, &tables->source, line);
    region_rows_start(&tables->regions, file, text);
    txl_status status =
        tables->levels ? levels_start(tables->levels, &tables->source, text, tables->parted, line)
                       : table_hold(&tables->tokens.table, tables->tokens.own);
    if (!status)
        status = table_hold(&tables->words.table, tables->words.own);
    return status ? status : table_hold(&tables->regions.table, tables->regions.own);
}

txl_status tables_end_record(struct tables *tables, bool cut, txl_error *error) {
    *error = (txl_error){TXL_STOPPED, ""};
    txl_status status = word_rows_end(&tables->words, cut, error);
    if (!status && tables->levels)
        status = levels_end(tables->levels, cut, error);
    if (!status)
        status = region_rows_end(&tables->regions);
    if (!status)
        status = table_repeat(&tables->tokens.table, tables->tokens.own);
    if (!status)
        status = table_repeat(&tables->words.table, tables->words.own);
    return status ? status : table_repeat(&tables->regions.table, tables->regions.own);
}

txl_status tables_see(struct tables *tables, const char *text, size_t length, txl_error *error) {
    return tables_any(tables) ? source_see(&tables->source, text, length, error) : TXL_OK;
}

/* Whether the text has these bytes at `offset`. */
static txl_status match_bytes(struct source *source, uint64_t offset, const char *what, bool *is,
                              txl_error *error) {
    char bytes[BYTE_ORDER_MARK_BYTES];
    size_t length = strlen(what), n;
    txl_status status = source_copy(source, offset, length, bytes, &n, error);
    *is = !status && n == length && memcmp(bytes, what, n) == 0;
    return status;
}

/* Writes the row of a line, which does not have its line end. */
static txl_status put_line(struct tables *tables, const struct place *line,
                           const struct score *score, txl_error *error) {
    struct table *table = &tables->lines;
    table_text(table, tables->file, strlen(tables->file));
    table_integer(table, line->line);
    table_integer(table, score->predicted);
    table_nats(table, score->nats);
    txl_status status = table_source(table, &tables->source, line->offset, line->bytes, error);
    if (status)
        return status;
    table_integer(table, score->predicted - score->known.predicted);
    return table_end_row(table);
}

txl_status tables_line(struct tables *tables, struct place *line, uint64_t end,
                       const struct score *score, txl_error *error) {
    bool carriage = false, feed = false, mark = false;
    txl_status status = TXL_OK;
    if (line->offset == 0 && tables->has_marks)
        status = match_bytes(&tables->source, 0, BYTE_ORDER_MARK, &mark, error);
    line->offset += mark ? BYTE_ORDER_MARK_BYTES : 0;
    line->bytes = end > line->offset ? end - line->offset : 0;
    if (!status)
        status = word_rows_end(&tables->words, false, error);
    if (!status && tables->lines.file.stream)
        status = put_line(tables, line, score, error);
    if (!status)
        status = match_bytes(&tables->source, end, "\r\n", &carriage, error);
    if (!status)
        status = match_bytes(&tables->source, end, "\n", &feed, error);
    line->line++;
    line->offset = end + (carriage ? 2 : feed ? 1 : 0);
    return status;
}
