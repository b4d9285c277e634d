/* Training on a text: a step from the text to the update.
 *
 * The procedure is that of the published training code (train.py of kimiyoung/transformer-xl),
 * except for its warm-up.  The text is cut into streams; a step takes the next segment of each; the
 * loss is the mean over all its tokens. */
#include "lib/base/error.h"
#include "lib/base/float_environment.h"
#include "lib/base/limits.h"
#include "lib/base/memory.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- Opening ------------------------------------------------------------------------------ */

uint64_t txl_trainer_bytes(const txl_model *model, const txl_training *how) {
    return training_bytes(model, how, N_EXTRA);
}

static txl_status open_trainer(txl_trainer *t, const txl_model *model, const txl_ids *ids,
                               const txl_training *how, txl_error *error) {
    size_t streams = (size_t)how->batch;
    t->ids_read = ids;
    t->stream = txl_ids_count(ids) / streams;
    if (t->stream < (size_t)how->tgt_len + 1)
        return txl_fail(
            error, TXL_ARGUMENT,
            "the text's %zu tokens are too few for one step of %zu streams of %d tokens",
            txl_ids_count(ids), streams, how->tgt_len);
    return training_open(&t->training, model, how, N_EXTRA, error);
}

txl_status txl_trainer_new(const txl_model *model, const txl_ids *ids, const txl_training *how,
                           txl_trainer **trainer, txl_error *error) {
    txl_status status = training_check(model, how, error);
    if (status)
        return status;
    txl_trainer *t = calloc(1, sizeof *t);
    if (!t)
        return txl_fail_memory(error, "training", sizeof *t);
    status = open_trainer(t, model, ids, how, error);
    if (status) {
        txl_trainer_free(t);
        return status;
    }
    *trainer = t;
    return TXL_OK;
}

void txl_trainer_free(txl_trainer *t) {
    if (!t)
        return;
    training_close(&t->training);
    free(t);
}

const txl_model *txl_trainer_model(txl_trainer *t) {
    return training_model(&t->training);
}

void txl_trainer_keep(txl_trainer *trainer) {
    struct training *t = &trainer->training;
    training_model(t);
    memcpy(t->extra[KEPT], t->weight, t->n_weight * sizeof *t->weight);
    trainer->keeps = true;
}

/* The model's tensors point to the weights, so the kept ones take their places for a while. */
static void exchange_kept(struct training *t) {
    for (size_t i = 0; i < t->n_weight; i++) {
        float weight = t->weight[i];
        t->weight[i] = t->extra[KEPT][i];
        t->extra[KEPT][i] = weight;
    }
}

txl_status txl_trainer_write_kept(txl_trainer *trainer, const char *path, const char *type,
                                  int threads, txl_error *error) {
    struct training *t = &trainer->training;
    if (!trainer->keeps)
        return txl_fail(error, TXL_ARGUMENT, "%s: no weights were kept", path);
    exchange_kept(t);
    txl_status status = txl_model_write(t->model, path, type, threads, error);
    exchange_kept(t);
    return status;
}

uint64_t txl_trainer_epoch_steps(const txl_trainer *t) {
    size_t tgt_len = (size_t)t->training.how.tgt_len;
    return (t->stream - 1 + tgt_len - 1) / tgt_len;
}

int txl_trainer_threads(const txl_trainer *t) {
    return pool_size(t->training.pool);
}

double txl_schedule_rate(const txl_schedule *s, uint64_t step, double share) {
    if (step < s->warmup)
        return s->lr * (double)(step + 1) / (double)s->warmup;
    return s->lr_min + (s->lr - s->lr_min) * (1 + cos(acos(-1) * share)) / 2;
}

uint64_t txl_trainer_steps(const txl_trainer *t) {
    return t->step;
}

/* ---- A step ------------------------------------------------------------------------------- */

/* Reads the next segment of each stream, up to ext_len tokens of which were read before; at the
 * text's end a new epoch begins. */
static void next_segment(txl_trainer *trainer) {
    struct training *t = &trainer->training;
    uint64_t forget_every = (uint64_t)t->how.forget_every;
    if (trainer->at >= trainer->stream - 1) {
        trainer->at = 0;
        trainer->epoch++;
        training_forget(t);
    } else if (forget_every > 0 && trainer->step % forget_every == 0) {
        training_forget(t);
    }
    size_t length = smaller(trainer->stream - 1 - trainer->at, (size_t)t->how.tgt_len);
    size_t before = smaller(trainer->at, (size_t)t->how.ext_len);
    training_set_length(t, before, length);
    for (size_t b = 0; b < t->batch; b++) {
        size_t first = (t->first_stream + b) * trainer->stream + trainer->at;
        txl_ids_get(trainer->ids_read, first - before, t->length, t->ids + b * t->length);
        txl_ids_get(trainer->ids_read, first + 1, length, t->target + b * length);
    }
}

