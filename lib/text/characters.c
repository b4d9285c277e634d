/* The kinds whose symbols are single characters: characters, with a line boundary, and text8, where
 * a line end inside the text is a character too, and `_` is the space.
 *
 * White space at the ends of a line (in text8, of the text) has no symbol, so white space is held
 * until a letter follows it. */
#include "lib/base/error.h"
#include "tokenizer.h"

enum {
    /* Characters that are lower-cased together: whether a sigma is final depends on its
     * neighbours. */
    FOLDED_PIECE = 1 << 16,
    /* The longest run that the encoder hands over. */
    LONGEST_RUN = 4096,
    /* After this many runs, each of one character, held white space is assumed to be inside the
     * line. */
    BLANK_RUNS = 1 << 16,
};

/* The same white space character `count` times; each stands for `bytes` bytes of the source. */
struct blank_run {
    uint32_t code;
    unsigned bytes;
    bool joins; /* one blank for white space with a line end at its end */
    uint64_t count;
};

struct characters {
    bool in_text;             /* white space is no longer leading */
    struct gathered gathered; /* what is to be lower-cased */
    struct buffer lower;
    struct place blank; /* of the first held blank */
    size_t n_blanks;
    struct blank_run blanks[BLANK_RUNS];
};

/* ---- Text to symbols ---------------------------------------------------------------------- */

static void close_encoder(txl_encoder *encoder) {
    struct characters *own = encoder->own;
    gathered_free(&own->gathered);
    buffer_free(&own->lower);
}

static void start_text(txl_encoder *encoder) {
    struct characters *own = encoder->own;
    gathered_clear(&own->gathered);
    own->n_blanks = 0;
    own->in_text = false;
}

static bool is_text8(const txl_encoder *encoder) {
    return encoder->vocabulary->kind == TXL_TEXT8;
}

/* text8 has no capitals; it does not fold them, although its published vocabularies are marked
 * lower_case. */
static bool folds_case(const txl_encoder *encoder) {
    return encoder->vocabulary->lower_case && !is_text8(encoder);
}

/* Passes on what was gathered, in lower case.  U+0130 becomes two code points, every other code
 * point one. */
static txl_status end_gathered(txl_encoder *encoder, txl_error *error) {
    struct characters *own = encoder->own;
    const struct buffer *text = &own->gathered.text;
    if (text->length == 0)
        return TXL_OK;
    size_t room = UNICODE_LOWER_ROOM(text->length);
    if (!buffer_reserve(&own->lower, room))
        return txl_fail_memory(error, "a word in lower case", room);
    size_t length = unicode_lower(text->data, text->length, own->lower.data);
    const char *lower = own->lower.data, *end = lower + length;
    struct gathered_place place = gathered_start(&own->gathered), next = place;
    txl_status status = TXL_OK;
    while (lower < end && !status) {
        size_t bytes = text->length - place.at;
        bool two = unicode_first(text->data + place.at, &bytes) == 0x130;
        gathered_move(&own->gathered, &next, place.at + bytes);
        const struct span span = encode_between(&place.place, &next.place);
        for (int i = 0; i <= two && !status; i++) {
            size_t n = (size_t)(end - lower);
            unicode_first(lower, &n);
            status = encode_spelling(encoder, lower, n, &span, error);
            lower += n;
        }
        place = next;
    }
    gathered_clear(&own->gathered);
    return status;
}

static txl_status emit_blank(txl_encoder *encoder, const struct blank_run *run, txl_error *error) {
    struct characters *own = encoder->own;
    char utf8[4];
    size_t length = unicode_encode(is_text8(encoder) && run->code == ' ' ? '_' : run->code, utf8);
    struct place *place = &own->blank;
    /* A line end may be CR LF; all else is one character. */
    const bool ends_line = run->code == '\n', next_line = ends_line || run->joins;
    const struct span span = encode_span(place, run->bytes, next_line ? run->bytes : 1);
    txl_status status = encode_spelling(encoder, utf8, length, &span, error);
    *place = (struct place){place->line + next_line, next_line ? 1 : place->column + 1, span.end,
                            span.character_end};
    return !status && ends_line ? encode_line_end(encoder, error) : status;
}

