/* Answers of completions, whole or as a stream of events. */
#include "endpoints.h"

#include "answers.h"
#include "cli/io/output.h"
#include "cli/model/sampling.h"
#include "lib/base/json_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const size_t NONE = SIZE_MAX;

static struct token_spelling spelling_of(const struct job *job) {
    return (struct token_spelling){.model = job->work->model.handle,
                                   .scratch = job->rules.scratch,
                                   .names_ids = job->c.name_ids,
                                   .echo = job->c.echo};
}

/* Begins the answer, or an event of a stream, up to the list of choices. */
static bool open_answer(const struct job *job, struct buffer *out) {
    char name[ANSWER_NAME];
    answer_name(job->name, name);
    return answer_open(out, json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", name, "object",
                                      "text_completion", "created", (json_int_t)job->created,
                                      "model", job->work->model.name, "system_fingerprint",
                                      job->work->fingerprint)) &&
           answer_append(out, ",\"choices\":[");
}

static json_t *usage(const struct job *job) {
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)job->c.n_ids,
                     "completion_tokens", (json_int_t)job->made, "total_tokens",
                     (json_int_t)(job->c.n_ids + job->made));
}

static json_t *finish_reason(const struct slot *slot) {
    const char *done = slot->text.done;
    return slot->state != SLOT_DONE ? json_null()
                                    : json_string(strcmp(done, "length") == 0 ? "length" : "stop");
}

/* vLLM's: the string that ended the text, or why it ended; null where its length did. */
static json_t *stop_reason(const struct slot *slot) {
    const char *done = slot->text.done;
    if (slot->state != SLOT_DONE || strcmp(done, "length") == 0)
        return json_null();
    if (strcmp(done, "stop") != 0)
        return json_string(done);
    const struct stop *longest = NULL;
    const struct stop_search *search = &slot->text.stops;
    for (size_t i = 0; i < search->n; i++) {
        const struct stop *stop = &search->stops[i];
        if (stop->matched == stop->length && (!longest || stop->length > longest->length))
            longest = stop;
    }
    return longest ? output_json_string(longest->text) : json_null();
}

/* Tokens of the answer up to now; with echo also those of the prompt that are read. */
static size_t tokens_so_far(const struct slot *slot) {
    return slot_prompt_tokens(slot) + slot->made.n;
}

/* Without echo the prompt's tokens are passed over, but their text counts. */
static void skip_prompt(const struct job *job, struct slot *slot) {
    if (job->c.echo || slot->listed > 0)
        return;
    slot->listed = slot_prompt_tokens(slot);
    slot->listed_end = answer_characters(slot->prompt_text.data, slot->prompt_text.length);
}

/* A choice with `length` bytes of the text; of a stream what is new.  With the log-probabilities of
 * the tokens up to `end` (NONE: without), if they were asked for. */
static bool write_choice(const struct job *job, struct slot *slot, const char *text, size_t length,
                         size_t end, bool last, struct buffer *out) {
    const struct token_spelling spelling = spelling_of(job);
    size_t index = slot->prompt * (size_t)job->c.n + slot->number;
    skip_prompt(job, slot);
    bool good = answer_open(out, json_pack("{s:I, s:o, s:o, s:o}", "index", (json_int_t)index,
                                           "text", output_json_bytes(text, length), "finish_reason",
                                           last ? finish_reason(slot) : json_null(), "stop_reason",
                                           last ? stop_reason(slot) : json_null()));
    good = good && answer_append(out, ",\"logprobs\":");
    if (end != NONE && job->c.top >= 0)
        good = good && answer_logprobs(&spelling, slot, end, out);
    else
        good = good && answer_append(out, "null");
    return good && answer_append(out, "}");
}

/* ---- The whole answer ---------------------------------------------------------------------- */

static bool write_whole(const struct job *job, struct slot *slot, struct buffer *out) {
    struct buffer text = {0};
    const struct buffer *made = &slot->text.output;
    bool good =
        !job->c.echo || buffer_append(&text, slot->prompt_text.data, slot->prompt_text.length);
    good = good && buffer_append(&text, made->data, made->length) &&
           write_choice(job, slot, text.data ? text.data : "", text.length, tokens_so_far(slot),
                        true, out);
    buffer_free(&text);
    return good;
}

static json_t *settings_object(const struct job *job) {
    const struct text_options *o = &job->c.options;
    const struct run_settings run = {
        .text = text_form(job->work->model.handle, job->c.raw ? TEXT_RAW : TEXT_TOKENS, false)};
    json_t *settings = json_object();
    bool good =
        sampling_to_json(settings, &o->sampling) &&
        output_json_append(settings, json_pack("{s:s, s:s, s:s*}", "eos", eos_ways[o->eos], "end",
                                               ends[o->end], "learned", job->c.learned)) &&
        settings_to_json(settings, &job->work->model, &job->rules.settings, &run);
    return output_json_if(good, settings);
}

/* What is txl's own: how it was drawn, and symbols of the prompts that the vocabulary lacks. */
static json_t *own_object(const struct job *job) {
    uint64_t unknown = 0;
    for (size_t i = 0; i < job->c.n_prompt; i++)
        unknown += job->c.prompts[i].unknown;
    return json_pack("{s:I, s:I, s:o}", "seed", (json_int_t)job->c.seed, "unknown",
                     (json_int_t)unknown, "settings", settings_object(job));
}

/* Ends the list of choices, and the answer. */
static bool write_end(const struct job *job, struct buffer *out) {
    return answer_append(out, "],\"usage\":") && answer_write(out, usage(job)) &&
           answer_append(out, ",\"txl\":") && answer_write(out, own_object(job)) &&
           answer_append(out, "}");
}

