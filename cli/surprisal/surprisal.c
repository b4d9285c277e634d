/* txl surprisal: surprisal of words, regions, tokens and texts. */
#include "cli/commands.h"
#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/items/items.h"
#include "cli/items/source_kind.h"
#include "cli/score/run.h"
#include "lib/base/white_space.h"
#include "surprisal_options.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One run of the command. */
struct surprisal {
    struct run run; /* the first member */
    const struct surprisal_options *options;
    struct text_file {
        const char *path;
        int table; /* of items; -1: it is a text */
    } * files;     /* [n] */
    int n, failed;
    bool has_text, has_table; /* among the files */
    struct items items;
    struct levels_wanted wanted;
};

/* ---- What a run needs --------------------------------------------------------------------- */

static bool check_family(const struct surprisal_options *o, const struct model *model) {
    const struct meaningless not_there[] = {
        {o->scoring.dynamic.on, "--dynamic", "which txl cannot train"},
        {o->scoring.cache, "--cache", "which reads both sides"},
        {o->scoring.session.same_length != CHOICE_UNSET, "--same-length", "which sees both sides"},
    };
    const struct meaningless not_here[] = {
        {o->both_sides, "--both-sides", "which sees what is to the left alone"},
    };
    return model_allows(model, not_there, sizeof not_there / sizeof *not_there) &&
           model_needs_both_sides(model, not_here, sizeof not_here / sizeof *not_here);
}

static bool choose_settings(struct run *run, const struct model *model, txl_settings *settings) {
    const struct surprisal_options *o = ((struct surprisal *)run)->options;
    if (!check_family(o, model))
        return false;
    txl_model_defaults(model->handle, settings);
    settings_override(settings, &o->scoring.session, &o->common);
    if (o->both_sides)
        settings->mem_len = 0;
    return true;
}

