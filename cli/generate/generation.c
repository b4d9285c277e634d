/* Continues a text: the tokens of a sample, and samples of one prompt side by side. */
#include "generation.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"
#include "prompt.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unictype.h>
#include <unistr.h>

const char *const eos_ways[] = {"newline", "stop", "ban", NULL};
const char *const ends[] = {"token", "sentence", NULL};

const struct generate_options generate_defaults = {.session = SESSION_UNSET,
                                                   .text = CHOICE_UNSET,
                                                   .refresh = INTEGER_UNSET,
                                                   .eos = EOS_NEWLINE,
                                                   .begin_word = CHOICE_UNSET,
                                                   .end = CHOICE_UNSET,
                                                   .n = INTEGER_UNSET,
                                                   .seed = INTEGER_UNSET,
                                                   .samples = 1,
                                                   .dynamic = DYNAMIC_UNSET,
                                                   .sampling = SAMPLING_STANDARD(TXL_TEMPERATURE)};

struct run_settings generation_settings(const struct generate *g) {
    return (struct run_settings){.text = text_form(g->model.handle, g->text, g->options->ids),
                                 .generates = true,
                                 .unwrap = g->options->common.unwrap,
                                 .dynamic = g->options->dynamic.on ? &g->dynamic.settings : NULL,
                                 .refresh = g->reading.refresh,
                                 .order = "block"};
}

const char *generation_wrong(const struct generate_options *o) {
    if (o->end == END_SENTENCE && (o->interactive || o->ids))
        return "--end sentence is for text without --interactive, whose turns end so, and without "
               "--ids";
    if (o->ids && o->stop.n > 0)
        return "--stop cannot be combined with --ids";
    for (size_t i = 0; i < o->stop.n; i++)
        if (o->stop.items[i][0] == '\0')
            return "--stop needs a string that is not empty";
    return sampling_wrong(&o->sampling);
}

/* ---- A sample ------------------------------------------------------------------------------ */

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
    s->first_banned = g->first_banned.n > 0 ? &g->first_banned : NULL;
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

