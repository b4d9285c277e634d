/* Text to ids, and ids to text, with the parts that all kinds of text share. */
#include "tokenizer.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unictype.h>

/* Text to ids.
 *
 * Bytes come in pieces of any size, cut anywhere, and go through three stages, which keep a small
 * state between the pieces:
 *
 *   bytes        -> code points            ill-formed sequences replaced, the byte order mark gone
 *   code points  -> letters, white space,  CR LF is one line end; a CR alone is white space; a
 *                   line ends              prompt's line end waits for what follows it
 *   those        -> symbols                by the kind (kind.h)
 *
 * The bytes kind goes straight from the first to the last.  Memory does not grow with the text.
 * Every code point carries the place of its bytes in the source, and so does every symbol. */
enum {
    /* ASCII characters taken at once. */
    PLAIN_RUN = 4096,
    /* Code points of a symbol that a message shows. */
    QUOTED = 40,
};

/* ---- Passing symbols on ------------------------------------------------------------------- */

/* The start of the next line, after a line end of `bytes` bytes. */
static struct place place_behind_line(const struct place *end, uint64_t bytes) {
    return (struct place){end->line + 1, 1, end->offset + bytes, end->character + bytes};
}

struct span encode_between(const struct place *begin, const struct place *end) {
    return encode_span(begin, end->offset - begin->offset, end->character - begin->character);
}

struct span encode_first_span(const struct position *at, size_t n) {
    return encode_span(&at->here, n > 1 ? 1 : at->bytes, at->joins ? at->bytes : 1);
}

static txl_symbol symbol_at(const char *text, size_t length, int32_t id, const struct span *span) {
    return (txl_symbol){.text = text,
                        .length = length,
                        .id = id,
                        .line = span->line,
                        .offset = span->begin,
                        .bytes = span->end - span->begin,
                        .characters = span->character_end};
}

static txl_status emit_symbol(txl_encoder *encoder, const char *text, size_t length, int32_t id,
                              const struct span *span, txl_error *error) {
    encoder->counts.symbols += id >= 0;
    const txl_symbol symbol = symbol_at(text, length, id, span);
    txl_before_callback(error);
    txl_status status = encoder->how.symbol(encoder->how.context, &symbol, error);
    return txl_after_callback(error, status, "stopped by the receiver of the symbols");
}

txl_status encode_line_end(txl_encoder *encoder, txl_error *error) {
    const struct span nothing = encode_span(&encoder->at.here, 0, 0);
    return emit_symbol(encoder, NULL, 0, -1, &nothing, error);
}

/* Writes the beginning of a spelling, at most QUOTED code points, for a message.  Quotes,
 * backslashes and characters that a terminal cannot show are escaped as in C. */
static void quote_symbol(const char *text, size_t length, char out[QUOTED * 10 + 4]) {
    const uint32_t unseen = UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_Z;
    size_t n = 0;
    size_t bytes;
    for (size_t i = 0, shown = 0; i < length; i += bytes, shown++) {
        if (shown == QUOTED) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        bytes = length - i;
        uint32_t code = unicode_first(text + i, &bytes);
        if (code == '\n')
            n += (size_t)sprintf(out + n, "\\n");
        else if (code == '"' || code == '\\')
            n += (size_t)sprintf(out + n, "\\%c", (char)code);
        else if (code == ' ' || !uc_is_general_category_withtable(code, unseen))
            n += unicode_encode(code, out + n);
        else
            n += (size_t)sprintf(out + n, code < 0x80 ? "\\x%02x" : "\\U%08x", (unsigned)code);
    }
    out[n] = '\0';
}

static txl_status fail_unknown(const char *text, size_t length, const struct span *span,
                               txl_error *error) {
    char quoted[QUOTED * 10 + 4];
    quote_symbol(text, length, quoted);
    return txl_fail(error, TXL_TEXT,
                    "line %" PRIu64 ", column %" PRIu64
                    ": the symbol \"%s\" is not in the vocabulary, which has no <unk> for it; "
                    "skip_unknown leaves such symbols out",
                    span->line, span->column, quoted);
}

