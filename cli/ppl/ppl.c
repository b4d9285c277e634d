/* txl ppl: measures perplexity and bits per character of texts. */
#include "cli/commands.h"
#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "cli/model/settings.h"
#include "cli/score/run.h"
#include "ppl_options.h"
#include "shards.h"
#include "sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* One run of the command. */
struct ppl {
    struct run run; /* the first member */
    const struct ppl_options *options;
    char **paths;
    struct model *group; /* [compare.n]: of --recl; the one that is swept is in `run` */
    struct shard shard;
    struct sweep sweep;
};

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
        {o->scoring.dynamic.on, "--dynamic", "which txl cannot train"},
        {o->scoring.cache, "--cache", "which reads both sides"},
        {o->scoring.session.same_length != CHOICE_UNSET, "--same-length", "which sees both sides"},
    };
    const struct meaningless not_here[] = {
        {o->refresh > 0, "--refresh", "which sees what is to the left alone"},
    };
    return model_allows(model, not_there, sizeof not_there / sizeof *not_there) &&
           model_needs_both_sides(model, not_here, sizeof not_here / sizeof *not_here);
}

/* The settings of the checkpoint, of the preset and of the command line; later ones override
 * earlier ones. */
static bool choose_settings(struct run *run, const struct model *model, txl_settings *settings) {
    const struct ppl_options *options = ((struct ppl *)run)->options;
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
    settings_override(settings, &options->scoring.session, &options->common);
    if (options->refresh > 0)
        settings->mem_len = (int)options->refresh; /* holds a whole round */
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
    const struct ppl_options *o = ppl->options;
    const txl_model *model = ppl->run.model.handle;
    const bool in_order =
        o->sliding_window > 0 || o->scoring.heat || o->scoring.dynamic.on || o->scoring.cache;
    if (ppl->shard.of > 0)
        return (int64_t)ppl->shard.of;
    if (o->batch > 0)
        return o->batch;
    return o->preset != CHOICE_UNSET && !in_order ? published_streams(published_find(model), model)
                                                  : 1;
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
    recl->model[0] = ppl->run.model.name;
    for (size_t i = 1; i < recl->n_model; i++) {
        struct common_options common = ppl->options->common;
        common.model = paths->items[i - 1];
        if (!model_open(&ppl->group[i], &common) ||
            !comparison_possible(&ppl->run.model, &ppl->group[i]))
            return false;
        recl->model[i] = ppl->group[i].name;
    }
    return true;
}

/* What the paper has for the model with --preset; NULL: none. */
static const char *paper_result(const struct ppl *ppl) {
    const struct published *published =
        ppl->options->preset == CHOICE_UNSET ? NULL : published_find(ppl->run.model.handle);
    return published ? published->result : NULL;
}

static void describe_run(struct ppl *ppl) {
    const struct ppl_options *o = ppl->options;
    struct run *run = &ppl->run;
    struct evaluation *e = &run->evaluation;
    run_describe(run, o->scoring.dynamic.on   ? "dynamic"
                      : o->sliding_window > 0 ? "sliding"
                      : o->refresh > 0        ? "refreshed"
                                              : "segments");
    run->setup.published = paper_result(ppl);
    run->setup.in_table = o->sweep_memory != NULL;
    e->reading.streams = (uint64_t)choose_streams(ppl);
    e->reading.stream = ppl->shard.number;
    e->passes.n = o->sweep_memory ? ppl->sweep.n * (int)ppl->sweep.recl.n_model : 1;
}

static bool open_scorer(struct ppl *ppl) {
    struct run *run = &ppl->run;
    const struct run_settings stated = {.streams = (int64_t)run->evaluation.reading.streams,
                                        .refresh = run->way.refresh};
    if (!run_open_scorer(run, &stated))
        return false;
    if (run->options->report && run->evaluation.reading.streams == 1 &&
        strcmp(run->setup.mode, "segments") == 0) {
        report_start_positions(&run->report, (size_t)run->settings.tgt_len);
        scorer_observe(&run->evaluation.scorer, report_position, &run->report);
    }
    return true;
}

/* ---- Files -------------------------------------------------------------------------------- */

/* False with the error printed. */
static bool open_text(const struct ppl *ppl, const char *path, struct input *input) {
    const struct run *run = &ppl->run;
    const char *dot = strrchr(path, '.');
    if (!run->ids && dot &&
        (strcasecmp(dot, ".csv") == 0 || strcasecmp(dot, ".tsv") == 0 ||
         strcasecmp(dot, ".jsonl") == 0))
        terminal_note("%s: is read as one text; txl surprisal %s scores the texts of a table", path,
                      path);
    return tokens_open_text(input, path, run->model.handle, run->ids, run->common);
}

