/* English prose to the words of WikiText-103 and back: the Moses pipeline that Hugging Face's
 * tokenizer of transfo-xl-wt103 is made of (sacremoses 0.1).  That is its punctuation normaliser,
 * its tokenizer for English with aggressive_dash_splits, without XML escapes, with <eos>, <unk>
 * and <formula> kept whole in any case, and "1,000" as "1 @,@ 000"; back, its detokenizer, and
 * @,@ @.@ @-@ joined with their neighbours. */
#ifndef TXL_MOSES_H
#define TXL_MOSES_H

#include <stddef.h>

#include "txl.h"

/* The compiled rules.  Nothing changes them, so that any number of threads may share them. */
struct moses;

txl_status moses_new(struct moses **moses, txl_error *error);
void moses_free(struct moses *moses);

/* Passes the tokens of one line, in order, to `token`; what that returns, if not TXL_OK, ends the
 * call.  Bytes `begin` to `end` of the line, whole code points, are what the token stands for:
 * several may stand for the same, and neither of the two is ever less than the token's before.  The
 * line is valid UTF-8 without a line end.  Memory is the call's own, and takes, like the time, an
 * amount in proportion to the line's length. */
txl_status moses_tokenize(const struct moses *moses, const char *line, size_t length,
                          txl_status (*token)(void *context, const char *text, size_t length,
                                              size_t begin, size_t end, txl_error *error),
                          void *context, txl_error *error);

/* Puts a line together from its tokens as they come.  All that waits is a word of nothing but
 * quotes, brackets, currency signs or punctuation, until the next token has shown that no @-@
 * follows; any other word is given at once.  Quotes are paired within the line.  One thread at a
 * time may use it.
 *
 * `*text` receives bytes that nothing later can change, perhaps none; they live until the next
 * call.  After an error only reset and free are allowed. */
struct moses_detokenizer;

/* `moses` must outlive the detokenizer. */
txl_status moses_detokenizer_new(const struct moses *moses, struct moses_detokenizer **detokenizer,
                                 txl_error *error);
void moses_detokenizer_free(struct moses_detokenizer *detokenizer);

/* To the start of a line. */
void moses_detokenizer_reset(struct moses_detokenizer *detokenizer);

/* Adds a token.  Any bytes are fine. */
txl_status moses_detokenizer_push(struct moses_detokenizer *detokenizer, const char *token,
                                  size_t length, const char **text, size_t *text_length,
                                  txl_error *error);

/* Gives what is left of the line, without a line end; the detokenizer is then as new. */
txl_status moses_detokenizer_finish(struct moses_detokenizer *detokenizer, const char **text,
                                    size_t *text_length, txl_error *error);

/* Says that all of the line was shown already, by other means, and that its last byte as shown is
 * `tail` (0: nothing was shown): nothing waits any more, and the next word is set off by a blank
 * unless one is there. */
txl_status moses_detokenizer_continue(struct moses_detokenizer *detokenizer, char tail,
                                      txl_error *error);

#endif
