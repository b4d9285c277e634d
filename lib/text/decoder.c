/* Ids to text: one symbol at a time, each giving what nothing later can change. */
#include "decoder.h"

#include "lib/base/buffer.h"
#include "lib/base/error.h"
#include "lib/session/model.h"
#include "moses.h"
#include "unicode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct txl_decoder {
    const struct vocabulary *vocabulary;
    struct moses *moses; /* NULL unless raw */
    struct moses_detokenizer *detokenizer;
    bool blank_due; /* words: a word was given, so that the next is set off by a blank */
    bool line_open; /* lm1b: inside a line, so that <S> ends it; else <S> begins one */
    struct buffer out;
};

static bool joins_words(const txl_decoder *decoder) {
    return decoder->vocabulary->kind == TXL_WORDS || decoder->vocabulary->kind == TXL_LM1B;
}

static void start_line(txl_decoder *decoder) {
    decoder->blank_due = false;
    decoder->line_open = false;
}

static void start_text(txl_decoder *decoder) {
    start_line(decoder);
    if (decoder->detokenizer)
        moses_detokenizer_reset(decoder->detokenizer);
}

static txl_status add(txl_decoder *decoder, const char *bytes, size_t length, txl_error *error) {
    if (!buffer_append(&decoder->out, bytes, length))
        return txl_fail_memory(error, "a symbol's text", decoder->out.length + length);
    return TXL_OK;
}

static txl_status add_rest_of_line(txl_decoder *decoder, txl_error *error) {
    if (!decoder->detokenizer)
        return TXL_OK;
    const char *text;
    size_t length;
    txl_status status = moses_detokenizer_finish(decoder->detokenizer, &text, &length, error);
    return status == TXL_OK ? add(decoder, text, length, error) : status;
}

static txl_status add_word(txl_decoder *decoder, const char *word, size_t length,
                           txl_error *error) {
    txl_status status = TXL_OK;
    if (decoder->detokenizer)
        status = moses_detokenizer_push(decoder->detokenizer, word, length, &word, &length, error);
    else if (decoder->blank_due)
        status = add(decoder, " ", 1, error);
    decoder->blank_due = true;
    decoder->line_open = true;
    return status == TXL_OK ? add(decoder, word, length, error) : status;
}

/* <eos>, or lm1b's <S>: of the two between its lines the one that closes is the line end. */
static txl_status add_boundary(txl_decoder *decoder, txl_error *error) {
    if (decoder->vocabulary->kind == TXL_LM1B && !decoder->line_open) {
        decoder->line_open = true;
        return TXL_OK;
    }
    txl_status status = add_rest_of_line(decoder, error);
    start_line(decoder);
    return status == TXL_OK ? add(decoder, "\n", 1, error) : status;
}

static txl_status add_character(txl_decoder *decoder, const char *spelling, size_t length,
                                txl_error *error) {
    char byte = ' ';
    if (decoder->vocabulary->kind == TXL_BYTES && vocabulary_byte(spelling, length) >= 0)
        byte = (char)vocabulary_byte(spelling, length);
    else if (decoder->vocabulary->kind != TXL_TEXT8 || length != 1 || spelling[0] != '_')
        return add(decoder, spelling, length, error);
    return add(decoder, &byte, 1, error);
}

static txl_status add_spelling(txl_decoder *decoder, const char *spelling, size_t length,
                               txl_error *error) {
    if (joins_words(decoder))
        return add_word(decoder, spelling, length, error);
    if (decoder->vocabulary->kind == TXL_BYTES && vocabulary_byte(spelling, length) < 0)
        return txl_fail(error, TXL_TEXT, "'%.*s' is not a byte's decimal number",
                        length < 40 ? (int)length : 40, spelling);
    return add_character(decoder, spelling, length, error);
}

static txl_status add_symbol(txl_decoder *decoder, int32_t id, txl_error *error) {
    size_t length;
    const char *spelling = vocabulary_symbol(decoder->vocabulary, id, &length);
    if (!spelling)
        return txl_fail(error, TXL_ARGUMENT, "id %" PRId32 ", expected 0 to %" PRId32, id,
                        decoder->vocabulary->n - 1);
    return id == decoder->vocabulary->eos ? add_boundary(decoder, error)
                                          : add_spelling(decoder, spelling, length, error);
}

static void give(const txl_decoder *decoder, const char **text, size_t *length) {
    *text = decoder->out.length > 0 ? decoder->out.data : "";
    *length = decoder->out.length;
}

/* ---- The public functions ----------------------------------------------------------------- */

txl_status decoder_new(const struct vocabulary *vocabulary, bool raw, txl_decoder **decoder,
                       txl_error *error) {
    txl_decoder *made = calloc(1, sizeof *made);
    if (!made)
        return txl_fail_memory(error, "the decoder", sizeof *made);
    made->vocabulary = vocabulary;
    txl_status status = TXL_OK;
    if (raw && joins_words(made)) {
        status = moses_new(&made->moses, error);
        if (status == TXL_OK)
            status = moses_detokenizer_new(made->moses, &made->detokenizer, error);
    }
    if (status != TXL_OK) {
        txl_decoder_free(made);
        return status;
    }
    *decoder = made;
    return TXL_OK;
}

txl_status txl_decoder_new(const txl_model *model, bool raw, txl_decoder **decoder,
                           txl_error *error) {
    return decoder_new(model_vocabulary(model), raw, decoder, error);
}

txl_status txl_decoder_push(txl_decoder *decoder, int32_t id, const char **text, size_t *length,
                            txl_error *error) {
    decoder->out.length = 0;
    txl_status status = add_symbol(decoder, id, error);
    give(decoder, text, length);
    return status;
}

txl_status txl_decoder_push_spelling(txl_decoder *decoder, const char *spelling, size_t n,
                                     const char **text, size_t *length, txl_error *error) {
    int32_t id = vocabulary_find(decoder->vocabulary, spelling, n);
    if (id >= 0)
        return txl_decoder_push(decoder, id, text, length, error);
    decoder->out.length = 0;
    txl_status status = add_spelling(decoder, spelling, n, error);
    give(decoder, text, length);
    return status;
}

txl_status txl_decoder_finish(txl_decoder *decoder, const char **text, size_t *length,
                              txl_error *error) {
    decoder->out.length = 0;
    txl_status status = add_rest_of_line(decoder, error);
    start_text(decoder);
    give(decoder, text, length);
    return status;
}

txl_status txl_decoder_continue(txl_decoder *decoder, const int32_t *ids, size_t n, char tail,
                                txl_error *error) {
    start_text(decoder);
    for (size_t i = 0; i < n; i++) {
        decoder->out.length = 0;
        txl_status status = add_symbol(decoder, ids[i], error);
        if (status != TXL_OK)
            return status;
    }
    /* Of white space beyond ASCII the last byte alone tells nothing. */
    unsigned char last = (unsigned char)tail;
    decoder->blank_due = last >= 0x80 || (last != '\0' && !unicode_is_space(last));
    return decoder->detokenizer ? moses_detokenizer_continue(decoder->detokenizer, tail, error)
                                : TXL_OK;
}

void txl_decoder_free(txl_decoder *decoder) {
    if (!decoder)
        return;
    moses_detokenizer_free(decoder->detokenizer);
    moses_free(decoder->moses);
    buffer_free(&decoder->out);
    free(decoder);
}
