/* txl train: makes a model from text, or trains an existing one further. */
#include "cli/commands.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "cli/model/settings.h"
#include "cli/options/options.h"
#include "cli/text/tokens.h"
#include "lib/base/json_memory.h"
#include "lock.h"
#include "peers.h"
#include "train_head.h"
#include "train_options.h"
#include "train_report.h"
#include "train_text.h"
#include "txl.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char train_topics[]; /* cli/train/train.txt */

/* Held-out tokens below which a note says that they are few: the mean's standard error is then
 * several hundredths of its value. */
enum { FEW_HELD_OUT = 1000 };

/* One run of the command. */
struct train {
    const struct train_options *options;
    const txl_peers *peers; /* NULL: this process alone */
    struct train_run run;
    struct train_text text;
    txl_ids *ids;
    struct token_reader reader;
    struct input whole;     /* names all texts in messages */
    struct unknown unknown; /* of the text */
    uint64_t n_unknown;     /* of the text and of the held-out one */
    struct model init;      /* --init; handle NULL: a new model */
    txl_saved *saved;       /* --resume */
    txl_model *fresh;       /* a new model */
    txl_trainer *trainer;
    struct heldout heldout;
    struct heldout also; /* --also: an unrelated text */
    struct heldout_score also_before;
    struct train_log log;
    struct curves curves;
    struct lock output, state;
    char *prompt;   /* of the text that the model writes for the report; NULL: none yet */
    uint64_t total; /* steps of the run, 0: the hours bound it */
    double start;   /* the clock when the first step of this process began */
    double seconds_before;
    txl_error not_written, not_saved; /* why the output or the state is behind; TXL_OK: it is not */
};

/* Whether this process is the one that prints and writes files. */
static bool is_first(const struct train *t) {
    return !t->peers || t->peers->rank == 0;
}

static bool holds_out(const struct train_options *options) {
    return !options->valid || strcmp(options->valid, "none") != 0;
}

/* ---- Memory ------------------------------------------------------------------------------- */

static double number_in(const json_t *settings, const char *key) {
    return (double)json_integer_value(json_object_get(settings, key));
}

/* Whether memory for training would do, by a lower bound: counts only the layers' matrices and the
 * first embedding, as weights, and in training also a copy, gradients and two moments.  Checked
 * before a model with these settings (weights-format.md) is made.  False with the error printed. */
static bool fit_new_model(const char *settings) {
    json_t *object = json_loads(settings, 0, NULL);
    double d = number_in(object, "d_model"), free_bytes = free_memory();
    double width = number_in(object, "n_head") * number_in(object, "d_head");
    double layer = 5 * d * width + 2 * d * number_in(object, "d_inner");
    const json_t *cutoff = json_array_get(json_object_get(object, "cutoffs"), 0);
    double first = cutoff ? (double)json_integer_value(cutoff) : number_in(object, "n_token");
    double weights = number_in(object, "n_layer") * layer + first * number_in(object, "d_embed");
    json_decref(object);
    double bytes = 5 * sizeof(float) * weights;
    if (bytes <= free_bytes)
        return true;
    return terminal_error(
        "%.1f million weights take at least %.1f GB to be trained, and %.1f GB are "
        "free: a model of at most %.0f million would fit",
        weights / 1e6, bytes / 1e9, free_bytes / 1e9, free_bytes / (5e6 * sizeof(float)));
}

/* The same with fewer streams, and segments of a part of the length. */
static txl_training smaller_training(const txl_training *how, int batch, int part) {
    txl_training less = *how;
    less.batch = batch;
    less.tgt_len = how->tgt_len / part > 0 ? how->tgt_len / part : 1;
    less.ext_len = how->ext_len / part;
    less.mem_len = how->mem_len / part;
    return less;
}

static bool fits_memory(const txl_model *model, const txl_training *how, int batch, int part,
                        double bytes) {
    const txl_training less = smaller_training(how, batch, part);
    return (double)txl_trainer_bytes(model, &less) <= bytes;
}

/* The largest batch that fits; 0: none fits. */
static int largest_batch(const txl_model *model, const txl_training *how, double bytes) {
    int low = 0, high = how->batch; /* low fits, or is 0; high does not */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (fits_memory(model, how, middle, 1, bytes))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Checks before the training; the error says which --batch would fit, or which segments. */
static bool fit_training(const txl_model *model, const txl_training *how) {
    double bytes = (double)txl_trainer_bytes(model, how), free_bytes = free_memory();
    if (bytes <= free_bytes)
        return true;
    int least = how->peers ? how->peers->n : 1, part = 2;
    int batch = largest_batch(model, how, free_bytes);
    char advice[128] = "no batch and no segment would fit: a smaller model would";
    while (part < how->tgt_len && !fits_memory(model, how, least, part, free_bytes))
        part *= 2;
    if (batch >= least)
        snprintf(advice, sizeof advice, "--batch %d would fit", batch);
    else if (fits_memory(model, how, least, part, free_bytes)) {
        const txl_training less = smaller_training(how, least, part);
        const bool extends = how->ext_len > 0;
        snprintf(advice, sizeof advice, "--batch %d --tgt-len %d --%s %d would fit", least,
                 less.tgt_len, extends ? "ext-len" : "mem-len",
                 extends ? less.ext_len : less.mem_len);
    }
    return terminal_error("training takes %.1f GB, and %.1f GB are free: %s", bytes / 1e9,
                          free_bytes / 1e9, advice);
}

/* ---- The text ----------------------------------------------------------------------------- */

static txl_status add_text_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct train *t = context;
    return symbol->text ? txl_ids_add(t->ids, &symbol->id, 1, error) : TXL_OK;
}

