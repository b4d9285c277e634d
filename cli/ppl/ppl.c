/* txl ppl: measures perplexity and bits per character of texts. */
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
#include "cli/score/report.h"
#include "ppl_options.h"
#include "shards.h"
#include "sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* One run of the command. */
struct ppl {
    const struct ppl_options *options;
    struct model model, other; /* other: --compare */
    struct model *group;       /* [compare.n]: of --recl; the one that is swept is in `model` */
    int text;                  /* TEXT_RAW, TEXT_TOKENS */
    txl_settings settings, other_settings;
    int64_t streams;
    struct shard shard;
    struct items items;
    int not_open; /* tables that could not be opened */
    bool lacks;   /* something of a table was left out, or is not told */
    bool *begins; /* [n_token], for --within-word left */
    struct sweep sweep;
    struct dynamic dynamic;
    struct predictor predictors[MOST_SESSIONS];
    struct evaluation evaluation;
    struct comparison comparison;
    struct tables tables;
    struct result *held; /* results that wait until the table on standard output is complete */
    int n_held;
    struct heat heat;
    struct report report;
    bool cut; /* the reader of an output has gone before all was scored */
    struct progress progress;
    struct setup setup;
};

static bool has_before(const struct ppl_options *options) {
    return options->context || options->context_text;
}

/* Whether a page shows beside the learning model how the same one does without. */
static bool compares_with_itself(const struct ppl *ppl) {
    return ppl->options->dynamic.on && ppl->options->report && !ppl_other(ppl->options);
}

static bool compares(const struct ppl *ppl) {
    return ppl_other(ppl->options) || compares_with_itself(ppl);
}

/* ---- Settings ----------------------------------------------------------------------------- */

static bool same_settings(const txl_settings *a, const txl_settings *b) {
    bool clamp = a->clamp_len == b->clamp_len || (a->clamp_len <= 0 && b->clamp_len <= 0);
    return a->tgt_len == b->tgt_len && a->mem_len == b->mem_len && clamp &&
           a->same_length == b->same_length;
}

/* Refuses options that mean nothing to the model's family. */
static bool check_family(const struct ppl_options *o, const struct model *model) {
    const struct meaningless not_there[] = {
        {o->sliding_window > 0, "--sliding-window", "which has no such evaluation"},
        {o->preset != CHOICE_UNSET, "--preset", "which has no published perplexity"},
        {o->dynamic.on, "--dynamic", "which txl cannot train"},
        {o->cache, "--cache", "which reads both sides"},
        {o->session.same_length != CHOICE_UNSET, "--same-length", "which sees both sides"},
    };
    const struct meaningless not_here[] = {
        {o->refresh > 0, "--refresh", "which sees what is to the left alone"},
        {o->both_sides, "--both-sides", "which sees what is to the left alone"},
    };
    return model_allows(model, not_there, sizeof not_there / sizeof *not_there) &&
           model_needs_both_sides(model, not_here, sizeof not_here / sizeof *not_here);
}

/* The settings of the checkpoint, of the preset and of the command line; later ones override
 * earlier ones. */
static bool choose_settings(const struct ppl_options *options, const struct model *model,
                            txl_settings *settings) {
    const struct published *published = published_find(model->handle);
    bool preset = options->preset != CHOICE_UNSET;
    if (!check_family(options, model))
        return false;
    txl_model_defaults(model->handle, settings);
    if (preset && !published) {
        return terminal_error("--preset published: %s has the shape of no published model",
                              model->name);
    }
    if (preset)
        published_apply(published, settings);
    settings_override(settings, &options->session, &options->common);
    if (options->refresh > 0)
        settings->mem_len = (int)options->refresh; /* holds a whole round */
    if (options->both_sides)
        settings->mem_len = 0;
    if (options->sliding_window > 0) {
        settings->tgt_len = (int)options->sliding_window;
        settings->mem_len = 0;
        settings->same_length = false;
    } else if (published) {
        txl_settings evaluated = *settings;
        published_apply(published, &evaluated);
        if (options->sweep_memory)
            evaluated.mem_len = settings->mem_len;
        if (!same_settings(&evaluated, settings)) {
            terminal_note("the published model of this shape (%s) was evaluated with other "
                          "settings; --preset published applies them",
                          published->name);
        }
    }
    return true;
}

/* The number of streams that the tokens are divided into. */
static int64_t choose_streams(const struct ppl *ppl) {
    const struct ppl_options *options = ppl->options;
    bool in_order = options->sliding_window > 0 || options->per_line || options->heat ||
                    options->dynamic.on || options->items.n > 0 || has_before(options) ||
                    options->cache;
    if (ppl->shard.of > 0)
        return (int64_t)ppl->shard.of;
    if (options->batch > 0)
        return options->batch;
    bool preset = options->preset != CHOICE_UNSET && !in_order;
    const txl_model *model = ppl->model.handle;
    return preset ? published_streams(published_find(model), model) : 1;
}

