/* Runs a command that scores texts. */
#include "run.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Models and settings ------------------------------------------------------------------ */

bool run_open_models(struct run *run) {
    if (!model_open(&run->model, run->common) ||
        !text_form_choose(txl_model_kind(run->model.handle), run->options->text, run->standard_text,
                          &run->text) ||
        !tokens_allow_unwrap(txl_model_kind(run->model.handle), run->common) ||
        !run->calls->choose(run, &run->model, &run->settings))
        return false;
    run->comparison.n_token = (size_t)txl_model_n_token(run->model.handle);
    if (!run->compare)
        return true;
    struct common_options other = *run->common;
    other.model = run->compare;
    return model_open(&run->other, &other) && comparison_possible(&run->model, &run->other) &&
           run->calls->choose(run, &run->other, &run->other_settings);
}

static bool compares(const struct run *run) {
    return run->compare || run->with_itself;
}

void run_describe(struct run *run, const char *mode) {
    const struct scoring_options *o = run->options;
    const txl_model *model = run->model.handle;
    run->setup.words = model_unit(model) != TXL_UNIT_CHARACTER;
    run->setup.pieces = model_unit(model) == TXL_UNIT_PIECE;
    run->setup.ids = run->ids;
    run->setup.replaces_unknown = txl_model_unk(model) >= 0;
    run->setup.both_sides = run->way.both_sides;
    run->setup.mode = mode;
    run->setup.text = text_form(model, run->text, run->ids);
    struct evaluation *e = &run->evaluation;
    e->model = model;
    e->reading.raw = run->text == TEXT_RAW;
    e->reading.ids = run->ids;
    e->reading.skip_unknown = o->skip_unknown;
    e->both_sides = run->way.both_sides;
    e->reading.max_tokens = (uint64_t)o->max_tokens;
    e->comparison = compares(run) ? &run->comparison : NULL;
    e->heat = o->heat ? &run->heat : NULL;
    e->report = o->report ? &run->report : NULL;
    e->progress = &run->progress;
    if (o->heat)
        heat_open(&run->heat);
}

bool run_open_report(struct run *run) {
    const char *path = run->options->report;
    /* Ids have no text. */
    const bool shows_source = !run->ids && txl_model_unk(run->model.handle) >= 0;
    return !path || report_open(&run->report, path, run->model.handle, compares(run) ? 2 : 1,
                                shows_source ? &run->evaluation.source : NULL);
}

/* ---- What predicts ------------------------------------------------------------------------ */

/* Opens a session of each model, or a learner of the first; to compare with itself, a learner that
 * does not learn. */
static bool open_predictors(struct run *run) {
    struct predictor *predictors = run->predictors;
    if (run->compare) {
        if (!session_open(&run->other, &run->other_settings, &predictors[1].session))
            return false;
        txl_session_settings(predictors[1].session, &run->other_settings);
    }
    if (!run->options->dynamic.on) {
        if (!session_open(&run->model, &run->settings, &predictors[0].session))
            return false;
        txl_session_settings(predictors[0].session, &run->settings);
        return true;
    }
    const struct dynamic_text text = {run->text == TEXT_RAW, run->ids, run->options->skip_unknown,
                                      run->common};
    if (!dynamic_open(&run->dynamic, &run->options->dynamic, &run->model, &run->settings, &text,
                      run->with_itself))
        return false;
    predictors[0].learner = run->dynamic.learner;
    if (run->dynamic.fixed)
        predictors[1].learner = run->dynamic.fixed;
    txl_learner_settings(run->dynamic.learner, &run->settings);
    return true;
}

/* States the settings of both models. */
static bool state_settings(struct run *run, const struct run_settings *stated) {
    const struct model fixed = {run->model.handle, "the model without learning"};
    struct run_settings r = *stated;
    r.mode = run->setup.mode;
    r.text = run->setup.text;
    r.unwrap = run->common->unwrap;
    r.context_start = run->evaluation.alone;
    if (run->way.both_sides)
        r.both_sides = run->way.word_left ? "word-left" : "yes";
    if (run->compare && !evaluated_set(&run->setup.other, &run->other, &run->other_settings, &r))
        return false;
    if (run->with_itself && !evaluated_set(&run->setup.other, &fixed, &run->settings, &r))
        return false;
    if (run->options->dynamic.on)
        run->setup.dynamic = r.dynamic = &run->dynamic.settings;
    r.cache = run->options->cache;
    return evaluated_set(&run->setup.model, &run->model, &run->settings, &r);
}

