/* Text to the pieces of XLNet: what its published code does around
 * SentencePiece.
 *
 *   1. White space (str.isspace) at both ends is dropped, every run of it
 * becomes one space.
 *   2. `` and '' become ".
 *   3. NFKD, then every character of non-zero combining class is dropped.
 *   4. SentencePiece.
 *   5. A piece of two or more characters that ends in a comma after a digit (str.isdigit) is cut
 *      again: the part before the comma, without word marks, is cut as a text of its own, and ","
 *      follows.  If the piece had no word mark, the one that this adds is removed; if the rest of
 *      that piece is no piece of the vocabulary, it is unknown.
 *
 * The names of symbols (<mask>, <sep>, ...) become these symbols, and each part of the text between
 * them is a text of its own.  But text that follows <mask> without white space continues the
 * word. */
#ifndef TXL_TEXT_XLNET_H
#define TXL_TEXT_XLNET_H

#include "pieces.h"
#include "vocabulary.h"

/* How the names of symbols are treated. */
enum xlnet_names {
    XLNET_GAPS,    /* as described above */
    XLNET_SPLIT,   /* the same, but text after <mask> is a text of its own too */
    XLNET_SPELLED, /* they are text */
};

struct xlnet_stream;

/* `take` receives the pieces and the symbols; a symbol's `spans` is NULL. `vocabulary` must outlive
 * the stream. */
txl_status xlnet_stream_new(const struct vocabulary *vocabulary, enum xlnet_names names,
                            take_piece *take, void *context, struct xlnet_stream **stream,
                            txl_error *error);
void xlnet_stream_free(struct xlnet_stream *stream);

/* Begins a text.  `goes_on`: it continues the word in which the text before ended. */
void xlnet_stream_start(struct xlnet_stream *stream, bool goes_on);

/* Adds a code point, white space too. */
txl_status xlnet_stream_add(struct xlnet_stream *stream, uint32_t code, const struct span *span,
                            txl_error *error);

/* The text has ended: passes on what is left of it. */
txl_status xlnet_stream_finish(struct xlnet_stream *stream, txl_error *error);

#endif
