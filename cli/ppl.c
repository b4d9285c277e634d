/* txl ppl: measures perplexity and bits per character of texts. */
#include "commands.h"
#include "input.h"
#include "model.h"
#include "output.h"
#include "published.h"
#include "score.h"
#include "signals.h"
#include "terminal.h"
#include "tokens.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LN_2 = 0.693147180559945309417;

struct ppl_options {
    struct common_options common;
    struct session_options session;
    int preset, text;
    int64_t batch, sliding_window, max_tokens; /* 0: off; batch 0: not told */
    bool per_line, ids, skip_unknown, json;
    const char *per_token;
    double fail_above; /* NAN: off */
};

static const char *const presets[] = {"published", NULL};

/* What is known of one file, or of all of them. */
struct result {
    const char *file; /* NULL: the total */
    struct score score;
    uint64_t tokens, unknown;
    bool whole; /* the text was read to its end, so bytes and characters mean something */
    uint64_t bytes, characters;
    double seconds;
};

/* One run of the command. */
struct ppl {
    const struct ppl_options *options;
    struct model model;
    txl_settings settings;
    txl_session *session;
    int64_t streams;
    struct scorer scorer;
    struct outfile rows; /* stream is NULL when there are none */
    bool rows_on_stdout;
    struct progress progress;

    /* The file at hand. */
    struct token_reader reader;
    uint64_t tokens;
    FILE *spool; /* the ids of --batch, until their number is known */
    uint64_t line;
    bool in_line;
    uint64_t line_predicted; /* the score's counts where the line began */
    double line_nats;
};

/* ---- Scoring ------------------------------------------------------------------------------ */

static txl_status fail_spool(txl_error *error) {
    error->status = TXL_IO;
    snprintf(error->message, sizeof error->message, "temporary file of token ids: %s",
             strerror(errno));
    return TXL_IO;
}

/* The line's context is the first of all contexts; a line that brings it along (One Billion
 * Words) does not have it scored. */
static txl_status push_in_line(struct ppl *ppl, int32_t id, txl_error *error) {
    if (!ppl->in_line) {
        int32_t context = txl_model_first_context(ppl->model.handle);
        ppl->in_line = true;
        ppl->line_predicted = ppl->scorer.score.predicted;
        ppl->line_nats = ppl->scorer.score.nats;
        scorer_start(&ppl->scorer, 0);
        txl_status status = scorer_push(&ppl->scorer, context, error);
        bool opening = txl_model_kind(ppl->model.handle) == TXL_LM1B && id == context;
        if (status != TXL_OK || opening) {
            return status;
        }
    }
    return scorer_push(&ppl->scorer, id, error);
}

static txl_status end_line(struct ppl *ppl, txl_error *error) {
    uint64_t predicted = 0;
    double nats = 0;
    ppl->line++;
    if (ppl->in_line) {
        ppl->in_line = false;
        txl_status status = scorer_flush(&ppl->scorer, error);
        if (status != TXL_OK) {
            return status;
        }
        predicted = ppl->scorer.score.predicted - ppl->line_predicted;
        nats = ppl->scorer.score.nats - ppl->line_nats;
    }
    char row[128];
    int length =
        snprintf(row, sizeof row, "%" PRIu64 "\t%" PRIu64 "\t%.9g\n", ppl->line, predicted, nats);
    if (ppl->rows.stream != NULL) {
        fputs(row, ppl->rows.stream);
    } else if (ppl->rows_on_stdout && !output_write(row, (size_t)length)) {
        return TXL_STOPPED;
    }
    return TXL_OK;
}

