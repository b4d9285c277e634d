/* Sums tokens over words. */
#include "word_rows.h"
#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The table ---------------------------------------------------------------------------- */

/* The first piece of a word carries the space before it. */
bool tables_correct(const txl_model *model, const struct table_options *options) {
    return options->previous && model_unit(model) == TXL_UNIT_PIECE;
}

bool word_rows_open(struct word_rows *rows, const struct table_options *options,
                    const struct own_columns *own, const txl_model *model) {
    /* Kinds with words have no token for the space, so it makes no difference which word it counts
     * towards. */
    *rows = (struct word_rows){.model = model,
                               .has_marks = !txl_kind_takes_bytes(txl_model_kind(model)),
                               .previous = options->previous && model_unit(model) != TXL_UNIT_WORD,
                               .entropy = options->entropy,
                               .own = own};
    if (tables_correct(model, options) && !(rows->begins = words_boundaries(model)))
        return terminal_error("out of memory");
    return table_open(&rows->table, options->words,
                      options->entropy
                          ? "file line offset length word tokens nats bits entropy reduction "
                            "unknown *"
                          : "file line offset length word tokens nats bits unknown *",
                      own, TABLE_TABS);
}

void word_rows_close(struct word_rows *rows) {
    table_abandon(&rows->table);
    free(rows->begins);
    *rows = (struct word_rows){0};
}

void word_rows_start(struct word_rows *rows, const char *file, struct source *source,
                     uint64_t record) {
    rows->file = file;
    rows->source = source;
    rows->word = rows->space = rows->closing = (struct word){0};
    rows->in_word = rows->boundary = rows->reading_word = false;
    rows->at = rows->word_begin = rows->word_end = 0;
    rows->record = record;
    rows->line = rows->word_line = record > 0 ? record : 1;
    rows->next = 0;
    rows->correction = 0;
}

/* ---- The source --------------------------------------------------------------------------- */

/* Whether the tokens being summed belong to the last word of the source so far. */
static bool is_at_hand(const struct word_rows *rows) {
    return rows->in_word && rows->word.place.offset == rows->word_begin;
}

/* Moves on by one character or byte; `*n` becomes 0 at the end of the text. */
static txl_status step_on(struct word_rows *rows, size_t *n, txl_error *error) {
    char bytes[3];
    txl_status status = source_copy(rows->source, rows->at, sizeof bytes, bytes, n, error);
    if (status || *n == 0)
        return status;
    if (rows->at == 0 && rows->has_marks && byte_order_mark_length(bytes, *n) > 0) {
        rows->at = rows->word_begin = rows->word_end = BYTE_ORDER_MARK_BYTES;
        return TXL_OK;
    }
    size_t space = space_length(bytes, *n);
    if (space == 0 && !rows->reading_word) {
        rows->reading_word = true;
        rows->word_begin = rows->at;
        rows->word_line = rows->line;
    }
    rows->reading_word = space == 0;
    rows->line += bytes[0] == '\n' && rows->record == 0;
    *n = space > 0 ? space : 1;
    rows->at += *n;
    if (rows->reading_word)
        rows->word_end = rows->at;
    if (rows->reading_word && is_at_hand(rows))
        rows->word.place.bytes = rows->word_end - rows->word_begin;
    return TXL_OK;
}

/* Reads on to the first word that a token at `offset` can belong to, if one begins before `end`. */
static txl_status find_word(struct word_rows *rows, uint64_t offset, uint64_t end,
                            txl_error *error) {
    size_t n = 1;
    txl_status status = TXL_OK;
    while (!status && n > 0 && rows->at < end && rows->word_end <= offset)
        status = step_on(rows, &n, error);
    return status;
}

/* Reads to the end of the current word. */
static txl_status finish_word(struct word_rows *rows, txl_error *error) {
    size_t n = 1;
    txl_status status = TXL_OK;
    while (!status && n > 0 && rows->reading_word && is_at_hand(rows))
        status = step_on(rows, &n, error);
    return status;
}

/* ---- Rows --------------------------------------------------------------------------------- */

/* Adds the entropy before the word's first token, and how much of it is left before the next row's
 * first token, `after`. */
static void put_entropy(struct table *table, const struct word *word, const struct moment *after) {
    table_real(table, word->before.entropy);
    if (after)
        table_real(table, word->before.entropy - after->entropy);
    else
        table_unknown(table);
}

/* Writes a word's row, without the word if not all of it was scored.  `next` is the next row's
 * first token, NULL at the end; what is known there counts if it directly follows the word. */
static txl_status write_word(struct word_rows *rows, struct word *word, const struct moment *next,
                             txl_error *error) {
    const struct moment *after = next && next->index == word->last_index + 1 ? next : NULL;
    struct table *table = &rows->table;
    double correction = word->before.begins - (after ? after->begins : 0),
           nats = word->nats + correction;
    uint64_t bytes = word->cut ? 0 : word->place.bytes;
    rows->correction += correction;
    table_place(table, rows->file, word->place.line, word->place.offset, bytes);
    txl_status status = table_source(table, rows->source, word->place.offset, bytes, error);
    if (status)
        return status;
    table_integer(table, word->tokens);
    table_nats(table, nats);
    if (rows->entropy)
        put_entropy(table, word, after);
    table_integer(table, word->unknown);
    table_own(table, rows->own, own_region(rows->own, word->place.offset));
    *word = (struct word){0};
    return table_end_row(table);
}

