/* Trains a head on texts with labels: reads each text with the body once, then trains the head over
 * those rows, epoch by epoch, and keeps that of the best epoch. */
#include "train_head.h"

#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "labelled_texts.h"
#include "lib/base/json_memory.h"
#include "lock.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adam's epsilon, and how much the squares of the weights count. */
static const double EPSILON = 1e-8, DECAY = 1e-4;

enum {
    SAVE_SECONDS = 60, /* between two states */
    MOST_SHOWN = 20,   /* labels of a table of confusions that fits a page */
    FEW_HELD_OUT = 50  /* texts whose accuracy has a standard error of several percent */
};

/* Which texts are held out. */
static const char *const held_ways[] = {"tenth", "file", "none", NULL};
enum { HELD_TENTH, HELD_FILE, HELD_NONE };

struct head_run {
    const struct train_options *options;
    int64_t seed, batch, epochs, patience;
    double lr;
    int held_way;
    double seconds_before; /* of work, before a resumption */

    struct labelled_texts texts;
    uint64_t checksum; /* of the texts */
    struct lock output, state;
    txl_rows *saved; /* --resume */
    size_t d;        /* the width of a row */
    float *rows;     /* [texts, d]: of the texts' last tokens */
    size_t done;     /* texts whose row is there */
    txl_error not_saved;
    double start;

    txl_head_trainer *trainer;
    float *some;      /* [batch, d]: rows of a step */
    int32_t *numbers; /* [batch]: their labels */
    float *logits;    /* [batch, n_label] */
    double *logprob;  /* [n_label] */

    int64_t epoch, best_epoch; /* epochs so far; the best one, from 1, 0: none */
    double nats, best_nats;    /* of the held-out texts' labels, per text; NAN: nothing is */
    int32_t *said, *best_said; /* [n_held]: what the head says of them */
};

static const char *body_name(const struct head_run *r) {
    return r->texts.heads.model.name;
}

static size_t n_text(const struct head_run *r) {
    return r->texts.inputs.n;
}

/* ---- Settings, and the state that keeps them ---------------------------------------------- */

static int64_t given(int64_t asked, int64_t standard) {
    return asked == INTEGER_UNSET ? standard : asked;
}

static void settings_init(struct head_run *r, const struct train_options *o) {
    r->seed = given(o->seed, TRAIN_SEED);
    r->batch = given(o->batch, TRAIN_BATCH);
    r->epochs = given(o->epochs, TRAIN_HEAD_EPOCHS);
    r->patience = given(o->patience, o->epochs == INTEGER_UNSET ? TRAIN_PATIENCE : 0);
    r->lr = isnan(o->lr) ? TRAIN_LR : o->lr;
    r->held_way = !o->valid ? HELD_TENTH : strcmp(o->valid, "none") == 0 ? HELD_NONE : HELD_FILE;
}

static const char *state_path(const struct head_run *r) {
    return r->options->state ? r->options->state : r->options->resume;
}

static double seconds_worked(const struct head_run *r) {
    return r->seconds_before + terminal_seconds() - r->start;
}

