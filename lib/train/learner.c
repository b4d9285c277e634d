/* Dynamic evaluation: a model that learns from each segment after it has scored it (Krause et al.
 * 2019, "Dynamic Evaluation of Transformer Language Models"). */
#include "lib/base/error.h"
#include "lib/base/float_environment.h"
#include "lib/session/session.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a learner keeps in addition to the weights: the first ones; the sums of squared gradients,
 * or Adam's second moments; Adam's first moments. */
enum { FIRST, SQUARES, MOMENT, N_ALL };

struct txl_learner {
    struct training training;
    txl_learning how;
    uint64_t segment; /* the number of the next, from 0, since the last start */
    uint64_t read;    /* tokens of the segments before */
};

/* ---- Opening ------------------------------------------------------------------------------ */

static int extra_of(const txl_learning *how) {
    return how->method == TXL_LEARNING_ADAM ? N_ALL : how->method == TXL_LEARNING_RMS ? 2 : 1;
}

/* Nothing is dropped out, and gradients are not clipped. */
static txl_training training_of(const txl_settings *s) {
    return (txl_training){.batch = 1,
                          .tgt_len = s->tgt_len,
                          .mem_len = s->mem_len,
                          .clamp_len = s->clamp_len,
                          .same_length = s->same_length,
                          .epsilon = 1,
                          .threads = s->threads};
}

static txl_status check_learning(const txl_settings *settings, const txl_learning *how,
                                 txl_error *error) {
    const bool has_epsilon = how->method != TXL_LEARNING_SGD;
    if (CHECK_RESERVED(txl_settings, settings, error) || CHECK_RESERVED(txl_learning, how, error))
        return TXL_ARGUMENT;
    if (settings->memory_type != TXL_MEMORY_F32 || settings->compute != TXL_COMPUTE_F32 ||
        settings->arithmetic != TXL_ARITHMETIC_FAST)
        return txl_fail(error, TXL_ARGUMENT,
                        "a model that learns computes in f32 alone, and not exactly");
    if (how->method < TXL_LEARNING_SGD || how->method > TXL_LEARNING_ADAM)
        return txl_fail(error, TXL_ARGUMENT, "unknown method of learning %d", (int)how->method);
    if (!(how->rate >= 0 && how->rate <= 1e6))
        return txl_fail(error, TXL_ARGUMENT, "a learning rate of %g is not from 0 to 1e6",
                        how->rate);
    if (!(how->decay >= 0 && how->decay <= 1e6) ||
        (how->decay > 0 && how->method != TXL_LEARNING_RMS))
        return txl_fail(error, TXL_ARGUMENT, "a decay of %g is not from 0 to 1e6, and of rms only",
                        how->decay);
    if (has_epsilon && !(how->epsilon >= 1e-30 && how->epsilon <= 1e6))
        return txl_fail(error, TXL_ARGUMENT, "an epsilon of %g is not from 1e-30 to 1e6",
                        how->epsilon);
    return TXL_OK;
}

uint64_t txl_learner_bytes(const txl_model *model, const txl_settings *settings,
                           const txl_learning *how) {
    const txl_training training = training_of(settings);
    return training_bytes(model, &training, extra_of(how));
}

txl_status txl_learner_new(const txl_model *model, const txl_settings *settings,
                           const txl_learning *how, txl_learner **learner, txl_error *error) {
    const txl_training training = training_of(settings);
    txl_status status = check_learning(settings, how, error);
    if (!status)
        status = training_check(model, &training, error);
    if (status)
        return status;
    txl_learner *made = calloc(1, sizeof *made);
    if (!made)
        return txl_fail_memory(error, "learning", sizeof *made);
    made->how = *how;
    struct training *t = &made->training;
    status = training_open(t, model, &training, extra_of(how), error);
    if (status) {
        txl_learner_free(made);
        return status;
    }
    memcpy(t->extra[FIRST], t->weight, t->n_weight * sizeof *t->weight);
    *learner = made;
    return TXL_OK;
}

void txl_learner_free(txl_learner *learner) {
    if (!learner)
        return;
    training_close(&learner->training);
    free(learner);
}

