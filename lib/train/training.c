/* Opening a training, and a segment forward and backward.
 *
 * The network is that of the published training code (mem_transformer.py of kimiyoung/
 * transformer-xl): the memory holds the layers' inputs, which are projected with the current
 * weights; no gradient flows into it. */
#include "training.h"
#include "lib/base/error.h"
#include "lib/base/float_environment.h"
#include "lib/base/memory.h"
#include "lib/transformer_xl/positions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Opening ------------------------------------------------------------------------------ */

/* The network, or NULL if the model is of another family. */
static const struct transformer_xl *trainable(const txl_model *model) {
    bool is_one = model->family->number == TXL_FAMILY_TRANSFORMER_XL;
    return is_one ? (const struct transformer_xl *)model->network : NULL;
}

txl_status training_check(const txl_model *model, const txl_training *how, txl_error *error) {
    const struct transformer_xl *net = trainable(model);
    if (!net)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: only a Transformer-XL can be trained, not the family %s",
                        model->weights->name, model->family->name);
    const struct {
        const char *name;
        double value, low, high;
    } range[] = {
        {"batch", how->batch, 1, 1 << 20},
        {"tgt_len", how->tgt_len, 1, TXL_MAX_TGT_LEN},
        {"mem_len", how->mem_len, 0, TXL_MAX_MEM_LEN},
        {"clip", how->clip, 0, INFINITY},
        {"epsilon", how->epsilon, 1e-30, 1}, /* with 0 a zero gradient would be divided by 0 */
        {"dropout", how->dropout, 0, 0.99},
        {"dropatt", how->dropatt, 0, 0.99},
        {"forget_every", how->forget_every, 0, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++) {
        if (!(range[i].value >= range[i].low && range[i].value <= range[i].high))
            return txl_fail(error, TXL_ARGUMENT, "%s %g is not from %g to %g", range[i].name,
                            range[i].value, range[i].low, range[i].high);
    }
    if (how->name && !setting_is_name(how->name))
        return txl_fail(error, TXL_ARGUMENT, "a model's name is " SETTING_NAME_RULE);
    if (CHECK_RESERVED(txl_training, how, error) ||
        (how->peers && CHECK_RESERVED(txl_peers, how->peers, error)))
        return TXL_ARGUMENT;
    if (how->peers && how->batch < how->peers->n)
        return txl_fail(error, TXL_ARGUMENT, "a batch of %d streams is too small for %d processes",
                        how->batch, how->peers->n);
    if (net->attn_type != ATTENTION_RELATIVE)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: attn_type %d cannot be trained, only 0 (relative positions)",
                        model->weights->name, (int)net->attn_type);
    if (txl_model_n_token(model) < 2)
        return txl_fail(error, TXL_ARGUMENT, "a vocabulary of one symbol leaves nothing to learn");
    return TXL_OK;
}

/* How many of `streams` belong to processes before `rank`. */
static size_t streams_before(size_t streams, const txl_peers *peers, int rank) {
    return streams * (size_t)rank / (size_t)peers->n;
}

/* Sets what lay_out needs. */
static void describe_training(struct training *t, const txl_model *model, const txl_training *how,
                              int n_beside) {
    const txl_peers *peers = how->peers;
    t->how = *how;
    t->n_beside = n_beside;
    t->streams = (size_t)how->batch;
    if (peers) {
        t->first_stream = streams_before(t->streams, peers, peers->rank);
        t->how.batch = (int)(streams_before(t->streams, peers, peers->rank + 1) - t->first_stream);
    }
    t->products.packed = t->how.bf16 ? model->kernels.bf16_product : model->kernels.f32_product;
    training_set_network(t, model);
    training_count_weights(t, model);
}

uint64_t training_bytes(const txl_model *model, const txl_training *how, int n_beside) {
    struct training t = {0};
    if (!trainable(model))
        return 0;
    describe_training(&t, model, how, n_beside);
    struct arena arena = {0};
    training_lay_out(&t, how->threads > 0 ? how->threads : pool_processors(), &arena);
    return arena.used;
}

static struct dropout make_dropout(double p, uint64_t seed) {
    struct dropout dropout = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}};
    dropout.threshold = (uint32_t)lrint(p * 65536);
    dropout.scale = (float)(65536 / (65536 - (double)dropout.threshold));
    return dropout;
}

void training_forget(struct training *t) {
    size_t size = (size_t)t->how.batch * (size_t)t->how.mem_len * (size_t)t->net->d_model;
    t->memory_length = t->net->network.zero_memory ? (size_t)t->how.mem_len : 0;
    for (int l = 0; l < t->net->n_layer; l++)
        memset(t->layer[l].memory, 0, size * sizeof(float));
}

void train_positions(struct training *t) {
    size_t keys = (size_t)t->how.mem_len + (size_t)t->how.tgt_len;
    position_sines(t->net->inv_freq, (size_t)t->net->d_model, t->how.clamp_len, keys - 1, -1, keys,
                   t->sines);
}

