/* Reads the body of a request for completions. */
#include "request.h"

#include "cli/io/output.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool problem_set(struct problem *problem, int status, const char *param, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    problem->status = status;
    problem->param = param;
    vsnprintf(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    return false;
}

bool problem_lacks_memory(struct problem *problem) {
    return problem_set(problem, 500, NULL, "out of memory");
}

/* Counts what takes memory when it is parsed, outside of strings. */
struct json_size {
    size_t values, nests, names; /* commas; objects and lists; colons */
};

static struct json_size size_json(const char *body, size_t length) {
    struct json_size size = {0};
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = body[i];
        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\';
        else if (c == ',')
            size.values++;
        else if (c == '{' || c == '[')
            size.nests++;
        else if (c == ':')
            size.names++;
    }
    return size;
}

json_t *body_parse(const char *body, size_t length, struct problem *problem) {
    json_error_t where;
    struct json_size size = size_json(body, length);
    if (size.values > MOST_VALUES || size.nests > MOST_NESTS || size.names > MOST_NAMES) {
        problem_set(problem, 400, NULL,
                    "the body is too large a JSON: at most %d values, %d objects and lists, and %d "
                    "names",
                    MOST_VALUES, MOST_NESTS, MOST_NAMES);
        return NULL;
    }
    json_t *object = json_loadb(body, length, JSON_REJECT_DUPLICATES, &where);
    if (object && json_is_object(object))
        return object;
    if (object)
        problem_set(problem, 400, NULL, "the body is no JSON object");
    else if (json_lacked_memory(&where))
        problem_lacks_memory(problem);
    else
        problem_set(problem, 400, NULL, "the body is no JSON: %s, at byte %d",
                    json_error_code(&where) == json_error_null_character ? "a string has a NUL"
                                                                         : where.text,
                    where.position);
    json_decref(object);
    return NULL;
}

/* ---- Members ------------------------------------------------------------------------------- */

/* The member, or NULL where there is none or it is null. */
static const json_t *member(const json_t *body, const char *name) {
    const json_t *value = json_object_get(body, name);
    return json_is_null(value) ? NULL : value;
}

bool body_boolean(const json_t *body, const char *name, bool *value, struct problem *problem) {
    const json_t *given = member(body, name);
    if (given && !json_is_boolean(given))
        return problem_set(problem, 400, name, "%s is neither true nor false", name);
    if (given)
        *value = json_is_true(given);
    return true;
}

bool body_whole(const json_t *value, int64_t *number) {
    double real = json_real_value(value);
    if (json_is_integer(value)) {
        *number = json_integer_value(value);
        return true;
    }
    if (!json_is_real(value) || fabs(real) > (double)MOST_INTEGER || real != trunc(real))
        return false;
    *number = (int64_t)real;
    return true;
}

bool body_integer(const json_t *body, const char *name, int64_t least, int64_t most, int64_t *value,
                  struct problem *problem) {
    const json_t *given = member(body, name);
    int64_t number;
    if (!given)
        return true;
    if (!body_whole(given, &number) || number < least || number > most)
        return problem_set(problem, 400, name, "%s is no whole number from %" PRId64 " to %" PRId64,
                           name, least, most);
    *value = number;
    return true;
}

bool body_string(const json_t *body, const char *name, char **value, struct problem *problem) {
    const json_t *given = member(body, name);
    *value = NULL;
    if (!given)
        return true;
    if (!json_is_string(given))
        return problem_set(problem, 400, name, "%s is no string", name);
    *value = strdup(json_string_value(given));
    return *value || problem_lacks_memory(problem);
}

bool body_choice(const json_t *body, const char *name, const char *const *choices, int *value,
                 struct problem *problem) {
    const json_t *given = member(body, name);
    const char *choice = given ? json_string_value(given) : choices[*value];
    for (int i = 0; choice && choices[i]; i++) {
        if (strcmp(choices[i], choice) == 0) {
            *value = i;
            return true;
        }
    }
    return problem_set(problem, 400, name, "%s is neither \"%s\" nor \"%s\"", name, choices[0],
                       choices[1]);
}

