/* Opening a training, and a segment forward and backward.
 *
 * The network is that of the published training code (mem_transformer.py of kimiyoung/
 * transformer-xl): the memory holds the layers' inputs, which are projected with the current
 * weights; no gradient flows into it. */
#include "training.h"
#include "lib/base/error.h"
#include "lib/base/float_environment.h"
#include "lib/base/json_memory.h"
#include "lib/base/memory.h"
#include "lib/transformer_xl/positions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The model that is trained ------------------------------------------------------------ */

/* A copy of another's weights in f32, in the training's memory. */

static uint64_t padded(uint64_t n) {
    return (n + 15) / 16 * 16;
}

/* Finds the bands whose softmax projection is the embedding's, which then is the one to train. */
static void find_tied_projections(struct training *t, const txl_model *model) {
    const json_t *tied = json_object_get(model->json, "tied_projections");
    for (int i = 0; i < model->network->bands.n_band; i++)
        t->tied_projection[i] = json_is_true(json_array_get(tied, (size_t)i)) &&
                                model->network->bands.band[i].embedding_projection.n_row > 0;
}

static bool is_trained(const struct training *t, const char *name) {
    int band, end = 0;
    if (strcmp(name, "position.inv_freq") == 0)
        return false;
    if (sscanf(name, "softmax.%d.projection%n", &band, &end) == 1 && end > 0 && !name[end])
        return band < 0 || band >= MAX_BAND || !t->tied_projection[band];
    return true;
}

/* Whether the tensor is a matrix of a layer that rows are multiplied with. */
static bool is_multiplied(const txl_model *model, const char *name) {
    const struct parameter *p = parameter_find(model->family->parameters, name);
    return p && p->scope == PARAMETER_LAYER && p->kind == PARAMETER_MATRIX;
}

/* Whether Muon moves a tensor that is trained. */
static bool is_for_muon(const struct training *t, const txl_model *model, const char *name) {
    return t->how.muon > 0 && is_multiplied(model, name);
}

/* Finds out which tensors are trained, and counts their numbers. */
static void count_weights(struct training *t, const txl_model *model) {
    const struct weights *w = model->weights;
    find_tied_projections(t, model);
    t->n_weight = t->n_parameter = t->n_adam = 0;
    for (size_t i = 0; i < w->n_tensor; i++) {
        uint64_t n = padded(w->tensor[i].n_element);
        bool trained = is_trained(t, w->tensor[i].name);
        t->n_weight += n;
        t->n_parameter += trained ? n : 0;
        t->n_adam += trained && !is_for_muon(t, model, w->tensor[i].name) ? n : 0;
    }
}

static void widen_tensor(const txl_model *model, size_t i, float *out) {
    const struct matrix matrix = tensors_at(&model->tensors, i);
    matrix_widen(&model->kernels, &matrix, 0, matrix.n_row, out);
}