/* Says of each FILE what it is, and opens the tables. */
static bool open_file(struct surprisal *s, const char *path) {
    const struct surprisal_options *o = s->options;
    struct text_file *file = &s->files[s->n];
    bool is_table = false;
    if (!o->lines && !source_is_table(path, &o->columns, &o->common.form, &is_table))
        return false;
    *file = (struct text_file){.path = path, .table = -1};
    if (is_table) {
        file->table = s->items.n;
        if (!items_add(&s->items, path, &o->common.form))
            return false;
    } else if (!o->lines && source_has_header(path, &o->columns)) {
        terminal_note(
            "%s: begins as a table does, but its name's ending says that it is text; as a "
            "table: txl surprisal - < %s",
            path, path);
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

static bool open_files(struct surprisal *s, const struct operands *files) {
    s->files = calloc((size_t)files->n + 1, sizeof *s->files);
    if (!s->files || !items_new(&s->items, (size_t)files->n + 1))
        return terminal_error("out of memory");
    s->items.names_files = files->n > 1;
    for (int i = 0; i < files->n && !signals_stopped(); i++)
        if (!open_file(s, files->items[i])) {
            s->failed++;
            run_show_failure(&s->run, files->items[i]);
        }
    if (s->n == 0 || signals_stopped())
        return false;
    if (s->options->prefer && !s->has_table)
        return terminal_error("--prefer needs a table: a name that ends in .csv, .tsv, .jsonl or "
                              ".json");
    if (s->wanted.path[LEVEL_REGION] && !s->has_table && !s->options->lines)
        return terminal_error("--per region needs a table, whose texts have bars or whose rows are "
                              "regions, or --lines");
    if (s->options->scoring.dynamic.on && s->has_table)
        return terminal_error("--dynamic learns from running text, not from the texts of a table");
    if (s->options->scoring.max_tokens > 0 && s->has_table)
        return terminal_error("--max-tokens cuts running text, not the texts of a table");
    if (s->options->scoring.heat && s->has_table)
        return terminal_error("--heat shows running text, not the texts of a table; --report shows "
                              "both");
    return items_ready(&s->items);
}

static bool open_rows(struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    struct run *run = &s->run;
    s->wanted.corrects = !o->both_sides;
    s->wanted.entropy = o->entropy;
    s->wanted.n_top = (int32_t)o->logprobs;
    s->wanted.comparison = run->evaluation.comparison;
    for (enum level i = 0; i < N_LEVEL; i++)
        run->rows_shown = run->rows_shown || table_is_standard_output(s->wanted.path[i]);
    output_lines_to_standard_error(run->rows_shown);
    run->way.distributions = levels_need_distributions(&s->wanted, run->model.handle);
    run->evaluation.levels = &run->levels;
    return levels_open(&run->levels, &s->wanted, &s->items.own, run->model.handle);
}

static void describe_run(struct surprisal *s) {
    const struct surprisal_options *o = s->options;
    run_describe(&s->run, o->scoring.dynamic.on ? "dynamic"
                          : s->has_table        ? "items"
                          : o->lines            ? "lines"
                          : o->both_sides       ? "both-sides"
                                                : "segments");
    s->run.evaluation.reading.streams = 1;
    s->run.evaluation.passes.n = 1;
    s->run.evaluation.alone = true;
}

/* ---- Texts -------------------------------------------------------------------------------- */

/* Running text.  False with the error printed. */
static bool score_running(struct surprisal *s, const char *path, struct result *result) {
    struct input input;
    const struct own_value none = {0};
    if (!items_pass_plain(&s->items, path, &none) ||
        !tokens_open_text(&input, path, s->run.model.handle, false, s->run.common))
        return false;
    s->run.evaluation.items = false;
    const bool good = run_score_input(&s->run, path, &input, result);
    input_close(&input);
    return good;
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
    struct evaluation *e = &s->run.evaluation;
    char where[40], number[24], problem[512];
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
    txl_status status = evaluation_text(e, &(struct lone_text){.regions = &lines->text,
                                                               .before = e->before.data,
                                                               .n_before = e->before.length,
                                                               .n_shared = e->before.length,
                                                               .line = lines->number,
                                                               .where = where,
                                                               .problem = problem,
                                                               .n_problem = sizeof problem});
    if (status == TXL_TEXT) {
        s->run.lacks = true;
        const char *column = strncmp(problem, "line ", 5) == 0 ? strchr(problem, ',') : NULL;
        terminal_error("%s: line %" PRIu64 "%s%s", e->reader.input->name, lines->number,
                       column ? "" : ": ", column ? column : problem);
        return TXL_OK;
    }
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
            progress_update(&s->run.progress, input_fraction(input, input->read),
                            s->run.evaluation.counts.tokens);
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
    struct lines lines = {.takes_bytes = txl_kind_takes_bytes(txl_model_kind(s->run.model.handle))};
    const double start = terminal_seconds();
    txl_status status = TXL_IO;
    if (!tokens_open_input(&input, path, s->run.model.handle, false, &s->options->common.form))
        return TXL_IO;
    run_start_progress(&s->run, &input);
    s->run.evaluation.items = true;
    if (evaluation_begin(&s->run.evaluation, &input)) {
        status = score_each_line(s, &lines, &input, path);
        if (!status)
            token_reader_end(&s->run.evaluation.reader);
        evaluation_end(&s->run.evaluation, result);
    }
    progress_end(&s->run.progress);
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
    run_start_progress(&s->run, &s->items.tables[table].input);
    s->run.evaluation.items = true;
    txl_status status = items_evaluate(&s->items, table, &s->run.evaluation, result);
    progress_end(&s->run.progress);
    s->run.lacks = s->run.lacks || items_lack(&s->items, table);
    return status;
}

/* False with the error printed.  What was scored before a signal is a result too. */
static bool score_file(struct run *run, int i, struct result *result) {
    struct surprisal *s = (struct surprisal *)run;
    const struct text_file *file = &s->files[i];
    *result = (struct result){.file = file->path};
    if (file->table < 0 && !s->options->lines)
        return score_running(s, file->path, result);
    const txl_status status =
        file->table >= 0 ? score_table(s, file->table, result) : score_lines(s, file->path, result);
    run->cut = run->cut || (status == TXL_STOPPED && output_closed());
    return !status || status == TXL_STOPPED;
}

/* ---- Results ------------------------------------------------------------------------------ */

static bool add_json(struct run *run, json_t *object, const struct result *result) {
    (void)run;
    return !result->items || items_to_json(object, result->items);
}

/* With rows the scores are no more than their sum. */
static bool print_result(struct run *run, const struct result *result) {
    return (run->rows_shown || result_print_text(&run->setup, result)) &&
           (!result->items || items_print(result->items, result_name(result)));
}

/* Symbols that were left out, or are before the text, have no surprisal. */
static void note_unknown(struct run *run, const struct result *result) {
    const struct score *score = &result->score;
    const uint64_t n = score->predicted - score->known.predicted;
    if (run->setup.replaces_unknown && n > 0)
        terminal_note("%s: %" PRIu64 " of %" PRIu64 " tokens %s unknown: %s surprisal is that of "
                      "any unknown word, not of the one that stands there",
                      result_name(result), n, score->predicted, n == 1 ? "is" : "are",
                      n == 1 ? "its" : "their");
}

static bool sum_items(struct run *run, struct result *total) {
    struct surprisal *s = (struct surprisal *)run;
    total->items = s->has_table ? &s->items.total : NULL;
    return items_sum(&s->items);
}

static const struct run_calls calls = {.choose = choose_settings,
                                       .score = score_file,
                                       .add_json = add_json,
                                       .print = print_result,
                                       .note_unknown = note_unknown,
                                       .sum = sum_items};

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
    struct run *run = &s->run;
    struct result total = {0};
    const struct run_settings stated = {.streams = 1};
    if (!run_open_models(run) || !open_files(s, files))
        return output_finish(signals_stopped() ? signals_status() : STATUS_FAILURE);
    describe_run(s);
    if (surprisal_has_context(o) && !before_read(&run->evaluation.before, o->context,
                                                 o->context_text, &run->model, false, &o->common))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    if (!model_has_symbols(&run->model, o->logprobs) || !open_rows(s) || !run_open_report(run))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    return run_open_scorer(run, &stated) ? run_files(run, s->n, s->failed, &total) : STATUS_FAILURE;
}

static const struct surprisal_options defaults = {.scoring = SCORING_UNSET, .prefer_region = -1};

static int run_command(const struct command *command, void *values, struct operands *files) {
    const struct surprisal_options *o = values;
    struct surprisal *s = calloc(1, sizeof *s); /* too large for a stack whose growth may fail */
    if (!s) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    s->options = o;
    s->run.calls = &calls;
    s->run.common = &o->common;
    s->run.options = &o->scoring;
    s->run.compare = o->compare;
    s->run.standard_text = TEXT_RAW;
    s->run.way.both_sides = o->both_sides;
    s->run.way.word_left = o->within_word == WITHIN_LEFT;
    s->run.limit = NAN;
    int status = surprisal_options_check(command, o, files);
    if (status == OPTIONS_RUN)
        status = parse_arguments(command, s);
    if (status == OPTIONS_RUN)
        status = open_and_score(s, files);
    run_close(&s->run);
    items_close(&s->items);
    free(s->files);
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
    .topics = surprisal_topics,
    .shared = "report heat comparison cache dynamic wrapped spaces outputs summary",
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run_command,
};