txl_status encode_found(txl_encoder *encoder, const char *text, size_t length, int32_t id,
                        const struct span *span, txl_error *error) {
    if (id < 0 && encoder->how.lookup) {
        id = encoder->vocabulary->unk;
        if (id < 0 && !encoder->how.skip_unknown)
            return fail_unknown(text, length, span, error);
        encoder->counts.unknown++;
        const txl_symbol symbol = symbol_at(text, length, id, span);
        if (encoder->how.unknown)
            encoder->how.unknown(encoder->how.unknown_context, &symbol, span->column);
        if (id < 0)
            return TXL_OK;
    }
    return emit_symbol(encoder, text, length, id, span, error);
}

txl_status encode_piece(void *context, const struct piece *piece, txl_error *error) {
    txl_encoder *encoder = context;
    int32_t id = piece->unknown || !encoder->how.lookup ? -1 : piece->id;
    return encode_found(encoder, piece->text, piece->length, id, &piece->span, error);
}

txl_status encode_spelling(txl_encoder *encoder, const char *text, size_t length,
                           const struct span *span, txl_error *error) {
    int32_t id = -1;
    if (encoder->how.lookup)
        id = length == 1 ? encoder->vocabulary->byte_id[(unsigned char)text[0]]
                         : vocabulary_find(encoder->vocabulary, text, length);
    return encode_found(encoder, text, length, id, span, error);
}

txl_status encode_boundary(txl_encoder *encoder, uint64_t bytes, txl_error *error) {
    const char *text = text_kind(encoder->vocabulary->kind)->boundary;
    int32_t id = encoder->how.lookup ? encoder->vocabulary->eos : -1;
    /* of nothing, LF or CR LF */
    const struct span line_end = encode_span(&encoder->at.here, bytes, bytes);
    return encode_found(encoder, text, strlen(text), id, &line_end, error);
}

/* ---- Gathered text ------------------------------------------------------------------------ */

/* Whether a code point of `length` bytes is U+FFFD. */
static bool is_replacement(const char *utf8, size_t length) {
    return length == 3 && memcmp(utf8, "\xef\xbf\xbd", 3) == 0;
}

void gathered_clear(struct gathered *gathered) {
    gathered->text.length = 0;
    gathered->replaced.length = 0;
    gathered->joins.length = 0;
}

void gathered_free(struct gathered *gathered) {
    buffer_free(&gathered->text);
    buffer_free(&gathered->replaced);
    buffer_free(&gathered->joins);
}

txl_status gathered_add(struct gathered *gathered, const txl_encoder *encoder, const char *utf8,
                        size_t length, txl_error *error) {
    if (gathered->text.length == 0)
        gathered->start = encoder->at.here;
    const char bytes = (char)encoder->at.bytes;
    const struct join join = {gathered->text.length, encoder->at.bytes};
    bool replaced = is_replacement(utf8, length);
    if ((replaced && !buffer_append(&gathered->replaced, &bytes, 1)) ||
        (encoder->at.joins && !buffer_append(&gathered->joins, (const char *)&join, sizeof join)) ||
        !buffer_append(&gathered->text, utf8, length))
        return txl_fail_memory(error, "a piece of text", gathered->text.length + length);
    return TXL_OK;
}

struct gathered_place gathered_start(const struct gathered *gathered) {
    return (struct gathered_place){.place = gathered->start};
}

/* Whether the place is that of a line end that became a blank, which is copied to `*join`. */
static bool at_join(const struct gathered *gathered, const struct gathered_place *place,
                    struct join *join) {
    size_t offset = place->joins * sizeof *join;
    if (offset == gathered->joins.length)
        return false;
    memcpy(join, gathered->joins.data + offset, sizeof *join);
    return join->at == place->at;
}

void gathered_move(const struct gathered *gathered, struct gathered_place *place, size_t at) {
    const char *text = gathered->text.data;
    struct place *source = &place->place;
    struct join join;
    size_t n;
    while (place->at < gathered->text.length &&
           place->at + (n = unicode_length(text[place->at])) <= at) {
        if (at_join(gathered, place, &join)) {
            *source = place_behind_line(source, join.bytes);
            place->joins++;
        } else {
            bool replaced = is_replacement(text + place->at, n);
            source->offset += replaced ? (size_t)gathered->replaced.data[place->replaced] : n;
            place->replaced += replaced;
            source->column++;
            source->character++;
        }
        place->at += n;
    }
}

/* ---- Letters, white space, line ends ------------------------------------------------------ */

/* Moves past the n code points that were taken. */
static void position_advance(struct position *at, size_t n) {
    at->here.column += n;
    at->here.character += n;
    at->here.offset += at->bytes;
    at->bytes = 0;
    at->line_begun = true;
}

