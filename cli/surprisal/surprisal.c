/* txl surprisal: surprisal of words, regions, tokens and texts. */
#include "cli/commands.h"
#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/items/items.h"
#include "cli/model/dynamic.h"
#include "cli/model/model.h"
#include "cli/model/settings.h"
#include "cli/score/evaluate.h"
#include "cli/score/levels.h"
#include "cli/score/report.h"
#include "lib/base/white_space.h"
#include "source_kind.h"
#include "surprisal_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One run of the command. */
struct surprisal {
    const struct surprisal_options *options;
    struct model model, other; /* other: --compare */
    int text;                  /* TEXT_RAW, TEXT_TOKENS */
    txl_settings settings, other_settings;
    struct text_file {
        const char *path;
        int table; /* of items; -1: it is a text */
    } * files;     /* [n] */
    int n, failed;
    bool has_text, has_table; /* among the files */
    struct items items;
    bool lacks; /* something was left out */
    bool *begins;
    struct dynamic dynamic;
    struct predictor predictors[MOST_SESSIONS];
    struct evaluation evaluation;
    struct comparison comparison;
    struct tables tables;
    struct levels levels;
    struct levels_wanted wanted;
    bool rows_shown; /* rows are on standard output */
    struct result *held;
    int n_held;
    struct heat heat;
    struct report report;
    bool cut; /* the reader of an output has gone before all was scored */
    struct progress progress;
    struct setup setup;
};

/* ---- What a run needs --------------------------------------------------------------------- */

static bool check_family(const struct surprisal_options *o, const struct model *model) {
    const struct meaningless not_there[] = {
        {o->dynamic.on, "--dynamic", "which txl cannot train"},
        {o->cache, "--cache", "which reads both sides"},
        {o->session.same_length != CHOICE_UNSET, "--same-length", "which sees both sides"},
    };
    const struct meaningless not_here[] = {
        {o->both_sides, "--both-sides", "which sees what is to the left alone"},
    };
    return model_allows(model, not_there, sizeof not_there / sizeof *not_there) &&
           model_needs_both_sides(model, not_here, sizeof not_here / sizeof *not_here);
}

static bool choose_settings(const struct surprisal_options *o, const struct model *model,
                            txl_settings *settings) {
    if (!check_family(o, model))
        return false;
    txl_model_defaults(model->handle, settings);
    settings_override(settings, &o->session, &o->common);
    if (o->both_sides)
        settings->mem_len = 0;
    return true;
}

static bool open_models(struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    if (!model_open(&s->model, &o->common) ||
        !text_form_choose(txl_model_kind(s->model.handle), o->text, TEXT_RAW, &s->text) ||
        !tokens_allow_unwrap(txl_model_kind(s->model.handle), &o->common) ||
        !choose_settings(o, &s->model, &s->settings))
        return false;
    s->comparison.n_token = (size_t)txl_model_n_token(s->model.handle);
    if (!o->compare)
        return true;
    struct common_options other = o->common;
    other.model = o->compare;
    return model_open(&s->other, &other) && comparison_possible(&s->model, &s->other) &&
           choose_settings(o, &s->other, &s->other_settings);
}

/* Says of each FILE what it is, and opens the tables. */
static bool open_file(struct surprisal *s, const char *path) {
    const struct surprisal_options *o = s->options;
    struct text_file *file = &s->files[s->n];
    bool is_table = false;
    if (!o->lines && !source_is_table(path, &o->columns, &is_table))
        return false;
    *file = (struct text_file){.path = path, .table = -1};
    if (is_table) {
        file->table = s->items.n;
        if (!items_add(&s->items, path, &o->common.form))
            return false;
    } else if (!o->lines && !o->common.unwrap && source_has_sentences(path)) {
        terminal_note("%s: each line looks like a sentence by itself, but is read after the lines "
                      "before it; --lines scores each line alone",
                      strcmp(path, "-") == 0 ? "standard input" : path);
    }
    s->has_table = s->has_table || is_table;
    s->has_text = s->has_text || !is_table;
    s->n++;
    return true;
}