void txl_learner_start(txl_learner *learner) {
    struct training *t = &learner->training;
    memcpy(t->weight, t->extra[FIRST], t->n_weight * sizeof *t->weight);
    for (int i = SQUARES; learner->how.method == TXL_LEARNING_ADAM && i < N_ALL; i++)
        memset(t->extra[i], 0, t->n_parameter * sizeof *t->extra[i]);
    training_forget(t);
    learner->segment = learner->read = 0;
}

void txl_learner_settings(const txl_learner *learner, txl_settings *settings) {
    const txl_training *how = &learner->training.how;
    *settings = (txl_settings){.tgt_len = how->tgt_len,
                               .mem_len = how->mem_len,
                               .clamp_len = how->clamp_len,
                               .same_length = how->same_length,
                               .threads = pool_size(learner->training.pool)};
}

/* ---- Changes of the weights --------------------------------------------------------------- */

struct change {
    txl_learner *learner;
    struct rms rms;
    struct adam adam;
    bool gathers; /* adds up the squares, and leaves the weights as they are */
};

static void change_task(void *context, int i, int thread) {
    (void)thread;
    const struct change *c = context;
    struct training *t = &c->learner->training;
    const struct task_range e = task_range_of(t->n_parameter, ELEMENT_PIECE, i);
    size_t at = e.first, n = e.end - e.first;
    const float *g = t->gradient + at;
    if (c->gathers)
        t->loops->add_squares(n, g, t->extra[SQUARES] + at);
    else if (c->learner->how.method == TXL_LEARNING_SGD)
        t->loops->descend(n, c->rms.rate, g, t->weight + at);
    else if (c->learner->how.method == TXL_LEARNING_RMS)
        t->loops->rms(&c->rms, n, g, t->extra[FIRST] + at, t->extra[SQUARES] + at, t->weight + at);
    else
        t->loops->adam(&c->adam, n, g, t->weight + at, t->extra[MOMENT] + at,
                       t->extra[SQUARES] + at);
}

static void run_change(struct change *c) {
    struct training *t = &c->learner->training;
    pool_run(t->pool, (int)pieces(t->n_parameter, ELEMENT_PIECE), change_task, c);
}

static void learn_segment(txl_learner *learner) {
    const txl_learning *how = &learner->how;
    struct change c = {.learner = learner,
                       .rms = {(float)how->rate, (float)how->decay, (float)how->epsilon},
                       .adam = adam_of(learner->segment, how->rate, how->epsilon)};
    run_change(&c);
}

/* ---- Segments ----------------------------------------------------------------------------- */

static txl_status set_segment(txl_learner *learner, const int32_t *ids, size_t n,
                              const int32_t *targets, txl_error *error) {
    struct training *t = &learner->training;
    int32_t n_token = txl_model_n_token(t->model);
    if (n < 1 || n > (size_t)t->how.tgt_len)
        return txl_fail(error, TXL_ARGUMENT, "a segment of %zu tokens is not of 1 to %d", n,
                        t->how.tgt_len);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= n_token || targets[i] < 0 || targets[i] >= n_token)
            return txl_fail(error, TXL_ARGUMENT, "id %d is not from 0 to %d",
                            ids[i] < 0 || ids[i] >= n_token ? ids[i] : targets[i], n_token - 1);
    training_set_length(t, 0, n);
    memcpy(t->ids, ids, n * sizeof *ids);
    memcpy(t->target, targets, n * sizeof *targets);
    return TXL_OK;
}

/* Goes on after the segment. */
static void next_segment(txl_learner *learner) {
    training_advance(&learner->training);
    learner->segment++;
    learner->read += learner->training.length;
}

static txl_status score_or_gather(txl_learner *learner, bool gathers, float *nats, float *logprob,
                                  txl_error *error) {
    struct training *t = &learner->training;
    const txl_learning *how = &learner->how;
    training_forward(t, 0);
    if (logprob)
        train_distributions(t, logprob);
    training_score(t);
    for (size_t i = 0; i < t->n_target; i++)
        if (!isfinite(t->nats[i]))
            return txl_fail(error, TXL_FORMAT,
                            "segment %llu, learning rate %g: the scores are no numbers; a smaller "
                            "rate may help",
                            (unsigned long long)learner->segment, how->rate);
    if (nats)
        memcpy(nats, t->nats, t->n_target * sizeof *nats);
    if (gathers || how->rate > 0)
        training_backward(t);
    if (gathers)
        run_change(&(struct change){.learner = learner, .gathers = true});
    else if (how->rate > 0)
        learn_segment(learner);
    next_segment(learner);
    return TXL_OK;
}