static txl_status end_line(txl_encoder *encoder, unsigned bytes, txl_error *error) {
    struct position *at = &encoder->at;
    const txl_line_end becomes = txl_kind_line_end(encoder->vocabulary->kind);
    const bool has_symbol = becomes == TXL_LINE_END_SYMBOL || becomes == TXL_LINE_END_PAIR;
    at->bytes = bytes;
    txl_status status = encoder->kind->line_end(encoder, error);
    if (!status && has_symbol)
        status = encode_boundary(encoder, bytes, error);
    if (!status && has_symbol)
        status = encode_line_end(encoder, error);
    at->line_begun = false;
    at->bytes = 0;
    at->here = place_behind_line(&at->here, bytes);
    return status;
}

/* ---- Code points -------------------------------------------------------------------------- */

/* A prompt's line end that was held is not its last. */
static txl_status end_held_line(txl_encoder *encoder, txl_error *error) {
    unsigned held = encoder->at.line_end_held;
    encoder->at.line_end_held = 0;
    return held > 0 ? end_line(encoder, held, error) : TXL_OK;
}

static txl_status take_content(txl_encoder *encoder, uint32_t code, uint64_t bytes,
                               txl_error *error) {
    txl_status status = end_held_line(encoder, error);
    if (status)
        return status;
    char utf8[4];
    encoder->at.bytes = bytes;
    status = encoder->kind->space && is_space_code(code)
                 ? encoder->kind->space(encoder, code, error)
                 : encoder->kind->letters(encoder, utf8, unicode_encode(code, utf8), 1, error);
    position_advance(&encoder->at, 1);
    return status;
}

/* A second line end: the held one was not the last of the text, and is passed on. */
static txl_status take_line_end(txl_encoder *encoder, unsigned bytes, txl_error *error) {
    unsigned held = encoder->at.line_end_held;
    if (!encoder->how.prompt)
        return end_line(encoder, bytes, error);
    encoder->at.line_end_held = bytes;
    return held > 0 ? end_line(encoder, held, error) : TXL_OK;
}

/* The held CR was not followed by LF: it is white space. */
static txl_status release_cr(txl_encoder *encoder, txl_error *error) {
    if (!encoder->at.cr_held)
        return TXL_OK;
    encoder->at.cr_held = false;
    return take_content(encoder, '\r', 1, error);
}

/* Takes a code point of `bytes` bytes. */
static txl_status take_code_point(txl_encoder *encoder, uint32_t code, uint64_t bytes,
                                  txl_error *error) {
    struct position *at = &encoder->at;
    bool first = !at->begun;
    at->begun = true;
    encoder->counts.characters++;
    if (first && code == BYTE_ORDER_MARK_CODE) {
        at->here.offset += bytes;
        at->here.character++;
        return TXL_OK;
    }
    if (code == '\n') {
        unsigned held = at->cr_held;
        at->cr_held = false;
        return take_line_end(encoder, held + 1, error);
    }
    txl_status status = release_cr(encoder, error);
    if (status)
        return status;
    if (code == '\r') {
        at->cr_held = true;
        return TXL_OK;
    }
    return take_content(encoder, code, bytes, error);
}

/* How many ASCII characters come next that can skip the stages in between: letters, and spaces
 * between them if the kind handles white space itself. */
static size_t plain_run(const txl_encoder *encoder, const char *text, size_t length) {
    const struct position *at = &encoder->at;
    bool parts_space = encoder->kind->space;
    if (!at->begun || at->cr_held || at->line_end_held > 0 || at->utf8.missing > 0 ||
        (parts_space && text[0] == ' '))
        return 0;
    const char least = encoder->kind->least;
    size_t limit = length < PLAIN_RUN ? length : PLAIN_RUN;
    size_t n = 0;
    while (n < limit && text[n] >= least && text[n] < 0x7f)
        n++;
    while (parts_space && n > 0 && text[n - 1] == ' ')
        n--;
    return n;
}

/* Takes one byte outside of a plain run. */
static txl_status take_byte(txl_encoder *encoder, unsigned char byte, txl_error *error) {
    struct unicode_decoder *utf8 = &encoder->at.utf8;
    uint32_t codes[2];
    unsigned before = utf8->taken;
    size_t n = unicode_decode(utf8, byte, codes);
    /* Where the byte completes two code points, the first is U+FFFD for the bytes before it. */
    size_t all = before + 1 - utf8->taken;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < n && !status; i++) {
        size_t bytes = n == 2 ? (i == 0 ? before : 1) : all;
        /* U+FFFD itself, EF BF BD, is the one that its third byte completes alone. */
        bool itself = n == 1 && before == 2 && utf8->taken == 0;
        encoder->counts.invalid += codes[i] == UNICODE_REPLACEMENT && !itself;
        status = take_code_point(encoder, codes[i], bytes, error);
    }
    return status;
}

