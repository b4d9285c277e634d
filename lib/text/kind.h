/* The kinds of text: one table (kind.c).  A row says what a kind is like, and points to its encoder
 * and decoder, which the kind's own file has.
 *
 * CONTRIBUTING.md says how to add a kind. */
#ifndef TXL_KIND_H
#define TXL_KIND_H

#include "txl.h"

struct vocabulary;
struct vocabulary_entry;

/* How text of a kind becomes symbols.  The functions work with tokenizer.h; txl_encoder_feed and
 * txl_encoder_finish return their status. */
struct kind_encoder {
    /* Bytes of the kind's own state, encoder->own, which is zero at first.  `open` prepares it, or
     * makes one of another size, and `close` frees its parts, also where `open` has failed.  NULL:
     * nothing to do. */
    size_t own_size;
    txl_status (*open)(txl_encoder *encoder, txl_error *error);
    void (*close)(txl_encoder *encoder);

    /* Resets the state for a new text.  NULL: nothing to do. */
    void (*start)(txl_encoder *encoder);

    /* Takes the bytes of the source as they are; `letters` and `space` are then NULL. If this is
     * NULL, the text is decoded from UTF-8 first and passed to the three functions below. */
    txl_status (*undecoded)(txl_encoder *encoder, const char *bytes, size_t length,
                            txl_error *error);

    /* Takes part of a line: one code point, or a run of `n` = length ASCII characters from `least`
     * to '~'.  encoder->at.here is its place, at.bytes how many bytes of the source it is. */
    txl_status (*letters)(txl_encoder *encoder, const char *utf8, size_t length, size_t n,
                          txl_error *error);

    /* Takes white space inside a line, which is not LF.  NULL: it goes to `letters`. */
    txl_status (*space)(txl_encoder *encoder, uint32_t code, txl_error *error);

    /* The line has ended; the encoder passes on its boundary, if the kind has one after each line.
     * at.here is where the line end begins, at.bytes its length: 0 at the end of an unterminated
     * text. */
    txl_status (*line_end)(txl_encoder *encoder, txl_error *error);

    /* The text has ended.  line_end was called for the last line of a corpus; the last line of a
     * prompt is still open.  NULL: nothing is left to do. */
    txl_status (*finish)(txl_encoder *encoder, txl_error *error);

    char least; /* the lowest character of a run that `letters` takes: ' ' or '!' */
};

/* How symbols of a kind become text.  The functions work with tokenizer.h. */
struct kind_decoder {
    size_t own_size; /* as in kind_encoder, like the next two */
    txl_status (*open)(txl_decoder *decoder, bool raw, txl_error *error);
    void (*close)(txl_decoder *decoder);

    /* Resets the state for a new text.  NULL: nothing to do. */
    void (*start)(txl_decoder *decoder);

    /* Adds a symbol, by its id or, where that is -1, by its spelling alone. */
    txl_status (*symbol)(txl_decoder *decoder, int32_t id, const char *spelling, size_t length,
                         txl_error *error);

    /* The text has ended.  NULL: nothing is ever held back. */
    txl_status (*finish)(txl_decoder *decoder, txl_error *error);

    /* The text so far was shown by other means; its last byte is `tail`, or 0 if there was none.
     * NULL: nothing depends on it. */
    txl_status (*shown)(txl_decoder *decoder, char tail, txl_error *error);
};

struct text_kind {
    const char *name; /* of the setting "tokenizer" */
    txl_unit unit;    /* what a symbol is; the vocabulary of pieces is a SentencePiece model's */
    txl_line_end line_end;
    const char *boundary; /* the usual spelling of the boundary between lines or texts; NULL: there
                             is none, and an empty prompt's context is the space */
    const char *space;    /* the spelling of the space; NULL: it is no symbol */
    const struct kind_encoder *encoder;
    const struct kind_decoder *decoder;
};

/* The kind's row. */
const struct text_kind *text_kind(txl_kind kind);

/* The name of the kind of that number; NULL for a number beyond the last. */
const char *text_kind_name(uint32_t kind);

/* The kind of that name.  False: there is none. */
bool text_kind_find(const char *name, txl_kind *kind);

/* The encoders and decoders in the kinds' files, for the table in kind.c. */
extern const struct kind_encoder words_encoder, bytes_encoder, characters_encoder, pieces_encoder,
    xlnet_encoder;
extern const struct kind_decoder words_decoder, bytes_decoder, characters_decoder, pieces_decoder,
    xlnet_decoder;

#endif