static bool score_file(struct run *run, int file, struct result *result) {
    const struct ppl *ppl = (struct ppl *)run;
    struct input input;
    *result = (struct result){.file = ppl->paths[file]};
    if (!open_text(ppl, ppl->paths[file], &input))
        return false;
    const bool good = run_score_input(run, ppl->paths[file], &input, result) &&
                      (run->report.positions.tgt_len == 0 || result->score.predicted == 0 ||
                       report_end_positions(&run->report, run->settings.mem_len));
    input_close(&input);
    return good;
}

/* What a sweep and a shard add. */
static bool add_json(struct run *run, json_t *object, const struct result *result) {
    const struct ppl *ppl = (struct ppl *)run;
    return (ppl->sweep.n == 0 || sweep_to_json(object, &ppl->sweep)) &&
           (ppl->shard.of == 0 ||
            shard_to_json(object, &ppl->shard, result, &run->setup, &run->model));
}

static bool print_result(struct run *run, const struct result *result) {
    return result_print_text(&run->setup, result);
}

static void note_unknown(struct run *run, const struct result *result) {
    terminal_note("%s: more than one symbol in 20 is unknown, which makes the text look more "
                  "predictable than it is%s",
                  result_name(result),
                  model_unit(run->model.handle) == TXL_UNIT_WORD && run->text == TEXT_TOKENS
                      ? "; --text tokens expects text that is tokenized already, --text raw "
                        "reads prose"
                      : "");
}

static const struct run_calls calls = {.choose = choose_settings,
                                       .score = score_file,
                                       .add_json = add_json,
                                       .print = print_result,
                                       .note_unknown = note_unknown};

/* ---- One text, several memory lengths ----------------------------------------------------- */

/* Scores the text with the pass's memory, and prints the row. */
static bool sweep_pass(struct ppl *ppl, const char *path, struct input *input) {
    struct run *run = &ppl->run;
    struct evaluation *evaluation = &run->evaluation;
    struct result result;
    const int length = evaluation->passes.at % ppl->sweep.n;
    bool reported = run->options->report && evaluation->passes.at == sweep_longest(&ppl->sweep);
    run->settings.mem_len = ppl->sweep.mem_len[length];
    evaluation->report = reported ? &run->report : NULL;
    if (!input_rewind(input) || !sweep_start(&ppl->sweep, length == 0) || !open_scorer(ppl))
        return false;
    scorer_observe(&evaluation->scorer, sweep_token, &ppl->sweep);
    txl_status status = evaluate(evaluation, path, input, &result);
    if (status)
        return status == TXL_STOPPED;
    evaluation->passes.tokens += result.tokens;
    if (evaluation->passes.at == 0)
        run_note(run, &result);
    if (result.score.predicted > 0 && run->report.positions.tgt_len > 0 &&
        !report_end_positions(&run->report, run->settings.mem_len))
        return false;
    if (!run_report(run, &result, reported))
        return false;
    bool printed =
        run->options->json
            ? output_json(run_to_json(run, &result))
            : (length > 0 || ppl->sweep.recl.n_model == 1 || output_line("%s", run->model.name)) &&
                  (length > 0 || sweep_print_header(&run->setup, &result)) &&
                  sweep_print_row(&run->setup, &result, run->settings.mem_len, &ppl->sweep);
    if (printed)
        result_print_summary(&run->setup, 1, &result);
    return printed || output_closed();
}

/* Another model of the group takes its turn. */
static bool next_model(struct ppl *ppl, size_t i) {
    struct run *run = &ppl->run;
    const struct model before = run->model;
    run->model = ppl->group[i];
    ppl->group[i] = before;
    run->evaluation.model = run->model.handle;
    run->setup.published = paper_result(ppl);
    return choose_settings(run, &run->model, &run->settings);
}

/* Prints the relative effective context lengths, and gives them to the page. */
static bool tell_recl(struct ppl *ppl) {
    struct recl *recl = &ppl->sweep.recl;
    size_t n = recl->nats.length / sizeof(float) / recl->n_model / recl->n_length;
    if (!ppl->sweep.keeps || n == 0)
        return true;
    if (!recl_compute(recl, n))
        return terminal_error("out of memory");
    if (ppl->run.options->report && !(ppl->run.report.recl = recl_to_json(recl)))
        return terminal_error("out of memory");
    return (ppl->run.options->json ? output_json(json_pack("{s:o}", "recl", recl_to_json(recl)))
                                   : recl_print(recl)) ||
           output_closed();
}

