/* The forward pass of a Transformer-XL, to be read beside section 3 and appendix B of Dai et al.
 * 2019.  A pass takes T tokens of one segment through all layers:
 *
 *     x = embedding                                          [T, d_model]
 *     for each layer:
 *         q, k, v = W_qkv x;  k and v go into the ring       [T, n_head, d_head] each
 *         score[i, j] = ((q_i + u) . k_j + (q_i + v) . (W_r R_d)) / sqrt(d_head),  d = i - j
 *         x = LayerNorm(x + W_o softmax(score) v)
 *         x = LayerNorm(x + W_2 relu(W_1 x + b_1) + b_2)
 *
 * with i and j positions on the timeline.  Keys and values are never computed twice: the ring holds
 * those of the memory and of the segment so far.  Nor are the position rows W_r R_d, which depend
 * on the distance alone.  pre_lnorm normalises the inputs of both halves instead of their sums. */
#include "network.h"
#include "lib/base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum {
    MAX_CHUNK = 512,  /* tokens of a pass: more gains nothing, and activations grow */
    QUERY_BLOCK = 128 /* queries of one attention task, so that their scores stay in cache */
};

static bool is_relative(const struct transformer_xl *x) {
    return x->attn_type <= ATTENTION_LEARNED_DISTANCE;
}

/* Whether a token sees exactly the mem_len nearest positions. */
static bool is_same_length(const txl_settings *s) {
    return s->same_length && s->mem_len > 0;
}