bool body_raw(const json_t *body, const char *name, bool *raw, struct problem *problem) {
    int form = TEXT_RAW;
    bool good = body_choice(body, name, text_forms, &form, problem);
    *raw = form == TEXT_RAW;
    return good;
}

bool body_arithmetic(const json_t *body, txl_arithmetic *value, struct problem *problem) {
    int chosen = (int)*value;
    bool good = body_choice(body, "arithmetic", arithmetics, &chosen, problem);
    *value = (txl_arithmetic)chosen;
    return good;
}

bool body_may_list(uint64_t tokens, int64_t top, struct problem *problem) {
    uint64_t listed = tokens * (uint64_t)(top + 1);
    return listed <= MOST_LISTED ||
           problem_set(problem, 400, "logprobs",
                       "%" PRIu64 " log-probabilities; an answer lists at most %d: ask for fewer, "
                       "or of fewer tokens",
                       listed, MOST_LISTED);
}

/* ---- Text to tokens ------------------------------------------------------------------------ */

static bool add_token(struct prompt_tokens *t, int32_t id, size_t begin, size_t end) {
    if (t->list.n == t->room) {
        size_t room = t->room + t->room / 2 + 64;
        size_t *begins = reallocarray(t->begins, room, sizeof *begins);
        if (begins)
            t->begins = begins;
        size_t *grown = begins ? reallocarray(t->ends, room, sizeof *grown) : NULL;
        if (!grown)
            return false;
        t->ends = grown;
        t->room = room;
    }
    t->begins[t->list.n] = begin;
    t->ends[t->list.n] = end;
    return id_list_add(&t->list, id);
}

static txl_status take_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct prompt_tokens *t = context;
    if (!symbol->text)
        return TXL_OK;
    if (t->list.n == MOST_TOKENS)
        return txl_fail(error, TXL_ARGUMENT, "more than %d tokens", MOST_TOKENS);
    size_t begin = smaller((size_t)symbol->offset, t->length);
    size_t end = smaller((size_t)(symbol->offset + symbol->bytes), t->length);
    return add_token(t, symbol->id, begin, end) ? TXL_OK
                                                : txl_fail(error, TXL_MEMORY, "out of memory");
}

/* Where the last token ends, the text ends. */
static void end_tokens(struct prompt_tokens *t) {
    if (t->list.n > 0)
        t->ends[t->list.n - 1] = t->length;
}

static bool has_pieces(const txl_model *model) {
    return txl_kind_unit(txl_model_kind(model)) == TXL_UNIT_PIECE;
}

/* Bytes of the blanks at the end of a text that begin the next piece. */
static size_t open_blanks(const txl_model *model, const char *text, size_t length) {
    size_t n = 0;
    while (has_pieces(model) && n < length && text[length - n - 1] == ' ')
        n++;
    return n;
}

bool prompt_tokens_encode(struct prompt_tokens *t, const txl_model *model,
                          const struct prompt_form *form, const char *text, size_t length,
                          struct problem *problem) {
    const txl_encoding encoding = {.raw = form->raw,
                                   .prompt = !form->corpus,
                                   .continues = !form->blank_symbol && has_pieces(model) &&
                                                length > 0 && text[0] == ' ',
                                   .lookup = true,
                                   .symbol = take_symbol,
                                   .context = t};
    txl_encoder *encoder = NULL;
    txl_error error;
    *t = (struct prompt_tokens){.text = malloc(length + 1), .length = length};
    if (!t->text)
        return problem_lacks_memory(problem);
    memcpy(t->text, text, length);
    t->text[length] = '\0';
    size_t blanks = form->corpus ? 0 : open_blanks(model, text, length);
    t->blank = blanks > 0;
    txl_status status = txl_encoder_new(model, &encoding, &encoder, &error);
    if (!status)
        status = txl_encoder_feed(encoder, text, length - blanks, &error);
    /* A prompt loses one line end at its very end: give it another one. */
    if (!status && !form->corpus && !form->trim && length > 0 && text[length - 1] == '\n')
        status = txl_encoder_feed(encoder, "\n", 1, &error);
    if (!status)
        status = txl_encoder_finish(encoder, &error);
    if (!status) {
        txl_encoded counts;
        txl_encoder_counts(encoder, &counts);
        t->unknown = counts.unknown;
        end_tokens(t);
    }
    txl_encoder_free(encoder);
    if (status == TXL_MEMORY)
        return problem_lacks_memory(problem);
    return !status || problem_set(problem, 400, "prompt", "the prompt: %s", error.message);
}

