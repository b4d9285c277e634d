/* Learners of txl ppl: their options, their statistics, what they write. */
#include "dynamic.h"

#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "convert/converter.h"
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const dynamic_methods[] = {"sgd", "rms", "adam", NULL};

/* ---- Options ------------------------------------------------------------------------------ */

static int method_of(const struct dynamic_options *o) {
    if (o->method != CHOICE_UNSET)
        return o->method;
    return o->statistics.n > 0 ? TXL_LEARNING_RMS : TXL_LEARNING_ADAM;
}

/* Whether the statistics are a TensorFlow checkpoint's, and not a text's: its .index, its folder,
 * or its name, which no file has. */
static bool is_checkpoint(const char *path) {
    static const char ending[] = ".index";
    size_t length = strlen(path), tail = strlen(ending);
    struct stat about;
    char *index = NULL;
    if (length > tail && strcmp(path + length - tail, ending) == 0)
        return true;
    if (stat(path, &about) == 0)
        return S_ISDIR(about.st_mode);
    bool is_name = asprintf(&index, "%s%s", path, ending) >= 0 && stat(index, &about) == 0;
    free(index);
    return is_name;
}

/* The checkpoint that has the statistics, or NULL. */
static const char *checkpoint_of(const struct dynamic_options *o) {
    for (size_t i = 0; i < o->statistics.n; i++)
        if (is_checkpoint(o->statistics.items[i]))
            return o->statistics.items[i];
    return NULL;
}

/* What is wrong with the options among themselves, or NULL. */
static const char *find_wrong(const struct dynamic_options *o) {
    int method = method_of(o);
    if (method == TXL_LEARNING_RMS && o->statistics.n == 0)
        return "--dynamic-method rms needs --statistics";
    if (method != TXL_LEARNING_RMS && o->statistics.n > 0)
        return "--statistics is for --dynamic-method rms alone";
    if (method != TXL_LEARNING_ADAM && isnan(o->lr))
        return o->method == CHOICE_UNSET ? "--statistics needs --dynamic-lr, which depends on them "
                                           "and on the model"
                                         : "--dynamic-method rms and sgd need --dynamic-lr, which "
                                           "depends on the statistics and the model";
    if (checkpoint_of(o) && o->statistics.n > 1)
        return "--statistics takes one checkpoint's PREFIX.index, or texts";
    return NULL;
}

int dynamic_check(const struct command *command, const struct dynamic_options *o) {
    const char *wrong = o->on ? find_wrong(o) : NULL;
    return wrong ? options_wrong(command, "%s", wrong) : OPTIONS_RUN;
}

double dynamic_adam_lr(const txl_model *model) {
    double own = txl_model_dynamic_lr(model);
    return own > 0 ? own : DYNAMIC_ADAM_LR;
}

static txl_learning learning_of(const struct dynamic_options *o, const txl_model *model) {
    static const double epsilons[] = {
        [TXL_LEARNING_RMS] = DYNAMIC_RMS_EPSILON, [TXL_LEARNING_ADAM] = DYNAMIC_ADAM_EPSILON};
    const int method = method_of(o);
    return (txl_learning){.method = (txl_learning_method)method,
                          .rate = isnan(o->lr) ? dynamic_adam_lr(model) : o->lr,
                          .epsilon = epsilons[method]};
}

/* ---- Statistics --------------------------------------------------------------------------- */

/* Collects the ids of a text into segments. */
struct collector {
    txl_learner *learner;
    int32_t *ids; /* [tgt_len + 1]: the first is the last of the segment before */
    size_t n, tgt_len;
    uint64_t tokens, segments;
    struct token_reader reader;
    struct progress progress;
    struct unknown unknown;
};

static txl_status gather_segment(struct collector *c, txl_error *error) {
    size_t n = c->n - 1;
    txl_status status = txl_learner_gather(c->learner, c->ids, n, c->ids + 1, error);
    if (status)
        return status;
    c->ids[0] = c->ids[n];
    c->n = 1;
    c->segments++;
    return signals_stopped() ? TXL_STOPPED : TXL_OK;
}

static txl_status collect_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct collector *c = context;
    if (!symbol->text)
        return TXL_OK;
    if (c->tokens == DYNAMIC_STATISTICS_TOKENS)
        return TXL_STOPPED;
    c->tokens++;
    c->ids[c->n++] = symbol->id;
    return c->n <= c->tgt_len ? TXL_OK : gather_segment(c, error);
}

static void show_progress(void *context) {
    struct collector *c = context;
    progress_update(&c->progress, (double)c->tokens / DYNAMIC_STATISTICS_TOKENS, c->tokens);
}

static bool collect_text(struct collector *c, const txl_model *model, struct input *input,
                         const struct dynamic_text *text) {
    const txl_encoding encoding = {.raw = text->raw,
                                   .skip_unknown = text->skip_unknown,
                                   .lookup = true,
                                   .symbol = collect_symbol,
                                   .context = c,
                                   .unknown = unknown_add,
                                   .unknown_context = &c->unknown};
    txl_error error = {0};
    if (!token_reader_open(&c->reader, model, input, &encoding, text->ids))
        return false;
    txl_status status = token_reader_run(&c->reader, show_progress, c);
    if (status == TXL_STOPPED && !signals_stopped())
        status = TXL_OK; /* DYNAMIC_STATISTICS_TOKENS */
    if (!status && c->n > 1) {
        status = gather_segment(c, &error);
        if (status && status != TXL_STOPPED)
            terminal_error("%s: %s", input->name, error.message);
    }
    token_reader_close(&c->reader);
    if (!status && c->tokens < 2)
        return terminal_error("%s: fewer than two tokens, so there are no statistics", input->name);
    unknown_note(&c->unknown, input->name, txl_model_unk(model) >= 0);
    return !status;
}