/* Like a trainer's step, without subnormal numbers. */
static txl_status score_segment(txl_learner *learner, const int32_t *ids, size_t n,
                                const int32_t *targets, bool gathers, float *nats, float *logprob,
                                txl_error *error) {
    uint64_t state = subnormals_to_zero();
    txl_status status = set_segment(learner, ids, n, targets, error);
    if (!status)
        status = score_or_gather(learner, gathers, nats, logprob, error);
    subnormals_set(state);
    return status;
}

txl_status txl_learner_score(txl_learner *learner, const int32_t *ids, size_t n,
                             const int32_t *targets, float *nats, float *logprob,
                             txl_error *error) {
    return score_segment(learner, ids, n, targets, false, nats, logprob, error);
}

txl_status txl_learner_gather(txl_learner *learner, const int32_t *ids, size_t n,
                              const int32_t *targets, txl_error *error) {
    if (learner->how.method != TXL_LEARNING_RMS)
        return txl_fail(error, TXL_ARGUMENT, "only rms has statistics");
    return score_segment(learner, ids, n, targets, true, NULL, NULL, error);
}

txl_status txl_learner_set_squares(txl_learner *learner, const char *name, uint64_t first,
                                   const float *squares, size_t n, txl_error *error) {
    struct training *t = &learner->training;
    const struct weights_tensor *tensor = weights_find(t->model->weights, name);
    if (learner->how.method != TXL_LEARNING_RMS)
        return txl_fail(error, TXL_ARGUMENT, "only rms has statistics");
    if (!tensor || first > tensor->n_element || n > tensor->n_element - first)
        return txl_fail(error, TXL_ARGUMENT, "the model has no tensor %s with so many elements",
                        name);
    for (size_t i = 0; i < n; i++)
        if (!(squares[i] >= 0 && isfinite(squares[i])))
            return txl_fail(error, TXL_FORMAT,
                            "the moment of element %llu of %s is %g, which no square is",
                            (unsigned long long)(first + i), name, (double)squares[i]);
    size_t at = (size_t)((const float *)tensor->raw - t->weight);
    if (at < t->n_parameter)
        memcpy(t->extra[SQUARES] + at + first, squares, n * sizeof *squares);
    return TXL_OK;
}

/* ---- What became of the model ------------------------------------------------------------- */

double txl_learner_drift(const txl_learner *learner) {
    const struct training *t = &learner->training;
    double sum = 0;
    for (size_t i = 0; i < t->n_parameter; i++) {
        double moved = (double)t->weight[i] - (double)t->extra[FIRST][i];
        sum += moved * moved;
    }
    return sqrt(sum);
}

const txl_model *txl_learner_model(txl_learner *learner) {
    return training_model(&learner->training);
}

txl_status txl_learner_session(txl_learner *learner, txl_session **session, txl_error *error) {
    struct training *t = &learner->training;
    txl_settings settings;
    txl_session *made;
    txl_learner_settings(learner, &settings);
    txl_status status = txl_session_new(txl_learner_model(learner), &settings, &made, error);
    if (status)
        return status;
    uint64_t state = subnormals_to_zero();
    for (int l = 0; l < t->net->n_layer; l++)
        train_project_memory(t, l);
    subnormals_set(state);
    session_begin_behind(made, learner->read);
    uint64_t first = made->timeline->next - t->memory_length;
    size_t width = t->net->network.row_width;
    for (int l = 0; l < t->net->n_layer; l++)
        for (size_t i = 0; i < t->memory_length; i++)
            t->model->family->import_row(made->timeline, l, first + i,
                                         t->layer[l].memory_kv + i * width);
    *session = made;
    return TXL_OK;
}