/* ---- Memory ------------------------------------------------------------------------------- */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t in_blocks(size_t rows) {
    return (rows + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
}

static size_t head_width(const struct transformer_xl *x) {
    return (size_t)x->n_head * (size_t)x->d_head;
}

static enum weights_type memory_type(const txl_settings *s) {
    return s->memory_type == TXL_MEMORY_F16 ? WEIGHTS_F16 : WEIGHTS_F32;
}

static struct network_plan make_plan(const struct transformer_xl *x, const txl_settings *s) {
    struct network_plan plan;
    size_t tgt_len = (size_t)s->tgt_len, mem_len = (size_t)s->mem_len;
    /* With same_length the segments' boundaries have no effect, so passes may be longer. */
    plan.chunk = is_same_length(s) ? MAX_CHUNK : smaller(tgt_len, MAX_CHUNK);
    if (!is_relative(x))
        plan.chunk = tgt_len;
    /* A pass sees blocks from that of its first key to that of its last: at most so many rows. */
    plan.capacity = in_blocks(mem_len + larger(tgt_len, plan.chunk) + ROW_BLOCK - 1);
    plan.places = in_blocks(positions_distances(x, s));
    plan.keys = plan.values = (struct rows){.type = memory_type(s),
                                            .n_layer = (size_t)x->n_layer,
                                            .n_block = plan.capacity / ROW_BLOCK,
                                            .n_head = (size_t)x->n_head};
    plan.keys.transposed = true;
    plan.keys.width = (size_t)x->d_head;
    plan.values.width = ((size_t)x->d_head + 15) / 16 * 16;
    return plan;
}

/* Floats of activations for each token of a pass. */
static size_t activation_row(const struct transformer_xl *x) {
    return 2 * (size_t)x->d_model + 4 * head_width(x) + (size_t)larger(x->d_inner, x->d_model);
}

/* Of scratch that an attention task needs: scores, position scores, two queries, results. */
static size_t attention_scratch(const struct transformer_xl *x, const struct network_plan *plan) {
    size_t queries = smaller(QUERY_BLOCK, plan->chunk);
    return queries * (plan->capacity + plan->places + 2 * (size_t)x->d_head + plan->values.width);
}

static size_t all_scratch(const struct transformer_xl *x, const txl_settings *s,
                          const struct network_plan *plan) {
    size_t most = larger(attention_scratch(x, plan), adaptive_scratch(x, plan->chunk));
    most = larger(most, positions_scratch(x, s));
    for (int l = 0; l < x->n_layer; l++) {
        const struct layer *layer = &x->layer[l];
        const struct matrix *matrix[] = {&layer->qkv, &layer->o, &layer->feed_forward_1,
                                         &layer->feed_forward_2};
        for (size_t i = 0; i < sizeof matrix / sizeof *matrix; i++)
            most = larger(most, compute_scratch(matrix[i], plan->chunk));
    }
    return most;
}

/* The most that any product of a session packs. */
static size_t all_packed(const struct transformer_xl *x, const struct kernels *kernels,
                         const struct network_plan *plan) {
    size_t k = larger(larger((size_t)x->d_model, (size_t)x->d_inner),
                      larger(head_width(x), (size_t)x->d_embed));
    return compute_packed(kernels, larger(plan->chunk, POSITION_ROWS), k);
}

/* The TensorFlow dialect's first memory is mem_len inputs of zeros, seen through each layer's own
 * projection.  Without pre_lnorm that gives zeros; with it, the projection of the norm's bias. */
static bool projects_zeros(const struct transformer_xl *x, const txl_settings *s) {
    return x->zero_memory && x->pre_lnorm && s->mem_len > 0;
}

static size_t zero_bytes(const struct transformer_xl *x, const txl_settings *s) {
    return projects_zeros(x, s) ? (size_t)x->n_layer * 3 * head_width(x) * sizeof(float) : 0;
}

uint64_t network_bytes(const txl_model *model, const txl_settings *settings) {
    const struct transformer_xl *x = model->network;
    struct network_plan plan = make_plan(x, settings);
    uint64_t threads = (uint64_t)(settings->threads > 0 ? settings->threads : pool_processors());
    return rows_bytes(&plan.keys) + rows_bytes(&plan.values) +
           positions_bytes(x, settings, memory_type(settings)) + layers_bytes(x, (int)threads) +
           zero_bytes(x, settings) + plan.chunk * activation_row(x) * sizeof(float) +
           (threads * all_scratch(x, settings, &plan) + all_packed(x, model->kernels, &plan)) *
               sizeof(float) +
           adaptive_bytes(x, plan.chunk);
}

static txl_status check_settings(const struct transformer_xl *x, const txl_settings *s,
                                 txl_error *error) {
    if (s->tgt_len < 1 || s->tgt_len > TXL_MAX_TGT_LEN)
        return txl_fail(error, TXL_ARGUMENT, "tgt_len must be from 1 to %d, not %d",
                        TXL_MAX_TGT_LEN, s->tgt_len);
    if (s->mem_len < 0 || s->mem_len > TXL_MAX_MEM_LEN)
        return txl_fail(error, TXL_ARGUMENT, "mem_len must be from 0 to %d, not %d",
                        TXL_MAX_MEM_LEN, s->mem_len);
    if (s->memory_type != TXL_MEMORY_F32 && s->memory_type != TXL_MEMORY_F16)
        return txl_fail(error, TXL_ARGUMENT, "memory_type %d is none", (int)s->memory_type);
    if (!is_relative(x) && s->mem_len > 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "mem_len must be 0: attention type %d has absolute positions and no memory",
                        x->attn_type);
    if (x->attn_type == ATTENTION_LEARNED_POSITION && s->tgt_len > x->max_klen)
        return txl_fail(error, TXL_ARGUMENT,
                        "tgt_len must be at most %d, the positions that this model has learned",
                        x->max_klen);
    return TXL_OK;
}

/* The system would grant what the machine can never hold, and end the process once it is used. */
static txl_status check_memory(const txl_model *model, const txl_settings *s, txl_error *error) {
    struct sysinfo machine;
    if (sysinfo(&machine) < 0)
        return TXL_OK;
    uint64_t needed = network_bytes(model, s);
    uint64_t all = ((uint64_t)machine.totalram + machine.totalswap) * machine.mem_unit;
    if (needed <= all)
        return TXL_OK;
    return txl_fail(error, TXL_MEMORY,
                    "out of memory: a session of tgt_len %d and mem_len %d needs %" PRIu64
                    " MB of the machine's %" PRIu64 "; make them shorter",
                    s->tgt_len, s->mem_len, needed / 1000000, all / 1000000);
}

static txl_status make_activations(struct network *net, txl_error *error) {
    const struct transformer_xl *x = net->x;
    size_t chunk = net->plan.chunk, width = head_width(x), d_model = (size_t)x->d_model;
    net->hidden = calloc(chunk, d_model * sizeof(float));
    net->normed = calloc(chunk, d_model * sizeof(float));
    net->qkv = calloc(chunk, 3 * width * sizeof(float));
    net->heads = calloc(chunk, width * sizeof(float));
    net->inner = calloc(chunk, larger((size_t)x->d_inner, d_model) * sizeof(float));
    net->segment = calloc(is_relative(x) ? 1 : chunk, sizeof *net->segment);
    if (!net->hidden || !net->normed || !net->qkv || !net->heads || !net->inner || !net->segment)
        return txl_fail_memory(error, "a segment", chunk * activation_row(x) * sizeof(float));
    return TXL_OK;
}

/* Everything but the position rows. */
static txl_status open_parts(struct network *net, const txl_model *model, txl_error *error) {
    const struct transformer_xl *x = model->network;
    net->plan = make_plan(x, &net->settings);
    net->keys = net->plan.keys;
    net->values = net->plan.values;
    txl_status status = compute_open(&net->compute, model->kernels, net->settings.threads,
                                     all_scratch(x, &net->settings, &net->plan),
                                     all_packed(x, model->kernels, &net->plan), error);
    if (!status)
        status = layers_open(&net->layers, model, net->compute.pool, error);
    if (!status)
        status = adaptive_open(&net->adaptive, x, net->plan.chunk, error);
    if (!status)
        status = make_activations(net, error);
    if (!status)
        status = rows_open(&net->keys, "the segment memory", error);
    if (!status)
        status = rows_open(&net->values, "the segment memory", error);
    if (!status)
        net->settings.threads = pool_size(net->compute.pool);
    return status;
}

static txl_status project_zeros(struct network *net, txl_error *error) {
    const struct transformer_xl *x = net->x;
    size_t width = 3 * head_width(x);
    if (!projects_zeros(x, &net->settings))
        return TXL_OK;
    net->zero_rows = calloc((size_t)x->n_layer, width * sizeof *net->zero_rows);
    if (!net->zero_rows)
        return txl_fail_memory(error, "the first memory", zero_bytes(x, &net->settings));
    for (int l = 0; l < x->n_layer; l++) {
        const struct layer *layer;
        txl_status status = layers_get(&net->layers, l, &layer, error);
        if (status)
            return status;
        compute_product(&net->compute, 1, layer->attention_norm.bias, 0, &layer->qkv, NULL, LINEAR,
                        net->zero_rows + (size_t)l * width, 0);
    }
    return TXL_OK;
}

txl_status network_open(struct network *net, const txl_model *model, const txl_settings *settings,
                        txl_error *error) {
    *net = (struct network){.x = model->network, .settings = *settings, .fresh = true};
    txl_status status = check_settings(net->x, settings, error);
    if (!status)
        status = check_memory(model, settings, error);
    if (!status)
        status = open_parts(net, model, error);
    if (!status)
        status = positions_new(net->x, settings, memory_type(settings), &net->positions, error);
    if (!status)
        status = project_zeros(net, error);
    if (!status)
        network_reset(net);
    return status;
}

void network_close(struct network *net) {
    positions_free(net->positions);
    rows_close(&net->keys);
    rows_close(&net->values);
    free(net->hidden);
    free(net->normed);
    free(net->qkv);
    free(net->heads);
    free(net->inner);
    free(net->segment);
    free(net->zero_rows);
    layers_close(&net->layers);
    adaptive_close(&net->adaptive);
    compute_close(&net->compute);
}

/* ---- The ring ----------------------------------------------------------------------------- */

struct store {
    struct network *net;
    int layer;
    size_t n;
    uint64_t position;
    const float *qkv;
    size_t stride; /* 0 repeats one row */
};

/* Copies one head's keys and values out of qkv into the ring. */
static void store_task(void *context, int i, int thread) {
    (void)thread;
    const struct store *s = context;
    const struct network *net = s->net;
    const struct kernels *kernels = net->compute.kernels;
    size_t d_head = (size_t)net->x->d_head, width = head_width(net->x);
    size_t head = (size_t)i, layer = (size_t)s->layer;
    const float *k = s->qkv + width + head * d_head, *v = k + width;
    size_t row = s->position % net->plan.capacity;
    for (size_t t = 0; t < s->n; t++) {
        rows_put(&net->keys, kernels, layer, row, head, k + t * s->stride, d_head);
        rows_put(&net->values, kernels, layer, row, head, v + t * s->stride, d_head);
        row = row + 1 == net->plan.capacity ? 0 : row + 1;
    }
}

static void store_zero_memory(struct network *net) {
    const struct transformer_xl *x = net->x;
    size_t n = (size_t)net->settings.mem_len, width = 3 * head_width(x);
    if (!net->zero_rows && net->fresh)
        return;
    if (!net->zero_rows)
        memset(net->qkv, 0, width * sizeof *net->qkv);
    for (int layer = 0; layer < x->n_layer; layer++) {
        const float *row = net->zero_rows ? net->zero_rows + (size_t)layer * width : net->qkv;
        struct store s = {net, layer, n, 0, row, 0};
        pool_run(net->compute.pool, x->n_head, store_task, &s);
    }
}

/* The position of a timeline's first token. */
static uint64_t first_position(const struct network *net) {
    return net->x->zero_memory ? (uint64_t)net->settings.mem_len : 0;
}

void network_reset(struct network *net) {
    if (first_position(net) > 0)
        store_zero_memory(net);
    net->next = net->segment_start = first_position(net);
}

/* ---- Attention ---------------------------------------------------------------------------- */

/* The attention of one layer in a pass: n tokens of one timeline, or one token of each of n. */
struct attention {
    struct network *net;         /* whose activations and threads the pass uses */
    struct network *const *each; /* [n], or NULL: all rows are net's own timeline's */
    int l;                       /* the layer's number, */
    const struct layer *layer;   /* and its weights */
    size_t n;
    bool few; /* the position scores are in positions->few_scores */
};

/* The earliest position that the query at p sees. */
static uint64_t first_visible(const struct network *net, uint64_t p) {
    uint64_t mem_len = (uint64_t)net->settings.mem_len;
    if (is_same_length(&net->settings))
        return p + 1 > mem_len ? p + 1 - mem_len : 0;
    return net->segment_start > mem_len ? net->segment_start - mem_len : 0;
}

static const void *ring_block(const struct rows *rows, int layer, size_t head, size_t block) {
    return rows_block(rows, (size_t)layer, block % rows->n_block, head);
}

/* S = Q K^T for `blocks` blocks of keys or position rows, from `block` on, round the ring:
 * Q[m, d_head], S[m, 64 blocks] with row stride lds.  `after` is what will be read next. */
static void score_blocks(const struct network *net, const struct rows *rows, int layer, size_t head,
                         size_t block, size_t blocks, size_t m, const float *q, float *s,
                         size_t lds, const void *after) {
    const void *keys = blocks > 0 ? ring_block(rows, layer, head, block) : NULL;
    for (size_t k = 0; k < blocks; k++) {
        bool last = k + 1 == blocks;
        const void *next = last ? after : ring_block(rows, layer, head, block + k + 1);
        net->compute.kernels->multiply[rows->type](m, ROW_BLOCK, rows->width, q, rows->width, keys,
                                                   ROW_BLOCK, false, s + k * ROW_BLOCK, lds, next);
        keys = next;
    }
}

/* One row of scores becomes attention weights, up to the factor that is returned.  s[n_key] are
 * keys at positions low .. low + n_key - 1, also some that the query does not see; b[n_distance]
 * the position scores, farthest first. */
static float attend_row(const struct network *net, uint64_t p, uint64_t low, size_t n_key, float *s,
                        const float *b, size_t n_distance) {
    uint64_t from = first_visible(net, p);
    size_t before = (size_t)(from - low), n = (size_t)(p - from) + 1;
    float scale = 1 / sqrtf((float)net->x->d_head), sum;
    if (n_distance == 0) {
        sum = net->compute.kernels->attend(s + before, n, n, 0, NULL, scale);
    } else {
        /* Distances n - 1 .. 0; those from n_distance on share the farthest row. */
        size_t n_far = n > n_distance ? n - n_distance : 0;
        const float *position = b + n_distance - (n - n_far);
        sum = net->compute.kernels->attend(s + before, n, n_far, b[0], position, scale);
    }
    memset(s, 0, before * sizeof *s);
    memset(s + before + n, 0, (n_key - before - n) * sizeof *s);
    return 1 / sum;
}

/* out[m, d_head] = q[m, d_head] + bias[d_head], which may be NULL. */
static void add_bias(size_t m, size_t d_head, const float *q, size_t ldq, const float *bias,
                     float *out) {
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < d_head; j++)
            out[t * d_head + j] = q[t * ldq + j] + (bias ? bias[j] : 0);
}