static bool show_failure(const struct surprisal *s, const char *path) {
    return !s->options->json || signals_stopped() || output_failed() || output_json_failure(path);
}

static bool open_files(struct surprisal *s, const struct operands *files) {
    s->files = calloc((size_t)files->n + 1, sizeof *s->files);
    if (!s->files || !items_new(&s->items, (size_t)files->n + 1))
        return terminal_error("out of memory");
    s->items.names_files = files->n > 1;
    for (int i = 0; i < files->n && !signals_stopped(); i++)
        if (!open_file(s, files->items[i])) {
            s->failed++;
            show_failure(s, files->items[i]);
        }
    if (s->n == 0 || signals_stopped())
        return false;
    if (s->options->prefer && !s->has_table)
        return terminal_error("--prefer needs a table: a name that ends in .csv, .tsv, .jsonl or "
                              ".json");
    if (s->wanted.path[LEVEL_REGION] && !s->has_table && !s->options->lines)
        return terminal_error("--per region needs a table, whose texts have bars or whose rows are "
                              "regions, or --lines");
    if (s->options->dynamic.on && s->has_table)
        return terminal_error("--dynamic learns from running text, not from the texts of a table");
    if (s->options->heat && s->has_table)
        return terminal_error("--heat shows running text, not the texts of a table; --report shows "
                              "both");
    return items_ready(&s->items);
}

static void describe_run(struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    s->setup = (struct setup){.words = model_unit(s->model.handle) != TXL_UNIT_CHARACTER,
                              .pieces = model_unit(s->model.handle) == TXL_UNIT_PIECE,
                              .replaces_unknown = txl_model_unk(s->model.handle) >= 0,
                              .both_sides = o->both_sides,
                              .mode = o->dynamic.on   ? "dynamic"
                                      : s->has_table  ? "items"
                                      : o->lines      ? "lines"
                                      : o->both_sides ? "both-sides"
                                                      : "segments",
                              .text = text_form(s->model.handle, s->text, false)};
    s->tables.levels = &s->levels;
    s->evaluation = (struct evaluation){.model = s->model.handle,
                                        .raw = s->text == TEXT_RAW,
                                        .skip_unknown = o->skip_unknown,
                                        .both_sides = o->both_sides,
                                        .max_tokens = (uint64_t)o->max_tokens,
                                        .streams = 1,
                                        .comparison = o->compare ? &s->comparison : NULL,
                                        .tables = &s->tables,
                                        .heat = o->heat ? &s->heat : NULL,
                                        .report = o->report ? &s->report : NULL,
                                        .progress = &s->progress,
                                        .alone = true,
                                        .passes = 1};
}

static bool open_rows(struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    s->wanted.corrects = !o->both_sides;
    s->wanted.entropy = o->entropy;
    s->wanted.n_top = (int32_t)o->logprobs;
    s->wanted.comparison = s->evaluation.comparison;
    for (enum level i = 0; i < N_LEVEL; i++)
        s->rows_shown = s->rows_shown || table_is_standard_output(s->wanted.path[i]);
    output_lines_to_standard_error(s->rows_shown);
    return levels_open(&s->levels, &s->wanted, &s->items.own, s->model.handle);
}

static bool open_report(struct surprisal *s) {
    const char *path = s->options->report;
    const bool shows = path && txl_model_unk(s->model.handle) >= 0;
    return !path || report_open(&s->report, path, s->model.handle, s->options->compare ? 2 : 1,
                                shows ? &s->tables.source : NULL);
}

/* In the order in which they see the tokens. */
static void add_observers(struct surprisal *s) {
    struct scorer *scorer = &s->evaluation.scorer;
    if (s->options->both_sides)
        scorer_observe(scorer, evaluation_token, &s->evaluation);
    if (s->evaluation.comparison)
        scorer_observe(scorer, comparison_token, &s->comparison);
    scorer_observe(scorer, levels_token, &s->levels);
    if (s->evaluation.heat)
        scorer_observe(scorer, heat_token, &s->heat);
    if (s->evaluation.report)
        scorer_observe(scorer, report_token, &s->report);
}