void prompt_tokens_free(struct prompt_tokens *t) {
    id_list_free(&t->list);
    free(t->text);
    free(t->begins);
    free(t->ends);
    *t = (struct prompt_tokens){0};
}

/* ---- Prompts ------------------------------------------------------------------------------- */

struct reader {
    struct request *c;
    const txl_model *model;
    const json_t *body;
    bool trim;
    struct problem *problem;
};

static bool read_ids(struct reader *r, const json_t *list) {
    struct prompt_tokens *t = &r->c->prompts[r->c->n_prompt++];
    size_t i;
    const json_t *value;
    json_array_foreach(list, i, value) {
        int64_t id;
        if (!body_whole(value, &id))
            return problem_set(r->problem, 400, "prompt",
                               "prompt mixes ids with other values; give texts or lists of ids");
        if (id < 0 || id >= txl_model_n_token(r->model))
            return problem_set(r->problem, 400, "prompt",
                               "prompt: %" PRId64 " is no id of the vocabulary, which has %" PRId32,
                               id, txl_model_n_token(r->model));
        if (!id_list_add(&t->list, (int32_t)id))
            return problem_lacks_memory(r->problem);
    }
    return true;
}

static bool read_text(struct reader *r, const json_t *value) {
    struct prompt_tokens *t = &r->c->prompts[r->c->n_prompt++];
    const struct prompt_form form = {.raw = r->c->raw, .trim = r->trim};
    return prompt_tokens_encode(t, r->model, &form, json_string_value(value),
                                json_string_length(value), r->problem);
}

static bool read_prompt(struct reader *r, const json_t *value) {
    if (json_is_string(value))
        return read_text(r, value);
    if (json_is_array(value))
        return read_ids(r, value);
    return problem_set(r->problem, 400, "prompt",
                       "prompt is no text, no list of ids, and no list of either");
}

/* Without a prompt a request was meant for another API: what other names it gives the text says
 * which. */
static bool lacks_prompt(const struct reader *r) {
    static const char *const others[] = {"messages", "inputs", "input", "content", "text_input"};
    size_t i = 0;
    while (i < sizeof others / sizeof *others && !member(r->body, others[i]))
        i++;
    if (i == 0)
        return problem_set(r->problem, 400, "prompt",
                           "there is no prompt: messages are of chat, for which txl has no "
                           "template; give the text as prompt");
    if (i < sizeof others / sizeof *others)
        return problem_set(r->problem, 400, "prompt",
                           "there is no prompt: give the text as prompt in the place of %s",
                           others[i]);
    return problem_set(r->problem, 400, "prompt", "there is no prompt; \"\" is one without text");
}