/* ---- What a run needs --------------------------------------------------------------------- */

/* Opens the models of --recl beside the first. */
static bool open_group(struct ppl *ppl) {
    const struct string_list *paths = &ppl->options->compare;
    struct recl *recl = &ppl->sweep.recl;
    recl->n_model = ppl->options->recl ? paths->n + 1 : 1;
    recl->n_length = (size_t)ppl->sweep.n;
    recl->length = ppl->sweep.mem_len;
    recl->model = calloc(recl->n_model, sizeof *recl->model);
    ppl->group = calloc(recl->n_model, sizeof *ppl->group);
    if (!recl->model || !ppl->group)
        return terminal_error("out of memory");
    recl->model[0] = ppl->model.name;
    for (size_t i = 1; i < recl->n_model; i++) {
        struct common_options common = ppl->options->common;
        common.model = paths->items[i - 1];
        if (!model_open(&ppl->group[i], &common) ||
            !comparison_possible(&ppl->model, &ppl->group[i]))
            return false;
        recl->model[i] = ppl->group[i].name;
    }
    return true;
}

static bool open_models(struct ppl *ppl) {
    const struct ppl_options *options = ppl->options;
    if (!model_open(&ppl->model, &options->common) ||
        !text_form_choose(txl_model_kind(ppl->model.handle), options->text, TEXT_TOKENS,
                          &ppl->text) ||
        !tokens_allow_unwrap(txl_model_kind(ppl->model.handle), &options->common) ||
        !choose_settings(options, &ppl->model, &ppl->settings))
        return false;
    ppl->streams = choose_streams(ppl);
    ppl->comparison.n_token = (size_t)txl_model_n_token(ppl->model.handle);
    if (!open_group(ppl))
        return false;
    if (!ppl_other(options))
        return true;
    struct common_options other = options->common;
    other.model = ppl_other(options);
    if (!model_open(&ppl->other, &other) || !comparison_possible(&ppl->model, &ppl->other) ||
        !choose_settings(options, &ppl->other, &ppl->other_settings))
        return false;
    return true;
}

/* Whether tables move the space of pieces, which takes distributions. */
static bool corrects(const struct ppl *ppl) {
    return ppl->options->space_with == SPACE_WITH_PREVIOUS &&
           model_unit(ppl->model.handle) == TXL_UNIT_PIECE;
}

/* What the paper has for the model with --preset; NULL: none. */
static const char *paper_result(const struct ppl *ppl) {
    const struct published *published =
        ppl->options->preset == CHOICE_UNSET ? NULL : published_find(ppl->model.handle);
    return published ? published->result : NULL;
}

static void describe_run(struct ppl *ppl) {
    const struct ppl_options *options = ppl->options;
    ppl->setup = (struct setup){.words = model_unit(ppl->model.handle) != TXL_UNIT_CHARACTER,
                                .pieces = model_unit(ppl->model.handle) == TXL_UNIT_PIECE,
                                .corrected = !corrects(ppl)      ? NULL
                                             : options->per_word ? "words"
                                                                 : "regions",
                                .no_eos = options->no_eos,
                                .published = paper_result(ppl),
                                .in_table = options->sweep_memory != NULL,
                                .ids = options->ids,
                                .replaces_unknown = txl_model_unk(ppl->model.handle) >= 0,
                                .both_sides = options->both_sides,
                                .mode = options->dynamic.on           ? "dynamic"
                                        : options->items.n > 0        ? "items"
                                        : options->per_line           ? "lines"
                                        : options->sliding_window > 0 ? "sliding"
                                        : options->refresh > 0        ? "refreshed"
                                        : options->both_sides         ? "both-sides"
                                                                      : "segments",
                                .text = text_form(ppl->model.handle, ppl->text, options->ids)};
    ppl->evaluation = (struct evaluation){
        .model = ppl->model.handle,
        .raw = ppl->text == TEXT_RAW,
        .ids = options->ids,
        .skip_unknown = options->skip_unknown,
        .both_sides = options->both_sides,
        .per_line = options->per_line,
        .items = options->items.n > 0,
        .max_tokens = (uint64_t)options->max_tokens,
        .streams = (uint64_t)ppl->streams,
        .stream = ppl->shard.number,
        .comparison = compares(ppl) ? &ppl->comparison : NULL,
        .tables = &ppl->tables,
        .heat = options->heat ? &ppl->heat : NULL,
        .report = options->report ? &ppl->report : NULL,
        .progress = &ppl->progress,
        .alone = options->per_line || options->items.n > 0 || has_before(options),
        .passes = options->sweep_memory ? ppl->sweep.n * (int)ppl->sweep.recl.n_model : 1};
}

