/* What is printed of a text: its bytes, or objects for its tokens and its end. */
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "generate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The distance between the random streams of a turn and of its retry: more than there are
 * samples. */
static const uint64_t RETRY_STREAMS = (uint64_t)1 << 32;

struct run_settings generate_settings(const struct generate *g) {
    const struct text_rules *r = &g->rules;
    return (struct run_settings){
        .text = text_form(g->model.handle, r->raw ? TEXT_RAW : TEXT_TOKENS, r->ids),
        .generates = true,
        .unwrap = g->options->common.unwrap,
        .dynamic = g->options->dynamic.on ? &g->dynamic.settings : NULL,
        .refresh = r->reading.refresh,
        .order = "block"};
}

/* The first draw: it follows the saved text's last one, if there is a saved text. */
static txl_random first_random(const struct generate *g, int64_t number) {
    txl_resume resume = {0};
    if (g->memory)
        txl_memory_resume(g->memory, &resume);
    resume.random.seed = g->seed;
    resume.random.stream += (uint64_t)(number - 1) + g->retries * RETRY_STREAMS;
    return resume.random;
}

bool sample_start(const struct generate *g, struct sample *s, int64_t number) {
    const struct text_start start = {.random = first_random(g, number),
                                     .tail = g->prompt.tail,
                                     .round = g->prompt.round,
                                     .first_banned =
                                         g->first_banned.n > 0 ? &g->first_banned : NULL};
    txl_error error;
    s->number = number;
    s->start = terminal_seconds();
    s->output.length = 0;
    return terminal_report(text_start(&s->text, &start, &error), &error);
}

void sample_close(struct sample *s) {
    text_close(&s->text);
    buffer_free(&s->output);
}

/* ---- Objects ------------------------------------------------------------------------------- */

static json_t *settings_object(const struct generate *g) {
    const struct text_options *own = &g->options->own;
    const struct run_settings run = generate_settings(g);
    json_t *settings = json_object();
    bool good = sampling_to_json(settings, &own->sampling) &&
                output_json_append(
                    settings, json_pack("{s:s, s:b, s:s*}", "eos", eos_ways[own->eos], "allow_unk",
                                        own->allow_unk, "end",
                                        own->end == END_SENTENCE ? ends[END_SENTENCE] : NULL)) &&
                settings_to_json(settings, &g->model, &g->rules.settings, &run);
    return output_json_if(good, settings);
}

/* Adds a line to the output.  Takes the reference; NULL counts as out of memory. */
static txl_status put_json(struct sample *s, json_t *object) {
    char *line = output_json_text(object, OUTPUT_JSON_FORM);
    bool good =
        line && buffer_append(&s->output, line, strlen(line)) && buffer_append(&s->output, "\n", 1);
    free(line);
    return good ? TXL_OK : terminal_lacks_memory();
}

/* Whether the sample's text is a member of its last object, instead of being printed in parts. */
static bool holds_text(const struct generate *g) {
    return g->line > 0 && !g->options->json;
}

/* Begins an object of the output with the line of --prompts. */
static bool put_line(const struct generate *g, json_t *object) {
    return g->line == 0 ||
           json_object_set_new(object, "line", json_integer((json_int_t)g->line)) == 0;
}

/* Moves the text that was held into the object. */
static bool put_text(struct sample *s, json_t *object) {
    bool good = json_object_set_new(object, "text",
                                    output_json_bytes(s->output.data, s->output.length)) == 0;
    s->output.length = 0;
    return good;
}

txl_status sample_end(const struct generate *g, struct sample *s, const char *done) {
    s->text.done = done;
    if (!g->options->json && !holds_text(g))
        return TXL_OK;
    json_t *object = json_object();
    double seconds = terminal_seconds() - s->start;
    bool good = put_line(g, object) && (!holds_text(g) || put_text(s, object)) &&
                output_json_append(object, json_pack("{s:s, s:I, s:I, s:f, s:o}", "done", done,
                                                     "seed", (json_int_t)g->seed, "tokens",
                                                     (json_int_t)s->text.made, "seconds", seconds,
                                                     "settings", settings_object(g)));
    return put_json(s, output_json_if(good, object));
}

/* The text that the id would add in the place of the one just drawn; with --ids the id. */
static json_t *alternative_text(const struct text *t, int32_t id) {
    struct buffer text = {0};
    if (t->rules->ids) {
        char number[16];
        return json_stringn(number, (size_t)snprintf(number, sizeof number, "%" PRId32, id));
    }
    bool good = text_of_token(t->rules->scratch, &t->before, id, &text);
    json_t *string = good ? output_json_bytes(text.data, text.length) : NULL;
    buffer_free(&text);
    return string;
}

/* The likeliest tokens of the draw, as [{"id", "text", "logprob"}]; NULL when memory is short. */
static json_t *top_to_json(const struct text *t) {
    json_t *top = t->rules->top > 0 ? json_array() : json_null();
    for (size_t i = 0; i < t->rules->top && top; i++) {
        json_t *one =
            json_pack("{s:I, s:o, s:f}", "id", (json_int_t)t->top_ids[i], "text",
                      alternative_text(t, t->top_ids[i]), "logprob", (double)t->top_logprobs[i]);
        top = output_json_if(json_array_append_new(top, one) == 0, top);
    }
    return top;
}

static txl_status put_token(const struct generate *g, struct sample *s) {
    struct text *t = &s->text;
    size_t length = t->done ? t->output.length : complete_characters(&t->output);
    if (t->refused && length == 0)
        return TXL_OK;
    json_t *object = json_object();
    bool good = put_line(g, object) &&
                output_json_append(
                    object, json_pack("{s:I, s:o, s:o, s:o, s:o}", "sample", (json_int_t)s->number,
                                      "id", t->refused ? json_null() : json_integer(t->id), "text",
                                      output_json_bytes(t->output.data, length), "logprob",
                                      t->refused ? json_null() : json_real((double)t->logprob),
                                      "top", top_to_json(t)));
    buffer_drop(&t->output, length);
    return put_json(s, output_json_if(good, object));
}

txl_status sample_put(const struct generate *g, struct sample *s) {
    struct text *t = &s->text;
    txl_status status = TXL_OK;
    if (g->options->json)
        status = put_token(g, s);
    else if (buffer_append(&s->output, t->output.data, t->output.length))
        t->output.length = 0;
    else
        status = terminal_lacks_memory();
    return !status && t->done ? sample_end(g, s, t->done) : status;
}