/* Sums the squared gradients of all texts, each read from the first memory. */
static bool collect_all(struct dynamic *d, const struct model *model, size_t tgt_len,
                        const struct dynamic_text *text) {
    const struct string_list *files = &d->options->statistics;
    struct collector *c = calloc(1, sizeof *c);
    int32_t *ids = calloc(tgt_len + 1, sizeof *ids);
    bool good = c && ids;
    if (!good)
        terminal_error("out of memory");
    for (size_t i = 0; good && i < files->n; i++) {
        struct input input;
        *c = (struct collector){.learner = d->learner, .ids = ids, .tgt_len = tgt_len};
        txl_learner_start(d->learner);
        good = tokens_open_text(&input, files->items[i], model->handle, text->ids, text->common);
        if (!good)
            break;
        progress_start(&c->progress, input.name, "tokens");
        good = collect_text(c, model->handle, &input, text);
        progress_end(&c->progress);
        input_close(&input);
        d->settings.statistics_segments += c->segments;
    }
    free(ids);
    free(c);
    return good;
}

static txl_status take_moments(void *learner, const char *tensor, uint64_t first, const float *x,
                               size_t n, txl_error *error) {
    if (signals_stopped())
        return TXL_STOPPED;
    return txl_learner_set_squares(learner, tensor, first, x, n, error);
}

/* Takes Adam's second moments from a TensorFlow checkpoint of the model. */
static bool read_moments(struct dynamic *d, const struct model *model, const char *path) {
    txl_error error;
    txl_status status = convert_read_moments(path, txl_model_settings_json(model->handle),
                                             take_moments, d->learner, &error);
    return terminal_report(status, &error);
}

static bool find_statistics(struct dynamic *d, const struct model *model, size_t tgt_len,
                            const struct dynamic_text *text) {
    const char *checkpoint = checkpoint_of(d->options);
    d->settings.from_checkpoint = checkpoint != NULL;
    return checkpoint ? read_moments(d, model, checkpoint) : collect_all(d, model, tgt_len, text);
}

/* ---- Learners ----------------------------------------------------------------------------- */

/* Says what the learners take, and refuses what cannot fit. */
static bool check_memory(const struct model *model, const txl_settings *settings,
                         const txl_learning *learning, bool compared) {
    const txl_learning fixed = {.method = TXL_LEARNING_SGD};
    double bytes = (double)txl_learner_bytes(model->handle, settings, learning);
    bytes += compared ? (double)txl_learner_bytes(model->handle, settings, &fixed) : 0;
    double left = free_memory();
    if (bytes > left) {
        return terminal_error("learning takes %.1f GB, and %.1f GB are free: shorter --tgt-len and "
                              "--mem-len take less",
                              bytes / 1e9, left / 1e9);
    }
    terminal_note("learning takes %.0f MB of memory", bytes / 1e6);
    return true;
}

static bool make_learner(const struct model *model, const txl_settings *settings,
                         const txl_learning *learning, txl_learner **learner) {
    txl_error error;
    return terminal_report(txl_learner_new(model->handle, settings, learning, learner, &error),
                           &error);
}

bool dynamic_open(struct dynamic *d, const struct dynamic_options *options,
                  const struct model *model, const txl_settings *settings,
                  const struct dynamic_text *text, bool compared) {
    const txl_learning learning = learning_of(options, model->handle),
                       fixed = {.method = TXL_LEARNING_SGD};
    *d = (struct dynamic){
        .options = options,
        .settings = {.method = dynamic_methods[learning.method], .lr = learning.rate}};
    return check_memory(model, settings, &learning, compared) &&
           make_learner(model, settings, &learning, &d->learner) &&
           (!compared || make_learner(model, settings, &fixed, &d->fixed)) &&
           find_statistics(d, model, (size_t)settings->tgt_len, text);
}

void dynamic_close(struct dynamic *d) {
    txl_learner_free(d->learner);
    txl_learner_free(d->fixed);
    *d = (struct dynamic){0};
}

bool dynamic_write(struct dynamic *d) {
    txl_error error;
    txl_settings settings;
    if (!d->learner || !d->options->output)
        return true;
    const char *path = d->options->output;
    const char *type = d->options->type == CHOICE_UNSET ? "f32" : weight_types[d->options->type];
    if (!isfinite(txl_learner_drift(d->learner))) {
        return terminal_error(
            "%s: not written: some weights are not numbers; a smaller --dynamic-lr may "
            "help",
            path);
    }
    txl_learner_settings(d->learner, &settings);
    return terminal_report(
        txl_model_write(txl_learner_model(d->learner), path, type, settings.threads, &error),
        &error);
}

json_t *dynamic_to_json(const struct dynamic_settings *s, double drift) {
    return json_pack(
        "{s:s, s:f, s:o, s:o}", "method", s->method, "lr", s->lr, "statistics_segments",
        s->from_checkpoint ? json_null() : json_integer((json_int_t)s->statistics_segments),
        "drift", output_json_number(drift));
}
