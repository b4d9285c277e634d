/* Builds the table of the bytes that tokens write. */
#include "token_bytes.h"

#include "kind.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/white_space.h"
#include "sentencepiece.h"

#include <stdlib.h>

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
    table->use[id] = length == 0                                     ? TOKEN_UNUSED
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