static txl_status feed_reader(void *context, const char *bytes, size_t length) {
    struct train *t = context;
    return train_text_feed(&t->text, 0, &t->reader, bytes, length);
}

/* Reads the texts to ids, and the held-out part. */
static bool read_text(struct train *t, const txl_model *model) {
    const txl_encoding encoding = {.raw = t->run.text == TEXT_RAW,
                                   .skip_unknown = t->run.skip_unknown,
                                   .lookup = true,
                                   .symbol = add_text_symbol,
                                   .context = t,
                                   .unknown = unknown_add,
                                   .unknown_context = &t->unknown};
    txl_error error;
    t->whole.name = train_text_name(&t->text);
    if (txl_ids_new(txl_model_n_token(model), &t->ids, &error))
        return terminal_error("%s", error.message);
    if (!token_reader_open(&t->reader, model, &t->whole, &encoding, t->run.ids))
        return false;
    if (train_text_read(&t->text, feed_reader, t) || token_reader_finish(&t->reader))
        return false;
    unknown_note(&t->unknown, t->whole.name, txl_model_unk(model) >= 0);
    bool good = !t->run.holds_out || heldout_read(&t->heldout, model, t->options->valid, &t->text,
                                                  encoding.raw, t->run.skip_unknown);
    t->n_unknown = t->unknown.n + t->heldout.unknown.n;
    return good;
}

static uint64_t heldout_checksum(const struct train *t, const txl_model *model) {
    txl_ids *ids;
    txl_error error;
    uint64_t checksum = 0;
    if (t->heldout.list.n > 0 && !txl_ids_new(txl_model_n_token(model), &ids, &error)) {
        if (!txl_ids_add(ids, t->heldout.list.ids, t->heldout.list.n, &error))
            checksum = txl_ids_checksum(ids);
        txl_ids_free(ids);
    }
    return checksum;
}

/* ---- The model ---------------------------------------------------------------------------- */

static int size_of(int64_t asked, const json_t *shape, const char *key, int standard) {
    const json_t *value = json_object_get(shape, key);
    if (asked != INTEGER_UNSET)
        return (int)asked;
    return value ? (int)json_integer_value(value) : standard;
}

/* The list of --cutoffs, or the shape's cutoffs below the size of the vocabulary. */
static json_t *make_cutoffs(const char *asked, const json_t *shape, int32_t n_token) {
    json_t *cutoffs = json_array();
    bool good = cutoffs != NULL;
    if (asked && *asked != '\0') {
        size_t n;
        int *list = number_list(asked, &n);
        good = good && list;
        for (size_t i = 0; good && i < n; i++)
            good = json_array_append_new(cutoffs, json_integer(list[i])) == 0;
        free(list);
    } else if (!asked) {
        size_t i;
        json_t *value;
        json_array_foreach(json_object_get(shape, "cutoffs"), i, value) {
            if (json_integer_value(value) < n_token)
                good = good && json_array_append(cutoffs, value) == 0;
        }
    }
    return output_json_if(good, cutoffs);
}

/* Adds to a new model's settings its type of attention, with a learned row for each distance or
 * position that a step sees. */
static json_t *with_attention(json_t *settings, const txl_training *how, int type) {
    const bool learned = type == 1 || type == 3;
    bool good = json_object_set_new(settings, "attn_type", json_integer(type)) == 0 &&
                json_object_set_new(settings, "biases_per_layer", json_boolean(type == 1)) == 0;
    if (good && learned)
        good = json_object_set_new(settings, "max_klen",
                                   json_integer(how->tgt_len + how->ext_len + how->mem_len)) == 0;
    return output_json_if(good, settings);
}

static json_t *id_or_null(int32_t id) {
    return id < 0 ? json_null() : json_integer(id);
}

/* The settings of weights-format.md as JSON; NULL when memory is short. */
static char *new_settings(const struct train *t, const struct convert_vocabulary *v) {
    const struct train_options *options = t->options;
    char *published =
        options->shape == CHOICE_UNSET ? NULL : published_settings_json(options->shape, false);
    json_t *shape = published ? json_loads(published, 0, NULL) : NULL;
    free(published);
    json_t *cutoffs = make_cutoffs(options->cutoffs, shape, v->n), *tied = json_pack("[b]", false);
    for (size_t i = 0; i < json_array_size(cutoffs) && tied; i++)
        tied = output_json_if(json_array_append_new(tied, json_true()) == 0, tied);
    int d_model = size_of(options->d_model, shape, "d_model", TRAIN_D_MODEL);
    json_t *settings = json_pack(
        "{s:s, s:s, s:b, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:o, s:b, s:o, "
        "s:i, s:i, s:i, s:b, s:s, s:s, s:s}",
        "family", "transformer-xl", "tokenizer", txl_kind_name(v->kind), "lower_case",
        v->lower_case, "unk_id", id_or_null(v->unk), "eos_id", id_or_null(v->eos), "n_token", v->n,
        "n_layer", size_of(options->n_layer, shape, "n_layer", TRAIN_N_LAYER), "n_head",
        size_of(options->n_head, shape, "n_head", TRAIN_N_HEAD), "d_head",
        size_of(options->d_head, shape, "d_head", TRAIN_D_HEAD), "d_model", d_model, "d_embed",
        size_of(options->d_embed, shape, "d_embed", d_model), "d_inner",
        size_of(options->d_inner, shape, "d_inner", TRAIN_D_INNER), "pre_lnorm",
        options->pre_lnorm == ANSWER_YES, "div_val",
        size_of(options->div_val, shape, "div_val", TRAIN_DIV_VAL), "cutoffs", cutoffs,
        "tied_weights", true, "tied_projections", tied, "tgt_len", t->run.training.tgt_len,
        "mem_len", t->run.training.mem_len, "clamp_len",
        t->run.training.clamp_len > 0 ? t->run.training.clamp_len : -1, "same_length",
        t->run.training.same_length, "memory_start", "empty", "cluster_order", "reversed", "type",
        "f32");
    int attn_type = options->attn_type == INTEGER_UNSET ? 0 : (int)options->attn_type;
    settings = with_attention(settings, &t->run.training, attn_type);
    char *text = settings ? json_text(settings, JSON_COMPACT) : NULL;
    json_decref(settings);
    json_decref(shape);
    return text;
}