static struct table_options table_options(const struct ppl_options *o) {
    return (struct table_options){.tokens = o->per_token,
                                  .words = o->per_word,
                                  .regions = o->per_region,
                                  .lines = o->per_line,
                                  .objects = o->json,
                                  .sums_regions =
                                      o->prefer_region >= 0 || (o->items.n > 0 && o->report),
                                  .several = o->items.n > 1,
                                  .ids = o->ids,
                                  .previous = o->space_with == SPACE_WITH_PREVIOUS,
                                  .entropy = o->entropy,
                                  .n_top = (int32_t)o->logprobs};
}

static bool open_tables(struct ppl *ppl) {
    const struct table_options wanted = table_options(ppl->options);
    return tables_open(&ppl->tables, &wanted, ppl->options->items.n > 0 ? &ppl->items.own : NULL,
                       ppl->model.handle, ppl->evaluation.comparison);
}

static bool needs_distributions(const struct ppl *ppl) {
    const struct ppl_options *options = ppl->options;
    return compares(ppl) || options->report || options->logprobs > 0 || options->entropy ||
           corrects(ppl);
}

static bool open_report(struct ppl *ppl) {
    const char *path = ppl->options->report;
    /* Ids have no text. */
    bool shows = path && !ppl->options->ids && txl_model_unk(ppl->model.handle) >= 0;
    ppl->tables.shows_source = shows;
    if (path && items_ordered(&ppl->items))
        return terminal_error("--report cannot show texts with an order of factorisation");
    return !path || report_open(&ppl->report, path, ppl->model.handle, compares(ppl) ? 2 : 1,
                                shows ? &ppl->tables.source : NULL);
}

/* Adds the observers, in the order in which they see the tokens. */
static void add_observers(struct ppl *ppl) {
    struct scorer *scorer = &ppl->evaluation.scorer;
    if (ppl->options->both_sides)
        scorer_observe(scorer, evaluation_token, &ppl->evaluation);
    if (ppl->evaluation.comparison)
        scorer_observe(scorer, comparison_token, &ppl->comparison);
    if (ppl->tables.tokens.table.file.stream)
        scorer_observe(scorer, token_rows_token, &ppl->tables.tokens);
    if (ppl->tables.words.table.file.stream)
        scorer_observe(scorer, word_rows_token, &ppl->tables.words);
    if (ppl->tables.regions.on)
        scorer_observe(scorer, region_rows_token, &ppl->tables.regions);
    if (ppl->evaluation.heat)
        scorer_observe(scorer, heat_token, &ppl->heat);
    if (ppl->evaluation.report)
        scorer_observe(scorer, report_token, &ppl->report);
    if (ppl->options->report && ppl->streams == 1 && strcmp(ppl->setup.mode, "segments") == 0) {
        report_start_positions(&ppl->report, (size_t)ppl->settings.tgt_len);
        scorer_observe(scorer, report_position, &ppl->report);
    }
}

/* Opens a session of each model, or a learner of the first; to compare with itself, a learner that
 * does not learn. */
static bool open_predictors(struct ppl *ppl) {
    struct predictor *predictors = ppl->predictors;
    const struct ppl_options *options = ppl->options;
    if (ppl_other(options)) {
        if (!session_open(&ppl->other, &ppl->other_settings, &predictors[1].session))
            return false;
        txl_session_settings(predictors[1].session, &ppl->other_settings);
    }
    if (!options->dynamic.on) {
        if (!session_open(&ppl->model, &ppl->settings, &predictors[0].session))
            return false;
        txl_session_settings(predictors[0].session, &ppl->settings);
        return true;
    }
    const struct dynamic_text text = {ppl->text == TEXT_RAW, options->ids, options->skip_unknown,
                                      &options->common};
    if (!dynamic_open(&ppl->dynamic, &options->dynamic, &ppl->model, &ppl->settings, &text,
                      compares_with_itself(ppl)))
        return false;
    predictors[0].learner = ppl->dynamic.learner;
    if (ppl->dynamic.fixed)
        predictors[1].learner = ppl->dynamic.fixed;
    txl_learner_settings(ppl->dynamic.learner, &ppl->settings);
    return true;
}