static int compare_names(const void *a, const void *b) {
    const struct weights_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Gives the tensors of `w` their places, in an order that does not depend on the file: so a state
 * fits a new model of the same shape. */
static txl_status place_tensors(struct training *t, const txl_model *model, struct weights *w,
                                txl_error *error) {
    float *adam = t->weight, *muon = t->weight + t->n_adam, *rest = t->weight + t->n_parameter;
    struct weights_tensor **order = calloc(w->n_tensor + 1, sizeof *order);
    if (!order)
        return txl_fail_memory(error, "the tensors", w->n_tensor * sizeof *order);
    for (size_t i = 0; i < w->n_tensor; i++)
        order[i] = &w->tensor[i];
    qsort(order, w->n_tensor, sizeof *order, compare_names);
    for (size_t i = 0; i < w->n_tensor; i++) {
        float **next = !is_trained(t, order[i]->name)          ? &rest
                       : is_for_muon(t, model, order[i]->name) ? &muon
                                                               : &adam;
        order[i]->raw = *next;
        *next += padded(order[i]->n_element);
    }
    free(order);
    return TXL_OK;
}

/* Copies the tensors to their places in the trainer, and lists those places in `w`. */
static txl_status copy_tensors(struct training *t, const txl_model *model, struct weights *w,
                               txl_error *error) {
    const struct weights *from = model->weights;
    w->tensor = calloc(from->n_tensor + 1, sizeof *w->tensor);
    if (!w->tensor)
        return txl_fail_memory(error, "the tensors", from->n_tensor * sizeof *w->tensor);
    for (size_t i = 0; i < from->n_tensor; i++) {
        struct weights_tensor *tensor = &w->tensor[i];
        if (!model->tensors.element[i])
            return txl_fail(error, TXL_ARGUMENT, "%s: a model opened compressed is not trained",
                            from->name);
        *tensor = from->tensor[i];
        tensor->name = strdup(from->tensor[i].name);
        w->n_tensor++;
        if (!tensor->name)
            return txl_fail_memory(error, "a tensor's name", strlen(from->tensor[i].name));
        tensor->type = WEIGHTS_F32;
        tensor->size = tensor->stored = tensor->n_element * sizeof(float);
        tensor->first_block = tensor->n_block = 0;
    }
    txl_status status = place_tensors(t, model, w, error);
    for (size_t i = 0; i < w->n_tensor && !status; i++)
        widen_tensor(model, i, (float *)w->tensor[i].raw);
    return status;
}

/* The model's settings with the lengths of the training. */
static char *make_settings(const struct training *t, const txl_model *model) {
    json_t *settings = json_copy_object(model->json);
    char *text = NULL;
    if (settings)
        json_object_del(settings, "name"); /* of another model */
    if (settings &&
        (!t->how.name || json_object_set_new(settings, "name", json_string(t->how.name)) == 0) &&
        json_object_set_new(settings, "tgt_len", json_integer(t->how.tgt_len)) == 0 &&
        json_object_set_new(settings, "mem_len", json_integer(t->how.mem_len)) == 0 &&
        json_object_set_new(settings, "clamp_len",
                            json_integer(t->how.clamp_len > 0 ? t->how.clamp_len : -1)) == 0 &&
        json_object_set_new(settings, "same_length", json_boolean(t->how.same_length)) == 0 &&
        json_object_set_new(settings, "type", json_string("f32")) == 0)
        text = json_text(settings, JSON_INDENT(1));
    json_decref(settings);
    return text;
}

/* Takes the model's dimensions from its network. */
static void set_network(struct training *t, const txl_model *model) {
    t->net = (const struct transformer_xl *)model->network;
    t->bands = &t->net->network.bands;
}

/* Makes t->model, a model whose tensors lie in the training's memory. */
static txl_status open_model(struct training *t, const txl_model *model, txl_error *error) {
    struct weights *w = calloc(1, sizeof *w);
    if (!w)
        return txl_fail_memory(error, "the model", sizeof *w);
    txl_status status = copy_tensors(t, model, w, error);
    w->name = strdup("the model in training");
    w->settings = make_settings(t, model);
    t->vocabulary = malloc(model->weights->vocabulary_size + 1);
    if (!status && (!w->name || !w->settings || !t->vocabulary))
        status = txl_fail_memory(error, "the model", model->weights->vocabulary_size);
    if (status) {
        weights_close(w);
        return status;
    }
    memcpy(t->vocabulary, model->weights->vocabulary, model->weights->vocabulary_size);
    w->vocabulary = t->vocabulary;
    w->vocabulary_size = model->weights->vocabulary_size;
    w->checksum = model->weights->checksum;
    status = model_open_weights(w, false, 1, &t->model, error);
    if (!status)
        set_network(t, t->model);
    return status;
}

/* Tied projections are trained in the embedding; writes their transpose to the model's softmax. */
static void transpose_tied(struct training *t) {
    for (int i = 0; i < t->bands->n_band; i++) {
        const struct band *band = &t->bands->band[i];
        const float *from = band->embedding_projection.data;
        float *to = (float *)band->softmax_projection.data;
        size_t rows = band->embedding_projection.n_row, columns = band->embedding_projection.n_col;
        for (size_t r = 0; t->tied_projection[i] && r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                to[c * rows + r] = from[r * columns + c];
    }
}

const txl_model *training_model(struct training *t) {
    transpose_tied(t);
    return t->model;
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* Weights, gradients, activations and scratch, in one allocation. */

static float *take_rows(struct arena *arena, uint64_t rows, uint64_t columns) {
    return arena_take(arena, rows, columns * sizeof(float));
}

static struct normed take_norm(struct arena *arena, uint64_t rows, uint64_t d_model) {
    return (struct normed){take_rows(arena, rows, d_model), take_rows(arena, rows, 1),
                           take_rows(arena, rows, 1)};
}

/* Rows whose logits are computed together: those that fit into 32 MiB, but at least a piece. */
static size_t softmax_rows(const struct training *t, size_t n) {
    size_t rows = ((size_t)8 << 20) / bands_most_entries(t->bands) / ROW_PIECE * ROW_PIECE;
    rows = rows < ROW_PIECE ? ROW_PIECE : rows;
    return rows < n ? rows : n;
}

/* Whether each distance has a bias. */
static bool has_biases(const struct training *t) {
    return t->net->attn_type == ATTENTION_LEARNED_DISTANCE;
}

static void lay_out_layer(struct training *t, struct arena *arena, struct trained_layer *layer,
                          uint64_t n, uint64_t m) {
    const struct transformer_xl *net = t->net;
    uint64_t d = (uint64_t)net->d_model, width = head_width(net);
    uint64_t keys = keys_of(t);
    layer->memory = take_rows(arena, m, d);
    if (net->pre_lnorm) {
        layer->input_norm = take_norm(arena, n, d);
        layer->memory_norm = take_norm(arena, m, d);
    } else {
        layer->norm_2 = take_norm(arena, n, d);
    }
    layer->qkv = take_rows(arena, n, 3 * width);
    layer->memory_kv = take_rows(arena, m, 2 * width);
    layer->positions = attention_is_relative(net->attn_type) ? take_rows(arena, keys, width) : NULL;
    layer->position_bias = has_biases(t) ? take_rows(arena, (uint64_t)net->n_head, keys) : NULL;
    layer->probability = take_rows(arena, n * (uint64_t)net->n_head, keys);
    layer->attended = take_rows(arena, n, width);
    layer->sum_1 = take_rows(arena, n, d);
    layer->norm_1 = take_norm(arena, n, d);
    layer->inner = take_rows(arena, n, (uint64_t)net->d_inner);
    layer->sum_2 = take_rows(arena, n, d);
    layer->output = net->pre_lnorm ? layer->sum_2 : layer->norm_2.out;
}

static void lay_out_work(struct training *t, struct arena *arena, uint64_t n, uint64_t m) {
    const struct transformer_xl *net = t->net;
    uint64_t d = (uint64_t)net->d_model, width = head_width(net),
             d_embed = t->bands->band[0].embedding.n_col;
    uint64_t keys = keys_of(t);
    uint64_t batch = (uint64_t)t->how.batch, rows = n > m ? n : m;
    bool drops = t->how.dropout > 0, sines = !attention_is_learned(net->attn_type);
    bool relative = attention_is_relative(net->attn_type);
    t->ids = arena_take(arena, n, sizeof *t->ids);
    t->target = arena_take(arena, n, sizeof *t->target);
    t->nats = take_rows(arena, n, 1);
    t->member = arena_take(arena, n, sizeof *t->member);
    t->sines = sines ? take_rows(arena, keys, d) : NULL;
    t->dropped_sines = drops && sines && relative ? take_rows(arena, keys, d) : NULL;
    t->embedding = take_rows(arena, n, d);
    t->hidden = drops ? take_rows(arena, n, d) : NULL;
    t->narrow = take_rows(arena, n, d_embed);
    t->d_narrow = take_rows(arena, n, d_embed);
    t->gather = take_rows(arena, t->bands->n_band > 1 ? n : 0, d);
    t->d_gather = take_rows(arena, t->bands->n_band > 1 ? n : 0, d);
    t->softmax_rows = softmax_rows(t, n);
    t->logit = take_rows(arena, t->softmax_rows, bands_most_entries(t->bands));
    t->cluster = take_rows(arena, n, (uint64_t)t->bands->n_band - 1);
    t->output = take_rows(arena, n, d);
    t->d_a = take_rows(arena, n, d);
    t->d_b = take_rows(arena, n, d);
    t->d_c = drops ? take_rows(arena, n, d) : NULL;
    t->d_inner = take_rows(arena, n, (uint64_t)net->d_inner);
    t->d_qkv = take_rows(arena, n, 3 * width);
    t->d_attended = take_rows(arena, n, width);
    t->d_memory_kv = take_rows(arena, m, 2 * width);
    t->d_memory = take_rows(arena, net->pre_lnorm ? m : 0, d);
    t->d_positions = relative ? take_rows(arena, batch * keys, width) : NULL;
    t->d_position = relative ? take_rows(arena, keys, width) : NULL;
    t->d_position_bias =
        has_biases(t) ? take_rows(arena, batch * (uint64_t)net->n_head, keys) : NULL;
    t->d_uv = take_rows(arena, batch, 2 * width);
    t->partial = take_rows(arena, pieces(rows, ROW_PIECE), 3 * d);
    t->norm_partial =
        arena_take(arena, pieces(t->n_parameter, ELEMENT_PIECE), sizeof *t->norm_partial);
}

/* Room for the operands of any products that are computed together: for the gradients of the
 * softmax, of the feed-forward sublayer or of the attention. */
static uint64_t packed_room(const struct training *t, size_t n, size_t m) {
    const struct packed_product *p = t->products.packed;
    const struct transformer_xl *net = t->net;
    size_t d = (size_t)net->d_model, width = head_width(net), inner = (size_t)net->d_inner;
    size_t rows = t->softmax_rows, entries = bands_most_entries(t->bands),
           clusters = (size_t)t->bands->n_band;
    size_t keys = keys_of(t);
    size_t embed = larger(t->bands->band[0].embedding.n_col, d);
    const size_t together[][6][3] = {
        {{rows, embed, entries},
         {rows, embed, clusters},
         {entries, embed, rows},
         {clusters, embed, rows}},
        {{rows, entries, embed}, {rows, clusters, embed}},
        {{n, d, embed}, {d, embed, n}},
        {{n, inner, d}, {d, inner, n}},
        {{n, d, inner}, {inner, d, n}},
        {{n, width, d}, {d, width, n}},
        {{n, 3 * width, d}, {m, 2 * width, d}, {keys, width, d}},
        {{n, d, 3 * width},
         {m, d, 2 * width},
         {3 * width, d, n},
         {2 * width, d, n},
         {2 * width, d, m},
         {width, d, keys}},
    };
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        struct arena room = {0};
        for (int k = 0; k < 6; k++)
            products_take_room(&room, p, together[i][k][0], together[i][k][1], together[i][k][2]);
        most = room.used > most ? room.used : most;
    }
    return most;
}

/* Lays all memory out.  t->how, t->net, t->n_extra and the numbers of weights must be set. */
static void lay_out(struct training *t, int threads, struct arena *arena) {
    uint64_t n = (uint64_t)t->how.batch * most_length(t);
    uint64_t m = (uint64_t)t->how.batch * (uint64_t)t->how.mem_len;
    t->weight = take_rows(arena, t->n_weight, 1);
    t->gradient = take_rows(arena, t->n_parameter, 1);
    for (int i = 0; i < t->n_extra; i++)
        t->extra[i] =
            take_rows(arena, t->how.muon > 0 && i == MOMENT_2 ? t->n_adam : t->n_weight, 1);
    t->layer = arena_take(arena, (uint64_t)t->net->n_layer, sizeof *t->layer);
    lay_out_work(t, arena, n, m);
    uint64_t room = t->products.packed ? packed_room(t, (size_t)n, (size_t)m) : 0;
    if (t->how.muon > 0) {
        t->muon = arena_take(arena, muon_scratch(t), 1);
        room = t->products.packed ? larger(room, muon_room(t)) : 0;
    }
    t->products.room_size = (size_t)room;
    t->products.room = arena_take(arena, room, sizeof *t->products.room);
    t->scratch = arena_take(arena, (uint64_t)threads, sizeof *t->scratch);
    for (int i = 0; i < threads; i++) {
        float *scratch = take_rows(arena, train_attention_scratch(t), 1);
        if (t->scratch)
            t->scratch[i] = scratch;
    }
    for (int l = 0; l < t->net->n_layer; l++) {
        struct trained_layer unused = {0};
        lay_out_layer(t, arena, t->layer ? &t->layer[l] : &unused, n, m);
    }
}

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
        {"ext_len", how->ext_len, 0, TXL_MAX_TGT_LEN - how->tgt_len},
        {"mem_len", how->mem_len, 0, TXL_MAX_MEM_LEN},
        {"clip", how->clip, 0, INFINITY},
        {"epsilon", how->epsilon, 1e-30, 1}, /* with 0 a zero gradient would be divided by 0 */
        {"dropout", how->dropout, 0, 0.99},
        {"dropatt", how->dropatt, 0, 0.99},
        {"forget_every", how->forget_every, 0, INT32_MAX},
        {"muon", how->muon, 0, 1e9},
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
    if (!attention_is_relative(net->attn_type) && how->mem_len > 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "mem_len must be 0: attention type %d has absolute positions and no memory",
                        (int)net->attn_type);
    if (how->ext_len > 0 && how->mem_len > 0)
        return txl_fail(
            error, TXL_ARGUMENT,
            "ext_len needs mem_len 0: a memory has the tokens before a segment already");
    if (net->attn_type == ATTENTION_LEARNED_POSITION && how->tgt_len + how->ext_len > net->max_klen)
        return txl_fail(error, TXL_ARGUMENT,
                        "tgt_len%s must be at most %d, the positions that this model has learned",
                        how->ext_len > 0 ? " + ext_len" : "", net->max_klen);
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
                              int n_extra) {
    const txl_peers *peers = how->peers;
    t->how = *how;
    t->n_extra = n_extra;
    t->streams = (size_t)how->batch;
    if (peers) {
        t->first_stream = streams_before(t->streams, peers, peers->rank);
        t->how.batch = (int)(streams_before(t->streams, peers, peers->rank + 1) - t->first_stream);
    }
    t->products.packed = t->how.bf16 ? model->kernels.bf16_product : model->kernels.f32_product;
    set_network(t, model);
    count_weights(t, model);
}

uint64_t training_bytes(const txl_model *model, const txl_training *how, int n_extra) {
    struct training t = {0};
    if (!trainable(model))
        return 0;
    describe_training(&t, model, how, n_extra);
    struct arena arena = {0};
    lay_out(&t, how->threads > 0 ? how->threads : pool_processors(), &arena);
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
    size_t keys = keys_of(t);
    if (t->sines)
        position_sines(t->net->inv_freq, (size_t)t->net->d_model, t->how.clamp_len, keys - 1, -1,
                       keys, t->sines);
}

txl_status training_open(struct training *t, const txl_model *model, const txl_training *how,
                         int n_extra, txl_error *error) {
    *t = (struct training){0};
    describe_training(t, model, how, n_extra);
    t->loops = model->kernels.loops;
    uint64_t state = subnormals_to_zero(); /* the pool's threads inherit it */
    t->pool = pool_new(t->how.threads);
    subnormals_set(state);
    if (!t->pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    t->products.pool = t->pool;
    struct arena planned = {0};
    lay_out(t, pool_size(t->pool), &planned);
    txl_status status = arena_open(&t->arena, planned.used, "training", error);
    if (status)
        return status;
    lay_out(t, pool_size(t->pool), &t->arena);
    status = open_model(t, model, error);
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

void training_set_length(struct training *t, size_t before, size_t length) {
    t->length = before + length;
    t->n = t->batch * t->length;
    t->n_target = t->batch * length;
    t->n_all = t->streams * length;
}

static void clear_task(void *context, int i, int thread) {
    (void)thread;
    struct training *t = context;
    const struct weights_tensor *tensor = &t->model->weights->tensor[i];
    /* Gradients of layers' matrices are overwritten; all others are added to, from zero. */
    if (is_trained(t, tensor->name) && !is_multiplied(t->model, tensor->name))
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
    size_t keys = keys_of(t);
    t->dropout.step = t->dropatt.step = (uint32_t)step;
    pool_run(t->pool, (int)t->model->weights->n_tensor, clear_task, t);
    if (t->dropped_sines)
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

/* Moves the rows with targets of each stream together, in place. */
static void gather_targets(const struct training *t, float *x) {
    size_t d = (size_t)t->net->d_model, targets = t->n_target / t->batch;
    for (size_t b = 0; b < t->batch; b++)
        memmove(x + b * targets * d, x + ((b + 1) * t->length - targets) * d,
                targets * d * sizeof *x);
}

/* Moves them back; the other rows, from which nothing was predicted, become zero. */
static void spread_targets(const struct training *t, float *x) {
    size_t d = (size_t)t->net->d_model, targets = t->n_target / t->batch;
    size_t before = t->length - targets;
    for (size_t b = t->batch; b-- > 0;) {
        float *to = x + b * t->length * d;
        memmove(to + before * d, x + b * targets * d, targets * d * sizeof *x);
        memset(to, 0, before * d * sizeof *x);
    }
}

double training_score(struct training *t) {
    double sum = 0;
    gather_targets(t, t->hidden);
    train_softmax(t, t->d_a);
    spread_targets(t, t->d_a);
    for (size_t i = 0; i < t->n_target; i++)
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
