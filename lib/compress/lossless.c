/* Texts as tokens and literals.  The encoder's symbols are a proposal: a symbol is taken where its
 * bytes stand in the text.  So the elements write the text, whatever the encoder did. */
#include "lossless.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/white_space.h"
#include "lib/text/kind.h"
#include "lib/text/sentencepiece.h"

#include <stdlib.h>

static void add_literals(struct lossless *lossless, size_t end) {
    while (lossless->at < end) {
        const unsigned char byte = (unsigned char)lossless->text[lossless->at++];
        lossless->loose = loose_behind(lossless->loose, byte);
        lossless->elements[lossless->n++] = literal_of(byte);
    }
}

/* Takes a token that ends at `end` or before, if its bytes come next. */
static bool take_token(struct lossless *lossless, const txl_symbol *symbol, size_t end) {
    size_t n;
    const char *bytes = token_bytes_at(lossless->table, lossless->loose, symbol->id, &n),
               *text = lossless->text + lossless->at;
    const size_t room = end - lossless->at;
    if (!bytes || n > room || (n < room && lossless->at < symbol->offset) ||
        memcmp(bytes, text, n) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        lossless->loose = loose_behind(lossless->loose, (unsigned char)text[i]);
    lossless->at += n;
    lossless->elements[lossless->n++] = symbol->id;
    return true;
}

/* What comes before a symbol, and blanks that its token does not write, are literals.  So is the
 * whole symbol if it is not what the text has. */
static txl_status take_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct lossless *lossless = context;
    const uint64_t behind = symbol->offset + symbol->bytes;
    const size_t end = behind < lossless->size ? (size_t)behind : lossless->size;
    (void)error;
    if (symbol->id < 0)
        return TXL_OK;
    while (lossless->at < end && !take_token(lossless, symbol, end)) {
        bool alone = lossless->at < symbol->offset || is_space_byte(lossless->text[lossless->at]);
        add_literals(lossless, alone ? lossless->at + 1 : end);
    }
    return TXL_OK;
}

txl_status lossless_open(struct lossless *lossless, const struct vocabulary *vocabulary,
                         const struct token_bytes *table, txl_error *error) {
    *lossless = (struct lossless){.table = table};
    const txl_encoding encoding = {
        .lookup = true, .skip_unknown = true, .symbol = take_symbol, .context = lossless};
    return encoder_new(vocabulary, &encoding, &lossless->encoder, error);
}

void lossless_close(struct lossless *lossless) {
    txl_encoder_free(lossless->encoder);
    lossless->encoder = NULL;
}

txl_status lossless_parse(struct lossless *lossless, const char *text, size_t size,
                          int32_t *elements, size_t *n, txl_error *error) {
    lossless->text = text;
    lossless->size = size;
    lossless->at = lossless->n = 0;
    lossless->loose = true;
    lossless->elements = elements;
    txl_status status = txl_encoder_feed(lossless->encoder, text, size, error);
    if (!status)
        status = txl_encoder_finish(lossless->encoder, error);
    add_literals(lossless, size);
    *n = lossless->n;
    return status;
}

/* Builds the table of the bytes that tokens write. */

/* Adds a piece with its word marks as blanks. */
static bool add_piece(struct buffer *text, const char *spelling, size_t length) {
    bool good = true;
    for (size_t i = 0; i < length && good;) {
        bool mark = begins_with_word_mark(spelling + i, length - i);
        good = buffer_append(text, mark ? " " : spelling + i, 1);
        i += mark ? WORD_MARK_BYTES : 1;
    }
    return good;
}

static bool add_spelling(struct buffer *text, const struct vocabulary *vocabulary, int32_t id) {
    size_t length;
    const char *spelling = vocabulary_symbol(vocabulary, id, &length);
    if (vocabulary->pieces) {
        const unsigned char type = vocabulary->pieces->types[id];
        const char byte = (char)sentencepiece_byte(spelling, length);
        return type == PIECE_BYTE ? buffer_append(text, &byte, 1)
               : type == PIECE_NORMAL || type == PIECE_USER_DEFINED
                   ? add_piece(text, spelling, length)
                   : true;
    }
    if (vocabulary->takes_bytes) {
        const int byte = vocabulary_byte(spelling, length);
        const char value = (char)byte;
        return byte < 0 || buffer_append(text, &value, 1);
    }
    if (vocabulary->kind == TXL_TEXT8 && length == 1 && *spelling == '_')
        return buffer_append(text, " ", 1);
    bool joins = text_kind(vocabulary->kind)->unit == TXL_UNIT_WORD && length > 0;
    return (!joins || buffer_append(text, " ", 1)) && buffer_append(text, spelling, length);
}

/* Whether a piece's first blank joins it to the text before depends on the SentencePiece model. */
static bool joins(const struct vocabulary *vocabulary, const char *bytes, size_t length) {
    const unsigned marks = PIECES_DUMMY_PREFIX | PIECES_REMOVE_SPACES;
    bool may = vocabulary->pieces ? vocabulary->pieces->flags & marks
                                  : text_kind(vocabulary->kind)->unit == TXL_UNIT_WORD;
    return may && length > 1 && *bytes == ' ';
}

static bool add_token(struct token_bytes *table, struct buffer *text,
                      const struct vocabulary *vocabulary, int32_t id) {
    const size_t start = text->length;
    bool good = id == vocabulary->eos   ? buffer_append(text, "\n", 1)
                : id == vocabulary->unk ? true
                                        : add_spelling(text, vocabulary, id);
    const size_t length = text->length - start;
    table->end[id] = (uint32_t)text->length;
    const bool byte = vocabulary->pieces && vocabulary->pieces->types[id] == PIECE_BYTE;
    table->use[id] = length == 0                                     ? TOKEN_UNUSED
                     : byte                                          ? TOKEN_BYTE
                     : joins(vocabulary, text->data + start, length) ? TOKEN_JOINED
                                                                     : TOKEN_USED;
    return good && text->length <= UINT32_MAX;
}

txl_status token_bytes_open(struct token_bytes *table, const struct vocabulary *vocabulary,
                            txl_error *error) {
    const size_t n = (size_t)vocabulary->n;
    struct buffer text = {0};
    *table = (struct token_bytes){.n = vocabulary->n};
    table->end = calloc(n, sizeof *table->end);
    table->use = calloc(n, sizeof *table->use);
    bool good = table->end && table->use;
    for (int32_t id = 0; id < table->n && good; id++)
        good = add_token(table, &text, vocabulary, id);
    table->text = text.data;
    if (good)
        return TXL_OK;
    token_bytes_close(table);
    return txl_fail_memory(error, "the bytes of symbols", n * 5 + text.length);
}

void token_bytes_close(struct token_bytes *table) {
    free(table->text);
    free(table->end);
    free(table->use);
    *table = (struct token_bytes){0};
}

const char *token_bytes_at(const struct token_bytes *table, bool loose, int32_t id,
                           size_t *length) {
    if (table->use[id] == TOKEN_UNUSED)
        return NULL;
    const uint32_t start = id > 0 ? table->end[id - 1] : 0;
    const uint32_t without = loose && table->use[id] == TOKEN_JOINED;
    *length = table->end[id] - start - without;
    return table->text + start + without;
}
