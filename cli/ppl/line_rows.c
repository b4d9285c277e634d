/* Writes the table of lines. */
#include "line_rows.h"

#include <string.h>

bool line_rows_open(struct line_rows *rows, bool objects) {
    *rows = (struct line_rows){0};
    return table_open(&rows->table, "-", "file line tokens nats bits text", NULL, objects);
}

txl_status line_rows_line(struct line_rows *rows, const struct place *place,
                          const struct score *score, txl_error *error) {
    struct table *table = &rows->table;
    table_text(table, rows->file, strlen(rows->file));
    table_integer(table, place->line);
    table_integer(table, score->predicted);
    table_nats(table, score->nats);
    txl_status status = table_source(table, rows->source, place->offset, place->bytes, error);
    return status ? status : table_end_row(table);
}