static bool read_prompts(struct reader *r) {
    struct request *c = r->c;
    const json_t *prompt = member(r->body, "prompt"), *first = json_array_get(prompt, 0);
    json_t *empty = NULL;
    if (!prompt && !c->memory)
        return lacks_prompt(r);
    if (!prompt)
        prompt = empty = json_string("");
    bool many = json_is_array(prompt) && (json_is_string(first) || json_is_array(first));
    size_t n = many ? json_array_size(prompt) : 1;
    bool good =
        n <= MOST_PROMPTS || problem_set(r->problem, 400, "prompt",
                                         "%zu prompts; a request has at most %d", n, MOST_PROMPTS);
    c->prompts = good ? calloc(n, sizeof *c->prompts) : NULL;
    if (good && (!c->prompts || !prompt))
        good = problem_lacks_memory(r->problem);
    for (size_t i = 0; good && i < n; i++) {
        const json_t *one = many ? json_array_get(prompt, i) : prompt;
        if (many && json_is_string(one) != json_is_string(first))
            good = problem_set(r->problem, 400, "prompt", "prompt mixes texts with ids");
        good = good && read_prompt(r, one);
        c->n_ids += good ? c->prompts[i].list.n : 0;
        if (good && c->n_ids > MOST_TOKENS)
            good = problem_set(r->problem, 400, "prompt",
                               "the prompts have more than %d tokens together", MOST_TOKENS);
    }
    json_decref(empty);
    return good;
}

/* ---- How tokens are drawn ------------------------------------------------------------------ */

/* A field is called as the option of txl generate that it sets, with _ for -, or as other servers
 * call it: */
static const struct {
    const char *field, *option;
} other_names[] = {{"typical_p", "typical"},
                   {"repeat_penalty", "repetition-penalty"},
                   {"repeat_last_n", "repeat-last"}};
enum { N_OTHER = sizeof other_names / sizeof *other_names };

/* The option that a field sets as the command line does, or NULL: numbers of the sampling, and
 * choices. */
static const struct option_row *row_of_field(const char *field) {
    for (size_t i = 0; i < N_OTHER; i++)
        if (strcmp(other_names[i].field, field) == 0)
            return text_option_row(text_option_rows, other_names[i].option);
    const struct option_row *row =
        strchr(field, '-') ? NULL : text_option_row(text_option_rows, field);
    if (!row || field[1] == '\0')
        return NULL;
    bool number = row->kind == OPTION_INTEGER || row->kind == OPTION_REAL;
    bool sampling =
        row->offset < offsetof(struct text_options, sampling) + sizeof(struct sampling_options);
    return row->kind == OPTION_CHOICE || (number && sampling) ? row : NULL;
}

/* Sets an option by the text that the command line would have for the value. */
static bool set_option(struct reader *r, const char *field, const struct option_row *row,
                       const json_t *value) {
    struct option_problem wrong;
    bool wants_text = row->kind == OPTION_CHOICE;
    int64_t number = 0;
    bool whole = body_whole(value, &number);
    if (wants_text != json_is_string(value) || (!wants_text && !json_is_number(value)))
        return problem_set(r->problem, 400, field, "%s is no %s", field,
                           wants_text ? "string" : "number");
    if (whole && number == -1 && strcmp(row->name, "top-k") == 0)
        number = 0; /* vLLM's: off */
    char *text = wants_text ? strdup(json_string_value(value)) : NULL;
    if (whole && asprintf(&text, "%" PRId64, number) < 0)
        text = NULL;
    else if (!wants_text && !whole)
        text = output_json_value(value);
    if (!text)
        return problem_lacks_memory(r->problem);
    bool good = options_set_value(row, text, &r->c->options, &wrong) ||
                problem_set(r->problem, 400, field, "%s %s", field, wrong.text);
    free(text);
    return good;
}

/* Whether no other name of the field's setting is in the body. */
static bool is_only_name(struct reader *r, const char *field, const struct option_row *row) {
    const char *other;
    json_t *value;
    json_object_foreach((json_t *)r->body, other, value) {
        if (!json_is_null(value) && strcmp(other, field) != 0 && row_of_field(other) == row)
            return problem_set(r->problem, 400, other, "%s and %s are two names of one setting",
                               field, other);
    }
    return true;
}

static bool read_sampling(struct reader *r) {
    struct sampling_options *s = &r->c->options.sampling;
    const char *field;
    json_t *value;
    json_object_foreach((json_t *)r->body, field, value) {
        const struct option_row *row = json_is_null(value) ? NULL : row_of_field(field);
        if (row && (!is_only_name(r, field, row) || !set_option(r, field, row, value)))
            return false;
    }
    if (sampling_wrong(s))
        return problem_set(r->problem, 400, "repeat_last", "repeat_last needs repetition_penalty");
    sampling_choose(s, r->model);
    return true;
}