/* Attention of one head for m queries of a timeline, which are rows `row` and on of the pass and
 * stand `after` behind the timeline's next position. */
static void attend(const struct attention *a, const struct network *net, size_t head, size_t row,
                   size_t after, size_t m, int thread) {
    const struct transformer_xl *x = net->x;
    const struct layer *layer = a->layer;
    const struct positions *positions = net->positions;
    size_t n_head = (size_t)x->n_head, d_head = (size_t)x->d_head, width = head_width(x);
    size_t value_row = net->values.width;

    /* Whole blocks of keys, from the first one that the first query sees. */
    uint64_t position = net->next + after, visible = first_visible(net, position);
    uint64_t low = visible / ROW_BLOCK * ROW_BLOCK;
    size_t n_key = in_blocks((size_t)(position + m - low));
    size_t block = (size_t)(low / ROW_BLOCK % net->keys.n_block), blocks = n_key / ROW_BLOCK;
    size_t n_distance = smaller((size_t)(position + m - visible), positions->distances);
    size_t n_place = in_blocks(n_distance), place = positions->places - n_place;

    float *s = a->net->compute.scratch[thread];            /* [m, n_key] */
    float *b = s + m * n_key;                              /* [m, n_place] */
    float *q_u = b + m * n_place, *q_v = q_u + m * d_head; /* [m, d_head] */
    float *out = q_v + m * d_head;                         /* [m, value_row] */
    const float *q = a->net->qkv + row * 3 * width + head * d_head;
    add_bias(m, d_head, q, 3 * width, layer->u ? layer->u + head * d_head : NULL, q_u);
    add_bias(m, d_head, q, 3 * width, layer->v ? layer->v + head * d_head : NULL, q_v);

    /* (Q + u) K^T */
    const void *values = ring_block(&net->values, a->l, head, block), *then = values;
    if (!a->few && n_place > 0)
        then = ring_block(&positions->rows, a->l, head, place / ROW_BLOCK);
    score_blocks(net, &net->keys, a->l, head, block, blocks, m, q_u, s, n_key, then);
    /* (Q + v) (W_r R)^T */
    const float *far = b + n_place - n_distance;
    size_t ldb = n_place;
    if (a->few) {
        ldb = n_head * positions->distances;
        far = positions->few_scores + (row * n_head + head + 1) * positions->distances - n_distance;
    } else {
        score_blocks(net, &positions->rows, a->l, head, place / ROW_BLOCK, n_place / ROW_BLOCK, m,
                     q_v, b, n_place, values);
    }
    if (positions->bias) {
        const float *bias =
            positions->bias + ((size_t)a->l * n_head + head) * positions->places + place;
        for (size_t t = 0; t < m; t++)
            for (size_t j = 0; j < n_place; j++)
                b[t * n_place + j] += bias[j];
    }

    float factor[QUERY_BLOCK];
    for (size_t t = 0; t < m; t++)
        factor[t] =
            attend_row(net, position + t, low, n_key, s + t * n_key, far + t * ldb, n_distance);
    for (size_t k = 0; k < blocks; k++) { /* softmax(score) V */
        bool last = k + 1 == blocks;
        const void *next = last ? NULL : ring_block(&net->values, a->l, head, block + k + 1);
        net->compute.kernels->multiply[net->values.type](m, value_row, ROW_BLOCK, s + k * ROW_BLOCK,
                                                         n_key, values, value_row, k > 0, out,
                                                         value_row, next);
        values = next;
    }
    for (size_t t = 0; t < m; t++) {
        for (size_t j = 0; j < d_head; j++)
            a->net->heads[(row + t) * width + head * d_head + j] =
                out[t * value_row + j] * factor[t];
    }
}

