/* What the Moses tokenizer and its detokenizer share: questions about words, and text that grows.
 */
#ifndef TXL_MOSES_QUESTIONS_H
#define TXL_MOSES_QUESTIONS_H

#define PCRE2_CODE_UNIT_WIDTH 8

#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "moses.h"

#include <pcre2.h>
#include <stdbool.h>

/* Patterns that a word is matched against; WORD finds the words in a token. */
enum question {
    HAS_LETTER,
    STARTS_LOWER,
    WORD,
    STARTS_CJK,
    ENDS_CJK,
    OPENS,
    CLOSES,
    CONTRACTS,
    QUOTES,
    CURLY_QUOTES,
    N_QUESTIONS
};

/* Whether `text`, which must be valid UTF-8, matches the question's pattern from byte `at` on;
 * `match` then has the place. */
bool moses_matches(const struct moses *moses, enum question question, const char *text,
                   size_t length, size_t at, pcre2_match_data *match);

/* Appends to a line of text, or takes room for `extra` bytes of it. */
txl_status moses_append(struct buffer *text, const char *bytes, size_t length, txl_error *error);
txl_status moses_reserve(struct buffer *text, size_t extra, txl_error *error);

#endif