static bool sweep_input(struct ppl *ppl, const char *path, struct input *input) {
    struct evaluation *evaluation = &ppl->run.evaluation;
    bool good = input_make_seekable(input);
    run_start_progress(&ppl->run, input);
    for (; good && evaluation->passes.at < evaluation->passes.n; evaluation->passes.at++) {
        const int model = evaluation->passes.at / ppl->sweep.n;
        if (model > 0 && evaluation->passes.at % ppl->sweep.n == 0)
            good = next_model(ppl, (size_t)model);
        good = good && sweep_pass(ppl, path, input);
        run_close_scorer(&ppl->run);
        if (signals_stopped() || output_closed())
            break;
    }
    progress_end(&ppl->run.progress);
    return good && (evaluation->passes.at < evaluation->passes.n || tell_recl(ppl));
}

static int sweep_file(struct ppl *ppl) {
    struct run *run = &ppl->run;
    const char *path = ppl->paths[0];
    struct input input;
    bool good = open_text(ppl, path, &input);
    if (good) {
        good = sweep_input(ppl, path, &input);
        input_close(&input);
    }
    if (!good)
        run_show_failure(run, path);
    run->cut = output_closed() && run->evaluation.passes.at < run->evaluation.passes.n;
    if (good && !signals_stopped())
        good = run_end_outputs(run, ppl->sweep.recl.model[0], false);
    int status = good && !run->lacks ? STATUS_OK : STATUS_FAILURE;
    if (signals_stopped()) {
        terminal_note("interrupted: %d of %d memory lengths were scored", run->evaluation.passes.at,
                      run->evaluation.passes.n);
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
    if (options->scoring.json)
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
    if (ppl_other(options) && options->compare.n > 1)
        return options_wrong(command, "--compare more than once needs --recl");
    if (ppl_other(options) && options->sweep_memory)
        return options_wrong(command, "--sweep-memory cannot be combined with --compare");
    return dynamic_check(command, &options->scoring.dynamic);
}

static int open_and_score(struct ppl *ppl, struct operands *files) {
    struct run *run = &ppl->run;
    struct result total = {0};
    ppl->paths = files->items;
    if (!run_open_models(run) || !open_group(ppl))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    describe_run(ppl);
    if (!run_open_report(run))
        return signals_stopped() ? signals_status() : STATUS_FAILURE;
    if (ppl->sweep.n > 0)
        return sweep_file(ppl);
    return open_scorer(ppl) ? run_files(run, files->n, 0, &total) : STATUS_FAILURE;
}

static const struct ppl_options defaults = {
    .scoring = SCORING_UNSET, .preset = CHOICE_UNSET, .fail_above = NAN};

static void start_run(struct ppl *ppl, const struct ppl_options *o) {
    ppl->options = o;
    ppl->run.calls = &calls;
    ppl->run.common = &o->common;
    ppl->run.options = &o->scoring;
    ppl->run.compare = ppl_other(o);
    /* A page shows beside the learning model how the same one does without. */
    ppl->run.with_itself = o->scoring.dynamic.on && o->scoring.report && !ppl_other(o);
    ppl->run.ids = o->ids;
    ppl->run.standard_text = TEXT_TOKENS;
    ppl->run.way.window = (size_t)o->sliding_window;
    ppl->run.way.refresh = (size_t)o->refresh;
    ppl->run.exact_json = o->shard;
    ppl->run.limit = o->fail_above;
}

static int run_command(const struct command *command, void *values, struct operands *files) {
    const struct ppl_options *options = values;
    struct ppl *ppl = calloc(1, sizeof *ppl); /* too large for a stack whose growth may fail */
    if (!ppl) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    start_run(ppl, options);
    int status = parse_arguments(command, ppl);
    if (status == OPTIONS_RUN)
        status = options->merge ? merge_shards(options, files) : open_and_score(ppl, files);
    for (size_t i = 1; ppl->group && i < ppl->sweep.recl.n_model; i++)
        model_close(&ppl->group[i]);
    free(ppl->group);
    sweep_free(&ppl->sweep);
    run_close(&ppl->run);
    free(ppl);
    return status;
}

/* The options of -h. */
static const char *const brief[] = {"preset", "batch", "compare", "report", "json", "model", NULL};

const struct command ppl_command = {
    .name = "ppl",
    .summary = "measure perplexity and bits per character of texts",
    .description =
        "Prints the number that papers report of each FILE, given what comes before each token: "
        "perplexity of word-level models, else bits per character, both of subword models. Files "
        "that cannot be read, or have fewer than two tokens, are reported and skipped; the exit "
        "status is then 1.",
    .options = ppl_option_rows,
    .moved = ppl_moved,
    .brief = brief,
    .operands = ppl_operands,
    .examples = ppl_examples,
    .topics = ppl_topics,
    .shared = "report heat comparison cache dynamic wrapped spaces outputs summary",
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run_command,
};