/* One head for a block of queries, whose keys are all in the ring. */
static void block_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->net->x->n_head, first = (size_t)i / n_head * QUERY_BLOCK;
    attend(a, a->net, (size_t)i % n_head, first, first, smaller(QUERY_BLOCK, a->n - first), thread);
}

/* One head for a single token of a timeline, its key and value included. */
static void token_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->net->x->n_head, row = (size_t)i / n_head, head = (size_t)i % n_head;
    struct network *net = a->each ? a->each[row] : a->net;
    size_t stride = 3 * head_width(net->x);
    struct store store = {net, a->l, 1, net->next, a->net->qkv + row * stride, stride};
    store_task(&store, (int)head, thread);
    attend(a, net, head, row, 0, 1, thread);
}

/* heads[n, n_head d_head] from qkv[n, 3 n_head d_head], which also goes into the ring. */
static void run_attention(struct attention *a) {
    struct network *net = a->net;
    if (a->each || a->n == 1) {
        pool_run(net->compute.pool, (int)a->n * net->x->n_head, token_task, a);
        return;
    }
    struct store store = {net, a->l, a->n, net->next, net->qkv, 3 * head_width(net->x)};
    pool_run(net->compute.pool, net->x->n_head, store_task, &store);
    int blocks = (int)((a->n + QUERY_BLOCK - 1) / QUERY_BLOCK);
    pool_run(net->compute.pool, blocks * net->x->n_head, block_task, a);
}