static void squares_task(void *context, int i, int thread) {
    (void)thread;
    struct training *t = context;
    const struct task_range e = task_range_of(t->n_parameter, ELEMENT_PIECE, i);
    t->norm_partial[i] = t->loops->squares(e.end - e.first, t->gradient + e.first);
}

static double gradient_norm(struct training *t) {
    size_t n = pieces(t->n_parameter, ELEMENT_PIECE);
    double sum = 0;
    pool_run(t->pool, (int)n, squares_task, t);
    for (size_t i = 0; i < n; i++)
        sum += t->norm_partial[i];
    return sqrt(sum);
}

struct update {
    struct training *t;
    struct adam adam;
};

static void update_task(void *context, int i, int thread) {
    (void)thread;
    const struct update *u = context;
    struct training *t = u->t;
    const struct task_range e = task_range_of(t->n_adam, ELEMENT_PIECE, i);
    t->loops->adam(&u->adam, e.end - e.first, t->gradient + e.first, t->weight + e.first,
                   t->extra[MOMENT_1] + e.first, t->extra[MOMENT_2] + e.first);
}

struct adam adam_of(uint64_t step, double rate, double epsilon) {
    const double beta_1 = 0.9, beta_2 = 0.999, count = (double)step + 1;
    return (struct adam){.clip = 1,
                         .beta_1 = (float)beta_1,
                         .beta_2 = (float)beta_2,
                         .gain_1 = (float)(1 - beta_1),
                         .gain_2 = (float)(1 - beta_2),
                         .rate = (float)(rate / (1 - pow(beta_1, count))),
                         .correction = (float)(1 / sqrt(1 - pow(beta_2, count))),
                         .epsilon = (float)epsilon};
}

/* Adam and Muon, with the gradients clipped to a global norm. */
static void update_weights(struct training *t, uint64_t step, double rate, double norm) {
    double clip = t->how.clip / (norm + 1e-6);
    struct update u = {.t = t, .adam = adam_of(step, rate, t->how.epsilon)};
    if (t->how.clip > 0 && clip < 1)
        u.adam.clip = (float)clip;
    pool_run(t->pool, (int)pieces(t->n_adam, ELEMENT_PIECE), update_task, &u);
    if (t->how.muon > 0)
        muon_step(t, rate * t->how.muon, u.adam.clip);
}

static const char SUM_FAILED[] = "the sum over all processes failed";

txl_status train_sum(const struct training *t, float *x, size_t n, txl_error *error) {
    const txl_peers *peers = t->how.peers;
    txl_before_callback(error);
    return txl_after_callback(error, peers->sum(peers->context, x, n, error), SUM_FAILED);
}

txl_status train_sum_double(const struct training *t, double *x, txl_error *error) {
    const txl_peers *peers = t->how.peers;
    txl_before_callback(error);
    return txl_after_callback(error, peers->sum_doubles(peers->context, x, 1, error), SUM_FAILED);
}

/* Adds up the gradients and the nats over all processes. */
static txl_status sum_up(struct training *t, double *nats, txl_error *error) {
    if (!t->how.peers)
        return TXL_OK;
    txl_status status = train_sum(t, t->gradient, t->n_parameter, error);
    return status ? status : train_sum_double(t, nats, error);
}

static txl_status take_step(txl_trainer *trainer, double rate, txl_step *step, txl_error *error) {
    struct training *t = &trainer->training;
    next_segment(trainer);
    training_forward(t, trainer->step);
    double sum = training_score(t);
    training_backward(t);
    txl_status status = sum_up(t, &sum, error);
    if (status)
        return status;
    *step = (txl_step){.loss = sum / (double)t->n_all, .tokens = t->n_all, .epoch = trainer->epoch};
    step->grad_norm = gradient_norm(t);
    if (!isfinite(step->loss) || !isfinite(step->grad_norm))
        return txl_fail(error, TXL_FORMAT, "step %llu: the loss is %g and the gradients' norm %g",
                        (unsigned long long)trainer->step, step->loss, step->grad_norm);
    update_weights(t, trainer->step, rate, step->grad_norm);
    training_advance(t);
    trainer->at += t->n_target / t->batch;
    trainer->step++;
    return TXL_OK;
}

/* A model that knows its text has many subnormal probabilities and gradients. */
txl_status txl_trainer_step(txl_trainer *t, double rate, txl_step *step, txl_error *error) {
    uint64_t state = subnormals_to_zero();
    txl_status status = take_step(t, rate, step, error);
    subnormals_set(state);
    return status;
}

