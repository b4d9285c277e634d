/* Writes the table of tokens. */
#include "token_rows.h"
#include "cli/io/terminal.h"
#include "distribution.h"
#include "lib/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "... nats bits", then what the options add; NULL when memory is short. */
static char *column_names(bool comparison, int32_t n_top) {
    char *names;
    size_t size;
    FILE *out = open_memstream(&names, &size);
    if (!out)
        return NULL;
    fputs("file line offset length index id token text nats bits", out);
    fputs(comparison ? " nats_other kl" : "", out);
    fputs(n_top > 0 ? " probability rank entropy" : "", out);
    for (int32_t i = 1; i <= n_top; i++)
        fprintf(out, " top%d top%d_nats", (int)i, (int)i);
    fputs(" *", out);
    if (fclose(out) != 0) {
        free(names);
        return NULL;
    }
    return names;
}

bool token_rows_open(struct token_rows *rows, const struct table_options *options,
                     const struct own_columns *own, const txl_model *model,
                     const struct comparison *comparison) {
    const int32_t n_top = options->n_top;
    txl_error error = {.message = "out of memory"};
    *rows = (struct token_rows){.model = model,
                                .comparison = comparison,
                                .n_top = n_top,
                                .own = own,
                                .top = calloc((size_t)n_top + 1, sizeof *rows->top)};
    char *names = column_names(comparison, n_top);
    bool good = rows->top && names &&
                (!options->ids || !txl_decoder_new(model, false, &rows->decoder, &error));
    if (!good)
        terminal_error("%s", error.message);
    good = good && table_open(&rows->table, options->tokens, names, own, TABLE_TABS);
    free(names);
    return good;
}

void token_rows_close(struct token_rows *rows) {
    table_abandon(&rows->table);
    txl_decoder_free(rows->decoder);
    free(rows->top);
    *rows = (struct token_rows){0};
}

static void put_symbol(struct token_rows *rows, int32_t id) {
    size_t length = 0;
    const char *symbol = txl_model_symbol(rows->model, id, &length);
    table_text(&rows->table, symbol, length);
}

/* The text of the id alone. */
static txl_status put_decoded(struct token_rows *rows, int32_t id, txl_error *error) {
    struct buffer all = {0};
    const char *text;
    size_t length;
    txl_status status = txl_decoder_push(rows->decoder, id, &text, &length, error);
    bool good = !status && buffer_append(&all, text, length);
    if (good)
        status = txl_decoder_finish(rows->decoder, &text, &length, error);
    good = good && !status && buffer_append(&all, text, length);
    if (good)
        table_text(&rows->table, all.data ? all.data : "", all.length);
    else if (!status)
        status = txl_fail(error, TXL_MEMORY, "out of memory");
    buffer_free(&all);
    return status;
}

static void put_alternatives(struct token_rows *rows, const struct scored *token) {
    const float *logprob = token->logprob[0];
    int32_t n = txl_model_n_token(rows->model);
    table_real(&rows->table, exp(-(double)token->nats[0]));
    table_integer(&rows->table, (uint64_t)rank_of(token->id, logprob, n));
    table_real(&rows->table, entropy_of(logprob, n));
    likeliest(logprob, n, rows->top, rows->n_top);
    for (int32_t i = 0; i < rows->n_top; i++) {
        put_symbol(rows, rows->top[i]);
        table_real(&rows->table, fmax(-(double)logprob[rows->top[i]], 0));
    }
}

txl_status token_rows_token(void *context, const struct scored *token, txl_error *error) {
    struct token_rows *rows = context;
    struct table *table = &rows->table;
    const struct place *place = token->place;
    if (token->left_out)
        return TXL_OK;
    table_place(table, rows->file, place->line, place->offset, place->bytes);
    table_integer(table, token->index);
    table_integer(table, (uint64_t)token->id);
    put_symbol(rows, token->id);
    txl_status status = rows->decoder
                            ? put_decoded(rows, token->id, error)
                            : table_source(table, rows->source, place->offset, place->bytes, error);
    if (status)
        return status;
    table_nats(table, (double)token->nats[0]);
    if (rows->comparison) {
        table_real(table, (double)token->nats[1]);
        table_real(table, rows->comparison->last_divergence);
    }
    if (rows->n_top > 0)
        put_alternatives(rows, token);
    table_own(table, rows->own, own_region(rows->own, place->offset));
    return table_end_row(table);
}