/* States the settings of both. */
static bool state_settings(struct ppl *ppl) {
    const struct model fixed = {ppl->model.handle, "the model without learning"};
    struct run_settings run = {.streams = ppl->streams,
                               .mode = ppl->setup.mode,
                               .text = ppl->setup.text,
                               .unwrap = ppl->options->common.unwrap,
                               .context_start = ppl->evaluation.alone,
                               .refresh = (uint64_t)ppl->options->refresh,
                               .order = items_ordered(&ppl->items) ? "given" : NULL};
    if (ppl->options->both_sides)
        run.both_sides = ppl->options->within_word == WITHIN_WORD_LEFT ? "word-left" : "yes";
    if (ppl_other(ppl->options) &&
        !evaluated_set(&ppl->setup.other, &ppl->other, &ppl->other_settings, &run))
        return false;
    if (compares_with_itself(ppl) &&
        !evaluated_set(&ppl->setup.other, &fixed, &ppl->settings, &run))
        return false;
    if (ppl->options->dynamic.on)
        ppl->setup.dynamic = run.dynamic = &ppl->dynamic.settings;
    run.cache = ppl->options->cache;
    return evaluated_set(&ppl->setup.model, &ppl->model, &ppl->settings, &run);
}

/* Opens what predicts with the settings, and the scorer over it, and states the settings.  End with
 * close_scorer. */
static bool open_scorer(struct ppl *ppl) {
    if (!open_predictors(ppl))
        return false;
    struct scorer *scorer = &ppl->evaluation.scorer;
    const size_t n = compares(ppl) ? 2 : 1;
    bool good =
        ppl->options->both_sides
            ? scorer_new_both(scorer, ppl->predictors, n, ppl->model.handle,
                              items_ordered(&ppl->items), needs_distributions(ppl))
            : scorer_new(scorer, ppl->predictors, n, ppl->model.handle,
                         model_score_tokens(&ppl->model), (size_t)ppl->options->sliding_window,
                         (size_t)ppl->options->refresh, needs_distributions(ppl));
    if (good && ppl->options->within_word == WITHIN_WORD_LEFT)
        good = (scorer->begins = ppl->begins = words_boundaries(ppl->model.handle));
    if (!good)
        return terminal_error("out of memory");
    txl_error error;
    if (ppl->options->cache &&
        txl_cache_new(ppl->model.handle, &ppl->evaluation.scorer.cache, &error))
        return terminal_error("--cache: %s", error.message);
    if (ppl->options->no_eos)
        ppl->evaluation.scorer.left_out = txl_model_eos(ppl->model.handle);
    add_observers(ppl);
    return state_settings(ppl);
}

static void close_scorer(struct ppl *ppl) {
    evaluated_free(&ppl->setup.model);
    evaluated_free(&ppl->setup.other);
    scorer_free(&ppl->evaluation.scorer);
    for (size_t i = 0; i < MOST_SESSIONS; i++) {
        txl_session_free(ppl->predictors[i].session);
        ppl->predictors[i] = (struct predictor){0};
    }
    dynamic_close(&ppl->dynamic);
}

/* ---- Files -------------------------------------------------------------------------------- */

static void start_progress(struct ppl *ppl, const struct input *input) {
    progress_start(&ppl->progress, input->name, "tokens");
    bool seen = ppl_tables_shown(ppl->options) > 0 || ppl->options->per_line;
    ppl->progress.off = ppl->options->heat || (seen && isatty(STDOUT_FILENO));
}

/* Scores a table of items as score_file does a file. */
static bool score_items(struct ppl *ppl, int i, struct result *result) {
    start_progress(ppl, &ppl->items.tables[i].input);
    txl_status status = items_evaluate(&ppl->items, i, &ppl->evaluation, result);
    ppl->lacks = ppl->lacks || items_lack(&ppl->items, i);
    progress_end(&ppl->progress);
    ppl->cut = status == TXL_STOPPED && output_closed();
    return !status || status == TXL_STOPPED;
}

/* False with the error printed.  Lines that are scored alone are never joined. */
static bool open_text(const struct ppl *ppl, const char *path, struct input *input) {
    const struct ppl_options *options = ppl->options;
    const char *dot = strrchr(path, '.');
    if (!options->ids && dot &&
        (strcasecmp(dot, ".csv") == 0 || strcasecmp(dot, ".tsv") == 0 ||
         strcasecmp(dot, ".jsonl") == 0))
        terminal_note("%s: is read as one text; --items %s scores the texts of a table", path,
                      path);
    const txl_model *model = ppl->model.handle;
    return options->per_line
               ? tokens_open_input(input, path, model, options->ids, &options->common.form)
               : tokens_open_text(input, path, model, options->ids, &options->common);
}

/* False with the error printed.  What was scored before a signal is a result too. */
static bool score_file(struct ppl *ppl, const char *path, struct result *result) {
    struct input input;
    if (!open_text(ppl, path, &input))
        return false;
    start_progress(ppl, &input);
    txl_status status = evaluate(&ppl->evaluation, path, &input, result);
    progress_end(&ppl->progress);
    input_close(&input);
    ppl->cut = status == TXL_STOPPED && output_closed();
    if (ppl->dynamic.learner)
        result->drift = txl_learner_drift(ppl->dynamic.learner);
    return !status || status == TXL_STOPPED;
}

