/* Text or decimal ids to tokens. */
#include "tokens.h"

#include "cli/system/signals.h"
#include "cli/system/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bytes between two looks at the progress and at Ctrl-C. */
enum { READ_BYTES = 1 << 16, FEED_BYTES = 512 };

/* ---- Decimal ids -------------------------------------------------------------------------- */

static txl_status bad_id(const struct id_parser *ids, const char *what, txl_error *error) {
    error->status = TXL_TEXT;
    snprintf(error->message, sizeof error->message, "line %" PRIu64 ", column %" PRIu64 ": %s",
             ids->line, ids->start, what);
    return TXL_TEXT;
}

static txl_status end_number(struct token_reader *reader, txl_error *error) {
    struct id_parser *ids = &reader->ids;
    if (ids->number < 0)
        return TXL_OK;
    if (ids->number >= txl_model_n_token(ids->model)) {
        char what[80];
        snprintf(what, sizeof what, "an id from 0 to %" PRId32 " was expected",
                 txl_model_n_token(ids->model) - 1);
        return bad_id(ids, what, error);
    }
    txl_symbol symbol = {.id = (int32_t)ids->number,
                         .line = ids->line,
                         .offset = ids->begin,
                         .bytes = ids->offset - ids->begin};
    symbol.text = txl_model_symbol(ids->model, symbol.id, &symbol.length);
    ids->number = -1;
    return reader->encoding.symbol(reader->encoding.context, &symbol, error);
}

static txl_status end_line(struct token_reader *reader, txl_error *error) {
    txl_status status = end_number(reader, error);
    if (status == TXL_OK) {
        const txl_symbol line_end = {
            .id = -1, .line = reader->ids.line, .offset = reader->ids.offset};
        status = reader->encoding.symbol(reader->encoding.context, &line_end, error);
    }
    reader->ids.line++;
    reader->ids.column = 0;
    return status;
}

static txl_status feed_character(struct token_reader *reader, char c, txl_error *error) {
    struct id_parser *ids = &reader->ids;
    txl_status status = TXL_OK;
    if (c >= '0' && c <= '9') {
        if (ids->number < 0) {
            ids->number = 0;
            ids->start = ids->column;
            ids->begin = ids->offset;
        }
        if (ids->number <= INT32_MAX) /* beyond this every number is wrong */
            ids->number = 10 * ids->number + (c - '0');
    } else if (c == '\n') {
        status = end_line(reader, error);
    } else if (strchr(" \t\r\v\f", c) && c != '\0') {
        status = end_number(reader, error);
    } else {
        ids->start = ids->column;
        return bad_id(ids, "a decimal id was expected", error);
    }
    ids->column++;
    ids->offset++;
    return status;
}

static txl_status feed_ids(struct token_reader *reader, const char *text, size_t length,
                           txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < length && status == TXL_OK; i++)
        status = feed_character(reader, text[i], error);
    return status;
}

/* Ends an unterminated last line of a corpus; a prompt's last line stays open. */
static txl_status finish_ids(struct token_reader *reader, txl_error *error) {
    if (reader->ids.column == 1)
        return TXL_OK;
    return reader->encoding.prompt ? end_number(reader, error) : end_line(reader, error);
}

/* ---- Either ------------------------------------------------------------------------------- */

bool tokens_open_input(struct input *input, const char *path, const txl_model *model, bool ids,
                       bool binary) {
    bool bytes = txl_kind_takes_bytes(txl_model_kind(model)) && !ids;
    return input_open_text(input, path, bytes, binary);
}

bool token_reader_open(struct token_reader *reader, const txl_model *model, struct input *input,
                       const struct txl_encoding *encoding, bool ids) {
    *reader = (struct token_reader){.input = input,
                                    .encoding = *encoding,
                                    .ids = {.model = model, .line = 1, .column = 1, .number = -1}};
    txl_error error;
    if (!ids && txl_encoder_new(model, encoding, &reader->encoder, &error) != TXL_OK) {
        terminal_error("%s", error.message);
        return false;
    }
    return true;
}

static txl_status report(const struct token_reader *reader, txl_status status,
                         const txl_error *error) {
    if (status != TXL_OK && status != TXL_STOPPED)
        terminal_error("%s: %s", reader->input->name, error->message);
    return status;
}

txl_status token_reader_feed(struct token_reader *reader, const char *text, size_t length) {
    txl_error error = {0};
    reader->fed += length;
    txl_status status = TXL_OK;
    if (reader->see_text)
        status = reader->see_text(reader->encoding.context, text, length, &error);
    if (status == TXL_OK) {
        status = reader->encoder ? txl_encoder_feed(reader->encoder, text, length, &error)
                                 : feed_ids(reader, text, length, &error);
    }
    return report(reader, status, &error);
}

txl_status token_reader_finish(struct token_reader *reader) {
    txl_error error = {0};
    txl_status status =
        reader->encoder ? txl_encoder_finish(reader->encoder, &error) : finish_ids(reader, &error);
    reader->ended = status == TXL_OK;
    txl_encoded counts;
    token_reader_counts(reader, &counts);
    if (status == TXL_OK && counts.invalid > 0)
        terminal_note("%s: %" PRIu64 " invalid UTF-8 sequence%s read as U+FFFD",
                      reader->input->name, counts.invalid, counts.invalid == 1 ? " was" : "s were");
    return report(reader, status, &error);
}

txl_status token_reader_run(struct token_reader *reader, void (*progress)(void *), void *context) {
    char buffer[READ_BYTES];
    txl_status status = TXL_OK;
    ssize_t n;
    while (status == TXL_OK && (n = input_read(reader->input, buffer, sizeof buffer)) != 0) {
        if (n < 0)
            return TXL_IO;
        for (size_t i = 0; status == TXL_OK && i < (size_t)n; i += FEED_BYTES) {
            size_t left = (size_t)n - i;
            status = token_reader_feed(reader, buffer + i, left < FEED_BYTES ? left : FEED_BYTES);
            if (progress)
                progress(context);
            if (status == TXL_OK && signals_stopped())
                status = TXL_STOPPED;
        }
    }
    if (status == TXL_OK && signals_stopped())
        return TXL_STOPPED;
    return status == TXL_OK ? token_reader_finish(reader) : status;
}

void token_reader_counts(const struct token_reader *reader, txl_encoded *counts) {
    *counts = (txl_encoded){0};
    if (reader->encoder)
        txl_encoder_counts(reader->encoder, counts);
}

void token_reader_close(struct token_reader *reader) {
    txl_encoder_free(reader->encoder);
    reader->encoder = NULL;
}