/* vLLM's range of 64 bits, of which the lowest count; a negative seed is a fresh one, as llama.cpp
 * has it. */
static bool read_seed(struct reader *r) {
    int64_t seed = -1;
    if (!body_integer(r->body, "seed", INT64_MIN, INT64_MAX, &seed, r->problem))
        return false;
    return sampling_seed(seed < 0 ? INTEGER_UNSET : seed, &r->c->seed) ||
           problem_set(r->problem, 500, "seed", "cannot draw a seed");
}

/* ---- Where a text ends --------------------------------------------------------------------- */

/* Whether the string is the boundary symbol's spelling: then the text ends at the id. */
static bool spells_eos(const struct reader *r, const char *text, size_t length) {
    int32_t eos = txl_model_eos(r->model);
    return eos >= 0 && txl_model_id(r->model, text, length) == eos;
}

static bool add_stop(struct reader *r, const json_t *value) {
    struct string_list *stop = &r->c->options.stop;
    const char *text = json_string_value(value);
    if (!text || *text == '\0')
        return problem_set(r->problem, 400, "stop",
                           text ? "stop has an empty string"
                                : "stop is neither a string nor a list of strings");
    if (spells_eos(r, text, json_string_length(value))) {
        r->c->options.eos = EOS_STOP;
        return true;
    }
    char *copy = strdup(text);
    if (!copy)
        return problem_lacks_memory(r->problem);
    stop->items[stop->n++] = copy;
    return true;
}

static bool read_stops(struct reader *r) {
    const json_t *stop = member(r->body, "stop");
    struct string_list *list = &r->c->options.stop;
    *list = (struct string_list){.items = calloc(MOST_STOPS, sizeof *list->items)};
    if (!list->items)
        return problem_lacks_memory(r->problem);
    if (!stop)
        return true;
    if (!json_is_array(stop))
        return add_stop(r, stop);
    size_t n = json_array_size(stop);
    bool good = n <= MOST_STOPS || problem_set(r->problem, 400, "stop",
                                               "%zu strings in stop; at most %d", n, MOST_STOPS);
    for (size_t i = 0; good && i < n; i++)
        good = add_stop(r, json_array_get(stop, i));
    return good;
}

/* ---- Fields that are refused, and fields that mean nothing --------------------------------- */

/* Fields that would limit or shape the text, and that txl does not have, with the remedy if there
 * is one.  Each has values that change nothing: null, false, 0, what is empty, and `neutral`. */
static const struct {
    const char *field, *remedy;
    double neutral;
} unsupported[] = {
    {"frequency_penalty", ": leave it out, or use repetition_penalty", 0},
    {"presence_penalty", ": leave it out, or use repetition_penalty", 0},
    {"logit_bias", "", 0},
    {"response_format", "", 0},
    {"structured_outputs", "", 0},
    {"json_schema", "", 0},
    {"grammar", "", 0},
    {"regex", "", 0},
    {"ebnf", "", 0},
    {"structural_tag", "", 0},
    {"tools", "", 0},
    {"min_tokens", ": a text ends by max_tokens, stop, end or eos", 0},
    {"min_new_tokens", ": a text ends by max_tokens, stop, end or eos", 0},
    {"bad_words", "", 0},
    {"allowed_token_ids", "", 0},
    {"logits_processors", "", 0},
    {"stop_token_ids", ": use stop", 0},
    {"ignore_eos", ": use eos", 0},
    {"include_stop_str_in_output", "", 0},
    {"n_predict", ": use max_tokens", NAN},
    {"max_new_tokens", ": use max_tokens", NAN},
    {"max_completion_tokens", ": use max_tokens", NAN},
    {"prompt_logprobs", ": use echo and logprobs", NAN}, /* 0 asks for the prompt's own tokens */
    {"n_probs", ": use logprobs", 0},
    {"truncate_prompt_tokens", "", -1},
    {"prompt_embeds", "", 0},
    {"input_extra", "", 0},
    {"input_prefix", "", 0},
    {"input_suffix", "", 0},
    {"use_beam_search", "", 0},
    {"length_penalty", "", 1},
    {"mirostat", "", 0},
    {"mirostat_mode", "", 0},
    {"tfs_z", "", 1},
    {"tfs", "", 1},
    {"top_a", "", 0},
    {"top_n_sigma", "", -1},
    {"dynatemp_range", "", 0},
    {"dry_multiplier", "", 0},
    {"xtc_probability", "", 0},
    {"no_repeat_ngram_size", ": use no_repeat_ngram", 0},
    {"lora", "", 0},
};
enum { N_UNSUPPORTED = sizeof unsupported / sizeof *unsupported };