static json_t *to_json(const struct ppl *ppl, const struct result *result) {
    json_t *object = result_to_json(&ppl->setup, result);
    bool good = (ppl->sweep.n == 0 || sweep_to_json(object, &ppl->sweep)) &&
                (!result->items || items_to_json(object, result->items));
    return output_json_if(good, object);
}

/* Adds the result to the report, unless a signal came before anything was scored. */
static bool report_scored(struct ppl *ppl, const struct result *result) {
    if (!ppl->options->report || result->score.predicted == 0)
        return true;
    if (ppl->report.positions.tgt_len > 0 &&
        !report_end_positions(&ppl->report, ppl->settings.mem_len))
        return false;
    return report_result(&ppl->report, to_json(ppl, result), ppl->evaluation.report);
}

static bool print_json(const struct ppl *ppl, const struct result *result) {
    json_t *object = to_json(ppl, result);
    if (ppl->shard.of == 0)
        return output_json(object);
    return output_json_exact(output_json_if(
        shard_to_json(object, &ppl->shard, result, &ppl->setup, &ppl->model), object));
}

/* Notes how many symbols the vocabulary lacked, if they are more than one in twenty what that does
 * to the numbers, and if the text is in a script that the vocabulary lacks. */
static void note_unknown(struct ppl *ppl, const struct result *result) {
    const struct ppl_options *options = ppl->options;
    enum { FEW = 20 };
    const char *name = strcmp(result->file, "-") == 0 ? "standard input" : result->file;
    unknown_note(&ppl->evaluation.unknown, name, ppl->setup.replaces_unknown);
    if (!blanks_note(&ppl->evaluation.blanks, name, ppl->model.handle, ppl->text == TEXT_RAW))
        ppl->lacks = true;
    if (ppl->evaluation.spelled > result->tokens / 2)
        terminal_note(
            "%s: %.0f %% of its tokens are single bytes of characters that the vocabulary "
            "lacks, of another script perhaps: the model never learned them, and the numbers mean "
            "little",
            name, 100 * (double)ppl->evaluation.spelled / (double)result->tokens);
    if (!options->ids && result->unknown > result->tokens / FEW)
        terminal_note("%s: more than one symbol in %d is unknown, which makes the text look more "
                      "predictable than it is%s",
                      name, FEW,
                      model_unit(ppl->model.handle) == TXL_UNIT_WORD && ppl->text == TEXT_TOKENS
                          ? "; --text tokens expects text that is tokenized already, --text raw "
                            "reads prose"
                          : "");
}

static bool print_result(const struct ppl *ppl, const struct result *result) {
    if (result->score.predicted == 0 || output_closed())
        return true; /* a signal or a closed pipe ended it */
    if (ppl->options->json)
        return print_json(ppl, result);
    return ppl->options->per_line || ppl->options->heat ||
           (result_print_text(&ppl->setup, result) &&
            (!result->items || items_print(result->items, result_name(result))));
}

/* Prints the result, or keeps it until the table that comes before is complete. */
static bool show_result(struct ppl *ppl, const struct result *result) {
    if (ppl_tables_shown(ppl->options) == 0)
        return print_result(ppl, result);
    struct result *held = reallocarray(ppl->held, (size_t)ppl->n_held + 1, sizeof *held);
    if (!held)
        return output_lacks_memory();
    held[ppl->n_held++] = *result;
    ppl->held = held;
    return true;
}

/* With --json, an object stands in the place of the result that a file does not have. */
static bool show_failure(const struct ppl *ppl, const char *path) {
    return !ppl->options->json || signals_stopped() || output_failed() || output_json_failure(path);
}

static void print_held(const struct ppl *ppl) {
    for (int i = 0; i < ppl->n_held; i++)
        if (!print_result(ppl, &ppl->held[i]))
            return;
}

/* Scores one file after the other.  A file that cannot be read or scored is reported and left out.
 * Returns the number of these; `*total` is the result of the `*done` others. */
static int score_each(struct ppl *ppl, char **files, int n_files, int *done, struct result *total) {
    int failed = 0;
    bool goes_on = true;
    int i;
    for (i = 0; goes_on && i < n_files && !signals_stopped() && !output_closed(); i++) {
        struct result result;
        bool scored = ppl->options->items.n > 0 ? score_items(ppl, i, &result)
                                                : score_file(ppl, files[i], &result);
        if (!scored || !report_scored(ppl, &result)) {
            failed++;
            goes_on = !output_failed() && output_start_line() && show_failure(ppl, files[i]);
            continue;
        }
        ++*done;
        result_add(total, &result);
        note_unknown(ppl, &result);
        goes_on = show_result(ppl, &result);
    }
    ppl->cut = ppl->cut || (i < n_files && output_closed());
    return failed;
}

