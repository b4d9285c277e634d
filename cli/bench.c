/* txl bench: measures how fast a model scores, generates and trains, and how near that is to what
 * the machine allows.  On many machines the bandwidth of the memory changes from one second to the
 * next, so the limits are measured again before every sample. */
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "cli/model/settings.h"
#include "cli/options/options.h"
#include "commands.h"
#include "txl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const char bench_topics[]; /* cli/bench.txt */

/* ---- Steps of training -------------------------------------------------------------------- */

struct bench_training {
    txl_training how;
    uint64_t flops, bytes; /* for one token; and of memory */
    txl_ids *ids;
    txl_trainer *trainer;
};

/* One step, of *tokens tokens. */
static txl_status bench_training_step(struct bench_training *training, size_t *tokens,
                                      txl_error *error);

/* Steps of an epoch: the first ones have an empty memory, but they are few. */
enum { EPOCH_STEPS = 1000 };

static bool make_text(struct bench_training *b, const txl_model *model,
                      int32_t (*draw)(void *context), void *context) {
    txl_error error;
    size_t n = (size_t)b->how.batch * ((size_t)b->how.tgt_len * EPOCH_STEPS + 1);
    if (txl_ids_new(txl_model_n_token(model), &b->ids, &error))
        return terminal_error("%s", error.message);
    for (size_t i = 0; i < n; i++) {
        int32_t id = draw(context);
        if (!terminal_report(txl_ids_add(b->ids, &id, 1, &error), &error))
            return false;
    }
    return true;
}

static bool fill_training_memory(struct bench_training *b) {
    size_t steps = ((size_t)b->how.mem_len + (size_t)b->how.tgt_len - 1) / (size_t)b->how.tgt_len;
    struct progress progress;
    bool good = true;
    progress_start(&progress, "filling the memory", "steps");
    for (size_t s = 0; s < steps && good && !signals_stopped(); s++) {
        size_t tokens;
        txl_error error;
        good = terminal_report(bench_training_step(b, &tokens, &error), &error);
        progress_update(&progress, (double)(s + 1) / (double)steps, s + 1);
    }
    progress_end(&progress);
    return good && !signals_stopped();
}

/* Prepares steps of the sizes in `how` on tokens from `draw`, and takes steps until the memory is
 * full.  False with the error printed, or at a signal; end with bench_training_close. */
static bool bench_training_open(struct bench_training *b, const txl_model *model,
                                const txl_training *how, int32_t (*draw)(void *context),
                                void *context) {
    txl_error error;
    *b = (struct bench_training){.how = *how,
                                 .flops = txl_trainer_flops(model, how),
                                 .bytes = txl_trainer_bytes(model, how)};
    if (!make_text(b, model, draw, context))
        return false;
    if (txl_trainer_new(model, b->ids, how, &b->trainer, &error))
        return terminal_error("%s", error.message);
    return fill_training_memory(b);
}

static void bench_training_close(struct bench_training *b) {
    txl_trainer_free(b->trainer);
    txl_ids_free(b->ids);
    *b = (struct bench_training){.ids = NULL};
}

static txl_status bench_training_step(struct bench_training *b, size_t *tokens, txl_error *error) {
    txl_step step;
    txl_status status = txl_trainer_step(b->trainer, 1e-4, &step, error);
    *tokens = status ? 0 : (size_t)step.tokens;
    return status;
}

/* ---- The command -------------------------------------------------------------------------- */

enum {
    LEAST_SAMPLES = 3,
    SAMPLES = 10,       /* in --seconds, if samples can be that short */
    KNOWN_TOKENS = 200, /* of the block of a round */
    SEED = 1
};

#define SECONDS 4

struct bench_options {
    struct common_options common;
    struct session_options session; /* mem_len stays unset: mem_lens replaces it */
    const char *mem_lens, *sliding;
    int shape, type, mode;
    int64_t batch;
    double seconds;
    bool json;
};

/* --mode has no sliding, which --sliding asks for. */
enum mode { MODE_SCORE, MODE_GENERATE, MODE_REFRESHED, MODE_TRAIN, MODE_SLIDING };
static const char *const modes[] = {"score", "generate", "refreshed", "train", NULL};
static const char *const mode_names[] = {"score", "generate", "refreshed", "train", "sliding"};

