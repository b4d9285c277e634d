/* Tokens that were added to the vocabulary of a SentencePiece model: added_tokens.json beside it.
 */
#ifndef CONVERT_ADDED_PIECES_H
#define CONVERT_ADDED_PIECES_H

#include "lib/base/memory.h"
#include "lib/text/sentencepiece.h"
#include "txl.h"

/* Appends the tokens of the added_tokens.json beside the file `path`, if there is one, as
 * user-defined pieces to the SentencePiece model, which is that file's; `*n` is how many. */
txl_status added_pieces_append(const char *path, struct buffer *model, size_t *n, txl_error *error);

/* Appends a piece to the file of a SentencePiece model; false when there is no memory. */
bool piece_append(struct buffer *model, const char *text, float score, enum piece_type type);

#endif