/* An output that would be only a part. */
static bool refuse_part(const char *name) {
    return terminal_error("%s: not written: the reader of another output has gone before all was "
                          "scored",
                          name);
}

/* Puts all outputs in place together, or none if any failed, as lib/base/output_file.h has it.
 * `learned`: the model has learned from something. */
static bool end_outputs(struct ppl *ppl, bool learned) {
    struct outfile *files[TABLES_FILES + 1] = {&ppl->report.file};
    const size_t n = sizeof files / sizeof *files;
    const char *model = learned ? ppl->options->dynamic.output : NULL;
    bool good = !ppl->cut || !model || refuse_part(model);
    tables_files(&ppl->tables, files + 1);
    for (size_t i = 0; i < n && ppl->cut; i++)
        if (files[i]->open && files[i]->is_whole)
            good = refuse_part(files[i]->name);
    if (!good || !report_end(&ppl->report, ppl->sweep.recl.model[0]) || !outfiles_finish(files, n))
        return false;
    print_held(ppl);
    output_flush();
    return !output_failed() && (!model || dynamic_write(&ppl->dynamic)) &&
           outfiles_commit(files, n);
}

static int score_files(struct ppl *ppl, char **files, int n_files) {
    struct result total = {0};
    int done = 0;
    if (!open_scorer(ppl))
        return STATUS_FAILURE;
    int failed = score_each(ppl, files, n_files, &done, &total) + ppl->not_open,
        all = n_files + ppl->not_open;
    if (failed > 0 && all > 1)
        terminal_note("%d of %d files could not be scored", failed, all);
    bool good = done > 0 || failed == 0;
    if (good && all > 1 && ppl->options->items.n > 0) {
        good = items_sum(&ppl->items);
        total.items = &ppl->items.total;
    }
    if (good && all > 1)
        show_result(ppl, &total);
    if (good)
        heat_print_legend(&ppl->heat);
    good = good && end_outputs(ppl, total.score.predicted > 0);
    int status = STATUS_OK;
    if (!good || ((failed > 0 || ppl->lacks) && !signals_stopped())) {
        status = signals_stopped() ? signals_status() : STATUS_FAILURE;
    } else if (signals_stopped()) {
        terminal_note("interrupted: the result covers the first %" PRIu64 " token%s scored",
                      total.score.predicted, plural(total.score.predicted));
        status = signals_status();
    } else {
        status = result_check_limit(&ppl->setup, &total, ppl->options->fail_above);
    }
    status = output_finish(status);
    if (total.score.predicted > 0 && !output_failed())
        result_print_summary(&ppl->setup, done, &total);
    return status;
}

/* ---- One text, several memory lengths ----------------------------------------------------- */

/* Scores the text with the pass's memory, and prints the row. */
static bool sweep_pass(struct ppl *ppl, const char *path, struct input *input) {
    struct evaluation *evaluation = &ppl->evaluation;
    struct result result;
    const int length = evaluation->pass % ppl->sweep.n;
    bool reported = ppl->options->report && evaluation->pass == sweep_longest(&ppl->sweep);
    ppl->settings.mem_len = ppl->sweep.mem_len[length];
    evaluation->report = reported ? &ppl->report : NULL;
    if (!input_rewind(input) || !sweep_start(&ppl->sweep, length == 0) || !open_scorer(ppl))
        return false;
    scorer_observe(&evaluation->scorer, sweep_token, &ppl->sweep);
    txl_status status = evaluate(evaluation, path, input, &result);
    if (status)
        return status == TXL_STOPPED;
    evaluation->passed += result.tokens;
    if (evaluation->pass == 0)
        note_unknown(ppl, &result);
    if (!report_scored(ppl, &result))
        return false;
    bool printed =
        ppl->options->json
            ? output_json(to_json(ppl, &result))
            : (length > 0 || ppl->sweep.recl.n_model == 1 || output_line("%s", ppl->model.name)) &&
                  (length > 0 || sweep_print_header(&ppl->setup, &result)) &&
                  sweep_print_row(&ppl->setup, &result, ppl->settings.mem_len, &ppl->sweep);
    if (printed)
        result_print_summary(&ppl->setup, 1, &result);
    return printed || output_closed();
}

/* Another model of the group takes its turn. */
static bool next_model(struct ppl *ppl, size_t i) {
    const struct model before = ppl->model;
    ppl->model = ppl->group[i];
    ppl->group[i] = before;
    ppl->evaluation.model = ppl->model.handle;
    ppl->setup.published = paper_result(ppl);
    return choose_settings(ppl->options, &ppl->model, &ppl->settings);
}