txl_status training_open(struct training *t, const txl_model *model, const txl_training *how,
                         int n_beside, txl_error *error) {
    *t = (struct training){0};
    describe_training(t, model, how, n_beside);
    t->loops = model->kernels.loops;
    uint64_t state = subnormals_to_zero(); /* the pool's threads inherit it */
    t->pool = pool_new(t->how.threads);
    subnormals_set(state);
    if (!t->pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    t->products.pool = t->pool;
    struct arena planned = {0};
    training_lay_out(t, pool_size(t->pool), &planned);
    txl_status status = arena_open(&t->arena, planned.used, "training", error);
    if (status)
        return status;
    training_lay_out(t, pool_size(t->pool), &t->arena);
    status = training_open_model(t, model, error);
    if (status)
        return status;
    t->batch = (size_t)t->how.batch;
    t->dropout = make_dropout(t->how.dropout, t->how.seed);
    t->dropatt = make_dropout(t->how.dropatt, t->how.seed);
    train_positions(t);
    for (int l = 0; l < t->net->n_layer; l++)
        t->layer[l].input = l == 0 ? t->embedding : t->layer[l - 1].output;
    if (!t->hidden)
        t->hidden = t->layer[t->net->n_layer - 1].output;
    training_forget(t);
    return TXL_OK;
}

void training_close(struct training *t) {
    txl_model_close(t->model);
    arena_close(&t->arena);
    free(t->vocabulary);
    pool_free(t->pool);
}

/* ---- A segment ---------------------------------------------------------------------------- */

void training_set_length(struct training *t, size_t length) {
    t->length = length;
    t->n = t->batch * length;
    t->n_all = t->streams * length;
}

static void clear_task(void *context, int i, int thread) {
    (void)thread;
    struct training *t = context;
    const struct weights_tensor *tensor = &t->model->weights->tensor[i];
    /* Gradients of layers' matrices are overwritten; all others are added to, from zero. */
    if (training_is_trained(t, tensor->name) &&
        !parameter_is_layer_matrix(t->model->family->parameters, tensor->name))
        memset(gradient_of(t, tensor->raw), 0, (size_t)tensor->n_element * sizeof(float));
}

/* Dropout of rows: into a copy (of the position rows or the last layer's output), or in place (of a
 * gradient). */
struct dropped {
    struct training *t;
    size_t n;
    const float *from;
    float *to;
    enum dropout_place place;
};

static void drop_task(void *context, int i, int thread) {
    (void)thread;
    const struct dropped *s = context;
    struct training *t = s->t;
    size_t d = (size_t)t->net->d_model;
    const struct task_range rows = task_range_of(s->n, ROW_PIECE, i);
    for (size_t r = rows.first; r < rows.end; r++) {
        if (s->from != s->to)
            memcpy(s->to + r * d, s->from + r * d, d * sizeof *s->to);
        uint32_t row = s->place == DROP_POSITIONS ? (uint32_t)r : dropout_row(t, r);
        t->loops->drop(&t->dropout, s->place, row, 0, d, s->to + r * d);
    }
}

static void drop_rows(struct training *t, enum dropout_place place, size_t n, const float *from,
                      float *to) {
    struct dropped s = {.t = t, .n = n, .from = from, .to = to, .place = place};
    if (t->dropout.threshold > 0)
        pool_run(t->pool, (int)pieces(n, ROW_PIECE), drop_task, &s);
}

void training_forward(struct training *t, uint64_t step) {
    size_t keys = (size_t)t->how.mem_len + (size_t)t->how.tgt_len;
    t->dropout.step = t->dropatt.step = (uint32_t)step;
    pool_run(t->pool, (int)t->model->weights->n_tensor, clear_task, t);
    drop_rows(t, DROP_POSITIONS, keys, t->sines, t->dropped_sines);
    train_embed(t);
    for (int l = 0; l < t->net->n_layer; l++)
        train_layer(t, l);
    drop_rows(t, DROP_LAST, t->n, t->layer[t->net->n_layer - 1].output, t->hidden);
}

void training_backward(struct training *t) {
    drop_rows(t, DROP_LAST, t->n, t->d_a, t->d_a);
    for (int l = t->net->n_layer - 1; l >= 0; l--)
        train_layer_gradient(t, l);
    train_embed_gradient(t, t->d_a);
}

double training_score(struct training *t) {
    double sum = 0;
    train_softmax(t, t->d_a);
    for (size_t i = 0; i < t->n; i++)
        sum += t->nats[i];
    return sum;
}

/* Makes the last mem_len rows of memory and segment the memory, in place.  The rows of a stream may
 * become more, so the last stream moves first. */
void training_advance(struct training *t) {
    size_t d = (size_t)t->net->d_model, mem_len = (size_t)t->how.mem_len, m = t->memory_length;
    size_t all = m + t->length, rows = all < mem_len ? all : mem_len;
    size_t new_rows = t->length < rows ? t->length : rows, kept = rows - new_rows;
    for (int l = 0; l < t->net->n_layer; l++) {
        struct trained_layer *layer = &t->layer[l];
        for (size_t b = t->batch; b-- > 0;) {
            float *to = layer->memory + b * rows * d;
            memmove(to, layer->memory + (b * m + m - kept) * d, kept * d * sizeof *to);
            memcpy(to + kept * d, layer->input + ((b + 1) * t->length - new_rows) * d,
                   new_rows * d * sizeof *to);
        }
    }
    t->memory_length = rows;
}
