/* The request for completions: what a body asks for, checked.
 *
 * Fields are those of OpenAI's API, with the names that vLLM and llama.cpp have for more of them.
 */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include "cli/model/settings.h"
#include "cli/text/tokens.h"
#include "cli/texts/text.h"
#include "lib/base/memory.h"
#include "prefix_cache.h"

#include <jansson.h>

/* Bounds of a request. */
#define MOST_BODY (16 << 20)
#define MOST_VALUES 1100000 /* of JSON: as many ids as tokens */
#define MOST_NESTS 1024
#define MOST_NAMES 4096
#define MOST_PROMPTS 64
#define MOST_TOKENS 1048576 /* of all prompts together */
#define MOST_MADE 1000000   /* of one text */
#define MOST_TOP 100
#define MOST_LISTED (1 << 22) /* log-probabilities of an answer, each token's and its likeliest */
#define MOST_STOPS 16
#define MOST_CHOICES 16

/* What is wrong with a request. */
struct problem {
    int status;        /* of HTTP */
    const char *param; /* the field; NULL: none */
    char text[1200];
};

/* Fills in the problem and returns false. */
bool problem_set(struct problem *problem, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool problem_lacks_memory(struct problem *problem);

/* Parses a body that is an object.  NULL with the problem. */
json_t *body_parse(const char *body, size_t length, struct problem *problem);

/* Whether the value is a whole number; 5.0 is one, as R and JavaScript's kin write it. */
bool body_whole(const json_t *value, int64_t *number);

/* Reads members; they leave the value as it is where there is none or it is null.  False with the
 * problem. */
bool body_boolean(const json_t *body, const char *name, bool *value, struct problem *problem);
bool body_integer(const json_t *body, const char *name, int64_t least, int64_t most, int64_t *value,
                  struct problem *problem);

/* One of two `choices`, of which the value is the index. */
bool body_choice(const json_t *body, const char *name, const char *const *choices, int *value,
                 struct problem *problem);

/* Reads the member arithmetic; `value` is the server's. */
bool body_arithmetic(const json_t *body, txl_arithmetic *value, struct problem *problem);

/* Whether an answer may list this many tokens, each with `top` likeliest. */
bool body_may_list(uint64_t tokens, int64_t top, struct problem *problem);

/* A copy of a string; NULL where there is none. */
bool body_string(const json_t *body, const char *name, char **value, struct problem *problem);

/* How a text of words is split: the member is "raw", as without it, or "tokens". */
bool body_raw(const json_t *body, const char *name, bool *raw, struct problem *problem);

/* A text as tokens. */
struct prompt_tokens {
    struct id_list list;
    char *text; /* [length], what was encoded; NULL: the prompt was ids */
    size_t length;
    size_t *begins; /* [list.n]: where in the text each token begins, without blanks before words */
    size_t *ends;   /* [list.n]: where it ends; the last one where the text does */
    size_t room;
    bool blank;       /* the blanks at the text's end were not read: they begin the next piece */
    uint64_t unknown; /* symbols that the vocabulary lacks, replaced or left out */
};

/* How a text becomes tokens. */
struct prompt_form {
    bool raw;          /* as in txl_encoding */
    bool corpus;       /* its last line is closed; else it is a prompt, */
    bool trim;         /* which loses a line end at its end */
    bool blank_symbol; /* of pieces: a blank before the first word is read besides the word's own;
                   else it is the word's own, as clients put one before what goes on behind a
                   context */
};

/* Encodes a text.  False with the problem; end with prompt_tokens_free. */
bool prompt_tokens_encode(struct prompt_tokens *tokens, const txl_model *model,
                          const struct prompt_form *form, const char *text, size_t length,
                          struct problem *problem);
void prompt_tokens_free(struct prompt_tokens *tokens);

struct request {
    struct prompt_tokens *prompts; /* [n_prompt] */
    size_t n_prompt;
    size_t n_ids; /* of all prompts together */
    int64_t n;    /* texts of each prompt */
    int64_t max_tokens;
    int64_t top; /* likeliest tokens of each place; -1: no log-probabilities at all */
    bool echo, stream, include_usage, special, name_ids, raw;
    struct text_options options; /* how tokens are drawn, and where a text ends */
    uint64_t seed;
    txl_arithmetic arithmetic;
    char *memory;              /* a former answer, which the texts go on from; NULL: none */
    struct former_text former; /* its tokens */
    char *learned;             /* what was learned; NULL: the model is as it was */
    struct buffer ignored;     /* names of fields that mean nothing here, between commas */
};

/* Reads the body.  `options` are those of a request without fields; `arithmetic` is the server's.
 * False with the problem; end with request_free either way. */
bool request_read(struct request *request, const struct model *model,
                  const struct text_options *options, txl_arithmetic arithmetic, json_t *body,
                  struct problem *problem);
void request_free(struct request *request);

/* Reads only the temperature of how tokens are drawn, into c->options, and the seed; refuses the
 * rest. */
bool request_read_temperature(struct request *request, const struct model *model,
                              const struct text_options *options, const json_t *body,
                              struct problem *problem);

#endif
