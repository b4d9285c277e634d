/* Text to SentencePiece pieces, in constant memory and linear time: the normaliser, then the most
 * likely segmentation, as the library makes them.
 *
 * The pieces are exactly the library's, as long as all ways to cut the text agree on some place at
 * least every PIECES_EXACT bytes of the source.  Spaces are such places in models whose pieces
 * contain none.  A longer stretch without one is cut after PIECES_EXACT bytes. */
#ifndef TXL_TEXT_PIECES_H
#define TXL_TEXT_PIECES_H

#include "sentencepiece.h"
#include "vocabulary.h"

enum { PIECES_EXACT = 1 << 16 };

/* The part of the source that a byte of text stands for. */
struct span {
    uint64_t begin, end;               /* in bytes */
    uint64_t line;                     /* in which it begins */
    uint64_t column;                   /* where it begins there, in code points from 1 */
    uint64_t character, character_end; /* `begin` and `end` in code points */
};

/* From the start of one to the end of another. */
static inline struct span span_join(const struct span *first, const struct span *last) {
    return (struct span){first->begin,  last->end,        first->line,
                         first->column, first->character, last->character_end};
}

/* Moves to the next character of the same line, which is one byte of the source. */
static inline void span_step(struct span *span) {
    span->begin = span->end;
    span->end++;
    span->column++;
    span->character = span->character_end;
    span->character_end++;
}

struct piece {
    const char *text; /* normalised; for a byte piece its spelling */
    size_t length;
    int32_t id;
    bool unknown;
    struct span span;         /* of the whole */
    const struct span *spans; /* [length]: of each byte; of a byte piece NULL */
};

/* Receives a piece; if it returns anything but TXL_OK, the call of the stream ends with that. */
typedef txl_status take_piece(void *context, const struct piece *piece, txl_error *error);

struct piece_stream;

/* `take` receives the pieces in order.  `pieces` must outlive the stream. */
txl_status piece_stream_new(const struct sentencepiece *pieces, take_piece *take, void *context,
                            struct piece_stream **stream, txl_error *error);
void piece_stream_free(struct piece_stream *stream);

/* Begins a text and forgets the one before.  `continues`: the text follows another without a space,
 * so no word mark is put before it; `score` is then the score of that text. */
void piece_stream_start(struct piece_stream *stream, bool continues, float score);

/* Adds whole code points, valid UTF-8; all of them stand for `span` in the source.  Spans follow
 * each other without gaps. */
txl_status piece_stream_add(struct piece_stream *stream, const char *utf8, size_t length,
                            const struct span *span, txl_error *error);

/* Adds `n` ASCII characters, each one byte of the source, `first` being the first one's span. */
txl_status piece_stream_add_ascii(struct piece_stream *stream, const char *text, size_t n,
                                  const struct span *first, txl_error *error);

/* Adds a part of the source that becomes no text: it belongs to the piece before it, or at the
 * beginning of the text to the one after it. */
txl_status piece_stream_drop(struct piece_stream *stream, const struct span *span,
                             txl_error *error);

/* The text has ended: passes on what is left of it. */
txl_status piece_stream_finish(struct piece_stream *stream, txl_error *error);

/* ---- XLNet's pieces ----------------------------------------------------------------------- */

/* Text to the pieces of XLNet: what its published code does around SentencePiece.
 *
 *   1. White space (str.isspace) at both ends is dropped, every run of it becomes one space.
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

/* Begins a text.  `continues`: it continues the word in which the text before ended. */
void xlnet_stream_start(struct xlnet_stream *stream, bool continues);

/* Adds a code point, white space too. */
txl_status xlnet_stream_add(struct xlnet_stream *stream, uint32_t code, const struct span *span,
                            txl_error *error);

/* The text has ended: passes on what is left of it. */
txl_status xlnet_stream_finish(struct xlnet_stream *stream, txl_error *error);

#endif