/* vLLM's guided decoding is a family of names. */
static bool is_guided(const char *name) {
    return strncmp(name, "guided_", 7) == 0;
}

/* Whether a value changes nothing.  OpenAI's response_format has a type that is none. */
static bool is_neutral(const json_t *value, double neutral) {
    if (json_is_number(value))
        return json_number_value(value) == neutral ||
               (json_number_value(value) == 0 && !isnan(neutral));
    const char *type = json_string_value(json_object_get(value, "type"));
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (type && strcmp(type, "text") == 0);
}

static bool check_unsupported(struct reader *r) {
    const json_t *suffix = json_object_get(r->body, "suffix");
    const char *name;
    json_t *value;
    for (size_t i = 0; i < N_UNSUPPORTED; i++)
        if (!row_of_field(unsupported[i].field) &&
            !is_neutral(json_object_get(r->body, unsupported[i].field), unsupported[i].neutral))
            return problem_set(r->problem, 400, unsupported[i].field, "%s is not supported%s",
                               unsupported[i].field, unsupported[i].remedy);
    json_object_foreach((json_t *)r->body, name, value) {
        if (is_guided(name) && !is_neutral(value, 0))
            return problem_set(r->problem, 400, name, "%.40s is not supported", name);
    }
    return is_neutral(suffix, 0) ||
           problem_set(r->problem, 400, "suffix", "suffix is not supported: %s",
                       txl_model_family(r->model) == TXL_FAMILY_XLNET
                           ? "/v1/fill fills <mask> in a text"
                           : "a Transformer-XL sees only what is before");
}

static bool is_known(const char *name) {
    static const char *const known[] = {"prompt",
                                        "max_tokens",
                                        "echo",
                                        "logprobs",
                                        "seed",
                                        "stop",
                                        "n",
                                        "best_of",
                                        "stream",
                                        "stream_options",
                                        "model",
                                        "suffix",
                                        "add_special_tokens",
                                        "return_tokens_as_token_ids",
                                        "trim",
                                        "arithmetic",
                                        "memory",
                                        "learned",
                                        "text"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], name) == 0)
            return true;
    for (size_t i = 0; i < N_UNSUPPORTED; i++)
        if (strcmp(unsupported[i].field, name) == 0)
            return true;
    return is_guided(name) || row_of_field(name);
}

/* Lists the fields that are ignored, as a header can have them: names of plain letters alone, and
 * no more than 1,000 bytes. */
static bool list_ignored(struct reader *r) {
    struct buffer *list = &r->c->ignored;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->body, name, value) {
        static const char plain[] =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
        if (is_known(name))
            continue;
        bool shown = *name != '\0' && name[strspn(name, plain)] == '\0';
        const char *spelled = shown ? name : "?";
        if (list->length + strlen(spelled) > 1000)
            break;
        if ((list->length > 0 && !buffer_append(list, ", ", 2)) ||
            !buffer_append(list, spelled, strlen(spelled)))
            return problem_lacks_memory(r->problem);
    }
    return buffer_append(list, "", 1) || problem_lacks_memory(r->problem);
}

/* ---- The request --------------------------------------------------------------------------- */