/* ---- Layers ------------------------------------------------------------------------------- */

struct norm {
    const struct network *net;
    const struct layer_norm *weights;
    size_t n;
    const float *x, *y;
    float *out;
};

enum { NORM_BLOCK = 16 };

/* The published code's, PyTorch's default. */
static const float NORM_EPSILON = 1e-5f;

static void norm_task(void *context, int i, int thread) {
    (void)thread;
    const struct norm *z = context;
    size_t d_model = (size_t)z->net->x->d_model, first = (size_t)i * NORM_BLOCK;
    for (size_t t = first; t < smaller(first + NORM_BLOCK, z->n); t++)
        z->net->compute.kernels->layer_norm(d_model, z->x + t * d_model,
                                            z->y ? z->y + t * d_model : NULL, z->weights->weight,
                                            z->weights->bias, NORM_EPSILON, z->out + t * d_model);
}

/* out = LayerNorm(x + y) for n rows; y may be NULL. */
static void normalise(const struct network *net, const struct layer_norm *weights, size_t n,
                      const float *x, const float *y, float *out) {
    struct norm z = {net, weights, n, x, y, out};
    pool_run(net->compute.pool, (int)((n + NORM_BLOCK - 1) / NORM_BLOCK), norm_task, &z);
}

static void add_rows(const struct network *net, size_t n, const float *y) {
    for (size_t i = 0; i < n * (size_t)net->x->d_model; i++)
        net->hidden[i] += y[i];
}

