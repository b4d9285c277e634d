/* Going on with a text, token by token. */
#include "continue.h"

#include "output.h"
#include "recent.h"
#include "signals.h"
#include "terminal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unistr.h>

/* The largest seed: what JSON readers keep exactly. */
static const int64_t MAX_SEED = 9007199254740991;

enum { WORDS_N = 300, CHARACTERS_N = 1000 };

const char *const eos_ways[] = {"newline", "stop", "ban", NULL};

static txl_status fail_memory(void) {
    terminal_error("out of memory");
    return TXL_MEMORY;
}

/* Passes a status on, printing the library's message of a failure. */
static txl_status report(txl_status status, const txl_error *error) {
    if (status != TXL_OK) {
        terminal_error("%s", error->message);
    }
    return status;
}

/* ---- From ids to what is printed ---------------------------------------------------------- */

/* An id as text, set off from what stands before it. */
static bool append_id(struct generate *g, int32_t id) {
    char text[16];
    bool blank = g->prompt.tail != 0 && !isspace((unsigned char)g->prompt.tail);
    int length = snprintf(text, sizeof text, "%s%" PRId32, blank ? " " : "", id);
    g->prompt.tail = '0';
    return bytes_append(&g->decoded, text, (size_t)length);
}

/* The token's text; with `last` also what the decoder still holds. */
static txl_status decode(struct generate *g, int32_t id, bool last) {
    txl_error error;
    const char *text;
    size_t length;
    bool ends = id == txl_model_eos(g->model.handle) && g->options->eos == EOS_STOP;
    g->decoded.length = 0;
    if (g->options->ids) {
        return append_id(g, id) ? TXL_OK : fail_memory();
    }
    if (!ends) {
        txl_status status = txl_decoder_push(g->decoder, id, &text, &length, &error);
        if (status != TXL_OK) {
            return report(status, &error);
        }
        if (!bytes_append(&g->decoded, text, length)) {
            return fail_memory();
        }
    }
    if (last) {
        txl_status status = txl_decoder_finish(g->decoder, &text, &length, &error);
        if (status != TXL_OK) {
            return report(status, &error);
        }
        if (!bytes_append(&g->decoded, text, length)) {
            return fail_memory();
        }
    }
    return TXL_OK;
}

/* Moves the decoded text past the stop strings; `*done` becomes "stop" when one is found. */
static bool search_stops(struct generate *g, const char **done) {
    bool found;
    if (!stop_search_feed(&g->stops, g->decoded.data, g->decoded.length, &g->text, &found)) {
        return false;
    }
    if (found) {
        *done = "stop";
    }
    return found || *done == NULL || stop_search_finish(&g->stops, &g->text);
}

