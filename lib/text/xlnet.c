/* The kind of XLNet: a text is one stream of pieces, and line ends do not divide it
 * (xlnet_text.h). */
#include "decode.h"
#include "encode.h"
#include "kinds.h"
#include "lib/base/white_space.h"
#include "unicode.h"
#include "xlnet_text.h"

#include <string.h>

/* ---- Text to symbols ---------------------------------------------------------------------- */

static txl_status open_encoder(txl_encoder *encoder, txl_error *error) {
    struct xlnet_stream *stream;
    txl_status status =
        xlnet_stream_new(encoder->vocabulary, XLNET_GAPS, encode_piece, encoder, &stream, error);
    encoder->own = status ? NULL : stream;
    return status;
}

static void close_encoder(txl_encoder *encoder) {
    xlnet_stream_free(encoder->own);
}

static void start_text(txl_encoder *encoder) {
    xlnet_stream_start(encoder->own, encoder->how.goes_on);
}

static txl_status xlnet_letters(txl_encoder *encoder, const char *utf8, size_t length, size_t n,
                                txl_error *error) {
    const struct position *at = &encoder->at;
    struct span span = encode_first_span(at, n);
    txl_status status = TXL_OK;
    for (size_t i = 0, bytes; i < length && !status; i += bytes) {
        bytes = length - i;
        uint32_t code = unicode_first(utf8 + i, &bytes);
        status = xlnet_stream_add(encoder->own, code, &span, error);
        span_step(&span);
    }
    return status;
}

/* A line end is white space like any other, unless each line is a text of its own. */
static txl_status end_line(txl_encoder *encoder, txl_error *error) {
    const struct position *at = &encoder->at;
    const struct span span = encode_span(&at->here, at->bytes, at->bytes);
    txl_status status = at->bytes > 0 ? xlnet_stream_add(encoder->own, '\n', &span, error) : TXL_OK;
    if (status || !encoder->how.lines)
        return status;
    status = xlnet_stream_finish(encoder->own, error);
    return status ? status : encode_line_end(encoder, error);
}

static txl_status xlnet_finish(txl_encoder *encoder, txl_error *error) {
    txl_status status = xlnet_stream_finish(encoder->own, error);
    bool ends = encoder->at.here.offset > 0 && !encoder->how.lines && !encoder->how.prompt;
    return !status && ends ? encode_line_end(encoder, error) : status;
}

const struct kind_encoder xlnet_encoder = {.open = open_encoder,
                                           .close = close_encoder,
                                           .start = start_text,
                                           .letters = xlnet_letters,
                                           .line_end = end_line,
                                           .finish = xlnet_finish,
                                           .least = ' '};

/* ---- Symbols to text ---------------------------------------------------------------------- */

struct joiner {
    bool prose; /* <eop> becomes a line end and <eod> a blank line; else both are spelled out */
    bool begun; /* the text, or the line after a line end, has more than spaces */
    uint64_t spaces; /* to be written if text follows */
};

static txl_status open_decoder(txl_decoder *decoder, bool raw, txl_error *error) {
    struct joiner *own = decoder->own;
    (void)error;
    own->prose = raw;
    return TXL_OK;
}

static void start_decoding(txl_decoder *decoder) {
    struct joiner *own = decoder->own;
    own->begun = false;
    own->spaces = 0;
}

static txl_status add_spaces(txl_decoder *decoder, txl_error *error) {
    struct joiner *own = decoder->own;
    txl_status status = TXL_OK;
    for (; own->spaces > 0 && !status; own->spaces--)
        status = decode_add(decoder, " ", 1, error);
    return status;
}

/* Adds text without word marks. */
static txl_status xlnet_add(txl_decoder *decoder, const char *text, size_t length,
                            txl_error *error) {
    struct joiner *own = decoder->own;
    txl_status status = length > 0 ? add_spaces(decoder, error) : TXL_OK;
    own->begun = own->begun || length > 0;
    return status ? status : decode_add(decoder, text, length, error);
}

static bool is_named(const char *spelling, size_t length, const char *name) {
    return length == strlen(name) && memcmp(spelling, name, length) == 0;
}

/* A word mark is a space, except at the ends of the text, where it is dropped. */
static txl_status xlnet_push(txl_decoder *decoder, int32_t id, const char *spelling, size_t length,
                             txl_error *error) {
    struct joiner *own = decoder->own;
    (void)id;
    bool paragraph = is_named(spelling, length, "<eop>");
    if (own->prose && (paragraph || is_named(spelling, length, "<eod>"))) {
        start_decoding(decoder);
        return decode_add(decoder, "\n\n", paragraph ? 1 : 2, error);
    }
    txl_status status = TXL_OK;
    while (length > 0 && !status) {
        const char *mark = memmem(spelling, length, WORD_MARK, WORD_MARK_BYTES);
        size_t n = mark ? (size_t)(mark - spelling) : length;
        status = xlnet_add(decoder, spelling, n, error);
        own->spaces += mark && own->begun;
        spelling += mark ? n + 3 : n;
        length -= mark ? n + 3 : n;
    }
    return status;
}

/* If the last byte shown is white space, it replaces the next word mark. */
static txl_status xlnet_shown(txl_decoder *decoder, char tail, txl_error *error) {
    struct joiner *own = decoder->own;
    (void)error;
    own->spaces = 0;
    own->begun =
        tail != '\0' && ((unsigned char)tail >= 0x80 || !is_space_code((unsigned char)tail));
    return TXL_OK;
}

const struct kind_decoder xlnet_decoder = {.own_size = sizeof(struct joiner),
                                           .open = open_decoder,
                                           .start = start_decoding,
                                           .symbol = xlnet_push,
                                           .shown = xlnet_shown};