/* One run of the command. */
struct bench {
    const struct bench_options *options;
    struct model model;
    txl_settings settings;
    txl_session *session;
    struct bench_training training;
    unsigned short random[3]; /* erand48's */
    txl_random draws;
    size_t unit;  /* ids of one call */
    int32_t *ids; /* [unit + 1], or one for each token of a round's block if these are more */
    float *nats;  /* [unit] */
    int32_t last; /* the last generated id */
    int measurements;
    double rate; /* of the last one; of the one with the memory, where windows follow */
};

struct measurement {
    enum mode mode;
    txl_costs costs;
    size_t n;
    double worked; /* seconds, without measuring the machine's limits */
    txl_products products;
    const char *instruction; /* that multiplies, or "sgemm" */
    double rate[SAMPLES], bandwidth[SAMPLES], sgemm[SAMPLES], peak[SAMPLES];
};

/* One row of the result. */
struct result {
    enum mode mode;
    double bytes, flops; /* for one token */
    double rate, p10, p90, bandwidth, sgemm, share;
    const char *instruction;
    double peak; /* of the instruction */
};

/* ---- The work ----------------------------------------------------------------------------- */

/* Draws an id by Zipf's law, as in a text: vocabularies are sorted by frequency. */
static int32_t draw_id(void *context) {
    struct bench *b = context;
    double n_token = txl_model_n_token(b->model.handle);
    int32_t id = (int32_t)exp(erand48(b->random) * log(n_token + 1)) - 1;
    return id < (int32_t)n_token ? id : (int32_t)n_token - 1;
}

static void draw_ids(struct bench *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        b->ids[i] = draw_id(b);
}

static txl_status score_some(struct bench *b, size_t *tokens, txl_error *error) {
    draw_ids(b, b->unit + 1);
    *tokens = b->unit;
    return txl_session_score(b->session, b->ids, b->unit, b->ids + 1, b->nats, error);
}

static txl_status generate_one(struct bench *b, size_t *tokens, txl_error *error) {
    txl_sampling sampling;
    txl_sampling_defaults(b->model.handle, &sampling);
    float logprob;
    *tokens = 1;
    txl_status status =
        txl_session_sample(b->session, &sampling, &b->draws, &b->last, &logprob, error);
    if (model_sees_both_sides(&b->model))
        txl_session_end_segment(b->session); /* each token is a segment */
    return status ? status : txl_session_feed(b->session, &b->last, 1, error);
}

/* A round of txl generate --refresh: reads the known tokens as one block, then generates one token
 * after another.  The last one is read with the next block. */
static txl_status generate_round(struct bench *b, size_t *tokens, txl_error *error) {
    const txl_sampling sampling = {.temperature = 0.95F, .top_k = 40, .top_p = 1};
    float logprob;
    draw_ids(b, KNOWN_TOKENS);
    txl_session_reset(b->session);
    txl_status status = txl_session_feed_block(b->session, b->ids, KNOWN_TOKENS, error);
    for (size_t i = 0; i < REFRESH_TOKENS && !status; i++) {
        status = txl_session_sample(b->session, &sampling, &b->draws, &b->last, &logprob, error);
        txl_session_end_segment(b->session);
        if (!status && i + 1 < REFRESH_TOKENS)
            status = txl_session_feed(b->session, &b->last, 1, error);
    }
    *tokens = REFRESH_TOKENS;
    return status;
}

/* A token of a vanilla Transformer's evaluation: a segment of tgt_len tokens from nothing, of which
 * the last is predicted. */
static txl_status slide_once(struct bench *b, size_t *tokens, txl_error *error) {
    size_t n = (size_t)b->settings.tgt_len;
    draw_ids(b, n + 1);
    *tokens = 1;
    txl_session_reset(b->session);
    txl_status status = n > 1 ? txl_session_feed(b->session, b->ids, n - 1, error) : TXL_OK;
    return status ? status
                  : txl_session_score(b->session, b->ids + n - 1, 1, b->ids + n, b->nats, error);
}