static bool send_usage(struct job *job) {
    struct buffer out = {0};
    bool good = !job->c.include_usage ||
                (open_answer(job, &out) && write_end(job, &out) && job_send_text(job, &out));
    buffer_free(&out);
    return good;
}

/* Keeps what a later request may go on from. */
static bool keep_texts(struct job *job) {
    bool good = true;
    for (size_t i = 0; i < job->n_slot && good; i++) {
        struct former_text former;
        good = slot_former_text(&job->slots[i], &former);
        if (good)
            former_texts_keep(&job->work->former_texts, job->name, i, &former);
    }
    return good;
}

static bool finish(struct job *job) {
    struct buffer out = {0};
    if (!keep_texts(job))
        return false;
    if (job->c.stream)
        return send_usage(job);
    bool good = open_answer(job, &out);
    for (size_t i = 0; i < job->n_slot && good; i++)
        good = (i == 0 || answer_append(&out, ",")) && write_whole(job, &job->slots[i], &out);
    good = good && write_end(job, &out);
    if (good)
        job_answer_text(job, &out);
    buffer_free(&out);
    return good;
}

/* ---- Events -------------------------------------------------------------------------------- */

static bool send_choice(struct job *job, struct slot *slot, const char *text, size_t length,
                        size_t end, bool last) {
    struct buffer out = {0};
    bool good = open_answer(job, &out) && write_choice(job, slot, text, length, end, last, &out) &&
                answer_append(&out, "]}") && job_send_text(job, &out);
    buffer_free(&out);
    return good;
}

/* The prompt is the first event of a text, if it is no long one. */
static bool send_prompt(struct job *job, struct slot *slot) {
    slot->opened = true;
    if (!job->c.echo)
        return true;
    return send_choice(job, slot,
                       slot->prompt_text.data ? slot->prompt_text.data + slot->text_sent : "",
                       slot->prompt_text.length - slot->text_sent, slot_prompt_tokens(slot), false);
}

/* Sends what was read of a long prompt, in whole characters. */
static bool send_read(struct job *job, struct slot *slot) {
    const struct buffer *text = &slot->prompt_text;
    size_t scored = slot->scores.n > slot->n_before ? slot->scores.n - slot->n_before : 0;
    if (scored <= slot->listed)
        return true;
    size_t begin = slot->text_sent, end = smaller(answer_token_end(slot, scored - 1), text->length);
    if (end == text->length)
        end = complete_characters(text);
    while (end > begin && end < text->length && ((unsigned char)text->data[end] & 0xC0) == 0x80)
        end--;
    slot->text_sent = end > begin ? end : begin;
    return send_choice(job, slot, text->data ? text->data + begin : "", slot->text_sent - begin,
                       scored, false);
}

/* Sends the new text, in whole characters, and the new tokens; then the last event. */
static bool send_new(struct job *job, struct slot *slot) {
    struct buffer *text = &slot->text.output;
    bool done = slot->state == SLOT_DONE;
    bool good = true;
    if (slot->state == SLOT_READING)
        return !slot->in_parts || send_read(job, slot);
    if (!slot->opened)
        good = send_prompt(job, slot);
    size_t length = done ? text->length : complete_characters(text);
    size_t end = tokens_so_far(slot);
    skip_prompt(job, slot);
    bool news = length > 0 || (job->c.top >= 0 && end > slot->listed);
    if (good && news) {
        good = send_choice(job, slot, text->data ? text->data : "", length, end, false);
        buffer_drop(text, length);
    }
    return good && (!done || send_choice(job, slot, "", 0, NONE, true));
}

static const struct job_kind kind = {.send = send_new, .finish = finish};

/* Finds the answer that the texts go on from. */
static bool find_former_text(struct job *job, struct problem *problem) {
    struct request *c = &job->c;
    if (!c->memory)
        return true;
    if (!former_texts_find(&job->work->former_texts, c->memory, &c->former))
        return problem_lacks_memory(problem);
    if (c->former.list.n == 0)
        return problem_set(problem, 400, "memory",
                           "memory: no answer '%.40s' is kept; send its text as the prompt",
                           c->memory);
    size_t n = c->n_ids + c->former.list.n * c->n_prompt;
    return n <= MOST_TOKENS || problem_set(problem, 400, "memory",
                                           "the prompts and memory have more than %d tokens "
                                           "together",
                                           MOST_TOKENS);
}

/* A request may have another arithmetic than the server. */
static void choose_settings(struct job *job) {
    const txl_settings *usual = &job->work->pool.settings;
    job->settings = *usual;
    job->settings.arithmetic = job->c.arithmetic;
    job->own_settings = job->c.arithmetic != usual->arithmetic;
}

bool completions_take(struct work *work, struct exchange *exchange,
                      const struct text_options *usual, json_t *body, struct problem *problem) {
    struct job *job = job_new(work, exchange, &kind);
    if (!job)
        return problem_lacks_memory(problem);
    bool good =
        request_read(&job->c, &work->model, usual, work->pool.settings.arithmetic, body, problem) &&
        find_former_text(job, problem);
    choose_settings(job);
    good = good && job_choose_model(job, job->c.learned, false, problem);
    good = good && (sampling_seed(INTEGER_UNSET, &job->name) ||
                    problem_set(problem, 500, NULL, "cannot draw a name"));
    good = good && job_open_slots(job, job->c.echo && job->c.top >= 0, false, problem);
    if (good && job->c.ignored.length > 1)
        work->http->mark(exchange, "X-Txl-Ignored", job->c.ignored.data);
    return work_take(work, job, good, problem);
}
