/* Opens, feeds and closes all tables together. */
#include "tables.h"

#include "lib/base/byte_order_mark.h"

#include <string.h>

bool tables_open(struct tables *tables, const struct tables_options *options,
                 const txl_model *model, const struct comparison *comparison) {
    *tables =
        (struct tables){.has_marks = !options->ids && !txl_kind_takes_bytes(txl_model_kind(model))};
    return (!options->per_token ||
            token_rows_open(&tables->tokens, options->per_token, model, comparison, options->n_top,
                            options->ids, options->own)) &&
           (!options->per_word ||
            word_rows_open(&tables->words, options->per_word, model, options->previous,
                           options->entropy, options->own)) &&
           (!options->regions ||
            region_rows_open(&tables->regions, options->per_region, model, options->own)) &&
           (!options->per_line || line_rows_open(&tables->lines, options->objects));
}

bool tables_commit(struct tables *tables) {
    bool good = table_commit(&tables->lines.table);
    good = table_commit(&tables->tokens.table) && good;
    good = table_commit(&tables->regions.table) && good;
    return table_commit(&tables->words.table) && good;
}

void tables_close(struct tables *tables) {
    token_rows_close(&tables->tokens);
    word_rows_close(&tables->words);
    table_abandon(&tables->regions.table);
    table_abandon(&tables->lines.table);
}

bool tables_any(const struct tables *tables) {
    return tables->shows_source || tables->tokens.table.file.stream ||
           tables->words.table.file.stream || tables->lines.table.file.stream;
}

bool tables_start_text(struct tables *tables, const char *file, const struct input *input) {
    if (!tables_any(tables))
        return true;
    if (!source_open(&tables->source, input))
        return false;
    struct table *const all[] = {&tables->tokens.table, &tables->words.table, &tables->lines.table};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->file.stream)
            table_mark(all[i]);
    tables->tokens.file = tables->lines.file = file;
    tables->tokens.source = tables->lines.source = &tables->source;
    word_rows_start(&tables->words, file, &tables->source, 0);
    return true;
}

txl_status tables_finish_text(struct tables *tables, bool cut, txl_error *error) {
    *error = (txl_error){TXL_STOPPED, ""};
    return tables->words.table.file.stream ? word_rows_end(&tables->words, cut, error) : TXL_OK;
}

void tables_end_text(struct tables *tables, bool good) {
    struct table *const all[] = {&tables->tokens.table, &tables->words.table, &tables->lines.table};
    for (size_t i = 0; !good && i < sizeof all / sizeof *all; i++)
        if (all[i]->file.stream)
            table_take_back(all[i]);
    source_close(&tables->source);
}

void tables_start_record(struct tables *tables, const char *file, uint64_t line,
                         struct regions *text) {
    source_of_text(&tables->source, text->text.data ? text->text.data : "", text->text.length);
    tables->tokens.file = file;
    tables->tokens.source = &tables->source;
    word_rows_start(&tables->words, file, &tables->source, line);
    region_rows_start(&tables->regions, text);
}

txl_status tables_end_record(struct tables *tables, txl_error *error) {
    *error = (txl_error){TXL_STOPPED, ""};
    txl_status status = TXL_OK;
    if (tables->words.table.file.stream)
        status = word_rows_end(&tables->words, false, error);
    return status ? status : region_rows_end(&tables->regions);
}

txl_status tables_see(struct tables *tables, const char *text, size_t length, txl_error *error) {
    return tables_any(tables) ? source_see(&tables->source, text, length, error) : TXL_OK;
}

/* Whether the text has these bytes at `offset`. */
static txl_status match_bytes(struct source *source, uint64_t offset, const char *what, bool *is,
                              txl_error *error) {
    size_t n = strlen(what);
    *is = true;
    for (size_t i = 0; i < n && *is; i++) {
        const char *byte;
        size_t got;
        txl_status status = source_get(source, offset + i, 1, &byte, &got, error);
        if (status)
            return status;
        *is = got == 1 && *byte == what[i];
    }
    return TXL_OK;
}

txl_status tables_line(struct tables *tables, struct place *line, uint64_t end,
                       const struct score *score, txl_error *error) {
    bool carriage = false, feed = false;
    bool mark = false;
    txl_status status = TXL_OK;
    if (line->offset == 0 && tables->has_marks)
        status = match_bytes(&tables->source, 0, BYTE_ORDER_MARK, &mark, error);
    line->offset += mark ? BYTE_ORDER_MARK_BYTES : 0;
    line->bytes = end > line->offset ? end - line->offset : 0;
    if (!status && tables->words.table.file.stream)
        status = word_rows_end(&tables->words, false, error);
    if (!status && tables->lines.table.file.stream)
        status = line_rows_line(&tables->lines, line, score, error);
    if (!status)
        status = match_bytes(&tables->source, end, "\r\n", &carriage, error);
    if (!status)
        status = match_bytes(&tables->source, end, "\n", &feed, error);
    line->line++;
    line->offset = end + (carriage ? 2 : feed ? 1 : 0);
    return status;
}
