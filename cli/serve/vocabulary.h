/* POST /tokenize, POST /detokenize, GET /tokenizer_info: text to ids and back, as the harness,
 * vLLM's and llama.cpp's clients ask for it. */
#ifndef CLI_VOCABULARY_H
#define CLI_VOCABULARY_H

#include "completion.h"

/* The answers; NULL with the problem. */
json_t *vocabulary_encode(const txl_model *model, const json_t *body, struct problem *problem);
json_t *vocabulary_decode(const txl_model *model, const json_t *body, struct problem *problem);
json_t *vocabulary_about(const txl_model *model, struct problem *problem);

#endif
