/* The kinds whose symbols are words: words, with a line boundary, and lm1b, with one before and one
 * after each line.  A line is split at white space or, as raw text, by the Moses tokenizer.
 *
 * Memory is bounded: of a word that is looked up no more is kept than the longest symbol could
 * match, and a raw line is cut at RAW_LINE bytes.  Without lookup a word is passed on whole,
 * however long. */
#include "lib/base/error.h"
#include "lib/base/white_space.h"
#include "moses.h"
#include "tokenizer.h"

enum {
    /* A raw line this long is cut at the next white space, or after twice as much without any. */
    RAW_LINE = 1 << 20,
    /* Bytes of a word that are kept at least, for messages. */
    LEAST_WORD = 256,
};

struct words {
    struct moses *moses;         /* NULL: text that is split already */
    struct gathered gathered;    /* the word; for raw text the line */
    struct gathered_place token; /* for raw text: where the last token begins */
    struct buffer lower;
    size_t limit; /* bytes kept of a word */
    bool cut;     /* the word is longer than any symbol; its end is not kept */
    bool in_line; /* the line's opening boundary was passed on, or it has none */
};

/* ---- Text to symbols ---------------------------------------------------------------------- */

static txl_status open_encoder(txl_encoder *encoder, txl_error *error) {
    struct words *own = encoder->own;
    /* A longer word is longer than any symbol in lower case too. */
    own->limit = UNICODE_LOWER_SHRINK * encoder->vocabulary->longest + LEAST_WORD;
    return encoder->how.raw ? moses_new(&own->moses, error) : TXL_OK;
}

static void close_encoder(txl_encoder *encoder) {
    struct words *own = encoder->own;
    moses_free(own->moses);
    gathered_free(&own->gathered);
    buffer_free(&own->lower);
}

static void start_text(txl_encoder *encoder) {
    struct words *own = encoder->own;
    gathered_clear(&own->gathered);
    own->cut = own->in_line = false;
}

static txl_status words_fold(txl_encoder *encoder, const char **text, size_t *length,
                             txl_error *error) {
    struct words *own = encoder->own;
    if (!encoder->vocabulary->lower_case)
        return TXL_OK;
    size_t room = UNICODE_LOWER_ROOM(*length);
    if (!buffer_reserve(&own->lower, room))
        return txl_fail_memory(error, "a word in lower case", room);
    *length = unicode_lower(*text, *length, own->lower.data);
    *text = own->lower.data;
    return TXL_OK;
}

/* The word ends at at.here. */
static txl_status end_word(txl_encoder *encoder, txl_error *error) {
    struct words *own = encoder->own;
    const char *text = own->gathered.text.data;
    size_t length = own->gathered.text.length;
    if (length == 0)
        return TXL_OK;
    txl_status status = words_fold(encoder, &text, &length, error);
    if (status)
        return status;
    const struct span span = encode_between(&own->gathered.start, &encoder->at.here);
    status = own->cut ? encode_found(encoder, text, length, -1, &span, error)
                      : encode_spelling(encoder, text, length, &span, error);
    gathered_clear(&own->gathered);
    own->cut = false;
    return status;
}

/* Adds to the word what fits into its limit. */
static txl_status add_to_word(txl_encoder *encoder, const char *utf8, size_t length,
                              txl_error *error) {
    struct words *own = encoder->own;
    if (own->cut)
        return TXL_OK;
    size_t room = own->limit - own->gathered.text.length;
    if (encoder->how.lookup && length > room) {
        own->cut = true;
        /* ASCII may be cut anywhere; a code point of several bytes comes alone. */
        length = (unsigned char)utf8[0] < 0x80 ? room : 0;
    }
    return length > 0 ? gathered_add(&own->gathered, encoder, utf8, length, error) : TXL_OK;
}

/* Passes on a token, which stands for bytes `begin` to `end` of the raw line. */
static txl_status take_token(void *context, const char *text, size_t length, size_t begin,
                             size_t end, txl_error *error) {
    txl_encoder *encoder = context;
    struct words *own = encoder->own;
    gathered_move(&own->gathered, &own->token, begin);
    struct gathered_place behind = own->token;
    gathered_move(&own->gathered, &behind, end);
    txl_status status = words_fold(encoder, &text, &length, error);
    const struct span span = encode_between(&own->token.place, &behind.place);
    return status ? status : encode_spelling(encoder, text, length, &span, error);
}

static txl_status end_raw_line(txl_encoder *encoder, txl_error *error) {
    struct words *own = encoder->own;
    const struct buffer *text = &own->gathered.text;
    if (text->length == 0)
        return TXL_OK;
    own->token = gathered_start(&own->gathered);
    txl_status status =
        moses_tokenize(own->moses, text->data, text->length, take_token, encoder, error);
    gathered_clear(&own->gathered);
    return status;
}

static txl_status add_to_raw_line(txl_encoder *encoder, const char *utf8, size_t length, bool space,
                                  txl_error *error) {
    struct words *own = encoder->own;
    txl_status status = gathered_add(&own->gathered, encoder, utf8, length, error);
    if (!status && own->gathered.text.length >= RAW_LINE * (space ? (size_t)1 : 2))
        status = end_raw_line(encoder, error);
    return status;
}

/* lm1b's lines open with a boundary, which stands for no bytes. */
static txl_status begin_line(txl_encoder *encoder, txl_error *error) {
    struct words *own = encoder->own;
    bool opens = !own->in_line && encoder->vocabulary->kind == TXL_LM1B;
    own->in_line = true;
    return opens ? encode_boundary(encoder, 0, error) : TXL_OK;
}