static bool open_predictors(struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    if (o->compare) {
        if (!session_open(&s->other, &s->other_settings, &s->predictors[1].session))
            return false;
        txl_session_settings(s->predictors[1].session, &s->other_settings);
    }
    if (!o->dynamic.on) {
        if (!session_open(&s->model, &s->settings, &s->predictors[0].session))
            return false;
        txl_session_settings(s->predictors[0].session, &s->settings);
        return true;
    }
    const struct dynamic_text text = {s->text == TEXT_RAW, false, o->skip_unknown, &o->common};
    if (!dynamic_open(&s->dynamic, &o->dynamic, &s->model, &s->settings, &text, false))
        return false;
    s->predictors[0].learner = s->dynamic.learner;
    txl_learner_settings(s->dynamic.learner, &s->settings);
    return true;
}

static bool state_settings(struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    struct run_settings run = {.streams = 1,
                               .mode = s->setup.mode,
                               .text = s->setup.text,
                               .unwrap = o->common.unwrap,
                               .context_start = true};
    if (o->both_sides)
        run.both_sides = o->within_word == WITHIN_LEFT ? "word-left" : "yes";
    if (o->compare && !evaluated_set(&s->setup.other, &s->other, &s->other_settings, &run))
        return false;
    if (o->dynamic.on)
        s->setup.dynamic = run.dynamic = &s->dynamic.settings;
    run.cache = o->cache;
    return evaluated_set(&s->setup.model, &s->model, &s->settings, &run);
}

static bool open_scorer(struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    struct scorer *scorer = &s->evaluation.scorer;
    const bool distributions =
        o->compare || o->report || levels_need_distributions(&s->wanted, s->model.handle);
    const size_t n = o->compare ? 2 : 1;
    txl_error error;
    if (!open_predictors(s))
        return false;
    bool good = o->both_sides ? scorer_new_both(scorer, s->predictors, n, s->model.handle, false,
                                                distributions)
                              : scorer_new(scorer, s->predictors, n, s->model.handle,
                                           model_score_tokens(&s->model), 0, 0, distributions);
    if (good && o->within_word == WITHIN_LEFT)
        good = (scorer->begins = s->begins = words_boundaries(s->model.handle));
    if (!good)
        return terminal_error("out of memory");
    if (o->cache && txl_cache_new(s->model.handle, &scorer->cache, &error))
        return terminal_error("--cache: %s", error.message);
    add_observers(s);
    return state_settings(s);
}

/* ---- Texts -------------------------------------------------------------------------------- */

static void start_progress(struct surprisal *s, const struct input *input) {
    progress_start(&s->progress, input->name, "tokens");
    s->progress.off = s->options->heat || (s->rows_shown && isatty(STDOUT_FILENO));
}

/* Running text. */
static txl_status score_running(struct surprisal *s, const char *path, struct result *result) {
    struct input input;
    const struct own_value none = {0};
    if (!items_pass_plain(&s->items, path, &none) ||
        !tokens_open_text(&input, path, s->model.handle, false, &s->options->common))
        return TXL_IO;
    start_progress(s, &input);
    s->evaluation.items = false;
    txl_status status = evaluate(&s->evaluation, path, &input, result);
    progress_end(&s->progress);
    input_close(&input);
    return status;
}

/* The lines of a text that are scored one by one. */
struct lines {
    struct buffer line;
    struct regions text;
    uint64_t number, empty;
    bool takes_bytes;
};