/* Prints the relative effective context lengths, and gives them to the page. */
static bool tell_recl(struct ppl *ppl) {
    struct recl *recl = &ppl->sweep.recl;
    size_t n = recl->nats.length / sizeof(float) / recl->n_model / recl->n_length;
    if (!ppl->sweep.keeps || n == 0)
        return true;
    if (!recl_compute(recl, n))
        return terminal_error("out of memory");
    if (ppl->options->report && !(ppl->report.recl = recl_to_json(recl)))
        return terminal_error("out of memory");
    return (ppl->options->json ? output_json(json_pack("{s:o}", "recl", recl_to_json(recl)))
                               : recl_print(recl)) ||
           output_closed();
}

static bool sweep_input(struct ppl *ppl, const char *path, struct input *input) {
    struct evaluation *evaluation = &ppl->evaluation;
    bool good = input_make_seekable(input);
    start_progress(ppl, input);
    for (; good && evaluation->pass < evaluation->passes; evaluation->pass++) {
        const int model = evaluation->pass / ppl->sweep.n;
        if (model > 0 && evaluation->pass % ppl->sweep.n == 0)
            good = next_model(ppl, (size_t)model);
        good = good && sweep_pass(ppl, path, input);
        close_scorer(ppl);
        if (signals_stopped() || output_closed())
            break;
    }
    progress_end(&ppl->progress);
    return good && (evaluation->pass < evaluation->passes || tell_recl(ppl));
}

static int sweep_file(struct ppl *ppl, const char *path) {
    struct input input;
    bool good = open_text(ppl, path, &input);
    if (good) {
        good = sweep_input(ppl, path, &input);
        input_close(&input);
    }
    if (!good)
        show_failure(ppl, path);
    ppl->cut = output_closed() && ppl->evaluation.pass < ppl->evaluation.passes;
    if (good && !signals_stopped())
        good = end_outputs(ppl, false);
    int status = good && !ppl->lacks ? STATUS_OK : STATUS_FAILURE;
    if (signals_stopped()) {
        terminal_note("interrupted: %d of %d memory lengths were scored", ppl->evaluation.pass,
                      ppl->evaluation.passes);
        status = signals_status();
    }
    return output_finish(status);
}

/* ---- Shards ------------------------------------------------------------------------------- */

static int merge_shards(const struct ppl_options *options, const struct operands *files) {
    struct merged merged;
    if (!merge_files(&merged, files->items, files->n))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    const struct setup *setup = &merged.setup;
    const struct result *result = &merged.result;
    result_note_unknown(setup, result);
    if (options->json)
        output_json(result_to_json(setup, result));
    else
        result_print_text(setup, result);
    int status = output_finish(result_check_limit(setup, result, options->fail_above));
    if (!output_failed())
        result_print_summary(setup, 1, result);
    merged_free(&merged);
    return status;
}

/* ---- The command -------------------------------------------------------------------------- */

/* Parses the arguments that are more than a number or a name. */
static int parse_arguments(const struct command *command, struct ppl *ppl) {
    const struct ppl_options *options = ppl->options;
    if (options->shard && !shard_parse(&ppl->shard, options->shard)) {
        return options_wrong(command, "--shard '%s': I/N is expected, with I from 1 to N",
                             options->shard);
    }
    if (options->sweep_memory && !sweep_parse(&ppl->sweep, options->sweep_memory)) {
        return options_wrong(command, "--sweep-memory '%s': a list such as 0,128,640 is expected",
                             options->sweep_memory);
    }
    ppl->sweep.keeps = options->recl;
    for (int i = 1; options->recl && i <= ppl->sweep.n; i++)
        if (ppl->sweep.n < 2 ||
            (i < ppl->sweep.n && ppl->sweep.mem_len[i] <= ppl->sweep.mem_len[i - 1]))
            return options_wrong(command, "--recl needs lengths that rise, two or more");
    const char *wrong = items_names_parse(&ppl->items.names, &options->columns);
    if (wrong && ppl->items.names.lacks_memory) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    if (wrong)
        return options_wrong(command,
                             "--columns '%s': ROLE=NAME is expected, each ROLE once: item, "
                             "condition, text, context, region, sentence_good, sentence_bad, UID, "
                             "pairID or order; or join=none",
                             wrong);
    ppl->items.names.apart = options->factorization;
    ppl->items.names.orders = options->both_sides && !options->factorization;
    if (ppl->items.names.name[ROLE_ORDER] && !ppl->items.names.orders)
        return options_wrong(command,
                             "--columns order=%s needs --both-sides, and excludes --factorization",
                             ppl->items.names.name[ROLE_ORDER]);
    ppl->items.preference.region = options->prefer_region;
    ppl->items.preference.by = options->prefer_by;
    if (options->prefer && !preference_parse(&ppl->items.preference, options->prefer))
        return options_wrong(command, "--prefer '%s': two conditions such as good,bad are expected",
                             options->prefer);
    return OPTIONS_RUN;
}

