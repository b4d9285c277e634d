/* The file tokenizer.json, in which the tokenizers library keeps a vocabulary with the rules of its
 * text. */
#ifndef CONVERT_TOKENIZER_JSON_H
#define CONVERT_TOKENIZER_JSON_H

#include "lib/base/memory.h"
#include "txl.h"

#include <jansson.h>

/* Counts the pieces of a unigram model, with those that were added to it, which are the last.
 * `path` names the file in messages.  Models of other types are refused. */
txl_status tokenizer_json_count(const char *path, const json_t *file, size_t *n, size_t *n_added,
                                txl_error *error);

/* Appends the SentencePiece model that the file was made from to `model`, for sentencepiece_pack.
 * Refuses a file whose text would become other pieces than those of `kind` (pieces or xlnet). */
txl_status tokenizer_json_model(const char *path, const json_t *file, txl_kind kind,
                                struct buffer *model, txl_error *error);

#endif