static txl_status receive(void *context, const txl_symbol *symbol, txl_error *error) {
    struct ppl *ppl = context;
    if (symbol->text == NULL) {
        return ppl->options->per_line ? end_line(ppl, error) : TXL_OK;
    }
    if (ppl->options->max_tokens > 0 && ppl->tokens == (uint64_t)ppl->options->max_tokens) {
        return TXL_STOPPED;
    }
    ppl->tokens++;
    if (ppl->spool != NULL) {
        bool written = fwrite(&symbol->id, sizeof symbol->id, 1, ppl->spool) == 1;
        return written ? TXL_OK : fail_spool(error);
    }
    if (ppl->options->per_line) {
        return push_in_line(ppl, symbol->id, error);
    }
    return scorer_push(&ppl->scorer, symbol->id, error);
}

/* Where the work stands: by the bytes read, or by the tokens where their number is known. */
static void show_reading(void *context) {
    struct ppl *ppl = context;
    const struct input *input = ppl->reader.input;
    double fraction = -1;
    if (ppl->options->max_tokens > 0) {
        fraction = (double)ppl->tokens / (double)ppl->options->max_tokens;
    }
    if (input->size > 0) {
        fraction = fmax(fraction, (double)ppl->reader.fed / (double)input->size);
    }
    progress_update(&ppl->progress, fraction, ppl->tokens);
}

/* What still waits when the text has ended. */
static txl_status finish_stream(struct ppl *ppl, txl_error *error) {
    if (ppl->in_line) {
        return end_line(ppl, error);
    }
    return scorer_flush(&ppl->scorer, error);
}

static txl_status score_stream(struct ppl *ppl, uint64_t first, uint64_t length, uint64_t all,
                               txl_error *error) {
    scorer_start(&ppl->scorer, first);
    for (uint64_t i = 0; i < length; i++) {
        int32_t id;
        if (fread(&id, sizeof id, 1, ppl->spool) != 1) {
            return fail_spool(error);
        }
        txl_status status = scorer_push(&ppl->scorer, id, error);
        if (status != TXL_OK) {
            return status;
        }
        progress_update(&ppl->progress, (double)(first + i) / (double)all, first + i);
    }
    return scorer_flush(&ppl->scorer, error);
}

/* The streams are independent of each other: one after the other gives what side by side would. */
static txl_status score_streams(struct ppl *ppl, txl_error *error) {
    uint64_t length = ppl->tokens / (uint64_t)ppl->streams;
    uint64_t all = length * (uint64_t)ppl->streams;
    if (fflush(ppl->spool) != 0) {
        return fail_spool(error);
    }
    rewind(ppl->spool);
    txl_status status = TXL_OK;
    for (uint64_t first = 0; status == TXL_OK && first < all; first += length) {
        status = score_stream(ppl, first, length, all, error);
    }
    return status;
}

static txl_status score_text(struct ppl *ppl, struct input *input) {
    txl_error error = {0};
    txl_status status = token_reader_run(&ppl->reader, show_reading, ppl);
    if (status == TXL_STOPPED && !signals_stopped() && !output_closed()) {
        status = TXL_OK; /* --max-tokens */
    }
    if (status != TXL_OK) {
        return status; /* the reader printed the error */
    }
    status = ppl->spool != NULL ? score_streams(ppl, &error) : finish_stream(ppl, &error);
    if (status != TXL_OK && status != TXL_STOPPED) {
        terminal_error("%s: %s", input->name, error.message);
    }
    return status;
}

static bool start_file(struct ppl *ppl, const char *path, struct input *input) {
    const struct ppl_options *options = ppl->options;
    const txl_encoding encoding = {.raw = options->text == TEXT_RAW,
                                   .skip_unknown = options->skip_unknown,
                                   .lookup = true,
                                   .symbol = receive,
                                   .context = ppl};
    ppl->tokens = 0;
    ppl->line = 0;
    ppl->in_line = false;
    ppl->scorer.score = (struct score){0};
    scorer_start(&ppl->scorer, 0);
    if (!input_open(input, path)) {
        return false;
    }
    if (!token_reader_open(&ppl->reader, ppl->model.handle, input, &encoding, options->ids)) {
        input_close(input);
        return false;
    }
    if (ppl->streams > 1) {
        ppl->spool = tmpfile();
        if (ppl->spool == NULL) {
            terminal_error("temporary file of token ids: %s", strerror(errno));
            token_reader_close(&ppl->reader);
            input_close(input);
            return false;
        }
    }
    progress_start(&ppl->progress, input->name, "tokens");
    return true;
}

