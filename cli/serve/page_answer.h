/* GET /: the page, in which people write with the model and read what it says of a text. */
#ifndef CLI_PAGE_ANSWER_H
#define CLI_PAGE_ANSWER_H

#include "http.h"

#include <jansson.h>

/* Answers with the page, which knows the model as /v1/models tells it; NULL: with one that asks for
 * the key.  False when memory is short. */
bool page_answer(const struct http_module *http, struct exchange *exchange, const json_t *model);

#endif