static txl_status feed_utf8(txl_encoder *encoder, const char *text, size_t length,
                            txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < length && !status;) {
        size_t run = plain_run(encoder, text + i, length - i);
        if (run > 0) {
            encoder->counts.characters += run;
            encoder->at.bytes = run;
            status = encoder->kind->letters(encoder, text + i, run, run, error);
            position_advance(&encoder->at, run);
            i += run;
            continue;
        }
        status = take_byte(encoder, (unsigned char)text[i++], error);
    }
    return status;
}

/* ---- Joined lines ------------------------------------------------------------------------- */

/* What waits for its end or for what follows it can wait no longer. */
static txl_status end_sequence(txl_encoder *encoder, txl_error *error) {
    struct position *at = &encoder->at;
    unsigned cut = at->utf8.taken;
    txl_status status = TXL_OK;
    if (unicode_decode_end(&at->utf8)) {
        encoder->counts.invalid++;
        status = take_code_point(encoder, UNICODE_REPLACEMENT, cut, error);
    }
    return status ? status : release_cr(encoder, error);
}

txl_status txl_encoder_join(txl_encoder *encoder, unsigned bytes, txl_error *error) {
    struct position *at = &encoder->at;
    if (encoder->kind->undecoded || bytes == 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "a line end has bytes, and joins lines of characters, not of bytes");
    encoder->counts.bytes += bytes;
    encoder->counts.characters += bytes;
    txl_status status = end_sequence(encoder, error);
    if (!status)
        status = end_held_line(encoder, error);
    at->begun = at->line_begun = at->joins = true;
    at->bytes = bytes;
    if (!status)
        status = encoder->kind->space ? encoder->kind->space(encoder, ' ', error)
                                      : encoder->kind->letters(encoder, " ", 1, 1, error);
    at->joins = false;
    at->bytes = 0;
    at->here = place_behind_line(&at->here, bytes);
    return status;
}

txl_status txl_encoder_end_line(txl_encoder *encoder, unsigned bytes, txl_error *error) {
    if (encoder->kind->undecoded || bytes == 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "a line end has bytes, and ends lines of characters, not of bytes");
    encoder->counts.bytes += bytes;
    encoder->counts.characters += bytes;
    txl_status status = end_sequence(encoder, error);
    encoder->at.begun = true;
    return status ? status : take_line_end(encoder, bytes, error);
}

/* ---- The text's end ----------------------------------------------------------------------- */

static txl_status finish_text(txl_encoder *encoder, txl_error *error) {
    const struct position *at = &encoder->at;
    txl_status status = end_sequence(encoder, error);
    if (!status && at->line_begun && !encoder->how.prompt)
        status = end_line(encoder, 0, error);
    if (!status && encoder->kind->finish)
        status = encoder->kind->finish(encoder, error);
    return status;
}

static void start_encoding(txl_encoder *encoder) {
    encoder->at = (struct position){.here = {1, 1, 0, 0}};
    if (encoder->kind->start)
        encoder->kind->start(encoder);
}

/* ---- The public functions ----------------------------------------------------------------- */

txl_status encoder_new(const struct vocabulary *vocabulary, const txl_encoding *encoding,
                       txl_encoder **encoder, txl_error *error) {
    if (CHECK_RESERVED(txl_encoding, encoding, error))
        return TXL_ARGUMENT;
    const struct kind_encoder *kind = text_kind(vocabulary->kind)->encoder;
    txl_encoder *made = calloc(1, sizeof *made + kind->own_size);
    if (!made)
        return txl_fail_memory(error, "the encoder", sizeof *made + kind->own_size);
    *made =
        (txl_encoder){.vocabulary = vocabulary, .kind = kind, .how = *encoding, .own = made + 1};
    txl_status status = kind->open ? kind->open(made, error) : TXL_OK;
    if (status) {
        txl_encoder_free(made);
        return status;
    }
    start_encoding(made);
    *encoder = made;
    return TXL_OK;
}