static void end_file(struct ppl *ppl, struct input *input, struct result *result) {
    txl_encoded counts;
    token_reader_counts(&ppl->reader, &counts);
    progress_end(&ppl->progress);
    result->score = ppl->scorer.score;
    result->tokens = ppl->tokens;
    result->unknown = counts.unknown;
    result->bytes = counts.bytes;
    result->characters = counts.characters;
    result->whole = ppl->reader.ended && !ppl->options->ids;
    result->seconds = terminal_seconds() - ppl->progress.start;
    token_reader_close(&ppl->reader);
    input_close(input);
    if (ppl->spool != NULL) {
        fclose(ppl->spool);
        ppl->spool = NULL;
    }
}

/* False with the error printed.  What was scored before a signal is a result too. */
static bool score_file(struct ppl *ppl, const char *path, struct result *result) {
    struct input input;
    if (!start_file(ppl, path, &input)) {
        return false;
    }
    txl_status status = score_text(ppl, &input);
    end_file(ppl, &input, result);
    result->file = path;
    if (status != TXL_OK && status != TXL_STOPPED) {
        return false;
    }
    if (result->score.predicted == 0 && status == TXL_OK) {
        if (ppl->streams > 1) {
            terminal_error("%s: %" PRIu64 " tokens leave fewer than two for each of %" PRId64
                           " streams",
                           input.name, result->tokens, ppl->streams);
        } else {
            terminal_error("%s: fewer than two tokens, so there is nothing to score", input.name);
        }
        return false;
    }
    return true;
}

/* ---- Results ------------------------------------------------------------------------------ */

static double nats_per_token(const struct result *result) {
    return result->score.nats / (double)result->score.predicted;
}

/* As papers report it: of a token where a token is a character; NAN where the characters of what
 * was scored are not known. */
static double bits_per_character(const struct ppl *ppl, const struct result *result) {
    if (!model_has_words(&ppl->model)) {
        return nats_per_token(result) / LN_2;
    }
    bool known = result->whole && result->characters > 0;
    return known ? result->score.nats / LN_2 / (double)result->characters : NAN;
}

static double bits_per_byte(const struct result *result) {
    bool known = result->whole && result->bytes > 0;
    return known ? result->score.nats / LN_2 / (double)result->bytes : NAN;
}

static double tokens_per_second(const struct result *result) {
    return (double)result->score.predicted / result->seconds;
}

/* As a person reads it. */
static const char *name_of(const struct result *result) {
    if (result->file == NULL) {
        return "total";
    }
    return strcmp(result->file, "-") == 0 ? "standard input" : result->file;
}