/* Bytes of the text that an unfinished UTF-8 sequence at its end does not take. */
static size_t complete_characters(const struct bytes *text) {
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

static json_t *top_to_json(const struct generate *g) {
    if (g->options->logprobs == 0) {
        return json_null();
    }
    json_t *top = json_array();
    for (int64_t i = 0; i < g->options->logprobs; i++) {
        json_t *pair = json_array();
        json_array_append_new(pair, json_integer(g->top_ids[i]));
        json_array_append_new(pair, json_real((double)g->top_logprobs[i]));
        if (json_array_append_new(top, pair) != 0) {
            json_decref(top);
            return NULL;
        }
    }
    return top;
}

static bool print_token_json(struct generate *g, int64_t sample, int32_t id, float logprob,
                             bool last) {
    size_t length = last ? g->text.length : complete_characters(&g->text);
    json_t *object = json_object();
    if (json_object_set_new(object, "sample", json_integer(sample)) != 0 ||
        json_object_set_new(object, "id", json_integer(id)) != 0 ||
        json_object_set_new(object, "text", output_json_bytes(g->text.data, length)) != 0 ||
        json_object_set_new(object, "logprob", json_real((double)logprob)) != 0 ||
        json_object_set_new(object, "top", top_to_json(g)) != 0) {
        json_decref(object);
        object = NULL;
    }
    bytes_drop(&g->text, length);
    return output_json(object);
}

static bool print_token(struct generate *g, int64_t sample, int32_t id, float logprob, bool last) {
    if (g->options->json) {
        return print_token_json(g, sample, id, logprob, last);
    }
    bool good = output_write(g->text.data, g->text.length) && output_flush();
    g->text.length = 0;
    return good;
}

/* ---- Sampling ----------------------------------------------------------------------------- */

static txl_status draw(struct generate *g, int32_t *id, float *logprob) {
    txl_error error;
    txl_status status = TXL_OK;
    if (g->options->logprobs > 0) {
        status = txl_session_top(g->session, (int)g->options->logprobs, g->top_ids, g->top_logprobs,
                                 &error);
    }
    if (status == TXL_OK) {
        status = txl_session_sample(g->session, &g->sampling, &g->random, id, logprob, &error);
    }
    if (status == TXL_OK) {
        txl_history_push(g->history, id, 1);
    }
    return report(status, &error);
}

/* Why the sample ends with this token, or NULL. */
static const char *ending(const struct generate *g, int32_t id, uint64_t made) {
    if (id == txl_model_eos(g->model.handle) && g->options->eos == EOS_STOP) {
        return "eos";
    }
    if (made == g->n) {
        return "length";
    }
    return signals_stopped() ? "interrupted" : NULL;
}

/* One token from its draw to the output and the memory.  What the interruption of Ctrl-C ends is a
 * token that was drawn, so that every byte held back belongs to one. */
static txl_status generate_token(struct generate *g, int64_t sample, uint64_t made,
                                 const char **done) {
    int32_t id;
    float logprob;
    txl_status status = draw(g, &id, &logprob);
    if (status != TXL_OK) {
        return status;
    }
    *done = ending(g, id, made);
    status = decode(g, id, *done != NULL);
    if (status != TXL_OK) {
        return status;
    }
    if (!search_stops(g, done)) {
        return fail_memory();
    }
    if (g->text.length > 0) {
        g->prompt.tail = g->text.data[g->text.length - 1];
    }
    bool printed = print_token(g, sample, id, logprob, *done != NULL);
    if ((printed && *done == NULL) || g->keeps) {
        txl_error error;
        status = report(txl_session_feed(g->session, &id, 1, &error), &error);
    }
    return status == TXL_OK && !printed ? TXL_STOPPED : status;
}

/* Where generated text is seen, it is its own progress. */
static bool hides_progress(void) {
    struct stat status;
    return !(fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode));
}

static bool print_done_json(const struct generate *g, uint64_t made, double seconds) {
    const struct generate_options *options = g->options;
    json_t *object = json_object(), *settings = json_object();
    bool good = sampling_to_json(settings, &options->sampling) &&
                json_object_set_new(settings, "eos", json_string(eos_ways[options->eos])) == 0 &&
                json_object_set_new(settings, "allow_unk", json_boolean(options->allow_unk)) == 0 &&
                settings_to_json(settings, &g->model, &g->settings) &&
                json_object_set_new(settings, "kernels", json_string(txl_kernels_name())) == 0 &&
                json_object_set_new(object, "done", json_string(g->done)) == 0 &&
                json_object_set_new(object, "seed", json_integer((json_int_t)g->seed)) == 0 &&
                json_object_set_new(object, "tokens", json_integer((json_int_t)made)) == 0 &&
                json_object_set_new(object, "seconds", json_real(seconds)) == 0 &&
                json_object_set(object, "settings", settings) == 0;
    json_decref(settings);
    if (!good) {
        json_decref(object);
        object = NULL;
    }
    return output_json(object);
}

static txl_status generate_text(struct generate *g, int64_t sample) {
    struct progress progress;
    const char *done = NULL;
    uint64_t made = 0;
    txl_status status = TXL_OK;
    progress_start(&progress, "generating", "tokens");
    progress.off = hides_progress();
    g->text.length = 0;
    stop_search_reset(&g->stops);
    while (status == TXL_OK && done == NULL) {
        made++;
        status = generate_token(g, sample, made, &done);
        progress_update(&progress, g->n > 0 ? (double)made / (double)g->n : -1, made);
    }
    progress_end(&progress);
    double seconds = terminal_seconds() - progress.start;
    g->tokens += made;
    g->seconds += seconds;
    g->done = done != NULL ? done : "closed";
    if (status == TXL_OK && g->options->json && !print_done_json(g, made, seconds)) {
        return TXL_STOPPED;
    }
    return status;
}

