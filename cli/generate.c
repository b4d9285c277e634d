/* txl generate: continues a prompt. */
#include "bytes.h"
#include "commands.h"
#include "model.h"
#include "output.h"
#include "prompt.h"
#include "signals.h"
#include "stop.h"
#include "terminal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unistr.h>

/* The largest seed: what JSON readers keep exactly. */
static const int64_t MAX_SEED = 9007199254740991;

enum { WORDS_N = 300, CHARACTERS_N = 1000 };

enum { EOS_NEWLINE, EOS_STOP, EOS_BAN };
static const char *const eos_ways[] = {"newline", "stop", "ban", NULL};

struct generate_options {
    struct common_options common;
    struct session_options session;
    const char *prompt, *prompt_text;
    int text, eos;
    int64_t n, top_k, seed, samples, logprobs;
    double temperature, top_p;
    bool greedy, allow_unk, skip_unknown, no_echo, ids, json;
    struct string_list stop;
};

/* One run of the command. */
struct generate {
    const struct generate_options *options;
    struct model model;
    txl_settings settings;
    txl_session *session;
    txl_decoder *decoder;
    struct prompt prompt;
    struct stop_search stops;
    int32_t banned[2];
    txl_sampling sampling;
    uint64_t seed;
    uint64_t n; /* tokens of a sample; 0: no end */

    struct bytes decoded; /* from the decoder, or an id, on its way to the stop strings */
    struct bytes text;    /* on its way out; with --json perhaps an incomplete character */
    int32_t *top_ids;     /* [logprobs] */
    float *top_logprobs;
    const char *done; /* why the last sample ended */
    uint64_t tokens;  /* of all samples */
    double seconds;   /* without the prompt */
};

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