txl_status txl_encoder_feed(txl_encoder *encoder, const char *text, size_t length,
                            txl_error *error) {
    encoder->counts.bytes += length;
    return encoder->kind->undecoded ? encoder->kind->undecoded(encoder, text, length, error)
                                    : feed_utf8(encoder, text, length, error);
}

txl_status txl_encoder_finish(txl_encoder *encoder, txl_error *error) {
    txl_status status = finish_text(encoder, error);
    start_encoding(encoder);
    return status;
}

void txl_encoder_counts(const txl_encoder *encoder, txl_encoded *counts) {
    *counts = encoder->counts;
}

void txl_encoder_free(txl_encoder *encoder) {
    if (!encoder)
        return;
    if (encoder->kind->close)
        encoder->kind->close(encoder);
    free(encoder);
}

/* Ids to text, one symbol at a time.  After each, it gives the text that no later id can change. */

txl_status decode_add(txl_decoder *decoder, const char *bytes, size_t length, txl_error *error) {
    if (!buffer_append(&decoder->out, bytes, length))
        return txl_fail_memory(error, "a symbol's text", decoder->out.length + length);
    return TXL_OK;
}

static txl_status add_symbol(txl_decoder *decoder, int32_t id, txl_error *error) {
    size_t length;
    const char *spelling = vocabulary_symbol(decoder->vocabulary, id, &length);
    if (!spelling)
        return txl_fail(error, TXL_ARGUMENT, "id %" PRId32 ", expected 0 to %" PRId32, id,
                        decoder->vocabulary->n - 1);
    return decoder->kind->symbol(decoder, id, spelling, length, error);
}

static void start_decoding(txl_decoder *decoder) {
    if (decoder->kind->start)
        decoder->kind->start(decoder);
}

static void give_text(const txl_decoder *decoder, const char **text, size_t *length) {
    *text = decoder->out.length > 0 ? decoder->out.data : "";
    *length = decoder->out.length;
}

/* ---- The public functions ----------------------------------------------------------------- */

txl_status decoder_new(const struct vocabulary *vocabulary, bool raw, txl_decoder **decoder,
                       txl_error *error) {
    const struct kind_decoder *kind = text_kind(vocabulary->kind)->decoder;
    txl_decoder *made = calloc(1, sizeof *made + kind->own_size);
    if (!made)
        return txl_fail_memory(error, "the decoder", sizeof *made + kind->own_size);
    *made = (txl_decoder){.vocabulary = vocabulary, .kind = kind, .own = made + 1};
    txl_status status = kind->open ? kind->open(made, raw, error) : TXL_OK;
    if (status) {
        txl_decoder_free(made);
        return status;
    }
    start_decoding(made);
    *decoder = made;
    return TXL_OK;
}

txl_status txl_decoder_push(txl_decoder *decoder, int32_t id, const char **text, size_t *length,
                            txl_error *error) {
    decoder->out.length = 0;
    txl_status status = add_symbol(decoder, id, error);
    give_text(decoder, text, length);
    return status;
}

txl_status txl_decoder_push_spelling(txl_decoder *decoder, const char *spelling, size_t n,
                                     const char **text, size_t *length, txl_error *error) {
    decoder->out.length = 0;
    int32_t id = vocabulary_find(decoder->vocabulary, spelling, n);
    txl_status status = decoder->kind->symbol(decoder, id, spelling, n, error);
    give_text(decoder, text, length);
    return status;
}

txl_status txl_decoder_finish(txl_decoder *decoder, const char **text, size_t *length,
                              txl_error *error) {
    decoder->out.length = 0;
    txl_status status = decoder->kind->finish ? decoder->kind->finish(decoder, error) : TXL_OK;
    start_decoding(decoder);
    give_text(decoder, text, length);
    return status;
}

txl_status txl_decoder_continue(txl_decoder *decoder, const int32_t *ids, size_t n, char tail,
                                txl_error *error) {
    start_decoding(decoder);
    for (size_t i = 0; i < n; i++) {
        decoder->out.length = 0;
        txl_status status = add_symbol(decoder, ids[i], error);
        if (status)
            return status;
    }
    return decoder->kind->shown ? decoder->kind->shown(decoder, tail, error) : TXL_OK;
}

void txl_decoder_free(txl_decoder *decoder) {
    if (!decoder)
        return;
    if (decoder->kind->close)
        decoder->kind->close(decoder);
    buffer_free(&decoder->out);
    free(decoder);
}
