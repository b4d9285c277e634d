/* Text to the pieces of XLNet, step by step as xlnet.h lists them. */
#include "lib/base/error.h"
#include "lib/base/white_space.h"
#include "pieces.h"
#include "tokenizer.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>
#include <unictype.h>
#include <uninorm.h>

static const char *const names[] = {"<unk>", "<s>",    "</s>",  "<cls>", "<sep>",
                                    "<pad>", "<mask>", "<eod>", "<eop>"};

enum {
    N_NAME = sizeof names / sizeof *names,
    MASK = 6,
    LONGEST_NAME = 6,
    /* The most code points that one decomposes into, with room for normalising them. */
    DECOMPOSED = 32,
};

struct xlnet_stream {
    const struct vocabulary *vocabulary;
    enum xlnet_names names;
    take_piece *take;
    void *context;
    int32_t ids[N_NAME]; /* -1: the vocabulary has no such symbol */
    float mark_score;    /* the score before a text that goes on: see continued_score */

    struct piece_stream *words;
    struct piece_stream *number; /* cuts the number before a comma */
    bool number_marked;          /* the number keeps the word mark before it */
    bool number_begun;
    struct span number_mark; /* of the number's word mark */

    char name[LONGEST_NAME]; /* characters that may become a name */
    struct span name_spans[LONGEST_NAME];
    size_t n_name;

    bool part_begun; /* the part has a character that is no white space */
    bool after_mask; /* the part follows <mask> and is empty so far */
    bool space;      /* a space is due */
    struct span spaces;
    uint32_t quote; /* a ` or ' that may be followed by a second one; 0: none */
    struct span quoted;
};

/* ---- Pieces ------------------------------------------------------------------------------- */

static txl_status pass_text(struct xlnet_stream *s, const char *text, size_t length,
                            const struct span *span, txl_error *error) {
    int32_t id = vocabulary_find(s->vocabulary, text, length);
    const struct piece piece = {.text = text,
                                .length = length,
                                .id = id < 0 ? s->vocabulary->unk : id,
                                .unknown = id < 0 || id == s->vocabulary->unk,
                                .span = *span};
    return s->take(s->context, &piece, error);
}

static txl_status take_number(void *context, const struct piece *piece, txl_error *error) {
    struct xlnet_stream *s = context;
    struct piece part = *piece;
    bool first = !s->number_begun;
    s->number_begun = true;
    part.spans = NULL;
    if (first && s->number_marked)
        part.span = span_join(&s->number_mark, &part.span);
    if (!first || s->number_marked || !begins_with_word_mark(piece->text, piece->length))
        return s->take(s->context, &part, error);
    return piece->length == 3
               ? TXL_OK
               : pass_text(s, piece->text + 3, piece->length - 3, &piece->span, error);
}

/* Whether a piece ends in a comma after a digit. */
static bool ends_in_number(const struct piece *piece) {
    size_t i = piece->length - 1;
    if (piece->length < 2 || piece->text[i] != ',')
        return false;
    do
        i--;
    while (i > 0 && ((unsigned char)piece->text[i] & 0xc0) == 0x80);
    size_t bytes = piece->length - 1 - i;
    return uc_digit_value(unicode_first(piece->text + i, &bytes)) >= 0;
}

static txl_status take_word_piece(void *context, const struct piece *piece, txl_error *error) {
    struct xlnet_stream *s = context;
    if (!piece->spans || !ends_in_number(piece))
        return s->take(s->context, piece, error);
    s->number_marked = begins_with_word_mark(piece->text, piece->length);
    s->number_begun = false;
    s->number_mark = piece->spans[0];
    piece_stream_start(s->number, false, 0);
    txl_status status = TXL_OK;
    for (size_t i = 0, n; i + 1 < piece->length && !status; i += n) {
        n = piece->length - 1 - i;
        unicode_first(piece->text + i, &n);
        if (!begins_with_word_mark(piece->text + i, n))
            status = piece_stream_add(s->number, piece->text + i, n, &piece->spans[i], error);
    }
    if (!status)
        status = piece_stream_finish(s->number, error);
    return status ? status : pass_text(s, ",", 1, &piece->spans[piece->length - 1], error);
}