static char *settings_to_note(const struct head_run *r) {
    json_t *note = json_pack("{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:f, s:s, s:f}", "model",
                             model_checksum(&r->texts.heads.model).text, "texts",
                             (json_int_t)r->checksum, "valid", held_ways[r->held_way], "seed",
                             (json_int_t)r->seed, "batch", (json_int_t)r->batch, "epochs",
                             (json_int_t)r->epochs, "patience", (json_int_t)r->patience, "lr",
                             r->lr, "task", "classify", "seconds", seconds_worked(r));
    char *text = note ? json_text(note, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(note);
    return text;
}

/* Takes the settings of the state, but those that the command line may change. */
static bool settings_from_note(struct head_run *r, json_t *note) {
    json_int_t seed, batch, epochs, patience;
    const char *valid;
    double lr, seconds;
    const int way = r->held_way;
    if (json_unpack(note, "{s:I, s:I, s:I, s:I, s:F, s:s, s:F}", "seed", &seed, "batch", &batch,
                    "epochs", &epochs, "patience", &patience, "lr", &lr, "valid", &valid, "seconds",
                    &seconds) != 0 ||
        seed < 0 || batch < 1 || batch > 1 << 20 || epochs < 1 || patience < 0 ||
        !(lr >= 0 && lr <= 1) || !(seconds >= 0))
        return terminal_error("%s: not a state of txl train --task", r->options->resume);
    if (strcmp(valid, held_ways[way]) != 0)
        return terminal_error("%s: was trained %s", r->options->resume,
                              strcmp(valid, held_ways[HELD_FILE]) == 0   ? "with a file for --valid"
                              : strcmp(valid, held_ways[HELD_NONE]) == 0 ? "with --valid none"
                                                                         : "without --valid");
    r->seed = seed;
    r->batch = batch;
    r->epochs = given(r->options->epochs, epochs);
    r->patience = patience;
    r->lr = lr;
    r->seconds_before = seconds;
    return true;
}

static bool open_state(struct head_run *r) {
    txl_error error;
    if (!r->options->resume)
        return true;
    if (txl_rows_open(r->options->resume, &r->saved, &error))
        return terminal_error("%s", error.message);
    json_t *note = json_loads(txl_rows_note(r->saved), 0, NULL);
    const bool good = settings_from_note(r, note);
    json_decref(note);
    return good;
}

/* Takes the rows of the state, which must be those of this body and these texts. */
static bool take_rows(struct head_run *r) {
    size_t n, width;
    json_int_t texts = 0;
    const char *model = "", *path = r->options->resume;
    const float *rows = txl_rows_get(r->saved, &n, &width);
    json_t *note = json_loads(txl_rows_note(r->saved), 0, NULL);
    json_unpack(note, "{s:s, s:I}", "model", &model, "texts", &texts);
    const bool same_model = strcmp(model, model_checksum(&r->texts.heads.model).text) == 0;
    json_decref(note);
    if (!same_model)
        return terminal_error("%s: was trained for another model than %s", path, body_name(r));
    if ((uint64_t)texts != r->checksum || n > n_text(r) || width != r->d)
        return terminal_error(
            "%s: was trained on other texts; a run continues with the tables that "
            "it began with, in their order",
            path);
    memcpy(r->rows, rows, n * width * sizeof *rows);
    r->done = n;
    txl_rows_free(r->saved);
    r->saved = NULL;
    return true;
}

/* Saves the rows so far.  A full disk ends nothing: the next save may be good.  False, with the
 * error printed, if memory is short. */
static bool save_state(struct head_run *r) {
    const txl_status before = r->not_saved.status;
    if (!state_path(r))
        return true;
    char *note = settings_to_note(r);
    if (!note)
        return terminal_error("out of memory");
    r->not_saved.status = txl_rows_save(state_path(r), note, r->rows, r->done, r->d, &r->not_saved);
    free(note);
    if (r->not_saved.status && !before)
        terminal_note("%s; trying again at the next save", r->not_saved.message);
    return true;
}

/* ---- Rows --------------------------------------------------------------------------------- */

/* Reads the next inputs, as many as are read together, and keeps the last row of each. */
static bool read_some(struct head_run *r, float *hidden, size_t *ids) {
    const struct inputs *inputs = &r->texts.inputs;
    const txl_input *input = inputs->list + r->done;
    const size_t n = inputs_together(&r->texts.heads, inputs, r->done);
    txl_error error;
    txl_status status = txl_session_hidden(r->texts.heads.session, input, n, hidden, &error);
    if (!terminal_report(status, &error))
        return false;
    for (size_t i = 0; i < n; i++) {
        hidden += input[i].n * r->d;
        memcpy(r->rows + (r->done + i) * r->d, hidden - r->d, r->d * sizeof *hidden);
        *ids += input[i].n;
    }
    r->done += n;
    return true;
}

/* Computes the rows that are missing.  False with the error printed, or at a signal. */
static bool compute_rows(struct head_run *r) {
    struct progress progress;
    size_t ids = 0;
    float *hidden = calloc(r->texts.heads.most, r->d * sizeof *hidden);
    bool good = hidden || terminal_error("out of memory");
    for (size_t i = 0; i < r->done; i++)
        ids += r->texts.inputs.list[i].n;
    progress_start(&progress, body_name(r), "texts");
    progress.before = (double)ids / (double)r->texts.inputs.ids;
    double saved = terminal_seconds();
    while (good && r->done < n_text(r) && !signals_stopped()) {
        good = read_some(r, hidden, &ids);
        progress_update(&progress, (double)ids / (double)r->texts.inputs.ids, r->done);
        if (good && terminal_seconds() - saved >= SAVE_SECONDS) {
            good = save_state(r);
            saved = terminal_seconds();
        }
    }
    progress_end(&progress);
    free(hidden);
    good = good && save_state(r);
    if (good && r->done < n_text(r))
        terminal_note("%zu of %zu texts were read; %s", r->done, n_text(r),
                      !state_path(r) ? "--state keeps what was"
                                     : "--resume goes on with the others");
    return good && r->done == n_text(r);
}

/* ---- Epochs ------------------------------------------------------------------------------- */

static bool open_trainer(struct head_run *r) {
    const size_t batch = (size_t)r->batch, labels = r->texts.n_label, held = r->texts.n_held;
    const txl_head_training how = {.n_label = (int)labels,
                                   .batch = (int)r->batch,
                                   .rate = r->lr,
                                   .epsilon = EPSILON,
                                   .decay = DECAY,
                                   .seed = (uint64_t)r->seed,
                                   .threads = (int)r->options->common.threads};
    txl_error error;
    if (txl_head_trainer_new(r->texts.heads.model.handle, &how, &r->trainer, &error))
        return terminal_error("%s", error.message);
    r->some = calloc(batch, r->d * sizeof *r->some);
    r->numbers = calloc(batch, sizeof *r->numbers);
    r->logits = calloc(batch, labels * sizeof *r->logits);
    r->logprob = calloc(labels, sizeof *r->logprob);
    r->said = calloc(held + 1, sizeof *r->said);
    r->best_said = calloc(held + 1, sizeof *r->best_said);
    return (r->some && r->numbers && r->logits && r->logprob && r->said && r->best_said) ||
           terminal_error("out of memory");
}

/* Puts the rows and labels of these texts beside each other. */
static void gather(struct head_run *r, const size_t *which, size_t n) {
    for (size_t i = 0; i < n; i++) {
        memcpy(r->some + i * r->d, r->rows + which[i] * r->d, r->d * sizeof *r->some);
        r->numbers[i] = r->texts.texts[which[i]].label->number;
    }
}

/* One pass over the texts to learn from, in an order of its own. */
static bool train_epoch(struct head_run *r) {
    const size_t n = r->texts.n_learned;
    txl_error error;
    /* From the same order each time, so that an epoch depends on its number alone. */
    for (size_t i = 0, k = 0; i < n_text(r); i++)
        if (!r->texts.texts[i].held)
            r->texts.learned[k++] = i;
    shuffle(r->texts.learned, n, (uint64_t)r->seed, (uint64_t)r->epoch + 1);
    for (size_t i = 0, m; i < n; i += m) {
        double nats;
        m = n - i < (size_t)r->batch ? n - i : (size_t)r->batch;
        gather(r, r->texts.learned + i, m);
        if (txl_head_trainer_step(r->trainer, r->some, r->numbers, m, &nats, &error))
            return terminal_error("%s: a smaller --lr may help", error.message);
    }
    r->epoch++;
    return true;
}

/* What the head says of the held-out texts, and its nats. */
static void measure(struct head_run *r) {
    const size_t n = r->texts.n_held, labels = r->texts.n_label;
    double nats = 0;
    for (size_t i = 0, m; i < n; i += m) {
        m = n - i < (size_t)r->batch ? n - i : (size_t)r->batch;
        gather(r, r->texts.held + i, m);
        txl_head_trainer_logits(r->trainer, r->some, m, r->logits);
        for (size_t k = 0; k < m; k++) {
            const float *logits = r->logits + k * labels;
            size_t best = 0;
            for (size_t j = 1; j < labels; j++)
                best = logits[j] > logits[best] ? j : best;
            heads_log_softmax(logits, labels, 1, r->logprob);
            nats -= r->logprob[r->numbers[k]];
            r->said[i + k] = (int32_t)best;
        }
    }
    r->nats = n > 0 ? nats / (double)n : NAN;
}

/* Keeps the head if it is the best so far, or if nothing is held out. */
static void keep_best(struct head_run *r) {
    if (r->nats >= r->best_nats)
        return;
    r->best_nats = r->nats;
    r->best_epoch = r->epoch;
    memcpy(r->best_said, r->said, r->texts.n_held * sizeof *r->said);
    txl_head_trainer_keep(r->trainer);
}

static bool lost_patience(const struct head_run *r) {
    return r->patience > 0 && r->texts.n_held > 0 && r->epoch - r->best_epoch >= r->patience;
}

static bool run_epochs(struct head_run *r) {
    struct progress progress;
    char task[64] = "training";
    bool good = true;
    r->best_nats = NAN;
    progress_start(&progress, task, "epochs");
    progress.figures = true;
    while (good && r->epoch < r->epochs && !lost_patience(r) && !signals_stopped()) {
        good = train_epoch(r);
        if (!good)
            break;
        measure(r);
        keep_best(r);
        if (r->texts.n_held > 0)
            snprintf(task, sizeof task, "held out %.4f nats", r->nats);
        progress_update(&progress, (double)r->epoch / (double)r->epochs, (uint64_t)r->epoch);
    }
    progress_end(&progress);
    return good;
}

/* ---- The end ------------------------------------------------------------------------------ */

static bool write_output(const struct head_run *r) {
    const size_t n = r->texts.n_label;
    const char **labels = calloc(n, sizeof *labels);
    txl_error error;
    if (!labels)
        return terminal_error("out of memory");
    for (size_t i = 0; i < n; i++)
        labels[i] = r->texts.labels[i]->name;
    const txl_status status =
        txl_head_trainer_write_kept(r->trainer, r->texts.heads.model.handle, labels,
                                    r->options->output, (int)r->options->common.threads, &error);
    free(labels);
    return terminal_report(status, &error);
}

static uint64_t count_right(const struct head_run *r) {
    uint64_t right = 0;
    for (size_t i = 0; i < r->texts.n_held; i++)
        right += r->best_said[i] == r->texts.texts[r->texts.held[i]].label->number;
    return right;
}

/* How often each label's held-out texts got which. */
static void print_confusions(const struct head_run *r) {
    const size_t n = r->texts.n_label;
    uint64_t count[MOST_SHOWN][MOST_SHOWN] = {0};
    char text[MOST_SHOWN * 8 + 8];
    if (n > MOST_SHOWN) {
        output_line("           a table of %zu labels would be too large", n);
        return;
    }
    for (size_t i = 0; i < r->texts.n_held; i++)
        count[r->texts.texts[r->texts.held[i]].label->number][r->best_said[i]]++;
    struct fixed_line line = fixed_line(text, sizeof text);
    for (size_t k = 0; k < n; k++)
        fixed_line_add(&line, " %5zu", k + 1);
    output_line("           a row per label, a column per label that the model gives");
    output_line("        %s", text);
    for (size_t i = 0; i < n; i++) {
        line = fixed_line(text, sizeof text);
        for (size_t k = 0; k < n; k++)
            fixed_line_add(&line, " %5" PRIu64, count[i][k]);
        output_line("   %5zu%s  %s", i + 1, text, r->texts.labels[i]->name);
    }
}

static void print_result(const struct head_run *r) {
    const uint64_t n = r->texts.n_held;
    const double share = (double)count_right(r) / (double)n;
    char error[64] = "";
    if (share > 0 && share < 1)
        snprintf(error, sizeof error, " (standard error %.1f)",
                 100 * sqrt(share * (1 - share) / (double)n));
    if (n == 0) {
        output_line("held out   nothing: %s has the head after epoch %" PRId64, r->options->output,
                    r->best_epoch);
    } else {
        output_line("held out   %.1f %% of %" PRIu64
                    " text%s get%s the right label%s, after epoch %" PRId64 " of %" PRId64,
                    100 * share, n, plural(n), n == 1 ? "s" : "", error, r->best_epoch, r->epoch);
        print_confusions(r);
    }
    output_line("next       txl classify --model %s FILE", r->options->output);
}

/* In two parts, as glibc allocates for more than 14 conversions. */
static void print_summary(const struct head_run *r) {
    txl_settings settings;
    const uint64_t n = r->texts.n_held;
    char text[1024], measured[64] = "- nats=-"; /* nothing is held out */
    if (n > 0)
        snprintf(measured, sizeof measured, "%.4f nats=%.4f", (double)count_right(r) / (double)n,
                 r->best_nats);
    txl_session_settings(r->texts.heads.session, &settings);
    struct fixed_line line = fixed_line(text, sizeof text);
    fixed_line_add(&line,
                   "texts=%zu labels=%zu held_out=%" PRIu64 " accuracy=%s epochs=%" PRId64
                   " best_epoch=%" PRId64 " cut=%" PRIu64 " seconds=%.1f",
                   n_text(r), r->texts.n_label, n, measured, r->epoch, r->best_epoch,
                   r->texts.heads.cut, seconds_worked(r));
    fixed_line_add(&line, " batch=%" PRId64 " lr=%g seed=%" PRId64 " threads=%d kernels=%s blas=%s",
                   r->batch, r->lr, r->seed, settings.threads, txl_kernels_name(NULL),
                   txl_blas_name());
    terminal_brief("%zu texts, %zu labels: %s", n_text(r), r->texts.n_label, r->options->output);
    terminal_summary("%s init=%s output=%s", text, body_name(r), r->options->output);
}

static void tell_beginning(const struct head_run *r) {
    const txl_model *body = r->texts.heads.model.handle;
    const size_t n = r->texts.n_held;
    if (txl_model_head(body) != TXL_HEAD_NONE)
        terminal_note("the head of %s (%s) is replaced", body_name(r),
                      txl_head_name(txl_model_head(body)));
    terminal_note("%zu text%s to learn from, %zu held out, %zu labels; the body of %s stays as it "
                  "is: the head alone is trained",
                  r->texts.n_learned, plural(r->texts.n_learned), n, r->texts.n_label,
                  body_name(r));
    if (n > 0 && n < FEW_HELD_OUT)
        terminal_note("%zu held-out text%s %s little about which epoch is best: --valid FILE "
                      "measures on more",
                      n, plural(n), n == 1 ? "says" : "say");
    else if (n == 0)
        terminal_note("nothing is held out, so txl cannot tell which epoch is best");
}

/* ---- The command -------------------------------------------------------------------------- */

/* Reads everything, up to the first text for the body.  OPTIONS_RUN, or the status. */
static int prepare(struct head_run *r, const struct command *command,
                   const struct operands *tables) {
    const struct train_options *o = r->options;
    settings_init(r, o);
    if (!lock_take(&r->output, o->output) || !lock_take(&r->state, state_path(r)) || !open_state(r))
        return STATUS_FAILURE;
    const int status = labelled_texts_read(&r->texts, command, o, tables, (uint64_t)r->seed);
    if (status != OPTIONS_RUN)
        return status;
    r->d = (size_t)txl_model_d_model(r->texts.heads.model.handle);
    r->rows = calloc(n_text(r), r->d * sizeof *r->rows);
    if (!r->rows || !labelled_texts_checksum(&r->texts, &r->checksum)) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    tell_beginning(r);
    return (!r->saved || take_rows(r)) && heads_open_session(&r->texts.heads, HEADS_MAX_LEN)
               ? OPTIONS_RUN
               : STATUS_FAILURE;
}

/* A signal while texts are read leaves the state alone; later, the best head so far. */
static int run(struct head_run *r) {
    bool good = compute_rows(r) && open_trainer(r) && run_epochs(r);
    if (good && r->best_epoch > 0) {
        /* A result that cannot be written leaves an older output; a reader that is gone does not.
         */
        print_result(r);
        output_flush();
        good = !output_failed() && write_output(r);
        if (good)
            print_summary(r);
    }
    if (r->not_saved.status)
        good = save_state(r) && good;
    if (r->not_saved.status)
        good = terminal_error("%s", r->not_saved.message);
    return output_finish(signals_stopped() ? signals_status() : good ? STATUS_OK : STATUS_FAILURE);
}

static void close_run(struct head_run *r) {
    txl_head_trainer_free(r->trainer);
    txl_rows_free(r->saved);
    labelled_texts_close(&r->texts);
    free(r->rows);
    free(r->some);
    free(r->numbers);
    free(r->logits);
    free(r->logprob);
    free(r->said);
    free(r->best_said);
    lock_drop(&r->output);
    lock_drop(&r->state);
}

int train_head(const struct command *command, const struct train_options *options,
               const struct operands *tables) {
    struct head_run *r = calloc(1, sizeof *r); /* too large for a stack whose growth may fail */
    if (!r) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    r->options = options;
    r->start = terminal_seconds();
    int status = prepare(r, command, tables);
    if (status == OPTIONS_RUN)
        status = run(r);
    close_run(r);
    free(r);
    return status;
}
