/* Makes the tokens of one sample. */
#include "sample.h"

#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"
#include "recent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* The distance between the random streams of a turn and of its retry: more than there are
 * samples. */
static const uint64_t RETRY_STREAMS = (uint64_t)1 << 32;

/* The most memory that samples made together may take. */
static const uint64_t TOGETHER_BYTES = (uint64_t)4 << 30;

/* Returns the status; prints the library's message if it is a failure. */
static txl_status sample_report(txl_status status, const txl_error *error) {
    if (status)
        terminal_error("%s", error->message);
    return status;
}

size_t sample_most_together(const struct generate *g) {
    uint64_t fit = TOGETHER_BYTES / txl_session_bytes(g->model.handle, &g->settings);
    return fit > SAMPLES_TOGETHER ? SAMPLES_TOGETHER : fit > 0 ? (size_t)fit : 1;
}

/* ---- Beginning and end -------------------------------------------------------------------- */

bool sample_open(const struct generate *g, txl_session *session, struct sample *s) {
    const struct generate_options *options = g->options;
    txl_error error;
    *s = (struct sample){.session = session};
    if (!options->ids &&
        sample_report(txl_decoder_new(g->model.handle, g->text == TEXT_RAW, &s->decoder, &error),
                      &error))
        return false;
    if (!stop_search_new(&s->stops, &options->stop))
        return terminal_error("out of memory");
    return sampling_history(&options->sampling, &s->history);
}

bool sample_copy(const struct generate *g, const struct sample *from, struct sample *copy) {
    txl_error error;
    struct id_list recent;
    txl_session *session;
    *copy = (struct sample){0};
    if (sample_report(txl_session_copy(from->session, &session, &error), &error) ||
        !sample_open(g, session, copy) || !recent_copy(&recent, from->history))
        return false;
    txl_history_push(copy->history, recent.ids, recent.n);
    id_list_free(&recent);
    return true;
}

void sample_close(struct sample *s) {
    json_decref(s->top);
    buffer_free(&s->decoded);
    buffer_free(&s->text);
    buffer_free(&s->output);
    stop_search_free(&s->stops);
    txl_decoder_free(s->decoder);
    txl_history_free(s->history);
    txl_session_free(s->session);
}