/* ---- Characters --------------------------------------------------------------------------- */

/* Passes on a character's decomposition without combining characters. */
static txl_status add_decomposed(struct xlnet_stream *s, uint32_t code, const struct span *span,
                                 txl_error *error) {
    char utf8[4 * DECOMPOSED];
    size_t length = 0;
    if (code < 0x80) {
        utf8[length++] = (char)code;
    } else {
        uint32_t made[DECOMPOSED];
        size_t n = DECOMPOSED;
        uint32_t *result = u32_normalize(UNINORM_NFKD, &code, 1, made, &n);
        if (result != made) {
            free(result);
            return txl_fail_memory(error, "a character", sizeof made);
        }
        for (size_t i = 0; i < n; i++)
            if (uc_combining_class(made[i]) == 0)
                length += unicode_encode(made[i], utf8 + length);
    }
    return length > 0 ? piece_stream_add(s->words, utf8, length, span, error)
                      : piece_stream_drop(s->words, span, error);
}

static txl_status end_quote(struct xlnet_stream *s, txl_error *error) {
    uint32_t quote = s->quote;
    s->quote = 0;
    return quote ? add_decomposed(s, quote, &s->quoted, error) : TXL_OK;
}

/* Takes a character; white space has already been reduced to single spaces. */
static txl_status add_character(struct xlnet_stream *s, uint32_t code, const struct span *span,
                                txl_error *error) {
    if (s->quote && s->quote == code) {
        s->quote = 0;
        const struct span both = span_join(&s->quoted, span);
        return add_decomposed(s, '"', &both, error);
    }
    txl_status status = end_quote(s, error);
    if (code != '`' && code != '\'')
        return status ? status : add_decomposed(s, code, span, error);
    s->quote = code;
    s->quoted = *span;
    return status;
}

/* Ends the current part of the text.  White space at its end belongs to the piece before. */
static txl_status end_part(struct xlnet_stream *s, txl_error *error) {
    txl_status status = end_quote(s, error);
    if (!status && s->space && s->part_begun)
        status = piece_stream_drop(s->words, &s->spaces, error);
    if (!status)
        status = piece_stream_finish(s->words, error);
    s->space = s->part_begun = s->after_mask = false;
    return status;
}

static txl_status add_text(struct xlnet_stream *s, uint32_t code, const struct span *span,
                           txl_error *error) {
    if (is_space_code(code)) {
        if (s->space)
            s->spaces = span_join(&s->spaces, span);
        else
            s->spaces = *span;
        s->space = true;
        s->after_mask = false;
        return TXL_OK;
    }
    txl_status status = TXL_OK;
    if (!s->part_begun) {
        piece_stream_start(s->words, s->after_mask, s->after_mask ? s->mark_score : 0);
        if (s->space)
            status = piece_stream_drop(s->words, &s->spaces, error);
    } else if (s->space) {
        status = add_character(s, ' ', &s->spaces, error);
    }
    s->part_begun = true;
    s->space = s->after_mask = false;
    return status ? status : add_character(s, code, span, error);
}

/* ---- Names of symbols --------------------------------------------------------------------- */

/* The characters held are no name: passes them on as text. */
static txl_status spell_name(struct xlnet_stream *s, txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < s->n_name && !status; i++)
        status = add_text(s, (unsigned char)s->name[i], &s->name_spans[i], error);
    s->n_name = 0;
    return status;
}

static txl_status pass_name(struct xlnet_stream *s, int name, txl_error *error) {
    const struct span span = span_join(&s->name_spans[0], &s->name_spans[s->n_name - 1]);
    txl_status status = end_part(s, error);
    s->n_name = 0;
    s->after_mask = name == MASK && s->names == XLNET_GAPS;
    const struct piece piece = {
        .text = names[name], .length = strlen(names[name]), .id = s->ids[name], .span = span};
    return status ? status : s->take(s->context, &piece, error);
}