static bool make_model(struct train *t) {
    const struct train_options *options = t->options;
    const char *name = options->vocab ? options->vocab : TRAIN_VOCAB;
    int64_t min_count = options->min_count == INTEGER_UNSET ? TRAIN_MIN_COUNT : options->min_count;
    struct convert_vocabulary v;
    txl_error error;
    if (train_vocabulary_make(&v, name, min_count, t->run.text == TEXT_RAW, &t->text))
        return false;
    char *settings = new_settings(t, &v);
    bool good = settings ? fit_new_model(settings) : terminal_error("out of memory");
    if (good)
        good = terminal_report(txl_model_new(settings, v.section, v.size, t->run.training.seed,
                                             (int)options->common.threads, &t->fresh, &error),
                               &error);
    free(settings);
    free(v.section);
    return good;
}

/* The model to train: a new one, --init's, or the state's; NULL with the error printed. */
static const txl_model *open_model(struct train *t) {
    const char *init = t->options->init;
    txl_error error;
    if (t->saved)
        return txl_saved_model(t->saved);
    if (init) {
        int threads = (int)t->options->common.threads;
        if (!terminal_report(model_open_file(&t->init, init, threads, false, &error), &error))
            return NULL;
        if (model_sees_both_sides(&t->init)) {
            terminal_error("%s: an XLNet is not trained further; --task classify trains a head for "
                           "it",
                           t->init.name);
            return NULL;
        }
        train_run_init(&t->run, t->options, t->init.handle);
        return t->init.handle;
    }
    return make_model(t) ? t->fresh : NULL;
}

/* Segments as training has them, ext_len tokens included. */
static txl_settings session_settings(const struct train *t) {
    return (txl_settings){.tgt_len = t->run.training.tgt_len + t->run.training.ext_len,
                          .mem_len = t->run.training.mem_len,
                          .clamp_len = t->run.training.clamp_len,
                          .same_length = t->run.training.same_length,
                          .threads = t->run.training.threads};
}

/* Reads the text of --also and scores it with the model of --init. */
static bool measure_also(struct train *t, const txl_model *model) {
    const char *path = t->options->also;
    txl_error error;
    if (!path || !is_first(t))
        return true;
    if (!heldout_read(&t->also, model, path, &t->text, t->run.text == TEXT_RAW,
                      t->run.skip_unknown))
        return false;
    const txl_settings settings = session_settings(t);
    size_t ext_len = (size_t)t->run.training.ext_len;
    return terminal_report(
        heldout_score(&t->also, model, &settings, ext_len, &t->also_before, &error), &error);
}

/* Says what training did to that text, by the file that was written. */
static bool tell_also(struct train *t) {
    struct model model = {0};
    struct heldout_score after;
    txl_error error;
    if (!t->options->also || !is_first(t))
        return true;
    const txl_settings settings = session_settings(t);
    txl_status status =
        model_open_file(&model, t->options->output, settings.threads, false, &error);
    if (!status)
        status = heldout_score(&t->also, model.handle, &settings, (size_t)t->run.training.ext_len,
                               &after, &error);
    if (!status)
        terminal_note("%s: %.4f bits %s before, %.4f with %s", t->options->also,
                      heldout_bits(&t->also, &t->also_before),
                      t->run.ids ? "per token" : "per character", heldout_bits(&t->also, &after),
                      t->options->output);
    model_close(&model);
    return status == TXL_STOPPED || terminal_report(status, &error);
}

/* ---- Evaluation, the output, the state ---------------------------------------------------- */

static double seconds_worked(const struct train *t) {
    return t->seconds_before + terminal_seconds() - t->start;
}

static json_t *evaluation_to_json(const struct train *t, const struct heldout_score *score,
                                  uint64_t steps) {
    double nats = score->nats / (double)score->predicted;
    return json_pack("{s:I, s:{s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}}", "step", (json_int_t)steps,
                     "valid", "tokens", (json_int_t)t->heldout.list.n, "predicted",
                     (json_int_t)score->predicted, "unknown", (json_int_t)t->heldout.unknown.n,
                     "nats", score->nats, "nats_per_token", nats, "perplexity", exp(nats),
                     "bits_per_token", nats / log(2), "bits_per_character",
                     heldout_bits(&t->heldout, score));
}