/* Scores the line. */
static txl_status score_line(struct surprisal *s, struct lines *lines, const char *path) {
    struct evaluation *e = &s->evaluation;
    char where[40], number[24], problem[512];
    txl_error error;
    const char *text = lines->line.data ? lines->line.data : "";
    size_t length = lines->line.length;
    const size_t mark =
        lines->number == 1 && !lines->takes_bytes ? byte_order_mark_length(text, length) : 0;
    text += mark;
    length -= mark;
    length -= length > 0 && text[length - 1] == '\r';
    if (is_all_space(text, length)) {
        lines->empty++;
        return TXL_OK;
    }
    const struct own_value item = {
        .text = number,
        .length = (size_t)snprintf(number, sizeof number, "%" PRIu64, lines->number)};
    snprintf(where, sizeof where, "line %" PRIu64 ": ", lines->number);
    if (!regions_whole(&lines->text, text, length) || !items_pass_plain(&s->items, path, &item))
        return terminal_lacks_memory();
    if (tables_start_record(&s->tables, path, lines->number, &lines->text))
        return TXL_IO;
    txl_status status = evaluation_text(e, &(struct lone_text){.text = lines->text.text.data,
                                                               .length = length,
                                                               .before = e->before.data,
                                                               .n_before = e->before.length,
                                                               .n_shared = e->before.length,
                                                               .line = lines->number,
                                                               .where = where,
                                                               .problem = problem,
                                                               .n_problem = sizeof problem});
    if (status == TXL_TEXT) {
        s->lacks = true;
        terminal_error("%s: %s%s", path, where, problem);
        return TXL_OK;
    }
    if (!status && (status = tables_end_record(&s->tables, false, &error)) && status != TXL_STOPPED)
        terminal_error("%s: %s%s", path, where, error.message);
    evaluation_end_stream(e);
    return status;
}

/* Divides the input into lines. */
static txl_status score_each_line(struct surprisal *s, struct lines *lines, struct input *input,
                                  const char *path) {
    char buffer[1 << 16];
    ssize_t n;
    txl_status status = TXL_OK;
    while (!status && (n = input_read(input, buffer, sizeof buffer)) != 0) {
        if (n < 0)
            return TXL_IO;
        for (size_t i = 0, length; i < (size_t)n && !status; i += length + 1) {
            const char *feed = memchr(buffer + i, '\n', (size_t)n - i);
            length = feed ? (size_t)(feed - buffer) - i : (size_t)n - i;
            if (!buffer_append(&lines->line, buffer + i, length))
                return terminal_lacks_memory();
            if (!feed)
                break;
            lines->number++;
            status = score_line(s, lines, path);
            lines->line.length = 0;
            progress_update(&s->progress, input_fraction(input, input->read), s->evaluation.tokens);
            if (!status && signals_stopped())
                status = TXL_STOPPED;
        }
    }
    if (!status && signals_stopped())
        status = TXL_STOPPED;
    if (!status && lines->line.length > 0) {
        lines->number++;
        status = score_line(s, lines, path);
    }
    return status;
}

static txl_status score_lines(struct surprisal *s, const char *path, struct result *result) {
    struct input input;
    struct lines lines = {.takes_bytes = txl_kind_takes_bytes(txl_model_kind(s->model.handle))};
    const double start = terminal_seconds();
    txl_status status = TXL_IO;
    if (!tokens_open_input(&input, path, s->model.handle, false, &s->options->common.form))
        return TXL_IO;
    start_progress(s, &input);
    s->evaluation.items = true;
    if (evaluation_begin(&s->evaluation, &input)) {
        status = score_each_line(s, &lines, &input, path);
        if (!status)
            token_reader_end(&s->evaluation.reader);
        evaluation_end(&s->evaluation, result);
    }
    progress_end(&s->progress);
    if (lines.empty > 0)
        terminal_note("%s: %" PRIu64 " line%s without a word ha%s no row", input.name, lines.empty,
                      lines.empty == 1 ? "" : "s", lines.empty == 1 ? "s" : "ve");
    if (!status && result->score.predicted == 0) {
        terminal_error("%s: no line has a token to score", input.name);
        status = TXL_TEXT;
    }
    buffer_free(&lines.line);
    regions_free(&lines.text);
    input_close(&input);
    result->file = path;
    result->seconds = terminal_seconds() - start;
    return status;
}

static txl_status score_table(struct surprisal *s, int table, struct result *result) {
    start_progress(s, &s->items.tables[table].input);
    s->evaluation.items = true;
    txl_status status = items_evaluate(&s->items, table, &s->evaluation, result);
    progress_end(&s->progress);
    s->lacks = s->lacks || items_lack(&s->items, table);
    return status;
}