/* Passes on the held white space, which turned out to be inside the line. */
static txl_status release_blanks(txl_encoder *encoder, txl_error *error) {
    struct characters *own = encoder->own;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < own->n_blanks; i++)
        for (uint64_t n = own->blanks[i].count; n > 0 && !status; n--)
            status = emit_blank(encoder, &own->blanks[i], error);
    own->n_blanks = 0;
    return status;
}

static txl_status hold_blank(txl_encoder *encoder, uint32_t code, txl_error *error) {
    struct characters *own = encoder->own;
    const unsigned bytes = (unsigned)encoder->at.bytes;
    const bool joins = encoder->at.joins;
    size_t n = own->n_blanks;
    if (n > 0 && own->blanks[n - 1].code == code && own->blanks[n - 1].bytes == bytes &&
        !own->blanks[n - 1].joins) {
        own->blanks[n - 1].count++;
        return TXL_OK;
    }
    txl_status status = n == BLANK_RUNS ? release_blanks(encoder, error) : TXL_OK;
    if (own->n_blanks == 0)
        own->blank = encoder->at.here;
    own->blanks[own->n_blanks++] = (struct blank_run){code, bytes, joins, 1};
    return status;
}

/* Takes characters inside a line.  They are gathered only if they are lower-cased, which needs
 * context. */
static txl_status characters_letters(txl_encoder *encoder, const char *utf8, size_t length,
                                     size_t n, txl_error *error) {
    struct characters *own = encoder->own;
    own->in_text = true;
    txl_status status = release_blanks(encoder, error);
    if (!status && folds_case(encoder)) {
        if (own->gathered.text.length > FOLDED_PIECE - LONGEST_RUN)
            status = end_gathered(encoder, error);
        return status ? status : gathered_add(&own->gathered, encoder, utf8, length, error);
    }
    struct span span = encode_first_span(&encoder->at, n);
    if (n < length || n == 1)
        return status ? status : encode_spelling(encoder, utf8, length, &span, error);
    for (size_t i = 0; i < n && !status; i++, span_step(&span)) {
        const char *spelling = is_text8(encoder) && utf8[i] == ' ' ? "_" : utf8 + i;
        status = encode_spelling(encoder, spelling, 1, &span, error);
    }
    return status;
}

static txl_status characters_space(txl_encoder *encoder, uint32_t code, txl_error *error) {
    struct characters *own = encoder->own;
    txl_status status = end_gathered(encoder, error);
    return !status && own->in_text ? hold_blank(encoder, code, error) : status;
}

/* In text8 a line end inside the text is a character; one at the text's end is dropped. */
static txl_status end_line(txl_encoder *encoder, txl_error *error) {
    struct characters *own = encoder->own;
    if (is_text8(encoder))
        return own->in_text && encoder->at.bytes > 0 ? hold_blank(encoder, '\n', error) : TXL_OK;
    own->n_blanks = 0;
    own->in_text = false;
    return end_gathered(encoder, error);
}

/* A prompt's last line stays open: the text goes on from there. */
static txl_status characters_finish(txl_encoder *encoder, txl_error *error) {
    struct characters *own = encoder->own;
    if (encoder->how.prompt) {
        txl_status status = end_gathered(encoder, error);
        return status ? status : release_blanks(encoder, error);
    }
    /* text8 drops line ends at the end of the text, so the last line has not ended yet. */
    return is_text8(encoder) && own->in_text ? encode_line_end(encoder, error) : TXL_OK;
}

const struct kind_encoder characters_encoder = {.own_size = sizeof(struct characters),
                                                .close = close_encoder,
                                                .start = start_text,
                                                .letters = characters_letters,
                                                .space = characters_space,
                                                .line_end = end_line,
                                                .finish = characters_finish,
                                                .least = ' '};

/* ---- Symbols to text ---------------------------------------------------------------------- */

static txl_status characters_push(txl_decoder *decoder, int32_t id, const char *spelling,
                                  size_t length, txl_error *error) {
    if (id >= 0 && id == decoder->vocabulary->eos)
        return decode_add(decoder, "\n", 1, error);
    bool space = decoder->vocabulary->kind == TXL_TEXT8 && length == 1 && spelling[0] == '_';
    return decode_add(decoder, space ? " " : spelling, length, error);
}

const struct kind_decoder characters_decoder = {.symbol = characters_push};
