/* Writes rows of tokens or lines. */
#include "score_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool rows_open_lines(struct rows *rows, const char *path, bool on_stdout) {
    static const char header[] = "line\ttokens\tnats\n";
    *rows = (struct rows){.on_stdout = !path && on_stdout};
    if (rows->on_stdout)
        output_write(header, strlen(header));
    if (!path)
        return true;
    if (!outfile_open(&rows->file, path))
        return false;
    fputs(header, rows->file.stream);
    return true;
}

bool rows_open_tokens(struct rows *rows, const char *path, const txl_model *model,
                      const struct comparison *comparison) {
    *rows = (struct rows){.model = model, .comparison = comparison};
    if (!outfile_open(&rows->file, path))
        return false;
    fputs("index\tid\ttoken\tnats", rows->file.stream);
    fputs(comparison ? "\tnats_other\tkl\n" : "\n", rows->file.stream);
    return true;
}

bool rows_commit(struct rows *rows) {
    return !rows->file.stream || outfile_commit(&rows->file);
}

void rows_abandon(struct rows *rows) {
    outfile_abandon(&rows->file);
}

/* A symbol in a table: what would break the table is written as in C. */
static void print_escaped(FILE *stream, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        switch (text[i]) {
        case '\t':
            fputs("\\t", stream);
            break;
        case '\n':
            fputs("\\n", stream);
            break;
        case '\r':
            fputs("\\r", stream);
            break;
        case '\\':
            fputs("\\\\", stream);
            break;
        default:
            fputc(text[i], stream);
        }
    }
}

txl_status rows_token(void *context, const struct scored *token, txl_error *error) {
    (void)error; /* outfile_usable prints it */
    struct rows *rows = context;
    FILE *stream = rows->file.stream;
    size_t length = 0;
    const char *symbol = txl_model_symbol(rows->model, token->id, &length);
    fprintf(stream, "%" PRIu64 "\t%" PRId32 "\t", token->index, token->id);
    print_escaped(stream, symbol, length);
    fprintf(stream, "\t%.9g", (double)token->nats[0]);
    if (rows->comparison)
        fprintf(stream, "\t%.9g\t%.9g", (double)token->nats[1], rows->comparison->last_divergence);
    fputc('\n', stream);
    return outfile_usable(&rows->file) ? TXL_OK : TXL_STOPPED;
}

txl_status rows_line(struct rows *rows, uint64_t line, const struct score *score) {
    char row[128];
    int length = snprintf(row, sizeof row, "%" PRIu64 "\t%" PRIu64 "\t%.9g\n", line,
                          score->predicted, score->nats);
    bool good = true;
    if (rows->file.stream) {
        fputs(row, rows->file.stream);
        good = outfile_usable(&rows->file);
    } else if (rows->on_stdout) {
        good = output_write(row, (size_t)length);
    }
    return good ? TXL_OK : TXL_STOPPED;
}