static txl_status words_letters(txl_encoder *encoder, const char *utf8, size_t length, size_t n,
                                txl_error *error) {
    struct words *own = encoder->own;
    (void)n;
    txl_status status = begin_line(encoder, error);
    if (status)
        return status;
    return own->moses ? add_to_raw_line(encoder, utf8, length, false, error)
                      : add_to_word(encoder, utf8, length, error);
}

static txl_status words_space(txl_encoder *encoder, uint32_t code, txl_error *error) {
    struct words *own = encoder->own;
    txl_status status = begin_line(encoder, error);
    if (status || !own->moses)
        return status ? status : end_word(encoder, error);
    char utf8[4];
    return add_to_raw_line(encoder, utf8, unicode_encode(code, utf8), true, error);
}

/* Passes on the rest of a line. */
static txl_status end_line(txl_encoder *encoder, txl_error *error) {
    struct words *own = encoder->own;
    txl_status status = begin_line(encoder, error);
    own->in_line = false;
    if (status)
        return status;
    return own->moses ? end_raw_line(encoder, error) : end_word(encoder, error);
}

/* A prompt's last line stays open: the text goes on from there. */
static txl_status words_finish(txl_encoder *encoder, txl_error *error) {
    const struct position *at = &encoder->at;
    bool empty = !at->line_begun && at->here.line == 1;
    return encoder->how.prompt && !empty ? end_line(encoder, error) : TXL_OK;
}

const struct kind_encoder words_encoder = {.own_size = sizeof(struct words),
                                           .open = open_encoder,
                                           .close = close_encoder,
                                           .start = start_text,
                                           .letters = words_letters,
                                           .space = words_space,
                                           .line_end = end_line,
                                           .finish = words_finish,
                                           .least = '!'};

/* ---- Symbols to text ---------------------------------------------------------------------- */

struct joiner {
    struct moses *moses; /* NULL unless raw */
    struct moses_detokenizer *detokenizer;
    bool blank_due; /* a word was given, so a blank goes before the next */
    bool line_open; /* lm1b: inside a line, so that <S> ends it; else <S> begins one */
};

static txl_status open_decoder(txl_decoder *decoder, bool raw, txl_error *error) {
    struct joiner *own = decoder->own;
    txl_status status = raw ? moses_new(&own->moses, error) : TXL_OK;
    if (!status && raw)
        status = moses_detokenizer_new(own->moses, &own->detokenizer, error);
    return status;
}

static void close_decoder(txl_decoder *decoder) {
    struct joiner *own = decoder->own;
    moses_detokenizer_free(own->detokenizer);
    moses_free(own->moses);
}

static void start_line(struct joiner *own) {
    own->blank_due = false;
    own->line_open = false;
}

static void start_decoding(txl_decoder *decoder) {
    struct joiner *own = decoder->own;
    start_line(own);
    if (own->detokenizer)
        moses_detokenizer_reset(own->detokenizer);
}

static txl_status add_rest_of_line(txl_decoder *decoder, txl_error *error) {
    struct joiner *own = decoder->own;
    if (!own->detokenizer)
        return TXL_OK;
    const char *text;
    size_t length;
    txl_status status = moses_detokenizer_finish(own->detokenizer, &text, &length, error);
    return status ? status : decode_add(decoder, text, length, error);
}

static txl_status add_word(txl_decoder *decoder, const char *word, size_t length,
                           txl_error *error) {
    struct joiner *own = decoder->own;
    txl_status status = TXL_OK;
    if (own->detokenizer)
        status = moses_detokenizer_push(own->detokenizer, word, length, &word, &length, error);
    else if (own->blank_due)
        status = decode_add(decoder, " ", 1, error);
    own->blank_due = true;
    own->line_open = true;
    return status ? status : decode_add(decoder, word, length, error);
}

/* Takes <eos>, or lm1b's <S>: of the two between lines, the closing one is the line end. */
static txl_status add_boundary(txl_decoder *decoder, txl_error *error) {
    struct joiner *own = decoder->own;
    if (decoder->vocabulary->kind == TXL_LM1B && !own->line_open) {
        own->line_open = true;
        return TXL_OK;
    }
    txl_status status = add_rest_of_line(decoder, error);
    start_line(own);
    return status ? status : decode_add(decoder, "\n", 1, error);
}

static txl_status words_push(txl_decoder *decoder, int32_t id, const char *spelling, size_t length,
                             txl_error *error) {
    return id >= 0 && id == decoder->vocabulary->eos ? add_boundary(decoder, error)
                                                     : add_word(decoder, spelling, length, error);
}

static txl_status words_shown(txl_decoder *decoder, char tail, txl_error *error) {
    struct joiner *own = decoder->own;
    /* The last byte alone cannot show white space beyond ASCII. */
    unsigned char last = (unsigned char)tail;
    own->blank_due = last >= 0x80 || (last != '\0' && !is_space_code(last));
    return own->detokenizer ? moses_detokenizer_continue(own->detokenizer, tail, error) : TXL_OK;
}

const struct kind_decoder words_decoder = {.own_size = sizeof(struct joiner),
                                           .open = open_decoder,
                                           .close = close_decoder,
                                           .start = start_decoding,
                                           .symbol = words_push,
                                           .finish = add_rest_of_line,
                                           .shown = words_shown};