static void add_token(struct word *word, const struct scored *token, const struct moment *before) {
    if (word->tokens == 0) {
        word->place = (struct place){.line = token->place->line, .offset = token->place->offset};
        word->before = *before;
    }
    word->tokens++;
    word->unknown += token->unknown;
    word->nats += (double)token->nats[0];
    word->last_index = token->index;
    word->end = token->place->offset + token->place->bytes;
}

/* Ends the current word; `next` is the next token, NULL at the end. */
static txl_status end_word(struct word_rows *rows, const struct moment *next, txl_error *error) {
    if (!rows->in_word)
        return TXL_OK;
    rows->in_word = false;
    return write_word(rows, &rows->word, rows->space.tokens > 0 ? &rows->space.before : next,
                      error);
}

/* Ends white space before the first word, if it is a row by itself. */
static txl_status end_boundary(struct word_rows *rows, const struct moment *next,
                               txl_error *error) {
    if (!rows->boundary)
        return TXL_OK;
    rows->boundary = false;
    return write_word(rows, &rows->space, next, error);
}

/* Makes the tokens of `more`, if any, part of the word. */
static void join_word(struct word *word, struct word *more) {
    if (more->tokens == 0)
        return;
    word->tokens += more->tokens;
    word->unknown += more->unknown;
    word->nats += more->nats;
    word->last_index = more->last_index;
    word->end = more->end;
    *more = (struct word){0};
}

/* Adds a token that is only white space. */
static txl_status take_space(struct word_rows *rows, const struct scored *token,
                             const struct moment *before, txl_error *error) {
    bool line_end = token->id == txl_model_eos(rows->model);
    bool movable = !rows->begins || line_end; /* a word mark alone waits for its word */
    if (rows->previous && rows->in_word && movable) {
        /* The line ended, so marks that waited for another word belong to this one. */
        join_word(&rows->word, &rows->space);
        add_token(line_end ? &rows->closing : &rows->word, token, before);
        return TXL_OK;
    }
    txl_status status = movable ? TXL_OK : end_boundary(rows, before, error);
    add_token(&rows->space, token, before);
    rows->boundary = rows->previous && !rows->in_word && movable;
    return status;
}

/* Where the token before this one ends. */
static uint64_t end_before(const struct scored *token) {
    const struct place *place = token->place;
    return place->offset + place->bytes - place->share.bytes;
}

/* Adds the first token of a new word, the last one of the source so far. */
static txl_status begin_word(struct word_rows *rows, const struct scored *token,
                             const struct moment *before, txl_error *error) {
    txl_status status = end_word(rows, before, error);
    if (!status)
        status = end_boundary(rows, before, error);
    /* The token before stands for part of the word too. */
    bool begun = end_before(token) > rows->word_begin;
    rows->word = rows->space;
    rows->space = (struct word){0};
    struct moment first = *before;
    if (begun)
        first.begins = 0;
    add_token(&rows->word, token, &first);
    rows->word.cut = begun;
    rows->word.place = (struct place){.line = rows->word_line,
                                      .offset = rows->word_begin,
                                      .bytes = rows->word_end - rows->word_begin};
    rows->in_word = true;
    return status;
}

/* Reads the current word to its end, and marks it if its last token does not reach that. */
static txl_status cut_word(struct word_rows *rows, txl_error *error) {
    txl_status status = finish_word(rows, error);
    struct word *word = &rows->word;
    word->cut = word->cut || word->end < word->place.offset + word->place.bytes;
    return status;
}

/* The row before a token that is left out ends there, and what is known before that token counts.
 */
static txl_status leave_out(struct word_rows *rows, const struct moment *before, txl_error *error) {
    txl_status status = finish_word(rows, error);
    if (!status)
        status = end_word(rows, before, error);
    if (!status && rows->space.tokens > 0)
        status = write_word(rows, &rows->space, before, error);
    rows->boundary = false;
    return status;
}

static txl_status take_token(struct word_rows *rows, const struct scored *token, txl_error *error) {
    uint64_t offset = token->place->offset, end = offset + token->place->bytes;
    const struct moment before = moment_of(rows->model, rows->begins, rows->entropy, token);
    txl_status status = TXL_OK;
    join_word(&rows->word, &rows->closing); /* the text goes on */
    if (rows->in_word && token->index != rows->next)
        status = cut_word(rows, error);
    if (!status)
        status = find_word(rows, offset, end, error);
    if (status)
        return status;
    if (token->left_out)
        return leave_out(rows, &before, error);
    if (!(rows->word_begin < end && rows->word_end > offset))
        return take_space(rows, token, &before, error);
    if (!is_at_hand(rows))
        return begin_word(rows, token, &before, error);
    add_token(&rows->word, token, &before);
    return TXL_OK;
}

txl_status word_rows_token(void *context, const struct scored *token, txl_error *error) {
    struct word_rows *rows = context;
    txl_status status = take_token(rows, token, error);
    rows->next = token->index + 1;
    return status;
}

txl_status word_rows_end(struct word_rows *rows, bool cut, txl_error *error) {
    if (!rows->table.file.stream)
        return TXL_OK;
    if (cut)
        join_word(&rows->word, &rows->closing);
    const struct moment closing = rows->closing.before;
    txl_status status = cut ? cut_word(rows, error) : finish_word(rows, error);
    if (!status)
        status = end_word(rows, rows->closing.tokens > 0 ? &closing : NULL, error);
    if (!status && rows->closing.tokens > 0)
        status = write_word(rows, &rows->closing, NULL, error);
    if (!status && rows->space.tokens > 0)
        status = write_word(rows, &rows->space, NULL, error);
    rows->boundary = false;
    return status;
}