/* ---- Costs -------------------------------------------------------------------------------- */

/* What training takes for one token: an addition and a multiplication each
 *
 *     for a segment's row three times for each weight of the layers' matrices and the softmax's
 *     head: the row forward, its gradient, and the weight's; an embedding's projection likewise
 *     for a row of memory twice through W_k and W_v, and for a position row twice through W_r,
 *     where there is one: nothing flows into them
 *     in attention three times for each of its three products, two without distances, over the
 *     visible positions alone
 *
 * with the memory full.  A step has tgt_len tokens, ext_len rows more and mem_len rows of memory
 * for each stream, and the position rows of one.  The rest is small, and linear in these. */

static double visible_positions(const struct transformer_xl *net, const txl_training *how) {
    if (how->same_length && how->mem_len > 0)
        return how->mem_len + net->network.same_length_more;
    return how->mem_len + (how->ext_len + how->tgt_len + 1) / 2.0;
}

uint64_t txl_trainer_flops(const txl_model *model, const txl_training *how) {
    if (model->family->number != TXL_FAMILY_TRANSFORMER_XL)
        return 0;
    const struct transformer_xl *net = (const struct transformer_xl *)model->network;
    double d = net->d_model, width = (double)head_width(net);
    double tokens = (double)how->batch * how->tgt_len;
    double memory = (double)how->batch * how->mem_len / tokens;
    double positions = ((double)how->mem_len + how->ext_len + how->tgt_len) / tokens;
    double rows = ((double)how->ext_len + how->tgt_len) / how->tgt_len;
    double products = attention_is_relative(net->attn_type) ? 3 : 2;
    if (net->attn_type != ATTENTION_RELATIVE)
        positions = 0;
    uint64_t unused = 0, head = 0;
    bands_costs(&net->network.bands, &unused, &head);
    double segment = 4 * d * width + 2 * d * net->d_inner;
    double layer = 3 * rows * segment + 2 * (memory * 2 * d * width + positions * d * width) +
                   3 * rows * products * visible_positions(net, how) * width;
    return (uint64_t)(2 * (net->n_layer * layer + 3 * (double)head));
}

/* ---- A text's ids ------------------------------------------------------------------------- */

/* In two bytes each if the vocabulary allows. */

struct txl_ids {
    int32_t n_token;
    size_t width; /* bytes of an id */
    struct buffer buffer;
};

txl_status txl_ids_new(int32_t n_token, txl_ids **ids, txl_error *error) {
    if (n_token < 1 || n_token > MAX_N_TOKEN)
        return txl_fail(error, TXL_ARGUMENT, "a vocabulary of %d symbols", n_token);
    txl_ids *made = calloc(1, sizeof *made);
    if (!made)
        return txl_fail_memory(error, "ids", sizeof *made);
    made->n_token = n_token;
    made->width = n_token <= 1 << 16 ? sizeof(uint16_t) : sizeof(int32_t);
    *ids = made;
    return TXL_OK;
}

txl_status txl_ids_add(txl_ids *ids, const int32_t *add, size_t n, txl_error *error) {
    for (size_t i = 0; i < n; i++)
        if (add[i] < 0 || add[i] >= ids->n_token)
            return txl_fail(error, TXL_ARGUMENT, "id %d is not below %d", add[i], ids->n_token);
    if (n > SIZE_MAX / ids->width || !buffer_reserve(&ids->buffer, n * ids->width))
        return txl_fail_memory(error, "the text's ids", ids->buffer.length);
    for (size_t i = 0; i < n; i++) {
        uint16_t narrow = (uint16_t)add[i];
        const void *id = ids->width == sizeof narrow ? (const void *)&narrow : &add[i];
        memcpy(ids->buffer.data + ids->buffer.length, id, ids->width);
        ids->buffer.length += ids->width;
    }
    return TXL_OK;
}

size_t txl_ids_count(const txl_ids *ids) {
    return ids->buffer.length / ids->width;
}

void txl_ids_get(const txl_ids *ids, size_t first, size_t n, int32_t *out) {
    const char *from = ids->buffer.data + first * ids->width;
    for (size_t i = 0; i < n; i++, from += ids->width) {
        uint16_t narrow;
        if (ids->width == sizeof narrow) {
            memcpy(&narrow, from, sizeof narrow);
            out[i] = narrow;
        } else {
            memcpy(&out[i], from, sizeof out[i]);
        }
    }
}

uint64_t txl_ids_checksum(const txl_ids *ids) {
    return XXH3_64bits(ids->buffer.data, ids->buffer.length);
}

void txl_ids_free(txl_ids *ids) {
    if (!ids)
        return;
    buffer_free(&ids->buffer);
    free(ids);
}
