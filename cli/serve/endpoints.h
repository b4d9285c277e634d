/* What answers the requests of each path, a file each.  Return false, or NULL, with the problem. */
#ifndef CLI_ENDPOINTS_H
#define CLI_ENDPOINTS_H

#include "work.h"

/* Take a request that waits for its turn with the model: POST /v1/completions, which continues
 * prompts; /v1/score, the texts of items, and the rows of its tables; /v1/fill, the gaps
 * of a text, by an XLNet; /v1/learn, a copy of the model that has learned from a text, as with
 * --dynamic, a segment at a time beside the others' work. */
bool completions_take(struct work *work, struct exchange *exchange,
                      const struct text_options *usual, json_t *body, struct problem *problem);
bool score_take(struct work *work, struct exchange *exchange, const struct text_options *usual,
                const json_t *body, struct problem *problem);
bool fill_take(struct work *work, struct exchange *exchange, const struct text_options *usual,
               const json_t *body, struct problem *problem);
bool learn_take(struct work *work, struct exchange *exchange, const json_t *body,
                struct problem *problem);

/* POST /tokenize, POST /detokenize, GET /tokenizer_info: text to ids and back, as the harness,
 * vLLM's and llama.cpp's clients ask for it. */
json_t *tokenize_text(const txl_model *model, const json_t *body, struct problem *problem);
json_t *tokenize_ids(const txl_model *model, const json_t *body, struct problem *problem);
json_t *tokenize_about(const txl_model *model, struct problem *problem);

/* GET /: the page, in which people write with the model and read what it says of a text.  It knows
 * the model as /v1/models tells it; NULL: it asks for the key.  False when memory is short. */
bool page_route_answer(const struct http_module *http, struct exchange *exchange,
                       const json_t *model);

#endif
