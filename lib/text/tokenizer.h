/* Text to ids and back: what callers make of a vocabulary, and what the files of the kinds work
 * with. */
#ifndef TXL_TEXT_TOKENIZER_H
#define TXL_TEXT_TOKENIZER_H

#include "kind.h"
#include "lib/base/memory.h"
#include "pieces.h"
#include "unicode.h"
#include "vocabulary.h"

/* What the kinds' encoders work with: where the text stands, and how symbols are passed on. */
/* A place in the source. */
struct place {
    uint64_t line, column; /* from 1; columns in code points, in the bytes kind in bytes */
    uint64_t offset;       /* in bytes */
    uint64_t character;    /* code points before it; in the bytes kind bytes */
};

/* The state in the middle of a text. */
struct position {
    struct unicode_decoder utf8;
    bool begun;      /* a code point was seen, so U+FEFF is no byte order mark any more */
    bool cr_held;    /* a CR that may belong to a LF, just before `here` */
    bool line_begun; /* the line has code points */

    /* Bytes of a prompt's line end that is held: it is dropped if nothing follows. */
    unsigned line_end_held;

    struct place here; /* of the code points being taken, or of the next one */
    uint64_t bytes;    /* how many bytes of the source are being taken */
    bool joins;        /* they are a blank, and the last is a line end (txl_encoder_join) */
};

struct txl_encoder {
    const struct vocabulary *vocabulary;
    const struct kind_encoder *kind;
    txl_encoding how;
    txl_encoded counts;
    struct position at;
    void *own; /* the kind's: after this struct, unless its `open` makes it elsewhere */
};

/* The span of `bytes` bytes, `characters` code points, from the place on. */
static inline struct span encode_span(const struct place *place, uint64_t bytes,
                                      uint64_t characters) {
    return (struct span){place->offset, place->offset + bytes, place->line,
                         place->column, place->character,      place->character + characters};
}

/* The span between two places. */
struct span encode_between(const struct place *begin, const struct place *end);

/* The span of the code point being taken, or of the first one of a run of `n` > 1. */
struct span encode_first_span(const struct position *at, size_t n);

/* Passes on a symbol whose id was looked up; `id` is -1 if the vocabulary lacks it.  It stands for
 * `span` of the source. */
txl_status encode_found(txl_encoder *encoder, const char *text, size_t length, int32_t id,
                        const struct span *span, txl_error *error);

/* Passes on a piece of the text; `context` is the encoder. */
txl_status encode_piece(void *context, const struct piece *piece, txl_error *error);

/* Looks a symbol up and passes it on.  Not for the bytes kind. */
txl_status encode_spelling(txl_encoder *encoder, const char *text, size_t length,
                           const struct span *span, txl_error *error);

/* Passes on the kind's line boundary, which stands for `bytes` bytes of the source from at.here
 * on. */
txl_status encode_boundary(txl_encoder *encoder, uint64_t bytes, txl_error *error);

/* Says that a line of the text ends, at at.here. */
txl_status encode_line_end(txl_encoder *encoder, txl_error *error);

/* Text that is gathered so that it can be processed as a whole.  To map it back to the source, only
 * the sizes of the sequences that became U+FFFD have to be stored, and the line ends that became
 * blanks. */
struct gathered {
    struct buffer text; /* UTF-8 */
    struct buffer
        replaced; /* for each U+FFFD, how many bytes of the source it replaced: a byte each */
    struct buffer joins; /* struct join, for each line end that became a blank */
    struct place start;  /* of its first code point */
};

/* A blank that was a line end. */
struct join {
    size_t at; /* byte of the text */
    uint64_t bytes;
};

void gathered_clear(struct gathered *gathered);
void gathered_free(struct gathered *gathered);

/* Adds the code points that the encoder is taking. */
txl_status gathered_add(struct gathered *gathered, const txl_encoder *encoder, const char *utf8,
                        size_t length, txl_error *error);

/* A place in gathered text. */
struct gathered_place {
    size_t at;          /* byte of the text */
    size_t replaced;    /* U+FFFDs before it */
    size_t joins;       /* line ends before it that became blanks */
    struct place place; /* in the source */
};

struct gathered_place gathered_start(const struct gathered *gathered);

/* Moves the place forwards to the code point that contains byte `at` of the text.  Takes time in
 * proportion to the distance. */
void gathered_move(const struct gathered *gathered, struct gathered_place *place, size_t at);

/* Text to ids: a txl_encoder made from a vocabulary alone, without a model. */

/* txl_encoder_new with the vocabulary itself, which must outlive the encoder. */
txl_status encoder_new(const struct vocabulary *vocabulary, const txl_encoding *encoding,
                       txl_encoder **encoder, txl_error *error);

/* What the kinds' decoders work with. */

struct txl_decoder {
    const struct vocabulary *vocabulary;
    const struct kind_decoder *kind;
    struct buffer out; /* text for the caller */
    void *own;         /* the kind's, after this struct */
};

/* Adds bytes to the text for the caller. */
txl_status decode_add(txl_decoder *decoder, const char *bytes, size_t length, txl_error *error);

/* Ids to text: a txl_decoder made from a vocabulary alone, without a model. */

/* txl_decoder_new with the vocabulary itself, which must outlive the decoder. */
txl_status decoder_new(const struct vocabulary *vocabulary, bool raw, txl_decoder **decoder,
                       txl_error *error);

#endif