/* The end of either half of a layer: hidden = hidden + y, normalised unless pre_lnorm. */
static void finish_half(struct network *net, const struct layer_norm *norm, size_t n,
                        const float *y) {
    if (net->x->pre_lnorm)
        add_rows(net, n, y);
    else
        normalise(net, norm, n, net->hidden, y, net->hidden);
}

/* Its beginning: what the weights see. */
static const float *begin_half(struct network *net, const struct layer_norm *norm, size_t n) {
    if (!net->x->pre_lnorm)
        return net->hidden;
    normalise(net, norm, n, net->hidden, NULL, net->normed);
    return net->normed;
}

static void attention_half(struct attention *a) {
    struct network *net = a->net;
    const struct transformer_xl *x = net->x;
    const struct layer *layer = a->layer;
    size_t n = a->n, width = head_width(x), d_model = (size_t)x->d_model;
    const float *input = begin_half(net, &layer->attention_norm, n);
    /* QKV[n, 3 width] = X[n, d_model] W_qkv^T */
    compute_product(&net->compute, n, input, d_model, &layer->qkv, NULL, LINEAR, net->qkv,
                    3 * width);
    if (!is_relative(x) && x->pre_lnorm) {
        /* The vanilla kinds' published code leaves the queries' input as it is. */
        struct matrix q = matrix_rows(&layer->qkv, 0, width);
        compute_product(&net->compute, n, net->hidden, d_model, &q, NULL, LINEAR, net->qkv,
                        3 * width);
    }
    if (a->few)
        positions_score_few(net->positions, &net->compute, layer, n, net->qkv, 3 * width);
    run_attention(a);
    compute_product(&net->compute, n, net->heads, width, &layer->o, NULL, LINEAR, net->inner,
                    d_model);
    finish_half(net, &layer->attention_norm, n, net->inner);
}