/* Writes the kept weights, or today's if nothing has been measured. */
static bool write_output(struct train *t) {
    const char *path = t->options->output;
    char type[WEIGHT_TYPE_TEXT];
    int threads = t->run.training.threads;
    txl_error *error = &t->not_written;
    weight_type_text(t->run.type, t->run.embeddings > 0 ? t->run.embeddings - 1 : CHOICE_UNSET,
                     type);
    error->status = isnan(t->run.best)
                        ? txl_model_write(txl_trainer_model(t->trainer), path, type, threads, error)
                        : txl_trainer_write_kept(t->trainer, path, type, threads, error);
    return !error->status;
}

/* Notes the first of several failures: the next save may make them good. */
static void note_failure(const txl_error *error, txl_status before) {
    if (error->status && !before)
        terminal_note("%s; trying again at the next save", error->message);
}

static void try_output(struct train *t) {
    txl_status before = t->not_written.status;
    write_output(t);
    note_failure(&t->not_written, before);
}

/* Notes for the report what was measured (NAN: nothing), and what the model writes after the
 * beginning of the held-out text, or of the text if none is held out. */
static bool note_evaluation(struct train *t, uint64_t steps, double nats, double bits) {
    enum { FIRST = 256 };
    const txl_settings settings = session_settings(t);
    int32_t first[FIRST], *ids = t->heldout.list.ids;
    size_t n = t->heldout.list.n;
    char *text = NULL;
    txl_error error;
    if (n == 0) {
        n = txl_ids_count(t->ids) < FIRST ? txl_ids_count(t->ids) : FIRST;
        txl_ids_get(t->ids, 0, n, first);
        ids = first;
    }
    if (t->options->report) {
        text = train_report_write(txl_trainer_model(t->trainer), &settings, ids, n, &t->prompt,
                                  &error);
        if (!text)
            return terminal_error("%s", error.message);
    }
    bool good = curves_add_evaluation(&t->curves, steps, nats, bits, text);
    free(text);
    return good || terminal_error("out of memory");
}

/* Measures the model after `steps` steps; if it is the best, the first process writes it.
 * TXL_STOPPED at a signal; other failures print their error. */
static txl_status evaluate_heldout(struct train *t, uint64_t steps) {
    if (!is_first(t)) {
        t->run.evaluated = (int64_t)steps;
        return TXL_OK;
    }
    const txl_settings settings = session_settings(t);
    struct heldout_score score;
    txl_error error;
    txl_status status = heldout_score(&t->heldout, txl_trainer_model(t->trainer), &settings,
                                      (size_t)t->run.training.ext_len, &score, &error);
    if (!terminal_report(status, &error))
        return status;
    double nats = score.nats / (double)score.predicted;
    t->run.evaluated = (int64_t)steps;
    t->run.valid_nats = nats;
    t->run.valid_bits = heldout_bits(&t->heldout, &score);
    if (steps == 0)
        t->run.before_nats = nats;
    if (!train_log_write(&t->log, evaluation_to_json(t, &score, steps)))
        return TXL_IO;
    if (!note_evaluation(t, steps, nats, t->run.valid_bits))
        return TXL_IO;
    t->run.waited++;
    if (!(nats >= t->run.best)) { /* also true for the first, when the best is NAN */
        t->run.waited = 0;
        t->run.best = nats;
        t->run.best_step = (int64_t)steps;
        txl_trainer_keep(t->trainer);
        try_output(t);
    }
    return TXL_OK;
}

/* NULL: none is written. */
static const char *state_path(const struct train *t) {
    return t->options->state ? t->options->state : t->options->resume;
}

static bool save_state(struct train *t) {
    const char *path = state_path(t);
    txl_error *error = &t->not_saved;
    if (!path)
        return true;
    struct train_run run = t->run;
    run.seconds = seconds_worked(t);
    char *note = train_run_to_text(&run, &t->curves);
    if (!note)
        return terminal_error("out of memory");
    txl_status before = error->status;
    error->status = txl_trainer_save(t->trainer, path, note, error);
    free(note);
    note_failure(error, before);
    return true;
}

/* Saves the state, and writes what could not be written before.  A disk that is full for a while
 * ends no training: false, with the error printed, only if memory is short. */
static bool save_all(struct train *t) {
    train_log_catch_up(&t->log);
    if (t->not_written.status)
        try_output(t);
    return save_state(t);
}

/* ---- Steps -------------------------------------------------------------------------------- */

/* The share of the run that is over, by the clock of the first process. */
static double share_done(const struct train *t, uint64_t step) {
    if (t->total > 0)
        return (double)step / (double)t->total;
    double share = seconds_worked(t) / (3600 * t->run.hours);
    return peers_first(t->peers, share < 1 ? share : 1);
}

static bool lost_patience(const struct train *t) {
    return t->run.patience > 0 && t->run.waited >= t->run.patience;
}

static bool is_over(const struct train *t, uint64_t step) {
    return lost_patience(t) || (t->total > 0 ? step >= t->total : share_done(t, step) >= 1);
}

