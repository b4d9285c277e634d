/* English prose to the words of WikiText-103 and back: the Moses pipeline that Hugging Face's
 * tokenizer of transfo-xl-wt103 is made of (sacremoses 0.1).  It consists of the punctuation
 * normaliser and the English tokenizer, with aggressive_dash_splits and without XML escapes; <eos>,
 * <unk> and <formula> stay whole, whatever their case, and "1,000" becomes "1 @,@ 000".  The way
 * back is the detokenizer, and joining @,@ @.@ @-@ with their neighbours. */
#ifndef TXL_TEXT_MOSES_H
#define TXL_TEXT_MOSES_H

#include "txl.h"

#include <stddef.h>

/* The compiled rules, which are read-only: any number of threads may share them. */
struct moses;

txl_status moses_new(struct moses **moses, txl_error *error);
void moses_free(struct moses *moses);

/* Passes the tokens of one line, in order, to `token`; a status other than TXL_OK from it ends the
 * call.  The token stands for bytes `begin` to `end` of the line, whole code points.  Several
 * tokens may stand for the same bytes; neither bound is ever less than the previous token's.  The
 * line is valid UTF-8 without a line end.  The call allocates its memory, and its memory and time
 * are in proportion to the line's length. */
txl_status moses_tokenize(const struct moses *moses, const char *line, size_t length,
                          txl_status (*token)(void *context, const char *text, size_t length,
                                              size_t begin, size_t end, txl_error *error),
                          void *context, txl_error *error);

/* Puts a line together from its tokens as they come.  A word that consists of quotes, brackets,
 * currency signs or punctuation waits for the next token, which may be @-@; any other word is given
 * at once.  Quotes are paired within the line.  One thread at a time may use it.
 *
 * `*text` receives bytes that nothing later can change, perhaps none; they live until the next
 * call.  After an error only reset and free are allowed. */
struct moses_detokenizer;

/* `moses` must outlive the detokenizer. */
txl_status moses_detokenizer_new(const struct moses *moses, struct moses_detokenizer **detokenizer,
                                 txl_error *error);
void moses_detokenizer_free(struct moses_detokenizer *detokenizer);

/* Begins a new line. */
void moses_detokenizer_reset(struct moses_detokenizer *detokenizer);

/* Adds a token.  Any bytes are fine. */
txl_status moses_detokenizer_push(struct moses_detokenizer *detokenizer, const char *token,
                                  size_t length, const char **text, size_t *text_length,
                                  txl_error *error);

/* Gives what is left of the line, without a line end; the detokenizer is then as new. */
txl_status moses_detokenizer_finish(struct moses_detokenizer *detokenizer, const char **text,
                                    size_t *text_length, txl_error *error);

/* Tells the detokenizer that the line so far was shown by other means, and that `tail` is its last
 * byte (0: nothing was shown).  Nothing waits any more, and a blank goes before the next word
 * unless `tail` is one. */
txl_status moses_detokenizer_continue(struct moses_detokenizer *detokenizer, char tail,
                                      txl_error *error);

#endif
