/* Text to ids and back. */
#include "endpoints.h"

#include "cli/io/output.h"

#include <inttypes.h>
#include <string.h>

/* The JSON, or NULL with the problem that memory is short. */
static json_t *or_lacks_memory(json_t *value, struct problem *problem) {
    if (!value)
        problem_lacks_memory(problem);
    return value;
}

static json_t *symbol_json(const txl_model *model, int32_t id) {
    size_t length;
    const char *symbol = txl_model_symbol(model, id, &length);
    return output_json_bytes(symbol, length);
}

/* ---- Text to ids --------------------------------------------------------------------------- */

/* The text under one of two names; NULL with the problem. */
static const json_t *text_of(const json_t *body, const char *name, const char *other,
                             struct problem *problem) {
    const json_t *text = json_object_get(body, name);
    if (!text)
        text = json_object_get(body, other);
    if (json_is_string(text))
        return text;
    problem_set(problem, 400, name, "%s (or %s) must be a string", name, other);
    return NULL;
}

static bool either_flag(const json_t *body, const char *name, const char *other, bool *value,
                        struct problem *problem) {
    return body_boolean(body, other, value, problem) && body_boolean(body, name, value, problem);
}

/* A text that is the boundary's spelling and nothing else is the boundary: a client asks so for its
 * id.  A longer text is never searched for symbols. */
static bool encode(struct prompt_tokens *tokens, const txl_model *model, bool raw,
                   const json_t *text, struct problem *problem) {
    const char *bytes = json_string_value(text);
    size_t length = json_string_length(text);
    int32_t eos = txl_model_eos(model);
    if (eos < 0 || txl_model_id(model, bytes, length) != eos)
        return prompt_tokens_encode(tokens, model, &(struct prompt_form){.raw = raw}, bytes, length,
                                    problem);
    *tokens = (struct prompt_tokens){0};
    return id_list_add(&tokens->list, eos) || problem_lacks_memory(problem);
}

static json_t *encoded_object(const txl_model *model, const struct prompt_tokens *tokens,
                              bool special, bool strings) {
    json_t *ids = json_array(), *names = json_array();
    int bad = 0;
    int32_t first = txl_model_first_context(model);
    if (special && (tokens->list.n == 0 || tokens->list.ids[0] != first)) {
        bad |= json_array_append_new(ids, json_integer(first));
        bad |= json_array_append_new(names, symbol_json(model, first));
    }
    for (size_t i = 0; i < tokens->list.n; i++) {
        bad |= json_array_append_new(ids, json_integer(tokens->list.ids[i]));
        if (strings)
            bad |= json_array_append_new(names, symbol_json(model, tokens->list.ids[i]));
    }
    json_t *object = json_pack("{s:o, s:I, s:i}", "tokens", ids, "count",
                               (json_int_t)json_array_size(ids), "max_model_len", MOST_TOKENS);
    if (strings)
        bad |= json_object_set(object, "token_strs", names);
    json_decref(names);
    return output_json_if(bad == 0, object);
}

json_t *tokenize_text(const txl_model *model, const json_t *body, struct problem *problem) {
    struct prompt_tokens tokens = {0};
    bool special = false, strings = false, raw = true;
    const json_t *text = text_of(body, "prompt", "content", problem);
    if (!text || !body_raw(body, "text", &raw, problem) ||
        !either_flag(body, "add_special_tokens", "add_special", &special, problem) ||
        !either_flag(body, "return_token_strs", "with_pieces", &strings, problem))
        return NULL;
    json_t *object = NULL;
    if (encode(&tokens, model, raw, text, problem))
        object = or_lacks_memory(encoded_object(model, &tokens, special, strings), problem);
    prompt_tokens_free(&tokens);
    return object;
}

/* ---- Ids to text --------------------------------------------------------------------------- */

static bool decode(const txl_model *model, bool raw, const json_t *list, struct buffer *text,
                   struct problem *problem) {
    txl_decoder *decoder;
    txl_error error;
    const char *part;
    size_t i, length;
    const json_t *value;
    txl_status status = txl_decoder_new(model, raw, &decoder, &error);
    if (status)
        return problem_set(problem, 500, NULL, "%s", error.message);
    bool good = true;
    json_array_foreach(list, i, value) {
        int64_t id;
        if (!body_whole(value, &id) || id < 0 || id >= txl_model_n_token(model)) {
            problem_set(problem, 400, "tokens", "tokens: number %zu is no id of the vocabulary", i);
            txl_decoder_free(decoder);
            return false;
        }
        good = good && !txl_decoder_push(decoder, (int32_t)id, &part, &length, &error) &&
               buffer_append(text, part, length);
    }
    good = good && !txl_decoder_finish(decoder, &part, &length, &error) &&
           buffer_append(text, part, length);
    txl_decoder_free(decoder);
    return good || problem_lacks_memory(problem);
}

json_t *tokenize_ids(const txl_model *model, const json_t *body, struct problem *problem) {
    const json_t *list = json_object_get(body, "tokens");
    struct buffer text = {0};
    json_t *object = NULL;
    bool raw = true;
    if (!json_is_array(list) || json_array_size(list) > MOST_TOKENS) {
        problem_set(problem, 400, "tokens", "tokens must be a list of at most %d ids", MOST_TOKENS);
        return NULL;
    }
    if (!body_raw(body, "text", &raw, problem))
        return NULL;
    if (decode(model, raw, list, &text, problem)) {
        const char *bytes = text.data ? text.data : "";
        object =
            or_lacks_memory(json_pack("{s:o, s:o}", "prompt", output_json_bytes(bytes, text.length),
                                      "content", output_json_bytes(bytes, text.length)),
                            problem);
    }
    buffer_free(&text);
    return object;
}

/* ---- The vocabulary ------------------------------------------------------------------------ */

json_t *tokenize_about(const txl_model *model, struct problem *problem) {
    int32_t eos = txl_model_eos(model);
    return or_lacks_memory(json_pack("{s:s, s:o, s:n, s:n, s:i}", "tokenizer_class", "txl",
                                     "eos_token", eos < 0 ? json_null() : symbol_json(model, eos),
                                     "bos_token", "pad_token", "vocab_size",
                                     (int)txl_model_n_token(model)),
                           problem);
}