size_t complete_characters(const struct buffer *text) {
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

static txl_status put_token_json(const struct generate *g, struct sample *s, bool last) {
    size_t length = last ? s->text.length : complete_characters(&s->text);
    if (s->refused && length == 0)
        return TXL_OK;
    json_t *object = json_object();
    bool good = put_line(g, object) &&
                output_json_append(
                    object, json_pack("{s:I, s:o, s:o, s:o, s:o}", "sample", (json_int_t)s->number,
                                      "id", s->refused ? json_null() : json_integer(s->id), "text",
                                      output_json_bytes(s->text.data, length), "logprob",
                                      s->refused ? json_null() : json_real((double)s->logprob),
                                      "top", s->top ? json_incref(s->top) : json_null()));
    json_decref(s->top);
    s->top = NULL;
    buffer_drop(&s->text, length);
    return put_json(s, output_json_if(good, object));
}

/* Moves the text into the output. */
static txl_status put_token(const struct generate *g, struct sample *s, bool last) {
    if (s->text.length > 0)
        s->tail = s->text.data[s->text.length - 1];
    if (g->options->json)
        return put_token_json(g, s, last);
    bool good = buffer_append(&s->output, s->text.data, s->text.length);
    s->text.length = 0;
    return good ? TXL_OK : terminal_lacks_memory();
}

/* ---- Tokens ------------------------------------------------------------------------------- */

bool token_text_behind(txl_decoder *scratch, const int32_t *last, size_t n, char tail, int32_t id,
                       struct buffer *text) {
    const char *part;
    size_t length;
    return !txl_decoder_continue(scratch, last, n, tail, NULL) &&
           !txl_decoder_push(scratch, id, &part, &length, NULL) &&
           buffer_append(text, part, length) &&
           !txl_decoder_finish(scratch, &part, &length, NULL) && buffer_append(text, part, length);
}

/* The text that the id would add to the text so far.  False when memory is short. */
static bool token_text(const struct generate *g, const struct sample *s, int32_t id,
                       struct buffer *text) {
    int32_t last;
    size_t n = txl_history_recent(s->history, &last, 1);
    return token_text_behind(g->scratch, &last, n, s->tail, id, text);
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

static txl_status draw_token(const struct generate *g, struct sample *s) {
    txl_error error;
    txl_status status = TXL_OK;
    txl_sampling sampling = g->sampling;
    sampling.history = s->history;
    if (s->made == 0 && s->first_banned) {
        sampling.banned = s->first_banned->ids;
        sampling.n_banned = s->first_banned->n;
    }
    if (g->options->logprobs > 0)
        status = find_top(g, s, &error);
    if (!status)
        status = txl_session_sample(s->session, &sampling, &s->random, &s->id, &s->logprob, &error);
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
    txl_status status = draw_token(g, s);
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
    status = put_token(g, s, done);
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

/* Continues a text: makes several samples together, so that the weights are read once for all of
 * them. */

/* ---- Samples that are made together ------------------------------------------------------- */

struct batch {
    struct sample *each[SAMPLES_TOGETHER]; /* [n] */
    struct sample copy[SAMPLES_TOGETHER];  /* all of them except the last of all samples */
    size_t n;
    size_t turn; /* the sample whose output is printed as it comes; the others wait */
    bool begun;  /* its introduction was printed */

    struct progress progress; /* of all batches */
    uint64_t made;            /* tokens, likewise */
    int64_t samples;
};

/* The last of all samples uses the session that was fed the prompt, which no other sample needs any
 * more. */
static txl_status open_batch(struct generate *g, struct batch *b) {
    size_t most = sample_most_together(g);
    int64_t first = g->samples + 1;
    for (b->n = 0; b->n < most && g->samples < b->samples; g->samples++) {
        struct sample *copy = &b->copy[b->n];
        bool last = g->samples + 1 == b->samples;
        b->each[b->n++] = last ? &g->sample : copy;
        if (!last && !sample_copy(g, &g->sample, copy))
            return TXL_MEMORY;
    }
    txl_status status = TXL_OK;
    for (size_t i = 0; i < b->n && !status; i++)
        status = sample_start(g, b->each[i], first + (int64_t)i, g->prompt.tail);
    b->turn = 0;
    b->begun = false;
    return status;
}

static void close_batch(struct generate *g, struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->each[i] != &g->sample)
            sample_close(b->each[i]);
}

/* Prints what precedes a sample.  Before the first, feeding has echoed the prompt. */
static txl_status introduce_sample(struct generate *g, const struct sample *s) {
    if (s->number == 1 || g->options->json)
        return TXL_OK;
    if (!output_start_line() || !output_line("--- sample %" PRId64 " ---", s->number))
        return TXL_STOPPED;
    return prompt_repeat(&g->prompt);
}

/* Prints the new output of the sample whose turn it is; if it has ended, that of the next, and so
 * on. */
static txl_status print_samples(struct generate *g, struct batch *b) {
    for (;;) {
        struct sample *s = b->each[b->turn];
        txl_status status = b->begun ? TXL_OK : introduce_sample(g, s);
        b->begun = true;
        if (status)
            return status;
        if (g->options->interactive &&
            !buffer_append(&g->transcript, s->output.data, s->output.length))
            return terminal_lacks_memory();
        if (!g->aside && (!output_text(s->output.data, s->output.length) || !output_flush()))
            return TXL_STOPPED;
        s->output.length = 0;
        if (!s->done || b->turn + 1 == b->n)
            return TXL_OK;
        b->turn++;
        b->begun = false;
    }
}

/* Prints what was made of all samples, after a failure. */
static void show_rest(struct generate *g, struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (!b->each[i]->done)
            b->each[i]->done = "failed";
    print_samples(g, b);
}

/* Draws another token for every sample that has not ended. */
static txl_status make_tokens(struct generate *g, struct batch *b) {
    for (size_t i = 0; i < b->n; i++) {
        struct sample *s = b->each[i];
        if (s->done)
            continue;
        uint64_t before = s->made;
        txl_status status = sample_token(g, s);
        if (status)
            return status;
        b->made += s->made - before;
        if (s->done)
            g->done = s->done;
    }
    return TXL_OK;
}

/* Feeds the tokens to the `n` samples that go on. */
static txl_status feed_tokens(const struct generate *g, const struct batch *b, size_t *n) {
    struct sample *fed[SAMPLES_TOGETHER];
    size_t n_fed = 0;
    *n = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct sample *s = b->each[i];
        *n += !s->done;
        if (!s->done || (g->keeps && !s->refused))
            fed[n_fed++] = s;
    }
    return sample_feed_each(&g->reading, fed, n_fed);
}

/* Takes one step of all samples.  `*left` receives how many have not ended. */
static txl_status step_samples(struct generate *g, struct batch *b, size_t *left) {
    txl_status status = make_tokens(g, b);
    if (status)
        return status;
    txl_status shown = print_samples(g, b);
    if (!shown || g->keeps)
        status = feed_tokens(g, b, left);
    double all = (double)g->n * (double)b->samples;
    progress_update(&b->progress, all > 0 ? (double)b->made / all : -1, b->made);
    return status ? status : shown;
}

static txl_status run_batch(struct generate *g, struct batch *b) {
    txl_status status = TXL_OK;
    size_t left = b->n;
    while (!status && left > 0)
        status = step_samples(g, b, &left);
    if (status == TXL_STOPPED)
        g->done = "closed";
    else if (status)
        show_rest(g, b);
    return status;
}

/* ---- A text ------------------------------------------------------------------------------- */

static txl_status continue_text(struct generate *g, int64_t samples) {
    struct batch batch = {.samples = samples};
    txl_status status;
    progress_start(&batch.progress, "generating", "tokens");
    batch.progress.off = !output_is_file() && !g->aside; /* the text itself is seen */
    do {
        status = open_batch(g, &batch);
        if (!status)
            status = run_batch(g, &batch);
        close_batch(g, &batch);
    } while (!status && g->samples < samples && !signals_stopped());
    progress_end(&batch.progress);
    g->tokens += batch.made;
    g->seconds += terminal_seconds() - batch.progress.start;
    return status;
}

/* A signal during the prompt ends a sample without tokens. */
static void interrupt_prompt(struct generate *g) {
    struct sample *s = &g->sample;
    g->done = "interrupted";
    if (!sample_start(g, s, 1, g->prompt.tail) && !sample_end(g, s, g->done) &&
        output_text(s->output.data, s->output.length))
        output_flush();
}

/* Whether a piece without a word mark goes on with the word before it: a letter, a digit, a hyphen
 * or an apostrophe does, and other punctuation does not. */
static bool continues_word(const char *piece, size_t length) {
    ucs4_t code;
    bool hyphen = length > 0 && piece[0] == '-' && !(length > 1 && piece[1] == '-');
    if (hyphen || (length > 0 && piece[0] == '\'') ||
        (length > 2 && memcmp(piece, "\u2019", 3) == 0))
        return true;
    return length > 0 && u8_mbtoucr(&code, (const uint8_t *)piece, length) > 0 && uc_is_alnum(code);
}

bool generation_list_first(struct id_list *list, const struct id_list *banned,
                           const txl_model *model, bool after_blank) {
    bool good = true;
    list->n = 0;
    for (size_t i = 0; i < banned->n && good; i++)
        good = id_list_add(list, banned->ids[i]);
    for (int32_t id = 0, n = txl_model_n_token(model); id < n && good; id++) {
        size_t length;
        const char *piece = txl_model_symbol(model, id, &length);
        bool goes_on = id != txl_model_eos(model) && continues_word(piece, length);
        if (!begins_with_word_mark(piece, length) && (after_blank || goes_on))
            good = id_list_add(list, id);
    }
    return good;
}

bool generation_choose_first(struct generate *g) {
    const struct generate_options *o = g->options;
    const struct prompt *prompt = &g->prompt;
    const txl_model *model = g->model.handle;
    const unsigned char tail = (unsigned char)prompt->tail;
    const bool in_word = isalnum(tail) || tail >= 0x80, typed = o->interactive;
    const bool begins =
        o->begin_word == CHOICE_UNSET ? prompt->after_line || typed : o->begin_word == ANSWER_YES;
    g->first_banned.n = 0;
    if (txl_kind_unit(txl_model_kind(model)) != TXL_UNIT_PIECE || o->ids || prompt->tokens == 0 ||
        !(prompt->after_blank || (begins && in_word)))
        return true;
    return generation_list_first(&g->first_banned, &g->banned, model, prompt->after_blank) ||
           terminal_error("out of memory");
}

txl_status continue_prompt(struct generate *g, int64_t samples) {
    g->samples = 0;
    txl_status status = prompt_feed(&g->prompt);
    if (!status && !generation_choose_first(g))
        status = TXL_MEMORY;
    if (status) {
        if (signals_stopped())
            interrupt_prompt(g);
        return status;
    }
    unknown_note(&g->prompt.unknown, g->prompt.input.name, txl_model_unk(g->model.handle) >= 0);
    if (g->options->dynamic.on && g->prompt.segments_learned == 0)
        terminal_note("--dynamic: nothing was learned: the context and the prompt have %" PRIu64
                      " tokens, a segment and the token after it %d",
                      g->prompt.before + g->prompt.tokens, g->settings.tgt_len + 1);
    return continue_text(g, samples);
}

/* ---- How tokens are drawn ----------------------------------------------------------------- */

/* Reads "sentence", which NULL is too, "line", or a number of tokens, to which `*n` is lowered. */
static bool choose_turn(const char *name, enum turn *turn, uint64_t *n) {
    *turn = !name || strcmp(name, "sentence") == 0 ? TURN_SENTENCE
            : strcmp(name, "line") == 0            ? TURN_LINE
                                                   : TURN_TOKENS;
    if (*turn != TURN_TOKENS)
        return true;
    unsigned long long most = strtoull(name, NULL, 10);
    if (name[strspn(name, "0123456789")] != '\0' || strlen(name) > 15 || most == 0)
        return false;
    *n = *n == 0 || most < *n ? most : *n;
    return true;
}

int continue_check_turn(const struct command *command, const char *name) {
    enum turn turn;
    uint64_t n = 0;
    if (choose_turn(name, &turn, &n))
        return OPTIONS_RUN;
    return options_wrong(command, "--turn '%s': sentence, line or a number of tokens is expected",
                         name);
}

/* Lists the ids that are never drawn. */
static bool list_banned(struct generate *g, int32_t eos) {
    const struct generate_options *options = g->options;
    size_t n;
    const int32_t *banned = txl_model_banned(g->model.handle, &n);
    bool good = eos < 0 || options->eos != EOS_BAN || id_list_add(&g->banned, eos);
    for (size_t i = 0; !options->allow_unk && i < n && good; i++)
        good = id_list_add(&g->banned, banned[i]);
    return good;
}

bool continue_choose_sampling(struct generate *g) {
    const struct generate_options *options = g->options;
    int32_t eos = txl_model_eos(g->model.handle);
    g->sampling = sampling_terms(&options->sampling);
    id_list_free(&g->banned); /* from the settings before */
    if (!list_banned(g, eos))
        return terminal_error("out of memory");
    g->sampling.banned = g->banned.ids;
    g->sampling.n_banned = g->banned.n;
    if (eos < 0 && options->eos != EOS_NEWLINE && g->line == 0)
        terminal_note("--eos %s changes nothing: this model has no <eos>", eos_ways[options->eos]);
    g->n = options->n != INTEGER_UNSET                         ? (uint64_t)options->n
           : model_unit(g->model.handle) == TXL_UNIT_CHARACTER ? CHARACTERS_N
                                                               : WORDS_N;
    if (options->interactive)
        choose_turn(options->turn, &g->turn, &g->n);
    g->seed = (uint64_t)options->seed;
    if (options->seed == INTEGER_UNSET && g->memory) {
        txl_resume resume;
        txl_memory_resume(g->memory, &resume);
        g->seed = resume.random.seed;
        return true;
    }
    return sampling_seed(options->seed, &g->seed);
}