static json_t *step_to_json(uint64_t number, const txl_step *step, double rate, double seconds) {
    return json_pack("{s:I, s:f, s:f, s:f, s:I, s:f}", "step", (json_int_t)number, "loss",
                     step->loss, "grad_norm", step->grad_norm, "lr", rate, "tokens",
                     (json_int_t)step->tokens, "seconds", seconds);
}

static bool has_letters(const struct train *t) {
    return model_unit(txl_trainer_model(t->trainer)) == TXL_UNIT_CHARACTER;
}

/* "2.113 bits per character, held out 2.2014", or for symbols that are none "perplexity 91.2, held
 * out 97.53". */
static void describe_losses(const struct train *t, const char *unit, char *text, size_t size) {
    double late = t->run.late, held = t->run.valid_nats, before = t->run.before_nats;
    bool letters = has_letters(t);
    struct fixed_line line = fixed_line(text, size);
    if (letters)
        fixed_line_add(&line, "%.3f bits%s", late / log(2), unit);
    else
        fixed_line_add(&line, "perplexity %.1f", exp(late));
    if (!isnan(held))
        fixed_line_add(&line, letters ? ", held out %.4f" : ", held out %.2f",
                       letters ? held / log(2) : exp(held));
    if (!isnan(held) && !isnan(before))
        fixed_line_add(&line, letters ? " (%.4f before)" : " (%.2f before)",
                       letters ? before / log(2) : exp(before));
}

static void describe_progress(const struct train *t, uint64_t steps, uint64_t epoch, char *text,
                              size_t size) {
    char losses[96];
    describe_losses(t, "", losses, sizeof losses);
    snprintf(text, size, "%s, epoch %" PRIu64 ", step %" PRIu64, losses, epoch + 1, steps);
}

/* Evaluates and saves if that is due after `done` steps, and was not done before the run was
 * interrupted.  TXL_STOPPED at a signal; other failures print their error. */
static txl_status evaluate_and_save(struct train *t, uint64_t done) {
    bool last = is_over(t, done);
    bool evaluates = t->run.holds_out && (last || done % (uint64_t)t->run.eval_every == 0) &&
                     t->run.evaluated != (int64_t)done;
    bool saves = evaluates || last || done % (uint64_t)t->run.save_every == 0;
    txl_status status = evaluates ? peers_agree(t->peers, evaluate_heldout(t, done)) : TXL_OK;
    if (evaluates && !status)
        t->run.waited = (int64_t)peers_first(t->peers, (double)t->run.waited);
    if (!status && saves && !save_all(t))
        status = TXL_IO;
    return peers_agree(t->peers, status);
}

/* Takes one step.  A failure prints its error. */
static txl_status take_step(struct train *t, uint64_t number, txl_step *step) {
    double before = terminal_seconds();
    double rate = txl_schedule_rate(&t->run.schedule, number, share_done(t, number));
    txl_error error;
    txl_status status = txl_trainer_step(t->trainer, rate, step, &error);
    if (!terminal_report(status, &error))
        return status;
    curves_add_step(&t->curves, step->loss, rate);
    t->run.late = isnan(t->run.late) ? step->loss : 0.98 * t->run.late + 0.02 * step->loss;
    json_t *line = step_to_json(number, step, rate, terminal_seconds() - before);
    return train_log_write(&t->log, line) ? TXL_OK : TXL_IO;
}

/* ---- The run ------------------------------------------------------------------------------ */

/* Overrides what --resume may change. */
static bool override_bounds(struct train *t) {
    const struct train_options *options = t->options;
    struct train_run *run = &t->run;
    bool longer = true;
    if (options->steps != INTEGER_UNSET) {
        longer = run->steps > 0 && options->steps >= run->steps;
        run->steps = options->steps;
    }
    if (options->epochs != INTEGER_UNSET) {
        longer = longer && run->epochs > 0 && options->epochs >= run->epochs;
        run->epochs = options->epochs;
    }
    if (!isnan(options->hours)) {
        longer = longer && run->hours > 0 && options->hours >= run->hours;
        run->hours = options->hours;
    }
    if (!longer)
        terminal_error("--resume only lengthens a run: give a larger value of its bound, --steps, "
                       "--epochs or --hours");
    else if (options->steps != INTEGER_UNSET || options->epochs != INTEGER_UNSET ||
             !isnan(options->hours)) {
        run->waited = 0;
        terminal_note("a longer run changes the rest of the learning rate's course");
    }
    return longer;
}

static bool open_saved(struct train *t) {
    txl_error error;
    if (txl_saved_open(t->options->resume, &t->saved, &error))
        return terminal_error("%s", error.message);
    if (!train_run_from_text(&t->run, &t->curves, txl_saved_note(t->saved)))
        return terminal_error("%s: not a state of txl train", t->options->resume);
    txl_saved_training(t->saved, &t->run.training);
    t->run.training.threads = (int)t->options->common.threads;
    t->seconds_before = t->run.seconds;
    if (holds_out(t->options) != t->run.holds_out)
        return terminal_error("%s: was trained %s held-out text", t->options->resume,
                              t->run.holds_out ? "with a" : "without a");
    return override_bounds(t);
}

