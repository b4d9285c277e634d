/* Text or decimal ids to tokens. */
#include "tokens.h"

#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <stdio.h>

/* Bytes between two looks at the progress and at Ctrl-C. */
enum { READ_BYTES = 1 << 16, FEED_BYTES = 512 };

/* ---- How a text is split ------------------------------------------------------------------ */

const char *const text_forms[] = {"raw", "tokens", NULL};

static bool is_words(txl_kind kind) {
    return txl_kind_unit(kind) == TXL_UNIT_WORD;
}

const char *text_form(const txl_model *model, int form, bool ids) {
    return ids ? "ids" : is_words(txl_model_kind(model)) ? text_forms[form] : "-";
}

bool text_form_choose(txl_kind kind, int asked, int standard, int *form) {
    *form = asked == CHOICE_UNSET ? standard : asked;
    if (asked == CHOICE_UNSET || is_words(kind))
        return true;
    return terminal_error(
        "--text %s is for models of words; this model's text is split in one way only",
        text_forms[asked]);
}

/* ---- Decimal ids -------------------------------------------------------------------------- */

static txl_status bad_id(const struct id_parser *ids, const char *what, txl_error *error) {
    return txl_fail(error, TXL_TEXT, "line %" PRIu64 ", column %" PRIu64 ": %s", ids->line,
                    ids->start, what);
}

