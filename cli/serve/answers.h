/* What requests are answered with, as JSON. */
#ifndef CLI_ANSWERS_H
#define CLI_ANSWERS_H

#include "request.h"
#include "slot.h"

#include <jansson.h>

/* Log-probabilities have as many digits as tell floats apart: whether a token's own is the largest
 * of its alternatives is then exact. */
#define ANSWER_FORM (JSON_COMPACT | JSON_REAL_PRECISION(9))

/* A log-probability, never less than -9999; null for NAN. */
json_t *answer_logprob(float logprob);

/* Adds a value as text; and an object without the brace that closes it, for more members.  They
 * take the reference.  False when memory is short. */
bool answer_write(struct buffer *out, json_t *value);
bool answer_open(struct buffer *out, json_t *object);
bool answer_append(struct buffer *out, const char *text);

/* {"error": {"message", "type", "param", "code"}} */
json_t *answer_error(const struct problem *problem);

/* How tokens are spelled. */
struct token_spelling {
    const txl_model *model;
    txl_decoder *scratch; /* decodes alternatives */
    bool names_ids;       /* "token_id:N" for a token */
    bool echo;            /* the prompt's tokens too */
};

/* Where in the prompt's text one of its tokens ends. */
size_t answer_token_end(const struct slot *slot, size_t token);

/* The spelling of a token of the slot's answer: its text, or "bytes:\x.." where that is no whole
 * UTF-8. */
json_t *answer_token(const struct token_spelling *spelling, const struct slot *slot, size_t token);

/* The likeliest in a token's place, by their text: of several with the same text the likeliest; and
 * the token itself.  Null where nothing was before it. */
json_t *answer_top(const struct token_spelling *spelling, const struct slot *slot, size_t token);

/* Writes the log-probabilities of the tokens not yet listed, up to `end`, as OpenAI has
 * them; they are listed then.  Token by token: as objects all of them would take ten times as much
 * memory. False when memory is short. */
bool answer_logprobs(const struct token_spelling *spelling, struct slot *slot, size_t end,
                     struct buffer *out);

/* Code points of text[length], or what is left of them behind a cut. */
uint64_t answer_characters(const char *text, size_t length);

#endif