/* In the order in which they see the tokens. */
static void add_observers(struct run *run) {
    struct scorer *scorer = &run->evaluation.scorer;
    if (run->way.both_sides)
        scorer_observe(scorer, evaluation_token, &run->evaluation);
    if (run->evaluation.comparison)
        scorer_observe(scorer, comparison_token, &run->comparison);
    if (run->evaluation.levels)
        scorer_observe(scorer, levels_token, &run->levels);
    if (run->evaluation.heat)
        scorer_observe(scorer, heat_token, &run->heat);
    if (run->evaluation.report)
        scorer_observe(scorer, report_token, &run->report);
}

bool run_open_scorer(struct run *run, const struct run_settings *stated) {
    struct scorer *scorer = &run->evaluation.scorer;
    const txl_model *model = run->model.handle;
    struct way_options way = run->way;
    txl_error error;
    way.together = model_score_tokens(&run->model);
    way.distributions = way.distributions || compares(run) || run->options->report;
    if (!open_predictors(run))
        return false;
    if (!scorer_new(scorer, run->predictors, compares(run) ? 2 : 1, model, &way))
        return terminal_error("out of memory");
    if (run->options->cache && txl_cache_new(model, &scorer->cache, &error))
        return terminal_error("--cache: %s", error.message);
    add_observers(run);
    return state_settings(run, stated);
}

void run_close_scorer(struct run *run) {
    evaluated_free(&run->setup.model);
    evaluated_free(&run->setup.other);
    scorer_free(&run->evaluation.scorer);
    for (size_t i = 0; i < MOST_SESSIONS; i++) {
        txl_session_free(run->predictors[i].session);
        run->predictors[i] = (struct predictor){0};
    }
    dynamic_close(&run->dynamic);
}

/* ---- Files -------------------------------------------------------------------------------- */

void run_start_progress(struct run *run, const struct input *input) {
    progress_start(&run->progress, input->name, "tokens");
    run->progress.off = run->options->heat || (run->rows_shown && isatty(STDOUT_FILENO));
}

bool run_score_input(struct run *run, const char *path, struct input *input,
                     struct result *result) {
    run_start_progress(run, input);
    txl_status status = evaluate(&run->evaluation, path, input, result);
    progress_end(&run->progress);
    run->cut = run->cut || (status == TXL_STOPPED && output_closed());
    if (run->dynamic.learner)
        result->drift = txl_learner_drift(run->dynamic.learner);
    return !status || status == TXL_STOPPED;
}

json_t *run_to_json(struct run *run, const struct result *result) {
    json_t *object = result_to_json(&run->setup, result);
    return output_json_if(run->calls->add_json(run, object, result), object);
}

void run_note(struct run *run, const struct result *result) {
    enum { FEW = 20 };
    const struct evaluation *e = &run->evaluation;
    const char *name = result_name(result);
    unknown_note(&e->unknown, name, run->setup.replaces_unknown);
    if (!blanks_note(&e->blanks, name, run->model.handle, run->text == TEXT_RAW))
        run->lacks = true;
    if (e->counts.spelled > result->tokens / 2)
        terminal_note(
            "%s: %.0f %% of its tokens are single bytes of characters that the vocabulary "
            "lacks, perhaps of another script: the model never learned them, and the numbers mean "
            "little",
            name, 100 * (double)e->counts.spelled / (double)result->tokens);
    if (!run->ids && result->unknown > result->tokens / FEW)
        run->calls->note_unknown(run, result);
}

bool run_report(struct run *run, const struct result *result, bool shown) {
    return !run->options->report || result->score.predicted == 0 ||
           report_result(&run->report, run_to_json(run, result), shown);
}

