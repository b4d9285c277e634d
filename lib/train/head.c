/* Trains a head for sequence classification on rows of a body that stays as it is.
 *
 *     h = tanh(S x + s)        x is an input's last row     [d_model]
 *     z = L h + l                                           [n_label]
 *     loss = mean of -log softmax(z)[label] + decay / 2 (|S|^2 + |L|^2)
 *
 * The arrangement is that of the published models' heads; S, L begin as their code's do. */
#include "head.h"

#include "lib/base/error.h"
#include "lib/base/float_environment.h"
#include "lib/base/limits.h"
#include "lib/base/numbers.h"
#include "lib/session/model.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double DEVIATION = 0.02; /* of the first weights */

/* ---- Opening ------------------------------------------------------------------------------ */

/* Room for the operands of the products that are computed together. */
static size_t packed_room(const txl_head_trainer *t) {
    const size_t n = (size_t)t->how.batch, d = t->d, labels = t->n_label;
    const size_t together[][2][3] = {{{n, d, d}, {0}},
                                     {{n, labels, d}, {0}},
                                     {{labels, d, n}, {n, d, labels}},
                                     {{d, d, n}, {0}}};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        struct arena room = {0};
        for (int k = 0; k < 2; k++)
            products_take_room(&room, t->products.packed, together[i][k][0], together[i][k][1],
                               together[i][k][2]);
        most = room.used > most ? room.used : most;
    }
    return (size_t)most;
}

static void lay_out(txl_head_trainer *t, struct arena *arena) {
    float **const alike[] = {&t->weight, &t->gradient, &t->moment_1, &t->moment_2, &t->kept};
    const size_t n = (size_t)t->how.batch;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        *alike[i] = arena_take(arena, t->n_weight, sizeof **alike[i]);
    t->hidden = arena_take(arena, n * t->d, sizeof *t->hidden);
    t->d_hidden = arena_take(arena, n * t->d, sizeof *t->d_hidden);
    t->logit = arena_take(arena, n * t->n_label, sizeof *t->logit);
    t->products.room_size = t->products.packed ? packed_room(t) : 0;
    t->products.room = arena_take(arena, t->products.room_size, 1);
}

/* Normal with mean 0 and deviation 1: Box and Muller 1958. */
static double draw_normal(txl_random *random) {
    const double radius = 1 - random_uniform(random), angle = random_uniform(random);
    return sqrt(-2 * log(radius)) * cos(2 * acos(-1) * angle);
}

static void draw_weights(txl_head_trainer *t) {
    txl_random random = {.seed = t->how.seed};
    for (size_t i = 0; i < summary_bias_at(t); i++)
        t->weight[i] = (float)(DEVIATION * draw_normal(&random));
    for (size_t i = logits_at(t); i < logits_bias_at(t); i++)
        t->weight[i] = (float)(DEVIATION * draw_normal(&random));
}

static txl_status check(const txl_model *model, const txl_head_training *how, txl_error *error) {
    const struct {
        const char *name;
        double value, low, high;
    } range[] = {
        {"n_label", how->n_label, 2, MAX_LABEL},
        {"batch", how->batch, 1, 1 << 20},
        {"rate", how->rate, 0, 1},
        {"decay", how->decay, 0, 1},
        {"epsilon", how->epsilon, 1e-30, 1},
    };
    if (model->family->number != TXL_FAMILY_XLNET)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: only an XLNet gets a head, not the family %s",
                        model->weights->name, model->family->name);
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (!(range[i].value >= range[i].low && range[i].value <= range[i].high))
            return txl_fail(error, TXL_ARGUMENT, "%s %g is not from %g to %g", range[i].name,
                            range[i].value, range[i].low, range[i].high);
    return CHECK_RESERVED(txl_head_training, how, error);
}