static void feed_forward_half(struct network *net, const struct layer *layer, size_t n) {
    size_t d_model = (size_t)net->x->d_model, d_inner = (size_t)net->x->d_inner;
    const float *input = begin_half(net, &layer->feed_forward_norm, n);
    compute_product(&net->compute, n, input, d_model, &layer->feed_forward_1,
                    layer->feed_forward_bias_1, RELU, net->inner, d_inner);
    compute_product(&net->compute, n, net->inner, d_inner, &layer->feed_forward_2,
                    layer->feed_forward_bias_2, LINEAR, net->normed, d_model);
    finish_half(net, &layer->feed_forward_norm, n, net->normed);
}

/* The vanilla kinds number positions from the end of the segment at hand. */
static void add_sinusoid(struct network *net, size_t n) {
    position_sines(net->x, net->settings.clamp_len, n - 1, -1, n, net->normed);
    add_rows(net, n, net->normed);
}

static void add_learned_positions(struct network *net, const struct layer *layer, size_t n) {
    const struct matrix *r = &layer->r_emb;
    compute_widen(&net->compute, r, r->n_row - n, n, net->normed);
    add_rows(net, n, net->normed);
}

/* How many distances the n next tokens of a timeline see. */
static size_t distances_seen(const struct network *net, size_t n) {
    return (size_t)(net->next + n - 1 - first_visible(net, net->next)) + 1;
}

/* The layers of a pass, over hidden[n, d_model]. */
static txl_status run_layers(struct attention *a, txl_error *error) {
    struct network *net = a->net;
    for (a->l = 0; a->l < net->x->n_layer; a->l++) {
        txl_status status = layers_get(&net->layers, a->l, &a->layer, error);
        if (status)
            return status;
        for (size_t t = 0; t < (a->each ? a->n : 1); t++)
            positions_fill(a->each ? a->each[t]->positions : net->positions, &net->compute, a->l,
                           a->layer);
        if (net->x->attn_type == ATTENTION_LEARNED_POSITION)
            add_learned_positions(net, a->layer, a->n);
        attention_half(a);
        feed_forward_half(net, a->layer, a->n);
    }
    return TXL_OK;
}

/* n tokens of net's timeline, or one token of each of n timelines: hidden[n, d_model]. */
static txl_status forward(struct network *net, struct network *const *each, const int32_t *ids,
                          size_t n, txl_error *error) {
    struct attention attention = {.net = net, .each = each, .n = n};
    size_t n_timeline = each ? n : 1, n_each = each ? 1 : n;
    attention.few = !each && positions_are_few(net->positions, net->next - first_position(net), n);
    for (size_t t = 0; t < n_timeline; t++) {
        struct network *timeline = each ? each[t] : net;
        timeline->fresh = false;
        positions_want(timeline->positions, &net->compute,
                       attention.few ? 0 : distances_seen(timeline, n_each));
    }
    adaptive_embed(&net->adaptive, &net->compute, ids, n, net->hidden);
    if (net->x->attn_type == ATTENTION_SINUSOID)
        add_sinusoid(net, n);
    txl_status status = run_layers(&attention, error);
    for (size_t t = 0; t < n_timeline && !status; t++) {
        struct network *timeline = each ? each[t] : net;
        positions_finish(timeline->positions);
        timeline->next += n_each;
    }
    return status;
}

/* ---- The timeline ------------------------------------------------------------------------- */

/* A full segment becomes memory as soon as another token is to come. */
static uint64_t segment_length(const struct network *net) {
    uint64_t length = net->next - net->segment_start;
    return length == (uint64_t)net->settings.tgt_len ? 0 : length;
}

size_t network_room(const struct network *net) {
    if (is_same_length(&net->settings))
        return net->plan.chunk;
    return smaller(net->plan.chunk, (size_t)net->settings.tgt_len - (size_t)segment_length(net));
}