static bool print_result(struct run *run, const struct result *result) {
    if (result->score.predicted == 0 || output_closed())
        return true; /* a signal or a closed pipe ended it */
    if (run->options->json)
        return run->exact_json ? output_json_exact(run_to_json(run, result))
                               : output_json(run_to_json(run, result));
    return run->options->heat || run->calls->print(run, result);
}

/* Prints the result, or keeps it until the rows that come before are complete. */
static bool show_result(struct run *run, const struct result *result) {
    if (!run->rows_shown)
        return print_result(run, result);
    struct result *held = reallocarray(run->held, (size_t)run->n_held + 1, sizeof *held);
    if (!held)
        return output_lacks_memory();
    held[run->n_held++] = *result;
    run->held = held;
    return true;
}

bool run_show_failure(const struct run *run, const char *path) {
    return !run->options->json || signals_stopped() || output_failed() || output_json_failure(path);
}

/* Scores one file after the other.  Returns the number of those that failed; `*total` is the result
 * of the `*done` others. */
static int score_each(struct run *run, int n, int *done, struct result *total) {
    int failed = 0, i;
    bool continues = true;
    for (i = 0; continues && i < n && !signals_stopped() && !output_closed(); i++) {
        struct result result;
        levels_mark(&run->levels);
        if (!run->calls->score(run, i, &result) || !run_report(run, &result, true)) {
            levels_take_back(&run->levels);
            failed++;
            continues =
                !output_failed() && output_start_line() && run_show_failure(run, result.file);
            continue;
        }
        ++*done;
        result_add(total, &result);
        run_note(run, &result);
        continues = show_result(run, &result);
    }
    run->cut = run->cut || (i < n && output_closed());
    return failed;
}

/* An output that would be only a part. */
static bool refuse_part(const char *name) {
    return terminal_error("%s: not written: the reader of another output has gone before all was "
                          "scored",
                          name);
}

bool run_end_outputs(struct run *run, const char *name, bool learned) {
    struct outfile *files[N_LEVEL + 1] = {&run->report.file};
    const size_t n = sizeof files / sizeof *files;
    const char *model = learned ? run->options->dynamic.output : NULL;
    bool good = !run->cut || !model || refuse_part(model);
    levels_files(&run->levels, files + 1);
    for (size_t i = 0; i < n && run->cut; i++)
        if (files[i]->open && files[i]->is_whole)
            good = refuse_part(files[i]->name);
    if (!good || !report_end(&run->report, name) || !outfiles_finish(files, n))
        return false;
    for (int i = 0; i < run->n_held && good; i++)
        good = print_result(run, &run->held[i]);
    output_flush();
    return !output_failed() && (!model || dynamic_write(&run->dynamic)) &&
           outfiles_commit(files, n);
}

int run_files(struct run *run, int n, int before, struct result *total) {
    int done = 0;
    run->setup.several = n + before > 1;
    const int failed = score_each(run, n, &done, total) + before, all = n + before;
    if (failed > 0 && all > 1)
        terminal_note("%d of %d files could not be scored", failed, all);
    bool good = done > 0 || failed == 0;
    if (good && all > 1)
        good = (!run->calls->sum || run->calls->sum(run, total)) && show_result(run, total);
    if (good)
        heat_print_legend(&run->heat);
    good = good && run_end_outputs(run, run->model.name, total->score.predicted > 0);
    int status = STATUS_OK;
    if (!good || ((failed > 0 || run->lacks) && !signals_stopped())) {
        status = signals_stopped() ? signals_status() : STATUS_FAILURE;
    } else if (signals_stopped()) {
        terminal_note("interrupted: the result covers the first %" PRIu64 " token%s scored",
                      total->score.predicted, plural(total->score.predicted));
        status = signals_status();
    } else {
        status = result_check_limit(&run->setup, total, run->limit);
    }
    status = output_finish(status);
    if (total->score.predicted > 0 && !output_failed())
        result_print_summary(&run->setup, done, total);
    return status;
}

void run_close(struct run *run) {
    levels_close(&run->levels);
    report_abandon(&run->report);
    heat_close(&run->heat);
    run_close_scorer(run);
    evaluation_free(&run->evaluation);
    free(run->held);
    model_close(&run->other);
    model_close(&run->model);
}