static bool read_log_probabilities(struct reader *r) {
    struct request *c = r->c;
    c->top = -1;
    if (!body_integer(r->body, "logprobs", 0, MOST_TOP, &c->top, r->problem))
        return false;
    int32_t n = txl_model_n_token(r->model);
    return c->top <= n || problem_set(r->problem, 400, "logprobs",
                                      "logprobs: the model has %" PRId32 " symbols", n);
}

static bool read_counts(struct reader *r) {
    struct request *c = r->c;
    int64_t best = 0;
    c->n = 1;
    c->max_tokens = 16;
    if (!body_integer(r->body, "n", 1, MOST_CHOICES, &c->n, r->problem) ||
        !body_integer(r->body, "best_of", 1, MOST_CHOICES, &best, r->problem) ||
        !body_integer(r->body, "max_tokens", 0, MOST_MADE, &c->max_tokens, r->problem))
        return false;
    c->options.n = c->max_tokens;
    return best == 0 || best == c->n ||
           problem_set(r->problem, 400, "best_of", "best_of must be the same as n");
}

static bool read_flags(struct reader *r) {
    struct request *c = r->c;
    const json_t *options = member(r->body, "stream_options");
    c->special = true;
    if (options && !json_is_object(options))
        return problem_set(r->problem, 400, "stream_options", "stream_options is no object");
    return body_raw(r->body, "text", &c->raw, r->problem) &&
           body_boolean(r->body, "echo", &c->echo, r->problem) &&
           body_boolean(r->body, "stream", &c->stream, r->problem) &&
           body_boolean(r->body, "trim", &r->trim, r->problem) &&
           body_boolean(r->body, "add_special_tokens", &c->special, r->problem) &&
           body_boolean(r->body, "return_tokens_as_token_ids", &c->name_ids, r->problem) &&
           body_boolean(options, "include_usage", &c->include_usage, r->problem);
}

static bool check_length(const struct reader *r) {
    const struct request *c = r->c;
    uint64_t tokens = (c->echo ? c->n_ids : 0) + c->n_prompt * (uint64_t)c->max_tokens;
    return body_may_list(tokens * (uint64_t)c->n, c->top, r->problem);
}

bool request_read(struct request *c, const struct model *model, const struct text_options *options,
                  txl_arithmetic arithmetic, json_t *body, struct problem *problem) {
    struct reader r = {.c = c, .model = model->handle, .body = body, .problem = problem};
    *c = (struct request){.options = *options, .arithmetic = arithmetic};
    return read_flags(&r) && body_arithmetic(body, &c->arithmetic, problem) &&
           body_string(body, "memory", &c->memory, problem) &&
           body_string(body, "learned", &c->learned, problem) && read_counts(&r) &&
           read_log_probabilities(&r) && read_stops(&r) && read_sampling(&r) && read_seed(&r) &&
           check_unsupported(&r) && list_ignored(&r) && read_prompts(&r) && check_length(&r);
}

bool request_read_temperature(struct request *c, const struct model *model,
                              const struct text_options *options, const json_t *body,
                              struct problem *problem) {
    struct reader r = {.c = c, .model = model->handle, .body = body, .problem = problem};
    *c = (struct request){.options = *options};
    const char *field;
    json_t *value;
    json_object_foreach((json_t *)body, field, value) {
        const struct option_row *row = json_is_null(value) ? NULL : row_of_field(field);
        if (row && strcmp(row->name, "temperature") != 0)
            return problem_set(problem, 400, field,
                               "%s is not supported here: gaps are sampled by temperature alone",
                               field);
    }
    return read_sampling(&r) && read_seed(&r);
}

void request_free(struct request *c) {
    for (size_t i = 0; i < c->n_prompt; i++)
        prompt_tokens_free(&c->prompts[i]);
    free(c->prompts);
    for (size_t i = 0; i < c->options.stop.n; i++)
        free((char *)c->options.stop.items[i]);
    free(c->options.stop.items);
    free(c->memory);
    free(c->learned);
    former_text_free(&c->former);
    buffer_free(&c->ignored);
    *c = (struct request){0};
}