/* Reads --factorization; says that a column has the orders. */
static bool open_orders(struct ppl *ppl) {
    struct items *items = &ppl->items;
    const char *path = ppl->options->factorization;
    for (int i = 0; i < items->n; i++) {
        const struct items_table *table = &items->tables[i];
        if (path && table->pairs)
            return terminal_error("%s: --factorization needs a column text, not pairs of sentences",
                                  table->input.name);
        if (table->role[ROLE_ORDER] != SIZE_MAX)
            terminal_note("%s: the column %s is the order of factorisation of texts where it is "
                          "not empty",
                          table->input.name, items_table_name(table, ROLE_ORDER));
    }
    return !path || input_read_list(path, &items->orders, ITEMS_LONG);
}

/* Opens the tables of items, which become the files.  One that cannot be opened is told and left
 * out; false if all are. */
static bool open_items(struct ppl *ppl, struct operands *files) {
    const struct string_list *paths = &ppl->options->items;
    struct items *items = &ppl->items;
    if (!items_new(items, paths->n))
        return false;
    for (size_t i = 0; i < paths->n && !signals_stopped(); i++)
        if (!items_add(items, paths->items[i], &ppl->options->common.form)) {
            ppl->not_open++;
            show_failure(ppl, paths->items[i]);
        }
    files->items = items->paths;
    files->n = items->n;
    return items->n > 0 && !signals_stopped() && items_ready(items) && open_orders(ppl);
}

static int open_and_score(struct ppl *ppl, struct operands *files) {
    const struct ppl_options *options = ppl->options;
    if (!open_models(ppl))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    if (options->items.n > 0 && !open_items(ppl, files))
        return output_finish(signals_stopped() ? signals_status() : STATUS_FAILURE);
    describe_run(ppl);
    if (has_before(options) &&
        !before_read(&ppl->evaluation.before, options->context, options->context_text, &ppl->model,
                     options->ids, &options->common))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    if (options->heat)
        heat_open(&ppl->heat);
    if (!model_has_symbols(&ppl->model, options->logprobs) || !open_tables(ppl) ||
        !open_report(ppl))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    return ppl->sweep.n > 0 ? sweep_file(ppl, files->items[0])
                            : score_files(ppl, files->items, files->n);
}

static const struct ppl_options defaults = {.session = SESSION_UNSET,
                                            .prefer_region = -1,
                                            .preset = CHOICE_UNSET,
                                            .text = CHOICE_UNSET,
                                            .space_with = SPACE_WITH_NEXT,
                                            .dynamic = DYNAMIC_UNSET,
                                            .fail_above = NAN};

static int run(const struct command *command, void *values, struct operands *files) {
    const struct ppl_options *options = values;
    struct ppl *ppl = calloc(1, sizeof *ppl); /* too large for a stack whose growth may fail */
    if (!ppl) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    ppl->options = options;
    int status = ppl_options_check(command, options, files);
    if (status == OPTIONS_RUN)
        status = parse_arguments(command, ppl);
    if (status == OPTIONS_RUN)
        status = options->merge ? merge_shards(options, files) : open_and_score(ppl, files);
    tables_close(&ppl->tables);
    free(ppl->held);
    report_abandon(&ppl->report);
    heat_close(&ppl->heat);
    close_scorer(ppl);
    free(ppl->begins);
    items_close(&ppl->items);
    evaluation_free(&ppl->evaluation);
    for (size_t i = 1; ppl->group && i < ppl->sweep.recl.n_model; i++)
        model_close(&ppl->group[i]);
    free(ppl->group);
    sweep_free(&ppl->sweep);
    model_close(&ppl->other);
    model_close(&ppl->model);
    free(ppl);
    return status;
}

/* The options of -h. */
static const char *const brief[] = {"per-line", "items",   "per-token", "per-word",
                                    "report",   "compare", "preset",    "batch",
                                    "json",     "model",   NULL};

const struct command ppl_command = {
    .name = "ppl",
    .summary = "measure perplexity and bits per character of texts",
    .description =
        "Scores every token of each FILE, given the tokens before it that the model "
        "remembers. Prints the number that papers report: perplexity for models of words, "
        "bits per character for all others, both for models of pieces. Each FILE starts with "
        "a new memory. A FILE that cannot be read, or has fewer than two tokens, is named "
        "and left out, with --json by an object with its file and the error; the exit status "
        "is then 1.",
    .options = ppl_option_rows,
    .brief = brief,
    .operands = ppl_operands,
    .examples = ppl_examples,
    .notes = ppl_notes,
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
