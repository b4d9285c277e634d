/* Text to SentencePiece pieces, in constant memory and linear time: the normaliser, then the most
 * likely segmentation, as the library makes them.
 *
 * The pieces are the library's, exactly, for every stretch without a place where all ways to cut it
 * agree of up to PIECES_EXACT bytes of the source; spaces are such places in models whose pieces
 * hold none.  A longer stretch is cut there. */
#ifndef TXL_PIECE_STREAM_H
#define TXL_PIECE_STREAM_H

#include "sentencepiece.h"

enum { PIECES_EXACT = 1 << 16 };

/* What a byte of text is in the source. */
struct span {
    uint64_t begin, end; /* in bytes */
    uint64_t line;       /* in which it begins */
    uint64_t column;     /* where it begins there, in code points from 1 */
};

struct piece {
    const char *text; /* as normalised; of a byte piece its spelling */
    size_t length;
    int32_t id;
    bool unknown;
    struct span span;         /* of the whole */
    const struct span *spans; /* [length]: of each byte; of a byte piece NULL */
};

struct piece_stream;

/* `take` receives the pieces in order; what it returns, if not TXL_OK, ends the call.  `pieces`
 * must outlive the stream. */
txl_status piece_stream_new(const struct sentencepiece *pieces,
                            txl_status (*take)(void *context, const struct piece *piece,
                                               txl_error *error),
                            void *context, struct piece_stream **stream, txl_error *error);
void piece_stream_free(struct piece_stream *stream);

/* Begins a text.  What went before is forgotten.  `goes_on`: the text follows another without a
 * space, so that no word mark is put before it; `score` is then what that one has. */
void piece_stream_start(struct piece_stream *stream, bool goes_on, float score);

/* Adds a piece of the text, valid UTF-8: whole code points of which the source is `span`, all of
 * them of the same.  Spans follow each other without gaps. */
txl_status piece_stream_add(struct piece_stream *stream, const char *utf8, size_t length,
                            const struct span *span, txl_error *error);

/* Adds `n` ASCII characters, each one byte of the source, `first` being the first one's span. */
txl_status piece_stream_add_ascii(struct piece_stream *stream, const char *text, size_t n,
                                  const struct span *first, txl_error *error);

/* Adds a part of the source that becomes nothing: it belongs to the piece before it, or at the
 * text's begin to the one after. */
txl_status piece_stream_drop(struct piece_stream *stream, const struct span *span,
                             txl_error *error);

/* The text has ended: passes on what is left of it. */
txl_status piece_stream_finish(struct piece_stream *stream, txl_error *error);

#endif