static txl_status open_trainer(txl_head_trainer *t, const txl_model *model,
                               const txl_head_training *how, txl_error *error) {
    t->how = *how;
    t->d = model->network->bands.d_model;
    t->n_label = (size_t)how->n_label;
    t->n_weight = logits_bias_at(t) + t->n_label;
    t->loops = model->kernels.loops;
    t->products.packed = model->kernels.f32_product;
    struct arena plan = {0};
    lay_out(t, &plan);
    txl_status status = arena_open(&t->arena, plan.used, "the training of a head", error);
    if (status)
        return status;
    lay_out(t, &t->arena);
    uint64_t state = subnormals_to_zero(); /* the pool's threads inherit it */
    t->pool = t->products.pool = pool_new(how->threads);
    subnormals_set(state);
    if (!t->pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    draw_weights(t);
    return TXL_OK;
}

txl_status txl_head_trainer_new(const txl_model *model, const txl_head_training *how,
                                txl_head_trainer **trainer, txl_error *error) {
    txl_status status = check(model, how, error);
    if (status)
        return status;
    txl_head_trainer *t = calloc(1, sizeof *t);
    if (!t)
        return txl_fail_memory(error, "the training of a head", sizeof *t);
    status = open_trainer(t, model, how, error);
    if (status) {
        txl_head_trainer_free(t);
        return status;
    }
    *trainer = t;
    return TXL_OK;
}

void txl_head_trainer_free(txl_head_trainer *t) {
    if (!t)
        return;
    pool_free(t->pool);
    arena_close(&t->arena);
    free(t);
}

/* ---- Forward and backward ----------------------------------------------------------------- */

static void add_bias(size_t n, size_t width, const float *bias, float *x) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            x[i * width + k] += bias[k];
}

static void sum_rows(size_t n, size_t width, const float *x, float *sum) {
    memset(sum, 0, width * sizeof *sum);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            sum[k] += x[i * width + k];
}

/* hidden[n, d] and logit[n, n_label] of n <= batch rows. */
static void run_forward(txl_head_trainer *t, const float *rows, size_t n, float *logit) {
    const size_t d = t->d;
    const struct product summary = {.m = n,
                                    .n = d,
                                    .k = d,
                                    .a = as_is(rows, d),
                                    .b = across(t->weight, d),
                                    .c = t->hidden,
                                    .ldc = d};
    const struct product logits = {.m = n,
                                   .n = t->n_label,
                                   .k = d,
                                   .a = as_is(t->hidden, d),
                                   .b = across(t->weight + logits_at(t), d),
                                   .c = logit,
                                   .ldc = t->n_label};
    products_run(&t->products, &summary, 1);
    add_bias(n, d, t->weight + summary_bias_at(t), t->hidden);
    for (size_t i = 0; i < n * d; i++)
        t->hidden[i] = tanhf(t->hidden[i]);
    products_run(&t->products, &logits, 1);
    add_bias(n, t->n_label, t->weight + logits_bias_at(t), logit);
}

/* Replaces logits[n_label] by the gradient of n rows' mean nats; returns this row's nats. */
static double softmax_gradient(const txl_head_trainer *t, size_t n, int32_t label, float *logits) {
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < t->n_label; k++)
        most = fmax(most, (double)logits[k]);
    for (size_t k = 0; k < t->n_label; k++)
        sum += exp((double)logits[k] - most);
    const double nats = log(sum) + most - (double)logits[label];
    for (size_t k = 0; k < t->n_label; k++)
        logits[k] =
            (float)((exp((double)logits[k] - most) / sum - (k == (size_t)label)) / (double)n);
    return nats;
}

/* The gradients by t->logit, which are those of the logits. */
static void run_backward(txl_head_trainer *t, const float *rows, size_t n) {
    const size_t d = t->d, labels = t->n_label;
    float *g = t->gradient;
    const struct product last[] = {{.m = labels,
                                    .n = d,
                                    .k = n,
                                    .a = across(t->logit, labels),
                                    .b = as_is(t->hidden, d),
                                    .c = g + logits_at(t),
                                    .ldc = d},
                                   {.m = n,
                                    .n = d,
                                    .k = labels,
                                    .a = as_is(t->logit, labels),
                                    .b = as_is(t->weight + logits_at(t), d),
                                    .c = t->d_hidden,
                                    .ldc = d}};
    const struct product first = {
        .m = d, .n = d, .k = n, .a = across(t->d_hidden, d), .b = as_is(rows, d), .c = g, .ldc = d};
    products_run(&t->products, last, 2);
    sum_rows(n, labels, t->logit, g + logits_bias_at(t));
    for (size_t i = 0; i < n * d; i++)
        t->d_hidden[i] *= 1 - t->hidden[i] * t->hidden[i];
    products_run(&t->products, &first, 1);
    sum_rows(n, d, t->d_hidden, g + summary_bias_at(t));
}

