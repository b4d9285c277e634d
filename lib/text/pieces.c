/* The kind whose symbols are the pieces of a SentencePiece model: each line is cut as the model
 * cuts a text; the line boundary follows it. */
#include "decode.h"
#include "encode.h"
#include "kinds.h"
#include "lib/base/white_space.h"
#include "piece_stream.h"
#include "unicode.h"

#include <string.h>

/* ---- Text to symbols ---------------------------------------------------------------------- */

static txl_status open_encoder(txl_encoder *encoder, txl_error *error) {
    struct piece_stream *stream;
    txl_status status =
        piece_stream_new(encoder->vocabulary->pieces, encode_piece, encoder, &stream, error);
    encoder->own = status ? NULL : stream;
    return status;
}

static void close_encoder(txl_encoder *encoder) {
    piece_stream_free(encoder->own);
}

static void start_text(txl_encoder *encoder) {
    piece_stream_start(encoder->own, encoder->how.goes_on, 0);
}

static txl_status pieces_letters(txl_encoder *encoder, const char *utf8, size_t length, size_t n,
                                 txl_error *error) {
    const struct position *at = &encoder->at;
    const struct span span = encode_first_span(at, n);
    return n > 1 ? piece_stream_add_ascii(encoder->own, utf8, n, &span, error)
                 : piece_stream_add(encoder->own, utf8, length, &span, error);
}

/* The line has ended; or the text: a corpus's last line has ended already, a prompt's stays open.
 */
static txl_status finish_line(txl_encoder *encoder, txl_error *error) {
    return piece_stream_finish(encoder->own, error);
}

const struct kind_encoder pieces_encoder = {.open = open_encoder,
                                            .close = close_encoder,
                                            .start = start_text,
                                            .letters = pieces_letters,
                                            .line_end = finish_line,
                                            .finish = finish_line,
                                            .least = ' '};

/* ---- Symbols to text ---------------------------------------------------------------------- */

struct joiner {
    bool text_begun;             /* the line has text, so the next word mark is a space */
    bool mark_seen;              /* the mark before the line was dropped */
    struct unicode_decoder utf8; /* of byte pieces in a row */
    char bytes[4];               /* of the incomplete sequence */
};

static void start_decoding(txl_decoder *decoder) {
    *(struct joiner *)decoder->own = (struct joiner){0};
}

static txl_status pieces_add(txl_decoder *decoder, const char *bytes, size_t length,
                             txl_error *error) {
    struct joiner *own = decoder->own;
    own->text_begun = own->text_begun || length > 0;
    return decode_add(decoder, bytes, length, error);
}

/* Adds one U+FFFD for each of n bytes that belong to no character. */
static txl_status add_replaced(txl_decoder *decoder, size_t n, txl_error *error) {
    txl_status status = TXL_OK;
    for (; n > 0 && !status; n--)
        status = pieces_add(decoder, "\xef\xbf\xbd", 3, error);
    return status;
}

static txl_status add_byte(txl_decoder *decoder, unsigned char byte, txl_error *error) {
    struct joiner *own = decoder->own;
    unsigned before = own->utf8.taken;
    uint32_t codes[2];
    size_t n = unicode_decode(&own->utf8, byte, codes);
    bool whole = n == 1 && own->utf8.taken == 0 && (codes[0] != UNICODE_REPLACEMENT || before == 2);
    own->bytes[before < 4 ? before : 0] = (char)byte;
    if (n == 0)
        return TXL_OK;
    if (whole)
        return pieces_add(decoder, own->bytes, before + 1, error);
    /* The incomplete sequence is replaced; this byte begins a new one or is replaced too. */
    txl_status status = add_replaced(decoder, before + (own->utf8.taken == 0), error);
    own->bytes[0] = (char)byte;
    return status;
}

static txl_status end_bytes(txl_decoder *decoder, txl_error *error) {
    struct joiner *own = decoder->own;
    unsigned cut = own->utf8.taken;
    unicode_decode_end(&own->utf8);
    return add_replaced(decoder, cut, error);
}

static txl_status add_spelling(txl_decoder *decoder, const char *spelling, size_t length,
                               txl_error *error) {
    struct joiner *own = decoder->own;
    const unsigned flags = decoder->vocabulary->pieces->flags;
    bool drops = flags & (PIECES_DUMMY_PREFIX | PIECES_REMOVE_SPACES);
    if (drops && !own->text_begun && begins_with_word_mark(spelling, length)) {
        spelling += 3;
        length -= 3;
        own->mark_seen = !(flags & PIECES_REMOVE_SPACES);
    }
    txl_status status = TXL_OK;
    while (length > 0 && !status) {
        const char *mark = memmem(spelling, length, WORD_MARK, WORD_MARK_BYTES);
        size_t n = mark ? (size_t)(mark - spelling) : length;
        status = pieces_add(decoder, spelling, n, error);
        if (!status && mark)
            status = pieces_add(decoder, " ", 1, error);
        spelling += mark ? n + 3 : n;
        length -= mark ? n + 3 : n;
    }
    return status;
}

static txl_status pieces_push(txl_decoder *decoder, int32_t id, const char *spelling, size_t length,
                              txl_error *error) {
    const struct sentencepiece *pieces = decoder->vocabulary->pieces;
    const unsigned char type = id >= 0 ? pieces->types[id] : PIECE_UNKNOWN;
    if (type == PIECE_BYTE)
        return add_byte(decoder, (unsigned char)sentencepiece_byte(spelling, length), error);
    txl_status status = end_bytes(decoder, error);
    if (status)
        return status;
    if (id >= 0 && id == decoder->vocabulary->eos) {
        start_decoding(decoder);
        return decode_add(decoder, "\n", 1, error);
    }
    struct joiner *own = decoder->own;
    own->text_begun = own->text_begun || own->mark_seen;
    own->mark_seen = false;
    if (type == PIECE_CONTROL)
        return TXL_OK;
    if (id < 0)
        return pieces_add(decoder, spelling, length, error);
    return type == PIECE_UNKNOWN ? pieces_add(decoder, pieces->surface, pieces->n_surface, error)
                                 : add_spelling(decoder, spelling, length, error);
}

/* If text was shown, a line has begun, unless the last byte was a line end. */
static txl_status pieces_shown(txl_decoder *decoder, char tail, txl_error *error) {
    struct joiner *own = decoder->own;
    (void)error;
    own->text_begun = tail != '\0' && tail != '\n';
    own->mark_seen = false;
    return TXL_OK;
}

const struct kind_decoder pieces_decoder = {.own_size = sizeof(struct joiner),
                                            .start = start_decoding,
                                            .symbol = pieces_push,
                                            .finish = end_bytes,
                                            .shown = pieces_shown};