/* Tells the decoder the line that it continues. */
static txl_status continue_decoder(const struct generate *g, struct sample *s) {
    txl_error error;
    struct id_list recent;
    if (!s->decoder)
        return TXL_OK;
    if (!recent_copy(&recent, s->history))
        return TXL_MEMORY;
    size_t line = recent_line(recent.ids, recent.n, g->model.handle);
    txl_status status =
        txl_decoder_continue(s->decoder, recent.ids + line, recent.n - line, s->tail, &error);
    id_list_free(&recent);
    return sample_report(status, &error);
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

txl_status sample_start(const struct generate *g, struct sample *s, int64_t number, char tail) {
    s->number = number;
    s->random = first_random(g, number);
    s->tail = tail;
    s->made = 0;
    s->round = g->prompt.round;
    s->start = terminal_seconds();
    s->done = NULL;
    s->refused = false;
    s->sentence = (struct sentence){0};
    s->text.length = s->output.length = 0;
    stop_search_reset(&s->stops);
    return continue_decoder(g, s);
}

static json_t *settings_object(const struct generate *g) {
    const struct generate_options *options = g->options;
    const struct run_settings run = generation_settings(g);
    json_t *settings = json_object();
    bool good =
        sampling_to_json(settings, &options->sampling) &&
        output_json_append(settings,
                           json_pack("{s:s, s:b, s:s*}", "eos", eos_ways[options->eos], "allow_unk",
                                     options->allow_unk, "end",
                                     options->end == END_SENTENCE ? ends[END_SENTENCE] : NULL)) &&
        settings_to_json(settings, &g->model, &g->settings, &run);
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
    s->done = done;
    if (!g->options->json && !holds_text(g))
        return TXL_OK;
    json_t *object = json_object();
    double seconds = terminal_seconds() - s->start;
    bool good =
        put_line(g, object) && (!holds_text(g) || put_text(s, object)) &&
        output_json_append(object, json_pack("{s:s, s:I, s:I, s:f, s:o}", "done", done, "seed",
                                             (json_int_t)g->seed, "tokens", (json_int_t)s->made,
                                             "seconds", seconds, "settings", settings_object(g)));
    return put_json(s, output_json_if(good, object));
}

bool sample_save(const struct generate *g, const struct sample *s, txl_memory **memory) {
    txl_error error;
    struct id_list recent;
    if (!recent_copy(&recent, s->history))
        return false;
    const txl_resume resume = {.random = s->random,
                               .recent = recent.ids,
                               .n_recent = recent.n,
                               .tail = s->tail,
                               .refresh = (uint32_t)g->reading.refresh,
                               .round = (uint32_t)s->round};
    txl_status status = txl_session_save(s->session, &resume, memory, &error);
    id_list_free(&recent);
    return !sample_report(status, &error);
}

/* ---- From ids to what is printed ---------------------------------------------------------- */

/* Appends the id as a number, with a blank before it if needed. */
static bool append_id(struct sample *s) {
    char text[16];
    bool blank = s->tail != 0 && !is_space_byte(s->tail);
    int length = snprintf(text, sizeof text, "%s%" PRId32, blank ? " " : "", s->id);
    return buffer_append(&s->decoded, text, (size_t)length);
}

static bool ends_text(const struct generate *g, int32_t id) {
    return id == txl_model_eos(g->model.handle) && g->options->eos == EOS_STOP;
}

/* Takes the text that the decoder still holds. */
static txl_status finish_decoder(struct sample *s) {
    txl_error error;
    const char *text;
    size_t length;
    txl_status status =
        s->decoder ? txl_decoder_finish(s->decoder, &text, &length, &error) : TXL_OK;
    if (status)
        return sample_report(status, &error);
    return !s->decoder || buffer_append(&s->decoded, text, length) ? TXL_OK
                                                                   : terminal_lacks_memory();
}

/* Takes the token's text; with `last` also what the decoder still holds. */
static txl_status decode_token(const struct generate *g, struct sample *s, bool last) {
    txl_error error;
    const char *text;
    size_t length;
    s->decoded.length = 0;
    if (!s->decoder)
        return append_id(s) ? TXL_OK : terminal_lacks_memory();
    if (!ends_text(g, s->id)) {
        txl_status status = txl_decoder_push(s->decoder, s->id, &text, &length, &error);
        if (status)
            return sample_report(status, &error);
        if (!buffer_append(&s->decoded, text, length))
            return terminal_lacks_memory();
    }
    return last ? finish_decoder(s) : TXL_OK;
}

/* Moves the decoded text past the stop strings; `*done` becomes "stop" when one is found. */
static bool search_stops(struct sample *s, const char **done) {
    bool found;
    if (!stop_search_feed(&s->stops, s->decoded.data, s->decoded.length, &s->text, &found))
        return false;
    if (found)
        *done = "stop";
    return found || !*done || stop_search_finish(&s->stops, &s->text);
}

/* Bytes of the text without an incomplete UTF-8 sequence at its end. */
static size_t complete_characters(const struct buffer *text) {
    size_t least = text->length > 3 ? text->length - 3 : 0;
    for (size_t i = text->length; i > least; i--) {
        ucs4_t character;
        const uint8_t *start = (const uint8_t *)text->data + i - 1;
        if (*start >= 0xC0) {
            size_t left = text->length - (i - 1);
            return u8_mbtoucr(&character, start, left) == -2 ? i - 1 : text->length;
        }
    }
    return text->length;
}

static txl_status put_token_json(const struct generate *g, struct sample *s, float logprob,
                                 bool last) {
    size_t length = last ? s->text.length : complete_characters(&s->text);
    if (s->refused && length == 0)
        return TXL_OK;
    json_t *object = json_object();
    bool good = put_line(g, object) &&
                output_json_append(
                    object, json_pack("{s:I, s:o, s:o, s:o, s:o}", "sample", (json_int_t)s->number,
                                      "id", s->refused ? json_null() : json_integer(s->id), "text",
                                      output_json_bytes(s->text.data, length), "logprob",
                                      s->refused ? json_null() : json_real((double)logprob), "top",
                                      s->top ? json_incref(s->top) : json_null()));
    json_decref(s->top);
    s->top = NULL;
    buffer_drop(&s->text, length);
    return put_json(s, output_json_if(good, object));
}

/* Moves the text into the output. */
static txl_status put_token(const struct generate *g, struct sample *s, float logprob, bool last) {
    if (s->text.length > 0)
        s->tail = s->text.data[s->text.length - 1];
    if (g->options->json)
        return put_token_json(g, s, logprob, last);
    bool good = buffer_append(&s->output, s->text.data, s->text.length);
    s->text.length = 0;
    return good ? TXL_OK : terminal_lacks_memory();
}

/* ---- Tokens ------------------------------------------------------------------------------- */

/* The text that the id would add to the text so far.  False when memory is short. */
static bool token_text(const struct generate *g, const struct sample *s, int32_t id,
                       struct buffer *text) {
    int32_t last;
    const char *part;
    size_t length, n = txl_history_recent(s->history, &last, 1);
    return !txl_decoder_continue(g->scratch, &last, n, s->tail, NULL) &&
           !txl_decoder_push(g->scratch, id, &part, &length, NULL) &&
           buffer_append(text, part, length) &&
           !txl_decoder_finish(g->scratch, &part, &length, NULL) &&
           buffer_append(text, part, length);
}

/* The same as JSON; with --ids the id. */
static json_t *alternative_text(const struct generate *g, const struct sample *s, int32_t id) {
    struct buffer text = {0};
    if (g->options->ids) {
        char number[16];
        return json_stringn(number, (size_t)snprintf(number, sizeof number, "%" PRId32, id));
    }
    json_t *string = token_text(g, s, id, &text) ? output_json_bytes(text.data, text.length) : NULL;
    buffer_free(&text);
    return string;
}

/* The likeliest tokens of this draw, as [{"id", "text", "logprob"}]; NULL when memory is short. */
static json_t *top_to_json(const struct generate *g, const struct sample *s) {
    json_t *top = json_array();
    for (int64_t i = 0; i < g->options->logprobs && top; i++) {
        json_t *one =
            json_pack("{s:I, s:o, s:f}", "id", (json_int_t)g->top_ids[i], "text",
                      alternative_text(g, s, g->top_ids[i]), "logprob", (double)g->top_logprobs[i]);
        top = output_json_if(json_array_append_new(top, one) == 0, top);
    }
    return top;
}

static txl_status find_top(const struct generate *g, struct sample *s, txl_error *error) {
    txl_status status =
        txl_session_top(s->session, (int)g->options->logprobs, g->top_ids, g->top_logprobs, error);
    if (status)
        return status;
    json_decref(s->top);
    s->top = top_to_json(g, s);
    return s->top ? TXL_OK : txl_fail(error, TXL_MEMORY, "out of memory");
}

static bool ends_at_sentence(const struct generate *g) {
    return g->options->end == END_SENTENCE && g->n > 0;
}

/* Sets whether the turn, or after -n tokens the text, ends before the token just drawn: it is white
 * space after a sentence, or a line end.  False when memory is short. */
static bool see_turn(const struct generate *g, struct sample *s) {
    struct buffer text = {0};
    bool good = token_text(g, s, s->id, &text);
    bool line_end =
        s->id == txl_model_eos(g->model.handle) || (text.length > 0 && text.data[0] == '\n');
    bool blank = line_end || (text.length > 0 && is_space_byte(text.data[0]));
    bool wanted = g->turn == TURN_SENTENCE || (ends_at_sentence(g) && s->made >= g->n);
    s->refused = (wanted && blank && sentence_ended(&s->sentence)) ||
                 (g->turn == TURN_LINE && line_end && s->made > 0);
    if (good && !s->refused)
        sentence_add(&s->sentence, line_end ? "\n" : text.data, line_end ? 1 : text.length);
    buffer_free(&text);
    return good;
}

static txl_status draw_token(const struct generate *g, struct sample *s, float *logprob) {
    txl_error error;
    txl_status status = TXL_OK;
    txl_sampling sampling = g->sampling;
    sampling.history = s->history;
    if (g->options->logprobs > 0)
        status = find_top(g, s, &error);
    if (!status)
        status = txl_session_sample(s->session, &sampling, &s->random, &s->id, logprob, &error);
    if (!status && (g->turn != TURN_NONE || ends_at_sentence(g)) && !see_turn(g, s))
        return terminal_lacks_memory();
    if (!status && !s->refused) {
        txl_history_push(s->history, &s->id, 1);
        s->made++;
    }
    if (status && g->line > 0)
        terminal_error("%s: %s", g->prompt.input.name, error.message);
    return g->line > 0 ? status : sample_report(status, &error);
}

/* Why the sample ends with this token, or NULL. */
static const char *reason_to_end(const struct generate *g, const struct sample *s) {
    if (ends_text(g, s->id))
        return "eos";
    if (g->n > 0 && s->made >= g->n + (ends_at_sentence(g) ? SENTENCE_TOKENS : 0))
        return "length";
    return signals_stopped() ? "interrupted" : NULL;
}

txl_status sample_token(const struct generate *g, struct sample *s) {
    float logprob;
    txl_status status = draw_token(g, s, &logprob);
    if (status)
        return status;
    const char *done = !s->refused            ? reason_to_end(g, s)
                       : g->turn == TURN_NONE ? "sentence"
                                              : "turn";
    s->decoded.length = 0;
    status = s->refused ? finish_decoder(s) : decode_token(g, s, done);
    if (status)
        return status;
    if (!search_stops(s, &done))
        return terminal_lacks_memory();
    status = put_token(g, s, logprob, done);
    return !status && done ? sample_end(g, s, done) : status;
}

/* Whether the token just drawn ends a round: then all known tokens are read again, instead of
 * feeding it. */
static bool ends_round(const struct reading *reading, struct sample *s) {
    if (!reading->both_sides)
        return false;
    s->round++;
    if (reading->refresh == 0 || s->round < reading->refresh)
        txl_session_end_segment(s->session);
    else
        s->round = 0;
    return reading->refresh > 0 && s->round == 0;
}

txl_status sample_feed_each(const struct reading *reading, struct sample *const *samples,
                            size_t n) {
    txl_session *session[SAMPLES_TOGETHER];
    int32_t id[SAMPLES_TOGETHER];
    txl_error error;
    size_t fed = 0;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < n; i++) {
        struct sample *s = samples[i];
        if (ends_round(reading, s)) {
            status = status ? status : reading_afresh(reading, s->session, s->history, &error);
            continue;
        }
        session[fed] = s->session;
        id[fed++] = s->id;
    }
    if (!status && fed > 0)
        status = txl_session_feed_each(session, fed, id, &error);
    return sample_report(status, &error);
}