/* The name that the characters so far are, or -1; *begins: a longer name begins with them. */
static int find_name(const struct xlnet_stream *s, bool *begins) {
    *begins = false;
    for (int i = 0; i < N_NAME; i++) {
        if (s->ids[i] < 0 || strncmp(names[i], s->name, s->n_name) != 0)
            continue;
        if (names[i][s->n_name] == '\0')
            return i;
        *begins = true;
    }
    return -1;
}

txl_status xlnet_stream_add(struct xlnet_stream *s, uint32_t code, const struct span *span,
                            txl_error *error) {
    bool opens = code == '<', continues = s->n_name > 0 && code > 0 && code < 0x80;
    bool in_name = s->names != XLNET_SPELLED && (opens || continues);
    txl_status status = opens || !in_name ? spell_name(s, error) : TXL_OK;
    if (status || !in_name)
        return status ? status : add_text(s, code, span, error);
    s->name[s->n_name] = (char)code;
    s->name_spans[s->n_name++] = *span;
    bool begins;
    int name = find_name(s, &begins);
    if (name >= 0)
        return pass_name(s, name, error);
    return begins ? TXL_OK : spell_name(s, error);
}

/* ---- Beginning, ending -------------------------------------------------------------------- */

/* The score before a text that goes on: that of a word mark and <eop>, which the published code
 * inserts there and removes again. */
static float continued_score(const struct vocabulary *vocabulary) {
    const struct sentencepiece *pieces = vocabulary->pieces;
    float score = 0;
    double mark, eop;
    if (sentencepiece_score(pieces, WORD_MARK, WORD_MARK_BYTES, &mark))
        score = (float)mark;
    if (sentencepiece_score(pieces, "<eop>", 5, &eop))
        score = (float)(eop + (double)score);
    return score;
}

txl_status xlnet_stream_new(const struct vocabulary *vocabulary, enum xlnet_names how,
                            take_piece *take, void *context, struct xlnet_stream **stream,
                            txl_error *error) {
    struct xlnet_stream *s = calloc(1, sizeof *s);
    if (!s)
        return txl_fail_memory(error, "the encoder", sizeof *s);
    s->vocabulary = vocabulary;
    s->names = how;
    s->take = take;
    s->context = context;
    s->mark_score = continued_score(vocabulary);
    for (int i = 0; i < N_NAME; i++)
        s->ids[i] = vocabulary_find(vocabulary, names[i], strlen(names[i]));
    txl_status status = piece_stream_new(vocabulary->pieces, take_word_piece, s, &s->words, error);
    if (!status)
        status = piece_stream_new(vocabulary->pieces, take_number, s, &s->number, error);
    if (status) {
        xlnet_stream_free(s);
        return status;
    }
    *stream = s;
    return TXL_OK;
}

void xlnet_stream_free(struct xlnet_stream *stream) {
    if (!stream)
        return;
    piece_stream_free(stream->words);
    piece_stream_free(stream->number);
    free(stream);
}

void xlnet_stream_start(struct xlnet_stream *s, bool continues) {
    piece_stream_start(s->words, false, 0);
    s->n_name = 0;
    s->quote = 0;
    s->space = s->part_begun = false;
    s->after_mask = continues;
}

txl_status xlnet_stream_finish(struct xlnet_stream *s, txl_error *error) {
    txl_status status = spell_name(s, error);
    if (!status)
        status = end_part(s, error);
    xlnet_stream_start(s, false);
    return status;
}

/* The kind of XLNet: a text is one stream of pieces, and line ends do not divide it
 * (xlnet.h). */

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
    xlnet_stream_start(encoder->own, encoder->how.continues);
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

/* A line end is white space like any other. */
static txl_status end_line(txl_encoder *encoder, txl_error *error) {
    const struct position *at = &encoder->at;
    const struct span span = encode_span(&at->here, at->bytes, at->bytes);
    return at->bytes > 0 ? xlnet_stream_add(encoder->own, '\n', &span, error) : TXL_OK;
}

static txl_status xlnet_finish(txl_encoder *encoder, txl_error *error) {
    txl_status status = xlnet_stream_finish(encoder->own, error);
    bool ends = encoder->at.here.offset > 0 && !encoder->how.prompt;
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