/* Adds the gradient of decay / 2 |W|^2, of the matrices alone. */
static void add_decay(txl_head_trainer *t) {
    const float decay = (float)t->how.decay;
    for (size_t i = 0; i < summary_bias_at(t); i++)
        t->gradient[i] += decay * t->weight[i];
    for (size_t i = logits_at(t); i < logits_bias_at(t); i++)
        t->gradient[i] += decay * t->weight[i];
}

double head_gradient(txl_head_trainer *t, const float *rows, const int32_t *labels, size_t n) {
    double nats = 0;
    run_forward(t, rows, n, t->logit);
    for (size_t i = 0; i < n; i++)
        nats += softmax_gradient(t, n, labels[i], t->logit + i * t->n_label);
    run_backward(t, rows, n);
    add_decay(t);
    return nats / (double)n;
}

/* ---- The public functions ----------------------------------------------------------------- */

struct head_update {
    txl_head_trainer *t;
    struct adam adam;
};

static void update_task(void *context, int i, int thread) {
    (void)thread;
    const struct head_update *u = context;
    txl_head_trainer *t = u->t;
    const struct task_range e = task_range_of(t->n_weight, ELEMENT_PIECE, i);
    t->loops->adam(&u->adam, e.end - e.first, t->gradient + e.first, t->weight + e.first,
                   t->moment_1 + e.first, t->moment_2 + e.first);
}

txl_status txl_head_trainer_step(txl_head_trainer *t, const float *rows, const int32_t *labels,
                                 size_t n, double *nats, txl_error *error) {
    if (n < 1 || n > (size_t)t->how.batch)
        return txl_fail(error, TXL_ARGUMENT, "a step of %zu rows is not from 1 to %d", n,
                        t->how.batch);
    for (size_t i = 0; i < n; i++)
        if (labels[i] < 0 || labels[i] >= t->how.n_label)
            return txl_fail(error, TXL_ARGUMENT, "label %d is not from 0 to %d", labels[i],
                            t->how.n_label - 1);
    uint64_t state = subnormals_to_zero();
    *nats = head_gradient(t, rows, labels, n);
    if (isfinite(*nats)) {
        struct head_update u = {.t = t, .adam = adam_of(t->step, t->how.rate, t->how.epsilon)};
        pool_run(t->pool, (int)pieces(t->n_weight, ELEMENT_PIECE), update_task, &u);
        t->step++;
    }
    subnormals_set(state);
    return isfinite(*nats) ? TXL_OK
                           : txl_fail(error, TXL_FORMAT, "the loss of step %llu is no number",
                                      (unsigned long long)t->step);
}

void txl_head_trainer_logits(txl_head_trainer *t, const float *rows, size_t n, float *logits) {
    for (size_t i = 0, m; i < n; i += m) {
        m = smaller((size_t)t->how.batch, n - i);
        run_forward(t, rows + i * t->d, m, logits + i * t->n_label);
    }
}

void txl_head_trainer_keep(txl_head_trainer *t) {
    memcpy(t->kept, t->weight, t->n_weight * sizeof *t->kept);
    t->keeps = true;
}

txl_status txl_head_trainer_write_kept(const txl_head_trainer *t, const txl_model *model,
                                       const char *const *labels, const char *path, int threads,
                                       txl_error *error) {
    const struct sequence_head head = {.n_label = t->how.n_label,
                                       .labels = labels,
                                       .summary = t->kept,
                                       .summary_bias = t->kept + summary_bias_at(t),
                                       .logits = t->kept + logits_at(t),
                                       .logits_bias = t->kept + logits_bias_at(t)};
    if (!t->keeps)
        return txl_fail(error, TXL_ARGUMENT, "%s: no weights were kept", path);
    return model_write_head(model, &head, path, threads, error);
}