/* ---- A text ------------------------------------------------------------------------------- */

/* Tells the decoder of the line that it goes on with. */
static txl_status continue_decoder(struct generate *g) {
    txl_error error;
    struct recent recent;
    if (!recent_copy(&recent, g->history)) {
        return TXL_MEMORY;
    }
    size_t line = recent_line(recent.ids, recent.n, g->model.handle);
    txl_status status = txl_decoder_continue(g->decoder, recent.ids + line, recent.n - line,
                                             g->prompt.tail, &error);
    recent_free(&recent);
    return report(status, &error);
}

/* Goes on where the saved text's draws ended. */
static void start_random(struct generate *g, int64_t sample) {
    txl_resume resume = {0};
    if (g->memory != NULL) {
        txl_memory_resume(g->memory, &resume);
    }
    g->random = resume.random;
    g->random.seed = g->seed;
    g->random.stream += (uint64_t)(sample - 1);
}

txl_status continue_prompt(struct generate *g, int64_t sample) {
    txl_status status = prompt_feed(&g->prompt);
    if (status != TXL_OK) {
        g->done = "interrupted";
        if (signals_stopped() && g->options->json) {
            print_done_json(g, 0, 0);
        }
        return status;
    }
    if (sample == 1 && g->prompt.unknown > 0) {
        terminal_note("%s: %" PRIu64 " symbols that the vocabulary lacks were %s",
                      g->prompt.input.name, g->prompt.unknown,
                      txl_model_unk(g->model.handle) >= 0 ? "replaced" : "left out");
    }
    if (g->decoder != NULL) {
        status = continue_decoder(g);
    }
    if (status != TXL_OK) {
        return status;
    }
    start_random(g, sample);
    return generate_text(g, sample);
}

static bool fresh_seed(uint64_t *seed) {
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        terminal_error("cannot draw a seed: %s", strerror(errno));
        return false;
    }
    *seed = random & (uint64_t)MAX_SEED;
    return true;
}

bool continue_choose_sampling(struct generate *g) {
    const struct generate_options *options = g->options;
    int32_t unk = txl_model_unk(g->model.handle), eos = txl_model_eos(g->model.handle);
    txl_history_free(g->history);
    g->history = NULL;
    if (!sampling_start(&options->sampling, &g->sampling, &g->history)) {
        return false;
    }
    g->sampling.banned = g->banned;
    if (unk >= 0 && !options->allow_unk) {
        g->banned[g->sampling.n_banned++] = unk;
    }
    if (eos >= 0 && options->eos == EOS_BAN) {
        g->banned[g->sampling.n_banned++] = eos;
    }
    if (eos < 0 && options->eos != EOS_NEWLINE) {
        terminal_note("--eos %s changes nothing: this model has no <eos>", eos_ways[options->eos]);
    }
    g->n = options->n != INTEGER_UNSET  ? (uint64_t)options->n
           : model_has_words(&g->model) ? WORDS_N
                                        : CHARACTERS_N;
    g->seed = (uint64_t)options->seed;
    if (options->seed == INTEGER_UNSET && g->memory != NULL) {
        txl_resume resume;
        txl_memory_resume(g->memory, &resume);
        g->seed = resume.random.seed;
        return true;
    }
    return options->seed != INTEGER_UNSET || fresh_seed(&g->seed);
}

bool continue_save(const struct generate *g, txl_memory **memory) {
    txl_error error;
    struct recent recent;
    if (!recent_copy(&recent, g->history)) {
        return false;
    }
    const txl_resume resume = {
        .random = g->random, .recent = recent.ids, .n_recent = recent.n, .tail = g->prompt.tail};
    txl_status status = txl_session_save(g->session, &resume, memory, &error);
    recent_free(&recent);
    return report(status, &error) == TXL_OK;
}