static void note_training(const struct train *t, const txl_model *model) {
    uint64_t bytes = txl_trainer_bytes(model, &t->run.training);
    terminal_note("%.1f million parameters, %d symbols, %zu token%s of text, %zu held out, %.0f MB "
                  "of memory",
                  (double)model_parameters(model) / 1e6, (int)txl_model_n_token(model),
                  txl_ids_count(t->ids), plural(txl_ids_count(t->ids)), t->heldout.list.n,
                  (double)bytes / 1e6);
    if (t->run.hours > 0)
        terminal_note("the learning rate follows the clock: another run will differ");
    if (t->run.holds_out && t->heldout.list.n < FEW_HELD_OUT)
        terminal_note("%zu token%s of held-out text %s little about which model is better: --valid "
                      "FILE measures on more",
                      t->heldout.list.n, plural(t->heldout.list.n),
                      t->heldout.list.n == 1 ? "says" : "say");
    if (t->run.carries_on && !t->run.holds_out)
        terminal_note("nothing is held out, so txl cannot tell whether the model improves");
}

static bool open_trainer(struct train *t, const txl_model *model) {
    txl_error error;
    txl_status status;
    note_training(t, model);
    if (!fit_training(model, &t->run.training))
        return false;
    if (!measure_also(t, model))
        return false;
    uint64_t checksum = heldout_checksum(t, model);
    if (t->saved && checksum != t->run.valid_checksum)
        return terminal_error("%s: was measured on another held-out text", t->options->resume);
    t->run.valid_checksum = checksum;
    if (t->saved)
        status = txl_saved_resume(t->saved, t->ids, t->run.training.threads, t->peers, &t->trainer,
                                  &error);
    else
        status = txl_trainer_new(model, t->ids, &t->run.training, &t->trainer, &error);
    if (status)
        return terminal_error("%s", error.message);
    txl_saved_free(t->saved);
    t->saved = NULL;
    model_close(&t->init);
    txl_model_close(t->fresh);
    t->fresh = NULL;
    t->total = t->run.steps > 0 ? (uint64_t)t->run.steps
                                : (uint64_t)t->run.epochs * txl_trainer_epoch_steps(t->trainer);
    return true;
}

/* Prepares everything up to the first step.  False with the error printed, or at a signal. */
static bool prepare_run(struct train *t, char **paths, int n) {
    if (is_first(t) &&
        (!lock_take(&t->output, t->options->output) || !lock_take(&t->state, state_path(t))))
        return false;
    if (!curves_init(&t->curves))
        return terminal_error("out of memory");
    train_run_init(&t->run, t->options, NULL);
    if (t->options->resume && !open_saved(t))
        return false;
    bool counts = !t->options->resume && !t->options->init &&
                  train_vocabulary_counts(t->options->vocab ? t->options->vocab : TRAIN_VOCAB);
    const txl_model *model = counts ? NULL : open_model(t);
    if (!counts && !model)
        return false;
    t->text = (struct train_text){.kind = model ? txl_model_kind(model) : TXL_CHARACTERS,
                                  .common = t->options->common,
                                  .ids = t->run.ids,
                                  .holds_out = !t->options->valid,
                                  .seekable = counts};
    t->text.common.unwrap = t->run.unwrap;
    if (!tokens_allow_unwrap(t->text.kind, &t->text.common) || !train_text_open(&t->text, paths, n))
        return false;
    model = counts ? open_model(t) : model;
    if (!model ||
        !text_form_choose(txl_model_kind(model), t->options->text, t->run.text, &t->run.text))
        return false;
    t->run.holds_out = holds_out(t->options);
    if (!read_text(t, model))
        return false;
    t->run.training.peers = t->peers;
    if (!t->options->resume)
        train_run_fit(&t->run, t->options, txl_ids_count(t->ids));
    return open_trainer(t, model) &&
           train_log_open(&t->log, is_first(t) ? t->options->log : NULL, t->options->resume,
                          txl_trainer_steps(t->trainer));
}

/* Each process prepares by itself; then all return the same. */
static txl_status prepare_all(struct train *t, char **paths, int n) {
    txl_status status = TXL_OK;
    for (int i = 0; t->peers && i < n && !status; i++) {
        if (strcmp(paths[i], "-") == 0) {
            terminal_error("only one process gets standard input: name a file for all %d",
                           t->peers->n);
            status = TXL_ARGUMENT;
        }
    }
    if (!status && !prepare_run(t, paths, n))
        status = signals_stopped() ? TXL_STOPPED : TXL_IO;
    status = peers_agree(t->peers, status);
    if (!status && !peers_same(t->peers, txl_ids_checksum(t->ids))) {
        terminal_error("the processes have different texts");
        status = TXL_ARGUMENT;
    }
    return t->peers ? peers_agree(t->peers, status) : status;
}

/* Everything that the run depended on, and its results. */
static json_t *report_settings(struct train *t) {
    json_t *all = json_loads(txl_model_settings_json(txl_trainer_model(t->trainer)), 0, NULL);
    json_t *more = json_pack("{s:I, s:I, s:I, s:I, s:i, s:s, s:s, s:f}", "tokens",
                             (json_int_t)txl_ids_count(t->ids), "held_out",
                             (json_int_t)t->heldout.list.n, "unknown", (json_int_t)t->n_unknown,
                             "steps_taken", (json_int_t)txl_trainer_steps(t->trainer), "threads",
                             txl_trainer_threads(t->trainer), "kernels", txl_kernels_name(NULL),
                             "blas", txl_blas_name(), "seconds", seconds_worked(t));
    bool good = output_json_append(all, train_run_to_json(&t->run));
    return output_json_if(output_json_append(all, more) && good, all);
}