/* The number that papers give for models of this kind, and --fail-above compares. */
static double headline(const struct ppl *ppl, const struct result *result) {
    return model_has_words(&ppl->model) ? exp(nats_per_token(result))
                                        : bits_per_character(ppl, result);
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(uint64_t value, bool known) {
    return known ? json_integer((json_int_t)value) : json_null();
}

static bool set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static bool print_json(const struct ppl *ppl, const struct result *result) {
    json_t *o = json_object(), *settings = json_object();
    double nats = nats_per_token(result);
    bool good =
        settings_to_json(settings, &ppl->model, &ppl->settings) &&
        set(settings, "streams", json_integer(ppl->streams)) &&
        set(o, "file", result->file != NULL ? output_json_string(result->file) : json_null()) &&
        set(o, "tokens", count(result->tokens, true)) &&
        set(o, "predicted", count(result->score.predicted, true)) &&
        set(o, "unknown", count(result->unknown, !ppl->options->ids)) &&
        set(o, "bytes", count(result->bytes, result->whole)) &&
        set(o, "characters", count(result->characters, result->whole)) &&
        set(o, "nats", number(result->score.nats)) && set(o, "nats_per_token", number(nats)) &&
        set(o, "perplexity", number(exp(nats))) && set(o, "bits_per_token", number(nats / LN_2)) &&
        set(o, "bits_per_character", number(bits_per_character(ppl, result))) &&
        set(o, "bits_per_byte", number(bits_per_byte(result))) &&
        set(o, "standard_error", number(score_standard_error(&result->score))) &&
        set(o, "seconds", number(result->seconds)) &&
        set(o, "tokens_per_second", number(tokens_per_second(result))) &&
        json_object_set(o, "settings", settings) == 0;
    json_decref(settings);
    if (!good) {
        json_decref(o);
        o = NULL;
    }
    return output_json(o);
}

/* "hound.txt: 1.72150 bits per character +/- 0.00412, perplexity 3.298, 316736 tokens scored" */
static bool print_text(const struct ppl *ppl, const struct result *result) {
    bool words = model_has_words(&ppl->model);
    double nats = nats_per_token(result), error = score_standard_error(&result->score);
    char spread[64] = "", *line;
    if (isfinite(error)) {
        snprintf(spread, sizeof spread, words ? " +/- %.3f" : " +/- %.5f",
                 words ? exp(nats) * error : error / LN_2);
    }
    int length =
        words ? asprintf(&line,
                         "%s: perplexity %.3f%s, %.5f nats per token, %" PRIu64 " tokens scored\n",
                         name_of(result), exp(nats), spread, nats, result->score.predicted)
              : asprintf(&line,
                         "%s: %.5f bits per character%s, perplexity %.3f, %" PRIu64
                         " tokens scored\n",
                         name_of(result), nats / LN_2, spread, exp(nats), result->score.predicted);
    if (length < 0) {
        terminal_error("out of memory");
        return false;
    }
    bool good = output_write(line, (size_t)length) && output_flush();
    free(line);
    return good;
}

static bool print_result(const struct ppl *ppl, const struct result *result) {
    if (result->score.predicted == 0 || output_closed()) {
        return true; /* ended by a signal or by the reader of the rows */
    }
    if (result->unknown > 0) {
        terminal_note("%s: %" PRIu64 " symbols that the vocabulary lacks were %s", name_of(result),
                      result->unknown,
                      txl_model_unk(ppl->model.handle) >= 0 ? "replaced" : "left out");
    }
    if (ppl->options->json) {
        return print_json(ppl, result);
    }
    return ppl->rows_on_stdout || print_text(ppl, result);
}

/* "1.19325", or "-" where the number has no meaning. */
static const char *show(char *text, size_t size, double value) {
    snprintf(text, size, isfinite(value) ? "%.6f" : "-", value);
    return text;
}

static void print_summary(const struct ppl *ppl, int n_files, const struct result *total) {
    const struct ppl_options *options = ppl->options;
    char settings[8192], facts[9216], numbers[4][40];
    double nats = nats_per_token(total);
    settings_to_text(settings, sizeof settings, &ppl->model, &ppl->settings, ppl->streams);
    snprintf(facts, sizeof facts,
             "files=%d tokens=%" PRIu64 " predicted=%" PRIu64 " unknown=%" PRIu64
             " nats_per_token=%s perplexity=%s bits_per_token=%s bits_per_character=%s "
             "seconds=%.2f tokens_per_second=%.0f mode=%s %s",
             n_files, total->tokens, total->score.predicted, total->unknown,
             show(numbers[0], sizeof numbers[0], nats),
             show(numbers[1], sizeof numbers[1], exp(nats)),
             show(numbers[2], sizeof numbers[2], nats / LN_2),
             show(numbers[3], sizeof numbers[3], bits_per_character(ppl, total)), total->seconds,
             tokens_per_second(total),
             options->per_line             ? "lines"
             : options->sliding_window > 0 ? "sliding"
                                           : "segments",
             settings);
    terminal_summary(facts);
}

static void add_to_total(struct result *total, const struct result *result) {
    score_merge(&total->score, &result->score);
    total->tokens += result->tokens;
    total->unknown += result->unknown;
    total->bytes += result->bytes;
    total->characters += result->characters;
    total->whole = total->whole && result->whole;
    total->seconds += result->seconds;
}

/* ---- The command -------------------------------------------------------------------------- */

static bool same_settings(const txl_settings *a, const txl_settings *b) {
    bool clamp = a->clamp_len == b->clamp_len || (a->clamp_len <= 0 && b->clamp_len <= 0);
    return a->tgt_len == b->tgt_len && a->mem_len == b->mem_len && clamp &&
           a->same_length == b->same_length;
}

/* The checkpoint's settings, the preset's, what the command line says: each over the one before. */
static bool choose_settings(struct ppl *ppl) {
    const struct ppl_options *options = ppl->options;
    const struct published *published = published_find(ppl->model.handle);
    bool preset = options->preset != CHOICE_UNSET;
    bool whole_stream = options->sliding_window == 0 && !options->per_line;
    txl_model_defaults(ppl->model.handle, &ppl->settings);
    ppl->streams = options->batch > 0 ? options->batch : 1;
    if (preset && published == NULL) {
        terminal_error("--preset published: %s has the shape of no published model",
                       ppl->model.name);
        return false;
    }
    if (preset) {
        published_apply(published, &ppl->settings);
        ppl->streams = options->batch > 0 ? options->batch : whole_stream ? published->streams : 1;
    }
    settings_override(&ppl->settings, &options->session, &options->common);
    if (options->sliding_window > 0) {
        ppl->settings.tgt_len = (int)options->sliding_window;
        ppl->settings.mem_len = 0;
        ppl->settings.same_length = false;
    } else if (published != NULL) {
        txl_settings evaluated = ppl->settings;
        published_apply(published, &evaluated);
        if (!same_settings(&evaluated, &ppl->settings)) {
            terminal_note("the published model of this shape (%s) was evaluated with other "
                          "settings; --preset published applies them",
                          published->name);
        }
    }
    return true;
}

static bool open_rows(struct ppl *ppl) {
    const char *path = ppl->options->per_token;
    const char *header =
        ppl->options->per_line ? "line\ttokens\tnats\n" : "index\tid\ttoken\tnats\n";
    ppl->rows_on_stdout = ppl->options->per_line && path == NULL && !ppl->options->json;
    if (ppl->rows_on_stdout) {
        output_write(header, strlen(header));
    }
    if (path == NULL) {
        return true;
    }
    if (!outfile_open(&ppl->rows, path)) {
        return false;
    }
    fputs(header, ppl->rows.stream);
    ppl->scorer.rows = ppl->options->per_line ? NULL : ppl->rows.stream;
    return true;
}

static bool set_up(struct ppl *ppl) {
    if (!model_open(&ppl->model, &ppl->options->common) || !choose_settings(ppl) ||
        !session_open(&ppl->model, &ppl->settings, &ppl->session)) {
        return false;
    }
    txl_session_settings(ppl->session, &ppl->settings);
    if (!scorer_new(&ppl->scorer, ppl->model.handle, ppl->session,
                    (size_t)ppl->options->sliding_window)) {
        terminal_error("out of memory");
        return false;
    }
    return open_rows(ppl);
}

static int score_files(struct ppl *ppl, char **files, int n_files) {
    struct result total = {.whole = true};
    int done = 0;
    for (; done < n_files && !signals_stopped() && !output_closed(); done++) {
        struct result result;
        if (!score_file(ppl, files[done], &result)) {
            return STATUS_FAILURE;
        }
        add_to_total(&total, &result);
        if (!print_result(ppl, &result)) {
            break;
        }
    }
    if (n_files > 1) {
        print_result(ppl, &total);
    }
    if (ppl->rows.stream != NULL && !outfile_commit(&ppl->rows)) {
        return STATUS_FAILURE;
    }
    int status = STATUS_OK;
    if (signals_stopped()) {
        terminal_note("interrupted: the result is of the first %" PRIu64 " tokens scored",
                      total.score.predicted);
        status = signals_status();
    } else if (!isnan(ppl->options->fail_above) && total.score.predicted > 0 &&
               !(headline(ppl, &total) <= ppl->options->fail_above)) {
        terminal_error("%s %.5f is above %.15g",
                       model_has_words(&ppl->model) ? "perplexity" : "bits per character",
                       headline(ppl, &total), ppl->options->fail_above);
        status = STATUS_FAILURE;
    }
    status = output_finish(status);
    if (total.score.predicted > 0 && !output_failed()) {
        print_summary(ppl, done, &total);
    }
    return status;
}

/* OPTIONS_RUN, or the status after telling which options do not go together. */
static int check_options(const struct command *command, const struct ppl_options *options,
                         const struct operands *files) {
    const struct session_options *session = &options->session;
    if (files->n == 0 && !input_is_piped()) {
        return options_wrong(command, "FILE is missing, and standard input is a terminal");
    }
    if (options->sliding_window > 0 &&
        (session->tgt_len != INTEGER_UNSET || session->mem_len != INTEGER_UNSET ||
         session->same_length != CHOICE_UNSET)) {
        return options_wrong(command, "--sliding-window replaces --tgt-len, --mem-len and "
                                      "--same-length");
    }
    if (options->per_line && options->sliding_window > 0) {
        return options_wrong(command, "--per-line and --sliding-window exclude each other");
    }
    if (options->batch > 1 && (options->per_line || options->sliding_window > 0)) {
        return options_wrong(command, "--batch goes with neither --per-line nor --sliding-window");
    }
    if (files->n > 1 && (options->per_token != NULL || (options->per_line && !options->json))) {
        return options_wrong(command, "rows of tokens or lines are written of one FILE only");
    }
    return OPTIONS_RUN;
}

static int run(const struct command *command, int argc, char **argv) {
    struct ppl_options options = {
        .session = SESSION_UNSET, .preset = CHOICE_UNSET, .text = TEXT_TOKENS, .fail_above = NAN};
    struct operands files;
    int status = options_parse(command, argc, argv, &options, &files);
    if (status == OPTIONS_RUN) {
        status = check_options(command, &options, &files);
    }
    if (status != OPTIONS_RUN) {
        return status;
    }
    char dash[] = "-", *standard_input[] = {dash};
    if (files.n == 0) {
        files = (struct operands){standard_input, 1};
    }
    struct ppl ppl = {.options = &options};
    status = set_up(&ppl) ? score_files(&ppl, files.items, files.n) : STATUS_FAILURE;
    outfile_abandon(&ppl.rows);
    scorer_free(&ppl.scorer);
    txl_session_free(ppl.session);
    model_close(&ppl.model);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

static const struct option_row options[] = {
    {.section = "Text",
     .name = "text",
     .kind = OPTION_CHOICE,
     .choices = text_forms,
     .standard = "tokens",
     .help = "words models: tokens is split at white space already, raw is prose",
     .offset = offsetof(struct ppl_options, text)},
    {.name = "ids",
     .kind = OPTION_FLAG,
     .help = "the input is decimal ids",
     .offset = offsetof(struct ppl_options, ids)},
    {.name = "skip-unknown",
     .kind = OPTION_FLAG,
     .help = "leave out symbols that the vocabulary lacks, where it has no <unk>",
     .offset = offsetof(struct ppl_options, skip_unknown)},
    {.name = "max-tokens",
     .kind = OPTION_INTEGER,
     .argument = "N",
     .help = "read the first N tokens only",
     .offset = offsetof(struct ppl_options, max_tokens),
     .least = 1,
     .most = 9007199254740991},
    {.section = "Evaluation",
     .name = "preset",
     .kind = OPTION_CHOICE,
     .choices = presets,
     .help = "the settings and streams that the published model of this shape was evaluated with",
     .offset = offsetof(struct ppl_options, preset)},
    {.name = "batch",
     .kind = OPTION_INTEGER,
     .argument = "N",
     .standard = "1",
     .help = "cut the tokens into N equal streams and drop the remainder, as published "
             "evaluations do",
     .offset = offsetof(struct ppl_options, batch),
     .least = 1,
     .most = INT32_MAX},
    {.name = "per-line",
     .kind = OPTION_FLAG,
     .help = "score every line alone, after <eos>; rows 'line tokens nats' go to the --per-token "
             "file, else, without --json, to standard output",
     .offset = offsetof(struct ppl_options, per_line)},
    {.name = "sliding-window",
     .kind = OPTION_INTEGER,
     .argument = "N",
     .help = "score each token from a fresh segment of the N before it, without memory",
     .offset = offsetof(struct ppl_options, sliding_window),
     .least = 1,
     .most = 1 << 24},
    SESSION_ROWS(struct ppl_options, session),
    {.section = "Output",
     .name = "json",
     .kind = OPTION_FLAG,
     .help = "print an object a file",
     .offset = offsetof(struct ppl_options, json)},
    {.name = "per-token",
     .kind = OPTION_STRING,
     .argument = "FILE",
     .help = "write a row 'index id token nats' for each scored token to FILE",
     .offset = offsetof(struct ppl_options, per_token),
     .files = true},
    {.name = "fail-above",
     .kind = OPTION_REAL,
     .argument = "X",
     .help = "exit with status 1 when the result, of several files the total, is above X: "
             "perplexity for words, bits per character for the other kinds",
     .offset = offsetof(struct ppl_options, fail_above),
     .least = 0,
     .most = INFINITY},
    MODEL_ROW,
    COMMON_ROWS,
    {0}};

static const struct operand_row operands[] = {
    {.name = "FILE",
     .help = "text to score; - is standard input, which is also read without a FILE unless it is "
             "a terminal",
     .optional = true,
     .repeats = true},
    {0}};

static const struct note notes[] = {
    {"Summary line",
     "The last line on standard error holds the result and every setting that decides it, as "
     "key=value between blanks, always in this order:\n\n"
     " txl ppl: files tokens predicted unknown nats_per_token perplexity\n"
     "     bits_per_token bits_per_character seconds tokens_per_second mode\n"
     "     tgt_len mem_len clamp_len same_length memory_start cluster_order\n"
     "     type memory_type threads streams kernels blas model\n\n"
     "mode is segments, lines or sliding; - stands for a number without meaning; the model's name "
     "runs to the end of the line."},
    {"Interruption",
     "After Ctrl-C the result of what has been scored is printed, and the exit status is 130."},
    {0}};

static const struct example examples[] = {
    {"txl ppl novel.txt", "bits per character of a text, by the built-in model"},
    {"txl ppl --model wt103.txl --text raw essay.txt", "perplexity of prose by a words model"},
    {"txl ppl --model enwik8.txl --preset published test.txt --json",
     "a published evaluation, for a program to read"},
    {"txl ppl --per-line --model lm1b.txl < sentences.txt | sort -k3 -g",
     "sentences, the likeliest first"},
    {0}};

const struct command ppl_command = {
    .name = "ppl",
    .summary = "measure perplexity and bits per character of texts",
    .description =
        "Scores every token of each FILE given all that the model remembers of the tokens before "
        "it, and prints the number that papers report: bits per character for models of bytes, "
        "letters and characters, perplexity for models of words. The memory starts afresh with "
        "each FILE.",
    .options = options,
    .operands = operands,
    .examples = examples,
    .notes = notes,
    .run = run,
};