static struct id_parser start_of_ids(const txl_model *model) {
    return (struct id_parser){.model = model, .line = 1, .column = 1, .number = -1};
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
    if (!status) {
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
    } else if (is_space_byte(c)) {
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
    for (size_t i = 0; i < length && !status; i++)
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
                       const struct input_form *form) {
    bool bytes = txl_kind_takes_bytes(txl_model_kind(model)) && !ids;
    return input_open_text(input, path, bytes, form);
}

bool tokens_allow_unwrap(txl_kind kind, const struct common_options *common) {
    bool good = !common->unwrap || !txl_kind_takes_bytes(kind);
    if (!good)
        terminal_error("--unwrap joins lines, but this model reads bytes");
    return good;
}

void tokens_unwrap(struct input *input, txl_kind kind, bool unwrap) {
    if (txl_kind_takes_bytes(kind))
        return;
    const struct wrap wrap = input_wrap(input);
    if (unwrap)
        input->wrap = wrap.width;
    if (unwrap && wrap.doubtful)
        terminal_note("%s: --unwrap joins few of its lines: by the longest one, line %" PRIu64
                      ", they are wrapped at %u columns",
                      input->name, wrap.line, wrap.width);
    else if (unwrap && wrap.unbroken && txl_kind_line_end(kind) != TXL_LINE_END_SPACE)
        terminal_note("%s: many of its lines are wider than %d columns, so they look unwrapped; "
                      "--unwrap joins each with the next",
                      input->name, WRAP_MOST);
    if (!unwrap && wrap.seen && txl_kind_line_end(kind) != TXL_LINE_END_SPACE)
        terminal_note("%s: its lines look wrapped at %u columns; --unwrap joins those of a "
                      "paragraph",
                      input->name, wrap.width);
}

bool tokens_open_text(struct input *input, const char *path, const txl_model *model, bool ids,
                      const struct common_options *common) {
    if (!tokens_open_input(input, path, model, ids, &common->form))
        return false;
    if (!ids)
        tokens_unwrap(input, txl_model_kind(model), common->unwrap);
    return true;
}

static txl_status take_text(void *context, const char *text, size_t length, txl_error *error) {
    struct token_reader *reader = context;
    if (reader->blanks)
        blanks_see(reader->blanks, text, length);
    return txl_encoder_feed(reader->encoder, text, length, error);
}

static txl_status take_join(void *context, unsigned bytes, txl_error *error) {
    struct token_reader *reader = context;
    if (reader->blanks)
        blanks_join(reader->blanks);
    return txl_encoder_join(reader->encoder, bytes, error);
}

bool token_reader_open(struct token_reader *reader, const txl_model *model, struct input *input,
                       const struct txl_encoding *encoding, bool ids) {
    *reader =
        (struct token_reader){.input = input,
                              .encoding = *encoding,
                              .takes_bytes = ids || txl_kind_takes_bytes(txl_model_kind(model)),
                              .ids = start_of_ids(model)};
    txl_error error;
    if (!ids && txl_encoder_new(model, encoding, &reader->encoder, &error))
        return terminal_error("%s", error.message);
    reader->unwrapper =
        (struct unwrapper){.width = input->wrap, .text = take_text, .join = take_join};
    return true;
}

static txl_status reader_report(const struct token_reader *reader, txl_status status,
                                const txl_error *error) {
    if (status == TXL_TEXT && reader->problem)
        snprintf(reader->problem, reader->n_problem, "%s", error->message);
    else if (status && status != TXL_STOPPED)
        terminal_error("%s: %s%s", reader->input->name, reader->where ? reader->where : "",
                       error->message);
    return status;
}

static txl_status pass_on(struct token_reader *reader, const char *text, size_t length,
                          txl_error *error) {
    return reader->encoder ? txl_encoder_feed(reader->encoder, text, length, error)
                           : feed_ids(reader, text, length, error);
}

/* Passes on the text itself, whose lines may be joined. */
static txl_status pass_lines(struct token_reader *reader, const char *text, size_t length,
                             txl_error *error) {
    reader->unwrapper.context = reader;
    return reader->encoder ? unwrap_feed(&reader->unwrapper, text, length, error)
                           : feed_ids(reader, text, length, error);
}

/* Passes on what is before the text, and the text's begin. */
static txl_status begin_text(struct token_reader *reader, txl_error *error) {
    reader->mark = reader->takes_bytes ? 0 : byte_order_mark_length(reader->first, reader->n_first);
    const char *first = reader->first + reader->mark;
    size_t n = reader->n_first - (size_t)reader->mark;
    bool parted =
        n == 0 || space_length(first, n) > 0 || space_at_end(reader->before, reader->n_before) > 0;
    reader->begun = true;
    reader->prefix = reader->n_before + !parted;
    if (reader->blanks && reader->before[reader->n_before - 1] != '\n')
        blanks_go_on(reader->blanks);
    txl_status status = pass_on(reader, reader->before, reader->n_before, error);
    if (!status && !parted)
        status = pass_on(reader, " ", 1, error);
    return status ? status : pass_lines(reader, first, n, error);
}

/* Passes on the text, after what is before it. */
static txl_status pass_text(struct token_reader *reader, const char *text, size_t length,
                            txl_error *error) {
    txl_status status = TXL_OK;
    if (reader->n_before > 0 && !reader->begun) {
        while (length > 0 && reader->n_first < sizeof reader->first) {
            reader->first[reader->n_first++] = *text++;
            length--;
        }
        if (reader->n_first < sizeof reader->first)
            return TXL_OK;
        status = begin_text(reader, error);
    }
    return status ? status : pass_lines(reader, text, length, error);
}

txl_status token_reader_feed(struct token_reader *reader, const char *text, size_t length) {
    txl_error error = {0};
    reader->fed += length;
    txl_status status = TXL_OK;
    if (reader->see_text)
        status = reader->see_text(reader->encoding.context, text, length, &error);
    if (!status)
        status = pass_text(reader, text, length, &error);
    return reader_report(reader, status, &error);
}

txl_status token_reader_next_text(struct token_reader *reader, unsigned width) {
    txl_error error = {0};
    reader->unwrapper.context = reader;
    return reader_report(reader, unwrap_finish(&reader->unwrapper, width, &error), &error);
}

static txl_status finish_text(struct token_reader *reader) {
    txl_error error = {0};
    txl_status status = TXL_OK;
    if (reader->n_before > 0 && !reader->begun)
        status = begin_text(reader, &error);
    reader->unwrapper.context = reader;
    if (!status && reader->encoder)
        status = unwrap_finish(&reader->unwrapper, reader->unwrapper.width, &error);
    if (!status)
        status = reader->encoder ? txl_encoder_finish(reader->encoder, &error)
                                 : finish_ids(reader, &error);
    return reader_report(reader, status, &error);
}

void token_reader_end(struct token_reader *reader) {
    txl_encoded counts;
    reader->ended = true;
    token_reader_counts(reader, &counts);
    if (counts.invalid > 0)
        terminal_note("%s: %" PRIu64 " invalid UTF-8 sequence%s read as U+FFFD",
                      reader->input->name, counts.invalid, counts.invalid == 1 ? " was" : "s were");
}

txl_status token_reader_finish(struct token_reader *reader) {
    txl_status status = finish_text(reader);
    if (!status)
        token_reader_end(reader);
    return status;
}

txl_status token_reader_end_text(struct token_reader *reader) {
    txl_status status = finish_text(reader);
    reader->ids = start_of_ids(reader->ids.model);
    reader->begun = false;
    reader->n_first = 0;
    reader->prefix = reader->mark = 0;
    return status;
}

txl_status token_reader_run(struct token_reader *reader, void (*progress)(void *), void *context) {
    char buffer[READ_BYTES];
    txl_status status = TXL_OK;
    ssize_t n;
    while (!status && (n = input_read(reader->input, buffer, sizeof buffer)) != 0) {
        if (n < 0)
            return TXL_IO;
        for (size_t i = 0; !status && i < (size_t)n; i += FEED_BYTES) {
            size_t left = (size_t)n - i;
            status = token_reader_feed(reader, buffer + i, left < FEED_BYTES ? left : FEED_BYTES);
            if (progress)
                progress(context);
            if (!status && signals_stopped())
                status = TXL_STOPPED;
        }
    }
    if (!status && signals_stopped())
        return TXL_STOPPED;
    return status ? status : token_reader_finish(reader);
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