static bool save_report(struct train *t) {
    const char *path = t->options->report;
    if (!path || !is_first(t))
        return true;
    if (!t->run.holds_out && !note_evaluation(t, txl_trainer_steps(t->trainer), NAN, NAN))
        return false;
    struct train_report report = {.output = t->options->output,
                                  .prompt = t->prompt,
                                  .letters = has_letters(t),
                                  .settings = report_settings(t),
                                  .curves = &t->curves};
    bool good =
        report.settings ? train_report_save(&report, path) : terminal_error("out of memory");
    json_decref(report.settings);
    return good;
}

static void print_summary(const struct train *t) {
    uint64_t steps = txl_trainer_steps(t->trainer);
    char losses[96];
    describe_losses(t, " per character", losses, sizeof losses);
    terminal_brief("%" PRIu64 " step%s, %s: %s", steps, plural(steps), losses, t->options->output);
    terminal_brief("next: txl generate --model %s", t->options->output);
    char before[48] = "";
    if (!isnan(t->run.before_nats)) /* in the unit of valid_bits */
        snprintf(before, sizeof before, " before_bits=%.4f",
                 t->run.before_nats * t->run.valid_bits / t->run.valid_nats);
    terminal_summary(
        "steps=%" PRIu64 " loss=%.4f valid_bits=%.4f%s best_step=%" PRId64
        " tokens=%zu unknown=%" PRIu64
        " seconds=%.1f compute=%s optimizer=%s threads=%d kernels=%s blas=%s output=%s",
        steps, t->run.late, t->run.valid_bits, before, t->run.best_step, txl_ids_count(t->ids),
        t->n_unknown, seconds_worked(t), train_computes[t->run.training.bf16],
        train_optimizers[t->run.training.muon > 0], txl_trainer_threads(t->trainer),
        txl_kernels_name(NULL), txl_blas_name(), t->options->output);
}

/* The output of a resumed run begins as the state knows it: the file may be gone, another one, or
 * of a later step than the state. */
static bool restore_output(struct train *t) {
    if (!t->options->resume)
        return true;
    if (is_over(t, txl_trainer_steps(t->trainer)))
        terminal_note("the run is finished: a larger --steps, --epochs or --hours continues it");
    return !is_first(t) || isnan(t->run.best) || write_output(t) ||
           terminal_error("%s", t->not_written.message);
}

/* Without a measurement the output is the model as it is at the end, or at a signal. */
static void write_unmeasured(struct train *t) {
    if (!is_first(t) || !isnan(t->run.best))
        return;
    if (t->run.holds_out)
        terminal_note("%s is the model after %" PRIu64 " step%s: none has been measured yet",
                      t->options->output, txl_trainer_steps(t->trainer),
                      plural(txl_trainer_steps(t->trainer)));
    write_output(t);
}

/* What could not be written in the end is an error.  False if there is any. */
static bool settle_files(struct train *t) {
    bool good = train_log_close(&t->log);
    if (t->not_saved.status)
        good = terminal_error("%s", t->not_saved.message);
    if (t->not_written.status && !write_output(t))
        good = terminal_error("%s", t->not_written.message);
    return good;
}

/* Why the run ended, and what the output is, where that may surprise. */
static void tell_end(const struct train *t) {
    if (lost_patience(t))
        terminal_note("ended after %" PRIu64 " step%s: the last %" PRId64
                      " evaluation%s no better than the best",
                      txl_trainer_steps(t->trainer), plural(txl_trainer_steps(t->trainer)),
                      t->run.waited, t->run.waited == 1 ? " was" : "s were");
    if (t->run.carries_on && t->run.best_step == 0)
        terminal_note(
            "no evaluation was better than the first: %s is the model that training began "
            "with",
            t->options->output);
}

/* The run, as the manual tells it under "Stopping and going on".  All processes go through the same
 * calls of others: each status is agreed on. */
static int run_training(struct train *t) {
    struct progress progress;
    char task[160] = "training";
    uint64_t tokens = 0, steps = txl_trainer_steps(t->trainer);
    t->start = terminal_seconds();

    /* --resume: the state holds the best model, so the output may be gone or have a new name. */
    txl_status status = peers_agree(t->peers, restore_output(t) ? TXL_OK : TXL_IO);
    if (status) {
        settle_files(t);
        return STATUS_FAILURE;
    }

    /* With --init the first evaluation is that of the model before training; a resumed run does
     * what its last step has left. */
    progress_start(&progress, task, "tokens");
    progress.figures = true;
    progress.before = share_done(t, steps);
    if (steps > 0 || t->run.carries_on)
        status = evaluate_and_save(t, steps);

    /* Each better model replaces the output as a whole.  A signal ends the run after a step. */
    while (!status && !is_over(t, steps)) {
        txl_step step;
        status = peers_agree(t->peers, signals_stopped() ? TXL_STOPPED : TXL_OK);
        if (!status)
            status = peers_agree(t->peers, take_step(t, steps, &step));
        if (status)
            break;
        steps++;
        tokens += step.tokens;
        describe_progress(t, steps, step.epoch, task, sizeof task);
        progress_update(&progress, share_done(t, steps), tokens);
        status = evaluate_and_save(t, steps);
    }
    progress_end(&progress);

    /* After a signal the state is as the last step left it.  After a failure the state before
     * remains, as a step whose loss is not finite changes no weights. */
    if (status && status != TXL_STOPPED) {
        settle_files(t);
        return STATUS_FAILURE;
    }
    bool good = !status || save_all(t);
    if (good) {
        write_unmeasured(t);
        good = save_report(t);
    }

    /* What a full disk has kept from being written is an error only now. */
    good = settle_files(t) && good;
    if (!t->not_written.status) {
        tell_end(t);
        good = tell_also(t) && good;
        print_summary(t);
    }
    if (status == TXL_STOPPED)
        return signals_status();
    return good ? STATUS_OK : STATUS_FAILURE;
}