/* False with the error printed.  What was scored before a signal is a result too. */
static bool score_file(struct surprisal *s, const struct text_file *file, struct result *result) {
    *result = (struct result){.file = file->path};
    s->tables.parted = file->table >= 0;
    txl_status status = file->table >= 0    ? score_table(s, file->table, result)
                        : s->options->lines ? score_lines(s, file->path, result)
                                            : score_running(s, file->path, result);
    s->cut = s->cut || (status == TXL_STOPPED && output_closed());
    if (s->dynamic.learner)
        result->drift = txl_learner_drift(s->dynamic.learner);
    return !status || status == TXL_STOPPED;
}

/* ---- Results ------------------------------------------------------------------------------ */

static json_t *to_json(const struct surprisal *s, const struct result *result) {
    json_t *object = result_to_json(&s->setup, result);
    return output_json_if(!result->items || items_to_json(object, result->items), object);
}

static bool report_scored(struct surprisal *s, const struct result *result) {
    return !s->options->report || result->score.predicted == 0 ||
           report_result(&s->report, to_json(s, result), true);
}

static bool print_result(const struct surprisal *s, const struct result *result) {
    if (result->score.predicted == 0 || output_closed())
        return true; /* a signal or a closed pipe ended it */
    if (s->options->json)
        return output_json(to_json(s, result));
    return s->options->heat ||
           ((s->rows_shown || result_print_text(&s->setup, result)) &&
            (!result->items || items_print(result->items, result_name(result))));
}

/* Prints the result, or keeps it until the rows before it are complete. */
static bool show_result(struct surprisal *s, const struct result *result) {
    struct result *held = reallocarray(s->held, (size_t)s->n_held + 1, sizeof *held);
    if (!held)
        return output_lacks_memory();
    held[s->n_held++] = *result;
    s->held = held;
    return true;
}

static void note_unknown(struct surprisal *s, const struct result *result) {
    const char *name = result_name(result);
    unknown_note(&s->evaluation.unknown, name, s->setup.replaces_unknown);
    if (!blanks_note(&s->evaluation.blanks, name, s->model.handle, s->text == TEXT_RAW))
        s->lacks = true;
    if (20 * result->unknown > result->tokens)
        terminal_note("%s: %" PRIu64 " of %" PRIu64 " tokens are unknown: their surprisal is that "
                      "of any unknown word, not of the one that stands there",
                      name, result->unknown, result->tokens);
}

/* Scores one file after the other; returns how many failed. */
static int score_each(struct surprisal *s, int *done, struct result *total) {
    int failed = 0, i;
    bool goes_on = true;
    for (i = 0; goes_on && i < s->n && !signals_stopped() && !output_closed(); i++) {
        struct result result;
        if (!score_file(s, &s->files[i], &result) || !report_scored(s, &result)) {
            failed++;
            goes_on = !output_failed() && show_failure(s, s->files[i].path);
            continue;
        }
        ++*done;
        result_add(total, &result);
        note_unknown(s, &result);
        goes_on = show_result(s, &result);
    }
    s->cut = s->cut || (i < s->n && output_closed());
    return failed;
}

/* Puts all outputs in place together, or none if any failed. */
static bool end_outputs(struct surprisal *s) {
    struct outfile *files[N_LEVEL + 1] = {&s->report.file};
    const size_t n = sizeof files / sizeof *files;
    bool good = true;
    levels_files(&s->levels, files + 1);
    for (size_t i = 0; i < n && s->cut; i++)
        if (files[i]->open && files[i]->is_whole)
            good = terminal_error("%s: not written: the reader of another output has gone before "
                                  "all was scored",
                                  files[i]->name);
    if (!good || !report_end(&s->report, s->model.name) || !outfiles_finish(files, n))
        return false;
    for (int i = 0; i < s->n_held && good; i++)
        good = print_result(s, &s->held[i]);
    output_flush();
    return !output_failed() && outfiles_commit(files, n);
}