/* The memory advances by the full segment, if it is one. */
static void begin_pass(struct network *net) {
    if (is_same_length(&net->settings) || segment_length(net) == 0)
        net->segment_start = net->next;
}

txl_status network_advance(struct network *net, const int32_t *ids, size_t n, const float **hidden,
                           txl_error *error) {
    *hidden = net->hidden;
    if (is_relative(net->x)) {
        begin_pass(net);
        return forward(net, NULL, ids, n, error);
    }
    /* Without memory, and with positions that depend on the segment's length: all of it again. */
    uint64_t next = net->next;
    size_t length = (size_t)segment_length(net);
    memcpy(net->segment + length, ids, n * sizeof *ids);
    net->next = net->segment_start = 0;
    txl_status status = forward(net, NULL, net->segment, length + n, error);
    if (status)
        net->next = next;
    *hidden += length * (size_t)net->x->d_model;
    return status;
}

txl_status network_advance_each(struct network *const *each, const int32_t *ids, size_t n,
                                const float **hidden, txl_error *error) {
    for (size_t t = 0; t < n; t++)
        begin_pass(each[t]);
    *hidden = each[0]->hidden;
    return forward(each[0], each, ids, n, error);
}

/* Position rows of all distances. */
static txl_status complete_positions(struct network *net, txl_error *error) {
    struct positions *p = net->positions;
    positions_want(p, &net->compute, p->distances);
    for (int l = 0; l < net->x->n_layer && p->known < p->wanted; l++) {
        const struct layer *layer;
        txl_status status = layers_get(&net->layers, l, &layer, error);
        if (status)
            return status;
        positions_fill(p, &net->compute, l, layer);
    }
    positions_finish(p);
    return TXL_OK;
}

txl_status network_copy(struct network *to, struct network *from, txl_error *error) {
    txl_status status = complete_positions(from, error);
    if (status)
        return status;
    positions_free(to->positions);
    to->positions = from->positions;
    atomic_fetch_add(&to->positions->users, 1);
    to->next = from->next;
    to->segment_start = from->segment_start;
    to->fresh = from->fresh;
    memcpy(to->segment, from->segment,
           (is_relative(from->x) ? 1 : from->plan.chunk) * sizeof *to->segment);
    /* Both hold the first memory, which may be large and untouched. */
    uint64_t low = first_visible(from, from->next), first = first_position(from);
    for (uint64_t p = (low > first ? low : first) / ROW_BLOCK; p * ROW_BLOCK < from->next; p++) {
        rows_copy_block(&to->keys, &from->keys, (size_t)(p % from->keys.n_block));
        rows_copy_block(&to->values, &from->values, (size_t)(p % from->keys.n_block));
    }
    return TXL_OK;
}

/* ---- Saving the ring ---------------------------------------------------------------------- */

uint64_t network_first_row(const struct transformer_xl *x, const txl_settings *settings,
                           uint64_t next, uint64_t segment_start) {
    uint64_t mem_len = (uint64_t)settings->mem_len, begin = segment_start;
    if (!is_relative(x))
        return next;
    if (is_same_length(settings) || next - segment_start == (uint64_t)settings->tgt_len)
        begin = next;
    return begin > mem_len ? begin - mem_len : 0;
}

void network_export(const struct network *net, int layer, uint64_t position, float *row) {
    size_t n_head = (size_t)net->x->n_head, d_head = (size_t)net->x->d_head;
    size_t at = position % net->plan.capacity;
    for (size_t h = 0; h < n_head; h++) {
        rows_get(&net->keys, (size_t)layer, at, h, row + h * d_head, d_head);
        rows_get(&net->values, (size_t)layer, at, h, row + (n_head + h) * d_head, d_head);
    }
}

void network_import(struct network *net, int layer, uint64_t position, const float *row) {
    size_t n_head = (size_t)net->x->n_head, d_head = (size_t)net->x->d_head;
    const struct kernels *kernels = net->compute.kernels;
    size_t at = position % net->plan.capacity;
    for (size_t h = 0; h < n_head; h++) {
        rows_put(&net->keys, kernels, (size_t)layer, at, h, row + h * d_head, d_head);
        rows_put(&net->values, kernels, (size_t)layer, at, h, row + (n_head + h) * d_head, d_head);
    }
}