static txl_status work_once(struct bench *b, enum mode mode, size_t *tokens, txl_error *error) {
    switch (mode) {
    case MODE_SCORE:
        return score_some(b, tokens, error);
    case MODE_GENERATE:
        return generate_one(b, tokens, error);
    case MODE_REFRESHED:
        return generate_round(b, tokens, error);
    case MODE_SLIDING:
        return slide_once(b, tokens, error);
    case MODE_TRAIN:
        break;
    }
    return bench_training_step(&b->training, tokens, error);
}

/* Works for at least `seconds` and gives the speed.  False on failure or when asked to stop. */
static bool work_for(struct bench *b, enum mode mode, double seconds, double *rate) {
    double start = terminal_seconds(), elapsed = 0;
    uint64_t done = 0;
    txl_error error;
    do {
        size_t tokens;
        if (work_once(b, mode, &tokens, &error))
            return terminal_error("%s", error.message);
        if (signals_stopped())
            return false;
        done += tokens;
        elapsed = terminal_seconds() - start;
    } while (elapsed < seconds);
    *rate = (double)done / elapsed;
    return true;
}

/* Feeds whole segments until the memory before the next one is full. */
static bool fill_memory(struct bench *b) {
    size_t tgt_len = (size_t)b->settings.tgt_len, mem_len = (size_t)b->settings.mem_len;
    size_t all = (mem_len / tgt_len + 2) * tgt_len;
    struct progress progress;
    progress_start(&progress, "filling the memory", "tokens");
    for (size_t done = 0; done < all && !signals_stopped();) {
        size_t n = all - done < b->unit ? all - done : b->unit;
        txl_error error;
        draw_ids(b, n);
        if (txl_session_feed(b->session, b->ids, n, &error)) {
            progress_end(&progress);
            return terminal_error("%s", error.message);
        }
        done += n;
        progress_update(&progress, (double)done / (double)all, done);
    }
    progress_end(&progress);
    return !signals_stopped();
}

static bool take_sample(struct bench *b, struct measurement *m, double seconds) {
    txl_error error;
    size_t i = m->n;
    int threads = b->settings.threads;
    bool reads = m->mode != MODE_TRAIN; /* only products limit training */
    if ((reads && txl_measure_read_bandwidth(threads, &m->bandwidth[i], &error)) ||
        txl_measure_sgemm(threads, &m->sgemm[i], &error))
        return terminal_error("%s", error.message);
    m->instruction = "sgemm";
    m->peak[i] = m->sgemm[i];
    if (m->products != TXL_PRODUCTS_F32 &&
        txl_measure_products(m->products, threads, &m->instruction, &m->peak[i], &error))
        return terminal_error("%s", error.message);
    double start = terminal_seconds();
    if (!work_for(b, m->mode, seconds, &m->rate[i]))
        return false;
    m->worked += terminal_seconds() - start;
    m->n++;
    return true;
}

/* The first sample is a warm-up and does not count. */
static bool take_samples(struct bench *b, struct measurement *m) {
    double seconds = b->options->seconds, slice = seconds / SAMPLES, unused;
    static const char *const tasks[] = {"scoring", "generating", "generating in rounds", "training",
                                        "scoring from windows"};
    size_t least = seconds > 0 ? LEAST_SAMPLES : 1;
    struct progress progress;
    progress_start(&progress, tasks[m->mode], "samples");
    bool good = work_for(b, m->mode, slice, &unused);
    while (good && m->n < SAMPLES && (m->n < least || m->worked < seconds)) {
        good = take_sample(b, m, slice);
        progress_update(&progress, (double)m->n / SAMPLES, m->n);
    }
    progress_end(&progress);
    return good;
}