static void close_all(struct train *t) {
    txl_trainer_free(t->trainer);
    txl_saved_free(t->saved);
    txl_model_close(t->fresh);
    model_close(&t->init);
    token_reader_close(&t->reader);
    train_text_close(&t->text);
    heldout_free(&t->heldout);
    heldout_free(&t->also);
    curves_free(&t->curves);
    free(t->prompt);
    txl_ids_free(t->ids);
    train_log_close(&t->log);
    lock_drop(&t->output);
    lock_drop(&t->state);
}

/* ---- The command -------------------------------------------------------------------------- */

static int check_options(const struct command *command, const struct train_options *options) {
    int bounds = (options->steps != INTEGER_UNSET) + (options->epochs != INTEGER_UNSET) +
                 !isnan(options->hours);
    if (!options->output)
        return options_wrong(command, "--output is missing");
    if (options->resume && options->init && options->task == CHOICE_UNSET)
        return options_wrong(command, RESUME_TAKES_ALL);
    if (bounds > 1)
        return options_wrong(command, "only one of --steps, --epochs and --hours can be given");
    if (!isnan(options->muon_lr) && options->optimizer != OPTIMIZER_MUON)
        return options_wrong(command, "--muon-lr needs --optimizer muon");
    if (options->optimizer == OPTIMIZER_MUON && (options->lr == 0 || options->muon_lr == 0))
        return options_wrong(command, "--optimizer muon needs --lr and --muon-lr above 0: the one "
                                      "follows the course of the other");
    if (options->d_model != INTEGER_UNSET && options->d_model % 2 != 0)
        return options_wrong(command, "--d-model %" PRId64 " is odd: positions need an even number",
                             options->d_model);
    if (options->shape != CHOICE_UNSET && !published_is_transformer_xl(options->shape))
        return options_wrong(command, "--shape %s is an XLNet's: only Transformer-XLs are trained",
                             published_shapes[options->shape]);
    if (options->ids && !options->init && !options->resume &&
        (!options->vocab || train_vocabulary_counts(options->vocab)))
        return options_wrong(command, "--ids needs a vocabulary: --init or --vocab FILE");
    return OPTIONS_RUN;
}

static const txl_peers *peers;

static int run(const struct command *command, void *values, struct operands *texts) {
    const struct train_options *options = values;
    int status = check_options(command, options);
    if (status != OPTIONS_RUN)
        return status;
    if (options->task != CHOICE_UNSET && peers && peers->n > 1) {
        if (peers->rank == 0)
            terminal_error("--task trains in one process");
        return STATUS_FAILURE;
    }
    if (options->task != CHOICE_UNSET)
        return train_head(command, options, texts);
    struct train *t = calloc(1, sizeof *t); /* too large for a stack whose growth may fail */
    if (!t) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    t->options = options;
    t->peers = peers;
    txl_status prepared = prepare_all(t, texts->items, texts->n);
    status = !prepared                 ? run_training(t)
             : prepared == TXL_STOPPED ? signals_status()
                                       : STATUS_FAILURE;
    close_all(t);
    free(t);
    return status;
}

/* Joins the others before anything is printed, which only the first process does. */
static int start(const struct command *command, int argc, char **argv) {
    int status = peers_open(&peers) ? command_run(command, argc, argv) : STATUS_FAILURE;
    peers_close();
    return status;
}

static const struct operand_row operands[] = {
    {.name = "TEXT",
     .help = "text to train on; several TEXTs are read as one",
     .optional = true,
     .standard_input = true,
     .repeats = true},
    {0}};

static const struct example examples[] = {
    {"txl train novel.txt -o mine.txl", "a small model of characters in half an hour"},
    {"txl train --init built-in diary.txt -o diary.txl", "the built-in model, trained further"},
    {"txl train --init XLNET.txl --task classify reviews.csv -o sentiment.txl",
     "a classifier, by the columns text and label"},
    {"txl train --vocab words --text raw --min-count 3 a.txt b.txt -o words.txl --state s.state",
     "words, and a state to resume from"},
    {"txl train novel.txt -o mine.txl --resume s.state", "the rest of an interrupted run"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"output", "init",  "valid",  "vocab", "steps", "hours",
                                    "resume", "state", "report", "seed",  NULL};

const struct command train_command = {
    .name = "train",
    .summary = "make a model from text, or train one further",
    .description =
        "Trains a Transformer-XL on text and writes a weights file, for the --model of the "
        "other commands. Without --init the model is new, and its vocabulary comes from the "
        "text. With --task it trains a head for an XLNet.",
    .options = train_option_rows,
    .brief = brief,
    .operands = operands,
    .examples = examples,
    .topics = train_topics,
    .shared = "wrapped outputs summary",
    .size = sizeof(struct train_options),
    .run = run,
    .start = start,
};
