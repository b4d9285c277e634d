/* The kinds of text: one table (kind.c).  A row says what a kind is like, and points to its encoder
 * and decoder, which the kind's own file has.
 *
 * To add a kind: its row in the table, its file, its test, its line in the documentation. */
#ifndef TXL_KIND_H
#define TXL_KIND_H

#include "txl.h"

struct vocabulary;
struct vocabulary_entry;

/* How text of a kind becomes symbols.  encode.h has what these work with; each returns what the
 * caller of txl_encoder_feed or txl_encoder_finish gets. */
struct kind_encoder {
    /* Makes and frees what the kind keeps, encoder->own.  NULL: nothing. */
    txl_status (*open)(txl_encoder *encoder, txl_error *error);
    void (*close)(txl_encoder *encoder);

    /* Forgets all of the text before.  NULL: nothing. */
    void (*start)(txl_encoder *encoder);

    /* The kind takes bytes as they come; `letters` and `space` are then NULL.  NULL: text is
     * decoded first, and passed to the three below. */
    txl_status (*bytes)(txl_encoder *encoder, const char *bytes, size_t length, txl_error *error);

    /* Takes part of a line: one code point, or a run of `n` = length ASCII characters from `least`
     * to '~'.  encoder->at.here says where it stands, at.bytes how much of the source it is. */
    txl_status (*letters)(txl_encoder *encoder, const char *utf8, size_t length, size_t n,
                          txl_error *error);

    /* Takes white space inside a line, which is not LF.  NULL: it goes to `letters`. */
    txl_status (*space)(txl_encoder *encoder, uint32_t code, txl_error *error);

    /* The line has ended.  at.here is where its end begins, at.bytes how long that is: 0 where an
     * unterminated text ends. */
    txl_status (*line_end)(txl_encoder *encoder, txl_error *error);

    /* The text has ended.  line_end was called for the last line of a corpus; the last line of a
     * prompt is still open.  NULL: nothing is left to do. */
    txl_status (*finish)(txl_encoder *encoder, txl_error *error);

    char least; /* the lowest character of a run that `letters` takes: ' ' or '!' */
};

/* How symbols of a kind become text.  decode.h has what these work with. */
struct kind_decoder {
    txl_status (*open)(txl_decoder *decoder, bool raw, txl_error *error);
    void (*close)(txl_decoder *decoder);

    /* To the start of a text.  NULL: nothing. */
    void (*start)(txl_decoder *decoder);

    /* Adds a symbol, by its id or, where that is -1, by its spelling alone. */
    txl_status (*symbol)(txl_decoder *decoder, int32_t id, const char *spelling, size_t length,
                         txl_error *error);

    /* The text has ended.  NULL: nothing waits. */
    txl_status (*finish)(txl_decoder *decoder, txl_error *error);

    /* The symbols so far were shown by other means; the last byte of the text is `tail`, or 0.
     * NULL: nothing depends on it. */
    txl_status (*shown)(txl_decoder *decoder, char tail, txl_error *error);
};

struct text_kind {
    const char *name; /* of the setting "tokenizer" */
    txl_unit unit;    /* what a symbol is; the vocabulary of pieces is a SentencePiece model's */
    txl_line_end line_end;
    const char *boundary; /* the usual spelling of the symbol of a boundary between lines or texts;
                             NULL: there is none, and an empty prompt's context is the space */
    const char *space;    /* the spelling of the symbol of a space; NULL: there is none */
    const struct kind_encoder *encoder;
    const struct kind_decoder *decoder;
};

/* The kind's row. */
const struct text_kind *text_kind(txl_kind kind);

/* The name of the kind of that number; NULL for a number beyond the last. */
const char *text_kind_name(uint32_t kind);

/* The kind of that name.  False: there is none. */
bool text_kind_find(const char *name, txl_kind *kind);

#endif