/* ---- Results ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A quantile of sorted numbers, interpolated linearly. */
static double quantile(const double *sorted, size_t n, double p) {
    double place = p * (double)(n - 1);
    size_t i = (size_t)place;
    return i + 1 < n ? sorted[i] + (place - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

/* A round reads the weights for each of its tokens except the first, which the block predicts. */
static void share_round(const txl_costs *costs, struct result *r) {
    r->bytes = (double)costs->bytes * (REFRESH_TOKENS - 1) / REFRESH_TOKENS;
    r->flops = (double)costs->block_flops * KNOWN_TOKENS / REFRESH_TOKENS;
    r->share = r->rate * (r->bytes / r->bandwidth + r->flops / r->peak);
}

static struct result summarise(struct measurement *m) {
    qsort(m->rate, m->n, sizeof *m->rate, ascending);
    qsort(m->bandwidth, m->n, sizeof *m->bandwidth, ascending);
    qsort(m->sgemm, m->n, sizeof *m->sgemm, ascending);
    qsort(m->peak, m->n, sizeof *m->peak, ascending);
    struct result r = {.mode = m->mode,
                       .bytes = (double)m->costs.bytes,
                       .flops = (double)m->costs.flops,
                       .rate = quantile(m->rate, m->n, 0.5),
                       .p10 = quantile(m->rate, m->n, 0.1),
                       .p90 = quantile(m->rate, m->n, 0.9),
                       .bandwidth = quantile(m->bandwidth, m->n, 0.5),
                       .sgemm = quantile(m->sgemm, m->n, 0.5),
                       .instruction = m->instruction,
                       .peak = quantile(m->peak, m->n, 0.5)};
    if (m->mode == MODE_REFRESHED)
        share_round(&m->costs, &r);
    else
        r.share =
            m->mode == MODE_GENERATE ? r.rate * r.bytes / r.bandwidth : r.rate * r.flops / r.peak;
    return r;
}

static json_t *number_unless(bool without, int64_t n) {
    return without ? json_null() : json_integer((json_int_t)n);
}

static json_t *speed_to_json(const struct bench *b, const struct result *r) {
    bool rounds = r->mode == MODE_REFRESHED;
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:s, s:f, s:f, "
        "s:s, s:s, s:o, s:o, s:o*}",
        "mode", mode_names[r->mode], "type", txl_model_type(b->model.handle), "memory_type",
        memory_types[b->settings.memory_type], "compute", session_computes[b->settings.compute],
        "threads", b->settings.threads, "tgt_len", b->settings.tgt_len, "mem_len",
        number_unless(rounds, b->settings.mem_len), "tokens_per_second", r->rate, "p10", r->p10,
        "p90", r->p90, "bytes_per_token", (json_int_t)r->bytes, "flops_per_token",
        (json_int_t)r->flops, "read_bandwidth", r->bandwidth, "sgemm_peak", r->sgemm, "instruction",
        r->instruction, "instruction_peak", r->peak, "share_of_limit", r->share, "kernels",
        txl_kernels_name(NULL), "blas", txl_blas_name(), "refresh",
        number_unless(!rounds, REFRESH_TOKENS), "known", number_unless(!rounds, KNOWN_TOKENS),
        "ratio", r->mode == MODE_SLIDING ? json_real(b->rate / r->rate) : NULL);
}

static json_t *training_to_json(const struct bench *b, const struct result *r) {
    return json_pack(
        "{s:s, s:s, s:i, s:f, s:i, s:i, s:i, s:f, s:f, s:f, s:I, s:I, s:f, s:s, s:f, s:f, s:s, "
        "s:s}",
        "mode", mode_names[r->mode], "compute", train_computes[b->training.how.bf16], "batch",
        b->training.how.batch, "dropout", b->training.how.dropout, "threads", b->settings.threads,
        "tgt_len", b->settings.tgt_len, "mem_len", b->settings.mem_len, "tokens_per_second",
        r->rate, "p10", r->p10, "p90", r->p90, "memory_bytes", (json_int_t)b->training.bytes,
        "flops_per_token", (json_int_t)r->flops, "sgemm_peak", r->sgemm, "instruction",
        r->instruction, "instruction_peak", r->peak, "share_of_limit", r->share, "kernels",
        txl_kernels_name(NULL), "blas", txl_blas_name());
}

/* Both limits apply to a round. */
static void say_limits(const struct result *r, char *needs, char *has, size_t size) {
    const double giga = 1e-9;
    if (r->mode == MODE_SCORE || r->mode == MODE_TRAIN || r->mode == MODE_SLIDING) {
        snprintf(needs, size, "%7.3f GFLOP", giga * r->flops);
        snprintf(has, size, "%7.1f GFLOP/s", giga * r->peak);
    } else if (r->mode == MODE_GENERATE) {
        snprintf(needs, size, "%7.3f GB", giga * r->bytes);
        snprintf(has, size, "%7.1f GB/s", giga * r->bandwidth);
    } else {
        snprintf(needs, size, "%7.3f GB, %.3f GFLOP", giga * r->bytes, giga * r->flops);
        snprintf(has, size, "%.1f GB/s, %.1f GFLOP/s", giga * r->bandwidth, giga * r->peak);
    }
}

static bool print_text(const struct bench *b, const struct result *r) {
    if (b->measurements == 0 &&
        !output_line("mode       mem_len  tokens/s       p10       p90  a token needs   "
                     "the machine has   share  of"))
        return false;
    char mem_len[24] = "-", needs[64], has[64];
    if (r->mode != MODE_REFRESHED)
        snprintf(mem_len, sizeof mem_len, "%d", b->settings.mem_len);
    say_limits(r, needs, has, sizeof needs);
    const char *limit = r->mode == MODE_GENERATE    ? "reading"
                        : r->mode == MODE_REFRESHED ? "reading and "
                                                    : "";
    const int digits = r->mode == MODE_SLIDING ? 3 : 1;
    return output_line("%-9s %8s %9.*f %9.*f %9.*f  %-13s  %-15s  %4.0f %%  %s%s",
                       mode_names[r->mode], mem_len, digits, r->rate, digits, r->p10, digits,
                       r->p90, needs, has, 100 * r->share, limit,
                       r->mode == MODE_GENERATE ? "" : r->instruction) &&
           (r->mode != MODE_SLIDING ||
            output_line("a memory of %d token%s is %.*f times as fast as windows of %d",
                        b->settings.tgt_len, plural((uint64_t)b->settings.tgt_len),
                        b->rate / r->rate < 10, b->rate / r->rate, b->settings.tgt_len)) &&
           output_flush();
}

/* ---- The command -------------------------------------------------------------------------- */

/* What the targets that draw_id gives need in other bands of the softmax than the first, on
 * average. */
static uint64_t target_flops(const txl_model *model) {
    int32_t n_token = txl_model_n_token(model);
    double flops = 0;
    for (int32_t id = 0; id < n_token; id++)
        flops += (double)txl_model_target_flops(model, id) * log1p(1 / (id + 1.0));
    return (uint64_t)(flops / log(n_token + 1.0));
}

static txl_products products_of(const struct bench *b, enum mode mode) {
    if (mode == MODE_TRAIN)
        return b->training.how.bf16 ? TXL_PRODUCTS_TRAINING_BF16 : TXL_PRODUCTS_F32;
    return b->settings.compute == TXL_COMPUTE_INT8   ? TXL_PRODUCTS_INT8
           : b->settings.compute == TXL_COMPUTE_BF16 ? TXL_PRODUCTS_BF16
                                                     : TXL_PRODUCTS_F32;
}

/* The cost of a token depends on `settings`. */
static bool measure_mode(struct bench *b, enum mode mode, const txl_settings *settings) {
    struct measurement m = {
        .mode = mode, .costs = {.flops = b->training.flops}, .products = products_of(b, mode)};
    if (mode != MODE_TRAIN)
        txl_model_costs(b->model.handle, settings, &m.costs);
    if (mode == MODE_SLIDING)
        m.costs.flops *= (uint64_t)settings->tgt_len;
    if (mode == MODE_SCORE)
        m.costs.flops += target_flops(b->model.handle);
    if (!take_samples(b, &m))
        return false;
    struct result r = summarise(&m);
    bool printed = !b->options->json    ? print_text(b, &r)
                   : mode == MODE_TRAIN ? output_json(training_to_json(b, &r))
                                        : output_json(speed_to_json(b, &r));
    b->measurements++;
    b->rate = r.rate;
    return printed;
}

static bool measure_training(struct bench *b) {
    const struct bench_options *options = b->options;
    const txl_training how = {.batch = options->batch == INTEGER_UNSET ? TRAIN_BATCH
                                                                       : (int)options->batch,
                              .tgt_len = b->settings.tgt_len,
                              .mem_len = b->settings.mem_len,
                              .clamp_len = b->settings.clamp_len,
                              .same_length = b->settings.same_length,
                              .clip = TRAIN_CLIP,
                              .epsilon = TRAIN_EPSILON,
                              .dropout = TRAIN_DROPOUT,
                              .seed = SEED,
                              .bf16 = options->session.compute == TXL_COMPUTE_BF16,
                              .threads = b->settings.threads};
    bool good = bench_training_open(&b->training, b->model.handle, &how, draw_id, b);
    if (good) {
        b->settings.threads = txl_trainer_threads(b->training.trainer);
        good = measure_mode(b, MODE_TRAIN, &b->settings);
    }
    bench_training_close(&b->training);
    return good;
}

static bool is_wanted(const struct bench *b, enum mode mode) {
    if (b->options->sliding)
        return mode == MODE_SCORE;
    return b->options->mode == CHOICE_UNSET || b->options->mode == (int)mode;
}

/* Measures both modes in one session; scoring comes first because it needs whole segments. */
static bool measure_memory(struct bench *b, int mem_len) {
    b->settings.mem_len = mem_len;
    b->settings.threads = (int)b->options->common.threads;
    if (b->options->mode == MODE_TRAIN)
        return measure_training(b);
    if (!session_open(&b->model, &b->settings, &b->session))
        return false;
    txl_session_settings(b->session, &b->settings);
    bool good = fill_memory(b);
    for (enum mode mode = MODE_SCORE; mode <= MODE_GENERATE && good; mode++)
        if (is_wanted(b, mode))
            good = measure_mode(b, mode, &b->settings);
    txl_session_free(b->session);
    b->session = NULL;
    return good;
}

/* Measures scoring with a memory of `window` tokens, then each token from a window of so many. */
static bool measure_sliding(struct bench *b, int window) {
    int32_t *ids = reallocarray(b->ids, larger(b->unit, (size_t)window) + 1, sizeof *ids);
    if (!ids)
        return terminal_error("out of memory");
    b->ids = ids;
    const txl_settings before = b->settings;
    bool good = measure_memory(b, window);
    b->settings.tgt_len = window;
    b->settings.mem_len = 0;
    b->settings.same_length = false;
    good = good && session_open(&b->model, &b->settings, &b->session) &&
           measure_mode(b, MODE_SLIDING, &b->settings);
    txl_session_free(b->session);
    b->session = NULL;
    b->settings = before;
    b->settings.mem_len = window;
    return good;
}

/* Measures rounds, in a session of their own, which they reset. */
static bool measure_rounds(struct bench *b) {
    txl_settings settings = b->settings;
    settings.threads = (int)b->options->common.threads;
    settings.tgt_len = KNOWN_TOKENS > settings.tgt_len ? KNOWN_TOKENS : settings.tgt_len;
    settings.mem_len = KNOWN_TOKENS + REFRESH_TOKENS;
    if (!session_open(&b->model, &settings, &b->session))
        return false;
    txl_session_settings(b->session, &settings);
    b->settings.threads = settings.threads;
    settings.tgt_len = KNOWN_TOKENS;
    settings.mem_len = KNOWN_TOKENS + REFRESH_TOKENS / 2; /* on average over a round */
    bool good = measure_mode(b, MODE_REFRESHED, &settings);
    txl_session_free(b->session);
    b->session = NULL;
    return good;
}

static bool open_shape(struct bench *b) {
    const struct bench_options *options = b->options;
    int type = options->type != CHOICE_UNSET ? options->type : 0;
    char *settings = published_settings_json(options->shape, true);
    txl_error error;
    if (!settings)
        return terminal_error("out of memory");
    txl_status status = txl_model_random(settings, weight_types[type], SEED,
                                         (int)options->common.threads, &b->model.handle, &error);
    free(settings);
    b->model.name = published_shapes[options->shape];
    if (status)
        return terminal_error("%s", error.message);
    return true;
}

static bool set_up(struct bench *b) {
    bool opened = b->options->shape != CHOICE_UNSET ? open_shape(b)
                                                    : model_open(&b->model, &b->options->common);
    if (!opened)
        return false;
    const struct meaningless not_here[] = {
        {b->options->mode == MODE_REFRESHED, "--mode refreshed",
         "which sees what is to the left alone"},
    };
    const struct meaningless not_there[] = {
        {b->options->sliding, "--sliding", "which has no such evaluation"},
    };
    if (!model_allows(&b->model, not_there, sizeof not_there / sizeof *not_there))
        return false;
    if (!model_needs_both_sides(&b->model, not_here, sizeof not_here / sizeof *not_here))
        return false;
    txl_model_defaults(b->model.handle, &b->settings);
    settings_override(&b->settings, &b->options->session, &b->options->common);
    size_t tgt_len = (size_t)b->settings.tgt_len, many = model_score_tokens(&b->model);
    b->unit = tgt_len < many ? many / tgt_len * tgt_len : tgt_len;
    b->ids = calloc((b->unit > KNOWN_TOKENS ? b->unit : KNOWN_TOKENS) + 1, sizeof *b->ids);
    b->nats = calloc(b->unit, sizeof *b->nats);
    if (!b->ids || !b->nats)
        return terminal_error("out of memory");
    return true;
}

static void print_summary(const struct bench *b, double seconds) {
    char settings[8192];
    settings_to_text(settings, sizeof settings, &b->model, &b->settings, &(struct run_settings){0});
    terminal_brief("%d measurement%s, %.2f seconds", b->measurements,
                   plural((uint64_t)b->measurements), seconds);
    terminal_summary("measurements=%d seconds=%.2f %s", b->measurements, seconds, settings);
}

static int measure_all(struct bench *b, const int *mem_lens, size_t n) {
    double start = terminal_seconds();
    bool good = true;
    for (size_t i = 0; i < n && good && b->options->mode != MODE_REFRESHED; i++)
        good =
            b->options->sliding ? measure_sliding(b, mem_lens[i]) : measure_memory(b, mem_lens[i]);
    if (good && model_sees_both_sides(&b->model) && is_wanted(b, MODE_REFRESHED))
        good = measure_rounds(b);
    int status = STATUS_OK;
    if (signals_stopped())
        status = signals_status();
    else if (!good && !output_closed())
        status = STATUS_FAILURE;
    status = output_finish(status);
    if (b->measurements > 0 && !output_failed()) {
        version_note_blas();
        print_summary(b, terminal_seconds() - start);
    }
    return status;
}

static int check_options(const struct command *command, const struct bench_options *options) {
    if (options->shape != CHOICE_UNSET && options->common.model)
        return options_wrong(command, "--shape cannot be combined with --model");
    if (options->shape == CHOICE_UNSET && options->type != CHOICE_UNSET)
        return options_wrong(command, "--type needs --shape: a weights file has its own type");
    bool trains = options->mode == MODE_TRAIN;
    if (trains && (options->type != CHOICE_UNSET || options->session.memory_type != CHOICE_UNSET))
        return options_wrong(command, "--mode train has no --type and no --memory-type: weights "
                                      "and memory are f32");
    if (!trains && options->batch != INTEGER_UNSET)
        return options_wrong(command, "--batch needs --mode train");
    if (trains && options->session.compute == TXL_COMPUTE_INT8)
        return options_wrong(command, "--mode train has no --compute int8, only f32 and bf16");
    if (options->sliding && (options->mode != CHOICE_UNSET || options->mem_lens ||
                             options->session.same_length != CHOICE_UNSET))
        return options_wrong(command, "--sliding replaces --mode, --mem-lens and --same-length");
    return OPTIONS_RUN;
}

/* The lengths of --mem-len or --sliding, [n]; false if they are none. */
static bool list_lengths(const struct bench_options *options, int **list, size_t *n) {
    const char *given = options->sliding ? options->sliding : options->mem_lens;
    *list = given ? number_list(given, n) : NULL;
    bool good = !given || *list;
    for (size_t i = 0; i < *n && good && options->sliding; i++)
        good = (*list)[i] >= 1 && (*list)[i] <= TXL_MAX_TGT_LEN;
    return good;
}

static const struct bench_options defaults = {.session = SESSION_UNSET,
                                              .shape = CHOICE_UNSET,
                                              .type = CHOICE_UNSET,
                                              .mode = CHOICE_UNSET,
                                              .batch = INTEGER_UNSET,
                                              .seconds = SECONDS};

static int run(const struct command *command, void *values, struct operands *operands) {
    const struct bench_options *options = values;
    int *list = NULL;
    size_t n = 1;
    (void)operands;
    int status = check_options(command, options);
    if (status != OPTIONS_RUN)
        return status;
    if (!list_lengths(options, &list, &n)) {
        free(list);
        return options->sliding
                   ? options_wrong(command, "--sliding '%s' is not a list of numbers from 1 to %d",
                                   options->sliding, TXL_MAX_TGT_LEN)
                   : options_wrong(command, "--mem-lens '%s' is not a list of whole numbers",
                                   options->mem_lens);
    }
    struct bench bench = {.options = options, .random = {SEED}, .draws = {.seed = SEED}};
    status = STATUS_FAILURE;
    if (set_up(&bench))
        status = measure_all(&bench, list ? list : &bench.settings.mem_len, n);
    free(list);
    free(bench.ids);
    free(bench.nats);
    model_close(&bench.model);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

#define PLACE(member) offsetof(struct bench_options, member)

static const struct option_row options[] = {
    MODEL_ROW,
    {"shape", OPTION_CHOICE, PLACE(shape),
     "measure random weights in the shape of a published model; small: 6 layers of 320",
     .choices = published_shapes},
    {"type", OPTION_CHOICE, PLACE(type), "with --shape: type of the weights",
     .choices = weight_types, .standard = "f32"},
    {"mem-lens", OPTION_STRING, PLACE(mem_lens),
     "measure with each of these numbers of tokens of memory before the segment, with "
     "commas between them",
     .section = "Segments and memory", .argument = "LIST", .standard = "the checkpoint's"},
    {"sliding", OPTION_STRING, PLACE(sliding),
     "score with each of these numbers of tokens of memory, and as vanilla Transformers are "
     "evaluated: each token from a window of so many, computed anew",
     .argument = "LIST"},
    TGT_LEN_ROW(.standard = "the checkpoint's", .offset = PLACE(session.tgt_len)),
    CLAMP_LEN_ROW(.standard = "the checkpoint's", .offset = PLACE(session.clamp_len)),
    SAME_LENGTH_ROW(.standard = "the checkpoint's", .offset = PLACE(session.same_length)),
    MEMORY_TYPE_ROW(.standard = "f32", .offset = PLACE(session.memory_type)),
    COMPUTE_ROW(PLACE(session.compute)),
    {"mode", OPTION_CHOICE, PLACE(mode),
     "measure scoring whole segments, generating with a full memory, generating with all "
     "known tokens read again in each round (XLNet), or training",
     .section = "Measurement", .choices = modes, .standard = "score, generate and refreshed"},
    {"seconds", OPTION_REAL, PLACE(seconds),
     "measure for S seconds, or longer if three samples take longer; 0: one sample",
     .argument = "S", .standard = TEXT_OF(SECONDS), .most = 86400},
    {"batch", OPTION_INTEGER, PLACE(batch), "train: streams of a step", .section = "Training",
     .standard = TEXT_OF(TRAIN_BATCH), .least = 1, .most = 1 << 20},
    {"json", OPTION_FLAG, PLACE(json), "print an object for each measurement", .section = "Output"},
    COMMON_ROWS,
    {0}};

static const struct example examples[] = {
    {"txl bench", "the built-in model on this machine"},
    {"txl bench --shape wt103-large --type bf16 --compute bf16",
     "a published shape, no file needed"},
    {"txl bench --shape xlnet-base --mode refreshed", "as txl generate works by default"},
    {"txl bench --model wt103.txl --mem-lens 0,400,1600 --json",
     "what memory costs, for a program"},
    {"txl bench --sliding 128", "how much faster the memory is than windows"},
    {"txl bench --mode train --shape small --compute bf16", "steps of training a small model"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"mode",  "shape",   "type", "compute", "mem-lens", "tgt-len",
                                    "batch", "seconds", "json", "model",   NULL};

const struct command bench_command = {
    .name = "bench",
    .summary = "measure speed, and its share of what the machine allows",
    .description =
        "Measures speed in tokens a second, of scoring, generating and training. Beside it "
        "bench measures what the machine allows, its memory bandwidth and matrix products, "
        "and prints the share of that limit which txl reaches.",
    .options = options,
    .brief = brief,
    .examples = examples,
    .topics = bench_topics,
    .shared = "summary",
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