static txl_status draw(struct generate *g, txl_random *random, int32_t *id, float *logprob) {
    txl_error error;
    txl_status status = TXL_OK;
    if (g->options->logprobs > 0) {
        status = txl_session_top(g->session, (int)g->options->logprobs, g->top_ids, g->top_logprobs,
                                 &error);
    }
    if (status == TXL_OK) {
        status = txl_session_sample(g->session, &g->sampling, random, id, logprob, &error);
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

/* One token from its draw to the output.  What the interruption of Ctrl-C ends is a token that was
 * drawn, so that every byte held back belongs to one. */
static txl_status generate_token(struct generate *g, int64_t sample, uint64_t made,
                                 txl_random *random, const char **done) {
    int32_t id;
    float logprob;
    txl_status status = draw(g, random, &id, &logprob);
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
    if (!print_token(g, sample, id, logprob, *done != NULL)) {
        return TXL_STOPPED;
    }
    if (*done != NULL) {
        return TXL_OK;
    }
    txl_error error;
    return report(txl_session_feed(g->session, &id, 1, &error), &error);
}

/* Where generated text is seen, it is its own progress. */
static bool hides_progress(void) {
    struct stat status;
    return !(fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode));
}

static bool print_done_json(const struct generate *g, uint64_t made, double seconds) {
    const struct generate_options *options = g->options;
    json_t *object = json_object(), *settings = json_object();
    bool good =
        json_object_set_new(settings, "temperature", json_real(options->temperature)) == 0 &&
        json_object_set_new(settings, "top_k", json_integer(options->top_k)) == 0 &&
        json_object_set_new(settings, "top_p", json_real(options->top_p)) == 0 &&
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

static txl_status continue_prompt(struct generate *g, int64_t sample) {
    txl_random random = {.seed = g->seed, .stream = (uint64_t)(sample - 1)};
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
        status = generate_token(g, sample, made, &random, &done);
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

static bool separate_samples(const struct generate *g, int64_t sample) {
    if (g->options->json) {
        return true;
    }
    char line[64];
    int length = snprintf(line, sizeof line, "--- sample %" PRId64 " ---\n", sample);
    return output_start_line() && output_write(line, (size_t)length);
}

static txl_status generate_sample(struct generate *g, int64_t sample) {
    if (sample > 1 && (!separate_samples(g, sample) || !input_rewind(&g->prompt.input))) {
        return output_closed() ? TXL_STOPPED : TXL_IO;
    }
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
        txl_error error;
        size_t n;
        const int32_t *recent = prompt_recent(&g->prompt, &n);
        status = txl_decoder_continue(g->decoder, recent, n, g->prompt.tail, &error);
        if (status != TXL_OK) {
            return report(status, &error);
        }
    }
    return continue_prompt(g, sample);
}

/* ---- The command -------------------------------------------------------------------------- */

static bool fresh_seed(uint64_t *seed) {
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        terminal_error("cannot draw a seed: %s", strerror(errno));
        return false;
    }
    *seed = random & (uint64_t)MAX_SEED;
    return true;
}

static bool choose_sampling(struct generate *g) {
    const struct generate_options *options = g->options;
    int32_t unk = txl_model_unk(g->model.handle), eos = txl_model_eos(g->model.handle);
    g->sampling = (txl_sampling){.temperature = (float)options->temperature,
                                 .top_k = (int)options->top_k,
                                 .top_p = (float)options->top_p,
                                 .banned = g->banned};
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
    return options->seed != INTEGER_UNSET || fresh_seed(&g->seed);
}

static bool open_prompt(struct generate *g) {
    const struct generate_options *options = g->options;
    struct prompt *prompt = &g->prompt;
    *prompt = (struct prompt){.model = &g->model,
                              .raw = options->text == TEXT_RAW,
                              .ids = options->ids,
                              .skip_unknown = options->skip_unknown,
                              .echo = !options->no_echo && !options->json,
                              .shown = !options->no_echo,
                              .session = g->session};
    if (options->prompt != NULL) {
        if (!input_open(&prompt->input, options->prompt)) {
            return false;
        }
    } else if (options->prompt_text != NULL) {
        input_open_string(&prompt->input, "--prompt-text", options->prompt_text);
    } else if (!input_is_piped()) {
        input_open_string(&prompt->input, "the empty prompt", "");
    } else if (!input_open(&prompt->input, "-")) {
        return false;
    }
    return options->samples == 1 || input_make_seekable(&prompt->input);
}

static bool set_up(struct generate *g) {
    const struct generate_options *options = g->options;
    txl_error error;
    if (!model_open(&g->model, &options->common)) {
        return false;
    }
    txl_model_defaults(g->model.handle, &g->settings);
    settings_override(&g->settings, &options->session, &options->common);
    if (options->logprobs > txl_model_n_token(g->model.handle)) {
        terminal_error("--logprobs %" PRId64 ": the model has %" PRId32 " symbols",
                       options->logprobs, txl_model_n_token(g->model.handle));
        return false;
    }
    if (!choose_sampling(g) || !session_open(&g->model, &g->settings, &g->session)) {
        return false;
    }
    txl_session_settings(g->session, &g->settings);
    if (!options->ids && txl_decoder_new(g->model.handle, options->text == TEXT_RAW, &g->decoder,
                                         &error) != TXL_OK) {
        terminal_error("%s", error.message);
        return false;
    }
    g->top_ids = calloc((size_t)options->logprobs + 1, sizeof *g->top_ids);
    g->top_logprobs = calloc((size_t)options->logprobs + 1, sizeof *g->top_logprobs);
    if (!stop_search_new(&g->stops, &options->stop) || g->top_ids == NULL ||
        g->top_logprobs == NULL) {
        terminal_error("out of memory");
        return false;
    }
    return open_prompt(g);
}

static void clean_up(struct generate *g) {
    input_close(&g->prompt.input);
    stop_search_free(&g->stops);
    bytes_free(&g->decoded);
    bytes_free(&g->text);
    free(g->top_ids);
    free(g->top_logprobs);
    txl_decoder_free(g->decoder);
    txl_session_free(g->session);
    model_close(&g->model);
}

static void print_summary(const struct generate *g, int64_t samples) {
    const struct generate_options *options = g->options;
    char settings[8192], facts[9216];
    settings_to_text(settings, sizeof settings, &g->model, &g->settings, 1);
    snprintf(facts, sizeof facts,
             "samples=%" PRId64 " prompt_tokens=%" PRIu64 " unknown=%" PRIu64 " tokens=%" PRIu64
             " done=%s seed=%" PRIu64 " seconds=%.2f tokens_per_second=%.1f temperature=%g "
             "top_k=%" PRId64 " top_p=%g eos=%s allow_unk=%s %s",
             samples, g->prompt.tokens, g->prompt.unknown, g->tokens, g->done, g->seed, g->seconds,
             g->seconds > 0 ? (double)g->tokens / g->seconds : 0, options->temperature,
             options->top_k, options->top_p, eos_ways[options->eos],
             options->allow_unk ? "yes" : "no", settings);
    terminal_summary(facts);
}

static int generate_samples(struct generate *g) {
    txl_status status = TXL_OK;
    int64_t sample = 0;
    while (status == TXL_OK && sample < g->options->samples && !signals_stopped()) {
        status = generate_sample(g, ++sample);
    }
    output_end_line();
    int exit_status = STATUS_OK;
    if (signals_stopped()) {
        exit_status = signals_status();
    } else if (status != TXL_OK && status != TXL_STOPPED) {
        return output_finish(STATUS_FAILURE);
    }
    exit_status = output_finish(exit_status);
    if (!output_failed()) {
        print_summary(g, sample);
    }
    return exit_status;
}

static int check_options(const struct command *command, const struct generate_options *options) {
    if (options->prompt != NULL && options->prompt_text != NULL) {
        return options_wrong(command, "--prompt and --prompt-text exclude each other");
    }
    if (options->logprobs > 0 && !options->json) {
        return options_wrong(command, "--logprobs needs --json");
    }
    if (options->ids && options->stop.n > 0) {
        return options_wrong(command, "--stop and --ids exclude each other");
    }
    for (size_t i = 0; i < options->stop.n; i++) {
        if (options->stop.items[i][0] == '\0') {
            return options_wrong(command, "--stop needs a string that is not empty");
        }
    }
    return OPTIONS_RUN;
}

static int run(const struct command *command, int argc, char **argv) {
    struct generate_options options = {.session = SESSION_UNSET,
                                       .text = TEXT_RAW,
                                       .eos = EOS_NEWLINE,
                                       .n = INTEGER_UNSET,
                                       .seed = INTEGER_UNSET,
                                       .samples = 1,
                                       .temperature = 0.95,
                                       .top_k = 40,
                                       .top_p = 1};
    struct operands operands;
    int status = options_parse(command, argc, argv, &options, &operands);
    if (status == OPTIONS_RUN) {
        status = check_options(command, &options);
    }
    if (status == OPTIONS_RUN) {
        if (options.greedy) {
            options.temperature = 0;
        }
        struct generate g = {.options = &options, .done = "length", .prompt.input.handle = -1};
        status = set_up(&g) ? generate_samples(&g) : STATUS_FAILURE;
        clean_up(&g);
    }
    free(options.stop.items);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

static const struct option_row options[] = {
    {.section = "Prompt",
     .name = "prompt",
     .letter = 'p',
     .kind = OPTION_STRING,
     .argument = "FILE",
     .standard = "standard input, unless it is a terminal",
     .help = "continue the text of FILE; - is standard input",
     .offset = offsetof(struct generate_options, prompt),
     .files = true},
    {.name = "prompt-text",
     .kind = OPTION_STRING,
     .argument = "STRING",
     .help = "continue STRING",
     .offset = offsetof(struct generate_options, prompt_text)},
    {.name = "text",
     .kind = OPTION_CHOICE,
     .choices = text_forms,
     .standard = "raw",
     .help = "words models: raw is prose, tokens is split at white space already",
     .offset = offsetof(struct generate_options, text)},
    {.name = "skip-unknown",
     .kind = OPTION_FLAG,
     .help = "leave out symbols of the prompt that the vocabulary lacks, where it has no <unk>",
     .offset = offsetof(struct generate_options, skip_unknown)},
    {.name = "no-echo",
     .kind = OPTION_FLAG,
     .help = "do not print the prompt before its continuation",
     .offset = offsetof(struct generate_options, no_echo)},
    {.section = "Length",
     .name = "tokens",
     .letter = 'n',
     .kind = OPTION_INTEGER,
     .argument = "N",
     .standard = "300 words or 1000 characters",
     .help = "generate N tokens; 0: until interrupted",
     .offset = offsetof(struct generate_options, n),
     .least = 0,
     .most = 9007199254740991},
    {.name = "stop",
     .kind = OPTION_LIST,
     .argument = "STRING",
     .help = "end before STRING, which is not printed; may be repeated",
     .offset = offsetof(struct generate_options, stop)},
    {.name = "eos",
     .kind = OPTION_CHOICE,
     .choices = eos_ways,
     .standard = "newline",
     .help = "what <eos> does: end the line, end the text, or never come",
     .offset = offsetof(struct generate_options, eos)},
    {.name = "samples",
     .kind = OPTION_INTEGER,
     .argument = "N",
     .standard = "1",
     .help = "generate N texts, each from the prompt and with random numbers of its own",
     .offset = offsetof(struct generate_options, samples),
     .least = 1,
     .most = INT32_MAX},
    {.section = "Sampling",
     .name = "temperature",
     .letter = 't',
     .kind = OPTION_REAL,
     .argument = "T",
     .standard = "0.95",
     .help = "divide log-probabilities by T; 0: take the likeliest token",
     .offset = offsetof(struct generate_options, temperature),
     .least = 0,
     .most = 1e6},
    {.name = "top-k",
     .letter = 'k',
     .kind = OPTION_INTEGER,
     .argument = "K",
     .standard = "40",
     .help = "draw from the K likeliest tokens; 0: from all",
     .offset = offsetof(struct generate_options, top_k),
     .least = 0,
     .most = INT32_MAX},
    {.name = "top-p",
     .kind = OPTION_REAL,
     .argument = "P",
     .standard = "1",
     .help = "draw from the fewest likeliest tokens that have probability P together; 1: from all",
     .offset = offsetof(struct generate_options, top_p),
     .least = 1e-6,
     .most = 1},
    {.name = "greedy",
     .kind = OPTION_FLAG,
     .help = "the same as --temperature 0",
     .offset = offsetof(struct generate_options, greedy)},
    {.name = "seed",
     .letter = 's',
     .kind = OPTION_INTEGER,
     .argument = "S",
     .standard = "a fresh one",
     .help = "the seed of the random numbers, from 0 to 9007199254740991",
     .offset = offsetof(struct generate_options, seed),
     .least = 0,
     .most = 9007199254740991},
    {.name = "allow-unk",
     .kind = OPTION_FLAG,
     .help = "let <unk> be drawn",
     .offset = offsetof(struct generate_options, allow_unk)},
    {.section = "Output",
     .name = "json",
     .kind = OPTION_FLAG,
     .help = "print an object for each token, and one at the end of each sample",
     .offset = offsetof(struct generate_options, json)},
    {.name = "logprobs",
     .kind = OPTION_INTEGER,
     .argument = "K",
     .standard = "0",
     .help = "with --json: the K likeliest tokens of each step with their log-probabilities",
     .offset = offsetof(struct generate_options, logprobs),
     .least = 0,
     .most = INT32_MAX - 1},
    {.name = "ids",
     .kind = OPTION_FLAG,
     .help = "prompt and text are decimal ids",
     .offset = offsetof(struct generate_options, ids)},
    SESSION_ROWS(struct generate_options, session),
    MODEL_ROW,
    COMMON_ROWS,
    {0}};

static const struct note notes[] = {
    {"Samples",
     "Samples are numbered from 1, each begins with the prompt, and from the second on a line "
     "'--- sample N ---' stands before each. Sample N depends on the seed and N alone, not on how "
     "many are asked for."},
    {"JSON",
     "Every generated token gives {\"sample\", \"id\", \"text\", \"logprob\", \"top\"}: text is "
     "what "
     "standard output would gain, logprob the model's own at temperature 1 before any filter, top "
     "the pairs [id, logprob] of --logprobs, else null. Every sample ends with {\"done\", "
     "\"seed\", "
     "\"tokens\", \"seconds\", \"settings\"}, where done is length, stop, eos or interrupted."},
    {"Summary line",
     "The last line on standard error holds the seed and every other setting that decides the "
     "text, as key=value between blanks, always in this order:\n\n"
     " txl generate: samples prompt_tokens unknown tokens done seed seconds\n"
     "     tokens_per_second temperature top_k top_p eos allow_unk\n"
     "     tgt_len mem_len clamp_len same_length memory_start cluster_order\n"
     "     type memory_type threads streams kernels blas model\n\n"
     "seconds leave out the prompt; done is closed when the reader of standard output went away; "
     "the model's name runs to the end of the line."},
    {"Interruption", "After Ctrl-C the text ends with the token at hand, and the exit status is "
                     "130."},
    {0}};

static const struct example examples[] = {
    {"echo \"It was a dark and stormy night\" | txl generate -n 300",
     "continue a sentence with the built-in model"},
    {"txl generate --prompt chapter.txt --seed 7 --samples 3", "three continuations of a file"},
    {"txl generate --model wt103.txl --prompt-text \"The tower\" --stop \"\\n\"",
     "until the two characters \\n; $'\\n' is a line end in bash"},
    {"txl generate --greedy --json --logprobs 5 < prompt.txt",
     "tokens and their alternatives, for a program to read"},
    {0}};

const struct command generate_command = {
    .name = "generate",
    .summary = "continue a prompt with generated text",
    .description = "Prints the prompt and goes on with text that the model generates, token by "
                   "token. Without a prompt the text begins afresh.",
    .options = options,
    .examples = examples,
    .notes = notes,
    .run = run,
};