static int score_files(struct surprisal *s) {
    struct result total = {0};
    int done = 0;
    if (!open_scorer(s))
        return STATUS_FAILURE;
    const int failed = score_each(s, &done, &total) + s->failed, all = s->n + s->failed;
    if (failed > 0 && all > 1)
        terminal_note("%d of %d files could not be scored", failed, all);
    bool good = done > 0 || failed == 0;
    if (good && done > 1) {
        good = items_sum(&s->items);
        total.items = s->has_table ? &s->items.total : NULL;
        good = good && show_result(s, &total);
    }
    if (good)
        heat_print_legend(&s->heat);
    good = good && end_outputs(s);
    int status = STATUS_OK;
    if (!good || ((failed > 0 || s->lacks) && !signals_stopped())) {
        status = signals_stopped() ? signals_status() : STATUS_FAILURE;
    } else if (signals_stopped()) {
        terminal_note("interrupted: the result covers the first %" PRIu64 " tokens scored",
                      total.score.predicted);
        status = signals_status();
    }
    status = output_finish(status);
    if (total.score.predicted > 0 && !output_failed())
        result_print_summary(&s->setup, done, &total);
    return status;
}

/* ---- The command -------------------------------------------------------------------------- */

static int parse_arguments(const struct command *command, struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    struct items *items = &s->items;
    const char *wrong = items_names_parse(&items->names, &o->columns);
    if (wrong && items->names.lacks_memory) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    if (wrong)
        return options_wrong(command,
                             "--columns '%s': ROLE=NAME is expected, each ROLE once: item, "
                             "condition, text, context, region, sentence_good, sentence_bad, UID "
                             "or pairID; or join=none",
                             wrong);
    items->preference.region = o->prefer_region;
    items->preference.by = o->prefer_by;
    if (o->prefer && !preference_parse(&items->preference, o->prefer))
        return options_wrong(command, "--prefer '%s': two conditions such as good,bad are expected",
                             o->prefer);
    return surprisal_levels(command, o, s->wanted.path);
}

static int open_and_score(struct surprisal *s, struct operands *files) {
    const struct surprisal_options *o = s->options;
    if (!open_models(s) || !open_files(s, files))
        return output_finish(signals_stopped() ? signals_status() : STATUS_FAILURE);
    describe_run(s);
    if (surprisal_has_context(o) && !before_read(&s->evaluation.before, o->context, o->context_text,
                                                 &s->model, false, &o->common))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    if (o->heat)
        heat_open(&s->heat);
    if (!model_has_symbols(&s->model, o->logprobs) || !open_rows(s) || !open_report(s))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    return score_files(s);
}

static const struct surprisal_options defaults = {
    .session = SESSION_UNSET, .prefer_region = -1, .text = CHOICE_UNSET, .dynamic = DYNAMIC_UNSET};

static void close_run(struct surprisal *s) {
    levels_close(&s->levels);
    report_abandon(&s->report);
    heat_close(&s->heat);
    evaluated_free(&s->setup.model);
    evaluated_free(&s->setup.other);
    scorer_free(&s->evaluation.scorer);
    for (size_t i = 0; i < MOST_SESSIONS; i++)
        txl_session_free(s->predictors[i].session);
    dynamic_close(&s->dynamic);
    items_close(&s->items);
    evaluation_free(&s->evaluation);
    free(s->held);
    free(s->files);
    free(s->begins);
    model_close(&s->other);
    model_close(&s->model);
}

static int run(const struct command *command, void *values, struct operands *files) {
    struct surprisal *s = calloc(1, sizeof *s); /* too large for a stack whose growth may fail */
    if (!s) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    s->options = values;
    int status = surprisal_options_check(command, s->options, files);
    if (status == OPTIONS_RUN)
        status = parse_arguments(command, s);
    if (status == OPTIONS_RUN)
        status = open_and_score(s, files);
    close_run(s);
    free(s);
    return status;
}

/* The options of -h. */
static const char *const brief[] = {"per",     "output", "lines", "columns", "prefer",
                                    "context", "json",   "model", NULL};

const struct command surprisal_command = {
    .name = "surprisal",
    .summary = "give the surprisal of each word of sentences or texts",
    .description =
        "Writes a table with one row per word: its surprisal in bits, given what comes before it. "
        "Each text of a table is scored alone, running text as a whole. Rows can also be per "
        "token, region or text.",
    .options = surprisal_option_rows,
    .brief = brief,
    .operands = surprisal_operands,
    .examples = surprisal_examples,
    .notes = surprisal_notes,
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
