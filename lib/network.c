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
#include "error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    MAX_CHUNK = 512,    /* tokens of a pass: more gains nothing, and activations grow */
    QUERY_BLOCK = 128,  /* queries of one attention task, so that their scores stay in cache */
    POSITION_BLOCK = 64 /* position rows are computed in so many at a time */
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
    return (rows + KEY_BLOCK - 1) / KEY_BLOCK * KEY_BLOCK;
}

static struct network_plan make_plan(const struct transformer_xl *x, const txl_settings *s) {
    struct network_plan plan;
    size_t tgt_len = (size_t)s->tgt_len, mem_len = (size_t)s->mem_len;
    /* With same_length the segments' boundaries have no effect, so passes may be longer. */
    plan.chunk = is_same_length(s) ? MAX_CHUNK : smaller(tgt_len, MAX_CHUNK);
    if (!is_relative(x))
        plan.chunk = tgt_len;
    /* A pass sees blocks from that of its first key to that of its last: at most so many rows. */
    plan.capacity = in_blocks(mem_len + larger(tgt_len, plan.chunk) + KEY_BLOCK - 1);
    size_t reach = is_same_length(s) ? mem_len : mem_len + tgt_len; /* distances in sight */
    if (s->clamp_len > 0)
        reach = smaller(reach, (size_t)s->clamp_len + (x->attn_type == ATTENTION_RELATIVE));
    if (x->attn_type == ATTENTION_LEARNED_DISTANCE)
        reach = smaller(reach, (size_t)x->max_klen);
    plan.distances = is_relative(x) ? reach : 0;
    plan.places = in_blocks(plan.distances);
    plan.value_row = ((size_t)x->d_head + 15) / 16 * 16;
    return plan;
}

static size_t head_width(const struct transformer_xl *x) {
    return (size_t)x->n_head * (size_t)x->d_head;
}

static uint64_t key_bytes(const struct transformer_xl *x, const struct network_plan *plan) {
    return (uint64_t)x->n_layer * plan->capacity * head_width(x) * sizeof(float);
}

static uint64_t value_bytes(const struct transformer_xl *x, const struct network_plan *plan) {
    return (uint64_t)x->n_layer * x->n_head * plan->capacity * plan->value_row * sizeof(float);
}

static uint64_t position_bytes(const struct transformer_xl *x, const struct network_plan *plan) {
    return (uint64_t)x->n_layer * plan->places * head_width(x) * sizeof(float);
}

/* Floats of activations for each token of a pass. */
static size_t activation_row(const struct transformer_xl *x) {
    return 2 * (size_t)x->d_model + 4 * head_width(x) + (size_t)larger(x->d_inner, x->d_model);
}

/* Of scratch that an attention task needs: scores, position scores, two queries, results. */
static size_t attention_scratch(const struct transformer_xl *x, const struct network_plan *plan) {
    size_t queries = smaller(QUERY_BLOCK, plan->chunk);
    return queries * (plan->capacity + plan->places + 2 * (size_t)x->d_head + plan->value_row);
}

static size_t all_scratch(const struct transformer_xl *x, const struct network_plan *plan) {
    size_t most = larger(attention_scratch(x, plan), adaptive_scratch(x, plan->chunk));
    const struct layer *layer = x->layer;
    const struct matrix *matrix[] = {&layer->qkv, &layer->o, &layer->r, &layer->feed_forward_1,
                                     &layer->feed_forward_2};
    for (size_t i = 0; i < sizeof matrix / sizeof *matrix; i++) {
        if (matrix[i]->data)
            most = larger(most, compute_scratch(matrix[i], larger(plan->chunk, POSITION_BLOCK)));
    }
    return most;
}

uint64_t network_bytes(const txl_model *model, const txl_settings *settings) {
    const struct transformer_xl *x = model->network;
    struct network_plan plan = make_plan(x, settings);
    uint64_t threads = (uint64_t)(settings->threads > 0 ? settings->threads : pool_processors());
    return key_bytes(x, &plan) + value_bytes(x, &plan) + position_bytes(x, &plan) +
           plan.chunk * activation_row(x) * sizeof(float) +
           threads * all_scratch(x, &plan) * sizeof(float) + adaptive_bytes(x, plan.chunk);
}

/* Zeroed memory in large pages where the system has them; NULL when there is none. */
static float *map_zeros(uint64_t bytes) {
    if (bytes == 0 || bytes > SIZE_MAX / 2)
        return NULL;
    void *memory =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
    return memory;
}

static txl_status check_settings(const struct transformer_xl *x, const txl_settings *s,
                                 txl_error *error) {
    if (s->tgt_len < 1 || s->tgt_len > 1 << 24)
        return txl_fail(error, TXL_ARGUMENT, "tgt_len must be from 1 to %d, not %d", 1 << 24,
                        s->tgt_len);
    if (s->mem_len < 0 || s->mem_len > 1 << 24)
        return txl_fail(error, TXL_ARGUMENT, "mem_len must be from 0 to %d, not %d", 1 << 24,
                        s->mem_len);
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

static txl_status make_activations(struct network *net, txl_error *error) {
    const struct transformer_xl *x = net->x;
    size_t chunk = net->plan.chunk, width = head_width(x), d_model = (size_t)x->d_model;
    net->hidden = calloc(chunk, d_model * sizeof(float));
    net->normed = calloc(chunk, d_model * sizeof(float));
    net->qkv = calloc(chunk, 3 * width * sizeof(float));
    net->heads = calloc(larger(chunk, POSITION_BLOCK), width * sizeof(float));
    net->inner = calloc(chunk, larger((size_t)x->d_inner, d_model) * sizeof(float));
    net->sines =
        calloc(larger(POSITION_BLOCK, is_relative(x) ? 0 : chunk), d_model * sizeof(float));
    net->segment = calloc(is_relative(x) ? 1 : chunk, sizeof *net->segment);
    if (!net->hidden || !net->normed || !net->qkv || !net->heads || !net->inner || !net->sines ||
        !net->segment)
        return txl_fail_memory(error, "a segment", chunk * activation_row(x) * sizeof(float));
    return TXL_OK;
}

txl_status network_open(struct network *net, const txl_model *model, const txl_settings *settings,
                        txl_error *error) {
    const struct transformer_xl *x = model->network;
    *net = (struct network){.x = x, .settings = *settings, .fresh = true};
    txl_status status = check_settings(x, settings, error);
    if (status)
        return status;
    net->plan = make_plan(x, settings);
    status = compute_open(&net->compute, model->kernels, settings->threads,
                          all_scratch(x, &net->plan), error);
    if (!status)
        status = adaptive_open(&net->adaptive, x, net->plan.chunk, error);
    if (!status)
        status = make_activations(net, error);
    if (status)
        return status;
    net->settings.threads = pool_size(net->compute.pool);
    uint64_t positions = position_bytes(x, &net->plan);
    net->keys = map_zeros(key_bytes(x, &net->plan));
    net->values = map_zeros(value_bytes(x, &net->plan));
    if (!net->keys || !net->values)
        return txl_fail_memory(error, "the segment memory",
                               key_bytes(x, &net->plan) + value_bytes(x, &net->plan));
    if (positions > 0 && !(net->position_rows = map_zeros(positions)))
        return txl_fail_memory(error, "the position rows", positions);
    if (x->attn_type == ATTENTION_LEARNED_DISTANCE) {
        size_t n = (size_t)x->n_layer * (size_t)x->n_head * net->plan.places;
        net->position_bias = calloc(n, sizeof(float));
        if (!net->position_bias)
            return txl_fail_memory(error, "the position biases", n * sizeof(float));
    }
    network_reset(net);
    return TXL_OK;
}

void network_close(struct network *net) {
    if (net->keys)
        munmap(net->keys, key_bytes(net->x, &net->plan));
    if (net->values)
        munmap(net->values, value_bytes(net->x, &net->plan));
    if (net->position_rows)
        munmap(net->position_rows, position_bytes(net->x, &net->plan));
    free(net->position_bias);
    free(net->hidden);
    free(net->normed);
    free(net->qkv);
    free(net->heads);
    free(net->inner);
    free(net->sines);
    free(net->segment);
    adaptive_close(&net->adaptive);
    compute_close(&net->compute);
}

/* ---- The ring ----------------------------------------------------------------------------- */

/* One head's part of the keys or position rows, blocks for `rows` rows, or of the values. */
static float *head_blocks(const struct network *net, float *all, size_t rows, int layer,
                          size_t head) {
    size_t index = (size_t)layer * (size_t)net->x->n_head + head;
    return all + index * rows * (size_t)net->x->d_head;
}

static float *head_values(const struct network *net, int layer, size_t head) {
    size_t index = (size_t)layer * (size_t)net->x->n_head + head;
    return net->values + index * net->plan.capacity * net->plan.value_row;
}

/* Puts a row into its column of its block. */
static void put_row(float *blocks, size_t row, size_t d_head, const float *elements) {
    float *column = blocks + row / KEY_BLOCK * KEY_BLOCK * d_head + row % KEY_BLOCK;
    for (size_t j = 0; j < d_head; j++)
        column[j * KEY_BLOCK] = elements[j];
}

struct store {
    struct network *net;
    int layer;
    size_t n;
    uint64_t position;
    const float *qkv;
    size_t stride; /* 0 repeats one row */
};

/* Copies one head's keys and values out of qkv into the ring. */
static void store_task(void *context, int head, int thread) {
    (void)thread;
    const struct store *s = context;
    struct network *net = s->net;
    size_t d_head = (size_t)net->x->d_head, width = head_width(net->x);
    float *keys = head_blocks(net, net->keys, net->plan.capacity, s->layer, (size_t)head);
    float *values = head_values(net, s->layer, (size_t)head);
    const float *k = s->qkv + width + (size_t)head * d_head, *v = k + width;
    size_t row = s->position % net->plan.capacity;
    for (size_t t = 0; t < s->n; t++) {
        put_row(keys, row, d_head, k + t * s->stride);
        memcpy(values + row * net->plan.value_row, v + t * s->stride, d_head * sizeof(float));
        row = row + 1 == net->plan.capacity ? 0 : row + 1;
    }
}

/* A row for each head is not worth waking threads for. */
static void store_rows(struct store *s) {
    if (s->n > 1) {
        pool_run(s->net->compute.pool, s->net->x->n_head, store_task, s);
        return;
    }
    for (int head = 0; head < s->net->x->n_head; head++)
        store_task(s, head, 0);
}

/* The TensorFlow dialect's first memory: mem_len inputs of zeros, seen through each layer's own
 * projection.  Without pre_lnorm that gives zeros; with it, the projection of the norm's bias. */
static void store_zero_memory(struct network *net) {
    const struct transformer_xl *x = net->x;
    size_t n = (size_t)net->settings.mem_len;
    if (!x->pre_lnorm && net->fresh)
        return;
    for (int layer = 0; layer < x->n_layer; layer++) {
        const float *input = x->layer[layer].attention_norm.bias;
        memset(net->qkv, 0, 3 * head_width(x) * sizeof(float));
        if (x->pre_lnorm)
            compute_product(&net->compute, 1, input, 0, &x->layer[layer].qkv, NULL, LINEAR,
                            net->qkv, 0);
        struct store s = {net, layer, n, 0, net->qkv, 0};
        store_rows(&s);
    }
}

void network_reset(struct network *net) {
    net->next = net->segment_start = 0;
    if (net->x->zero_memory && net->settings.mem_len > 0) {
        store_zero_memory(net);
        net->next = net->segment_start = (uint64_t)net->settings.mem_len;
    }
    net->fresh = false;
}

/* ---- Positions ---------------------------------------------------------------------------- */

/* Rows [sin(p f_0) .., cos(p f_0) ..] of n positions: first, first + step, ...; those beyond
 * clamp_len stand at it. */
static void sine_rows(const struct network *net, size_t first, int step, size_t n, float *out) {
    size_t half = (size_t)net->x->d_model / 2;
    int clamp_len = net->settings.clamp_len;
    for (size_t t = 0; t < n; t++) {
        double p = (double)first + (double)step * (double)t;
        if (clamp_len > 0 && p > clamp_len)
            p = clamp_len;
        for (size_t i = 0; i < half; i++) {
            double angle = p * (double)net->x->inv_freq[i];
            out[t * 2 * half + i] = (float)sin(angle);
            out[t * 2 * half + half + i] = (float)cos(angle);
        }
    }
}

/* Puts rows[n, n_head d_head] of distances first, first + 1, ... in their places. */
static void store_position_rows(struct network *net, int layer, size_t first, size_t n,
                                const float *rows) {
    size_t d_head = (size_t)net->x->d_head, n_head = (size_t)net->x->n_head;
    for (size_t h = 0; h < n_head; h++) {
        float *blocks = head_blocks(net, net->position_rows, net->plan.places, layer, h);
        for (size_t t = 0; t < n; t++)
            put_row(blocks, net->plan.places - 1 - (first + t), d_head,
                    rows + (t * n_head + h) * d_head);
    }
}

/* The learned row of distance d is the table's d-th from its end. */
static void load_learned_distances(struct network *net, int layer, size_t first, size_t n) {
    const struct transformer_xl *x = net->x;
    const struct layer *l = &x->layer[layer];
    size_t width = head_width(x), n_head = (size_t)x->n_head;
    for (size_t d = first; d < first + n; d++) {
        size_t row = (size_t)x->max_klen - 1 - d, place = net->plan.places - 1 - d;
        const char *element = l->r_emb.data;
        element += row * width * weights_type_size(l->r_emb.type);
        net->compute.kernels->widen[l->r_emb.type](element, width, net->heads);
        store_position_rows(net, layer, d, 1, net->heads);
        for (size_t h = 0; h < n_head; h++) {
            size_t base = ((size_t)layer * n_head + h) * net->plan.places;
            net->position_bias[base + place] = l->r_bias[row * n_head + h];
        }
    }
}

/* Fills in the position rows of all distances below `wanted`. */
static void need_distances(struct network *net, size_t wanted) {
    const struct transformer_xl *x = net->x;
    wanted = smaller(wanted, net->plan.distances);
    while (net->known_distances < wanted) {
        size_t first = net->known_distances;
        size_t n = smaller(POSITION_BLOCK, net->plan.distances - first);
        if (x->attn_type == ATTENTION_RELATIVE)
            sine_rows(net, first, 1, n, net->sines);
        for (int layer = 0; layer < x->n_layer; layer++) {
            if (x->attn_type == ATTENTION_LEARNED_DISTANCE) {
                load_learned_distances(net, layer, first, n);
                continue;
            }
            /* W_r R: R[n, d_model], W_r[n_head d_head, d_model] */
            compute_product(&net->compute, n, net->sines, (size_t)x->d_model, &x->layer[layer].r,
                            NULL, LINEAR, net->heads, head_width(x));
            store_position_rows(net, layer, first, n, net->heads);
        }
        net->known_distances += n;
    }
}

/* ---- Attention ---------------------------------------------------------------------------- */

struct attention {
    struct network *net;
    int layer;
    size_t n; /* queries */
};

/* The earliest position that the query at p sees. */
static uint64_t first_visible(const struct network *net, uint64_t p) {
    uint64_t mem_len = (uint64_t)net->settings.mem_len;
    if (is_same_length(&net->settings))
        return p + 1 > mem_len ? p + 1 - mem_len : 0;
    return net->segment_start > mem_len ? net->segment_start - mem_len : 0;
}

/* Positions [low, low + n) of the ring, whole blocks: at most two runs of rows. */
struct span {
    size_t row, n;
};

static int ring_spans(const struct network *net, uint64_t low, size_t n, struct span span[2]) {
    size_t row = low % net->plan.capacity, left = net->plan.capacity - row;
    span[0] = (struct span){row, smaller(n, left)};
    span[1] = (struct span){0, n - span[0].n};
    return span[1].n > 0 ? 2 : 1;
}

/* C = A B^T for n rows of B in blocks: A[m, d_head], C[m, n] with row stride ldc. */
static void dot_blocks(const struct network *net, size_t m, size_t n, const float *a,
                       const float *blocks, float *c, size_t ldc) {
    size_t d_head = (size_t)net->x->d_head;
    for (size_t j = 0; j < n; j += KEY_BLOCK)
        net->compute.kernels->multiply(m, KEY_BLOCK, d_head, a, d_head, blocks + j * d_head,
                                       KEY_BLOCK, false, c + j, ldc);
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

static void attention_task(void *context, int i, int thread) {
    const struct attention *a = context;
    struct network *net = a->net;
    const struct transformer_xl *x = net->x;
    const struct layer *layer = &x->layer[a->layer];
    size_t n_head = (size_t)x->n_head, d_head = (size_t)x->d_head, width = head_width(x);
    size_t head = (size_t)i % n_head, first = (size_t)i / n_head * QUERY_BLOCK;
    size_t m = smaller(QUERY_BLOCK, a->n - first);

    /* Whole blocks of keys, from the first one that the first query sees. */
    uint64_t position = net->next + first, visible = first_visible(net, position);
    uint64_t low = visible / KEY_BLOCK * KEY_BLOCK;
    size_t n_key = in_blocks((size_t)(position + m - low));
    size_t n_distance = smaller((size_t)(position + m - visible), net->plan.distances);
    size_t n_place = in_blocks(n_distance), place = net->plan.places - n_place;
    struct span span[2];
    int n_span = ring_spans(net, low, n_key, span);

    float *s = net->compute.scratch[thread];               /* [m, n_key] */
    float *b = s + m * n_key;                              /* [m, n_place] */
    float *q_u = b + m * n_place, *q_v = q_u + m * d_head; /* [m, d_head] */
    float *out = q_v + m * d_head;                         /* [m, value_row] */
    for (size_t t = 0; t < m; t++) {
        const float *q = net->qkv + (first + t) * 3 * width + head * d_head;
        for (size_t j = 0; j < d_head; j++) {
            q_u[t * d_head + j] = q[j] + (layer->u ? layer->u[head * d_head + j] : 0);
            q_v[t * d_head + j] = q[j] + (layer->v ? layer->v[head * d_head + j] : 0);
        }
    }

    const float *keys = head_blocks(net, net->keys, net->plan.capacity, a->layer, head);
    const float *values = head_values(net, a->layer, head);
    size_t before = 0;
    for (int k = 0; k < n_span; k++) { /* (Q + u) K^T */
        dot_blocks(net, m, span[k].n, q_u, keys + span[k].row * d_head, s + before, n_key);
        before += span[k].n;
    }
    if (n_distance > 0) { /* (Q + v) (W_r R)^T */
        const float *rows = head_blocks(net, net->position_rows, net->plan.places, a->layer, head);
        dot_blocks(net, m, n_place, q_v, rows + place * d_head, b, n_place);
    }
    if (net->position_bias) {
        const float *bias =
            net->position_bias + ((size_t)a->layer * n_head + head) * net->plan.places + place;
        for (size_t t = 0; t < m; t++) {
            for (size_t j = 0; j < n_place; j++)
                b[t * n_place + j] += bias[j];
        }
    }

    float factor[QUERY_BLOCK];
    for (size_t t = 0; t < m; t++)
        factor[t] = attend_row(net, position + t, low, n_key, s + t * n_key,
                               b + t * n_place + n_place - n_distance, n_distance);
    before = 0;
    for (int k = 0; k < n_span; k++) { /* softmax(score) V */
        net->compute.kernels->multiply(m, net->plan.value_row, span[k].n, s + before, n_key,
                                       values + span[k].row * net->plan.value_row,
                                       net->plan.value_row, k > 0, out, net->plan.value_row);
        before += span[k].n;
    }
    for (size_t t = 0; t < m; t++) {
        for (size_t j = 0; j < d_head; j++)
            net->heads[(first + t) * width + head * d_head + j] =
                out[t * net->plan.value_row + j] * factor[t];
    }
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

static void norm_task(void *context, int i, int thread) {
    (void)thread;
    const struct norm *z = context;
    size_t d_model = (size_t)z->net->x->d_model, first = (size_t)i * NORM_BLOCK;
    for (size_t t = first; t < smaller(first + NORM_BLOCK, z->n); t++)
        z->net->compute.kernels->layer_norm(d_model, z->x + t * d_model,
                                            z->y ? z->y + t * d_model : NULL, z->weights->weight,
                                            z->weights->bias, z->out + t * d_model);
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

static void attention_half(struct network *net, int l, size_t n) {
    const struct transformer_xl *x = net->x;
    const struct layer *layer = &x->layer[l];
    size_t width = head_width(x), d_model = (size_t)x->d_model;
    const float *input = begin_half(net, &layer->attention_norm, n);
    /* QKV[n, 3 width] = X[n, d_model] W_qkv^T */
    compute_product(&net->compute, n, input, d_model, &layer->qkv, NULL, LINEAR, net->qkv,
                    3 * width);
    if (!is_relative(x) && x->pre_lnorm) {
        /* The vanilla kinds' published code leaves the queries' input as it is. */
        struct matrix q = layer->qkv;
        q.n_row = width;
        compute_product(&net->compute, n, net->hidden, d_model, &q, NULL, LINEAR, net->qkv,
                        3 * width);
    }
    struct store store = {net, l, n, net->next, net->qkv, 3 * width};
    store_rows(&store);
    struct attention attention = {net, l, n};
    int blocks = (int)((n + QUERY_BLOCK - 1) / QUERY_BLOCK);
    pool_run(net->compute.pool, blocks * x->n_head, attention_task, &attention);
    compute_product(&net->compute, n, net->heads, width, &layer->o, NULL, LINEAR, net->inner,
                    d_model);
    finish_half(net, &layer->attention_norm, n, net->inner);
}

static void feed_forward_half(struct network *net, int l, size_t n) {
    const struct layer *layer = &net->x->layer[l];
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
    sine_rows(net, n - 1, -1, n, net->sines);
    add_rows(net, n, net->sines);
}

static void add_learned_positions(struct network *net, int l, size_t n) {
    const struct matrix *r = &net->x->layer[l].r_emb;
    const char *element = r->data;
    element += (r->n_row - n) * r->n_col * weights_type_size(r->type);
    net->compute.kernels->widen[r->type](element, n * r->n_col, net->sines);
    add_rows(net, n, net->sines);
}

static void forward(struct network *net, const int32_t *ids, size_t n) {
    const struct transformer_xl *x = net->x;
    if (is_relative(x)) {
        uint64_t last = net->next + n - 1;
        need_distances(net, (size_t)(last - first_visible(net, net->next)) + 1);
    }
    adaptive_embed(&net->adaptive, &net->compute, ids, n, net->hidden);
    if (x->attn_type == ATTENTION_SINUSOID)
        add_sinusoid(net, n);
    for (int l = 0; l < x->n_layer; l++) {
        if (x->attn_type == ATTENTION_LEARNED_POSITION)
            add_learned_positions(net, l, n);
        attention_half(net, l, n);
        feed_forward_half(net, l, n);
    }
    net->next += n;
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

const float *network_advance(struct network *net, const int32_t *ids, size_t n) {
    if (is_same_length(&net->settings)) {
        net->segment_start = net->next;
        forward(net, ids, n);
        return net->hidden;
    }
    size_t length = (size_t)segment_length(net);
    if (is_relative(net->x)) {
        if (length == 0)
            net->segment_start = net->next;
        forward(net, ids, n);
        return net->hidden;
    }
    /* Without memory, and with positions that depend on the segment's length: all of it again. */
    memcpy(net->segment + length, ids, n * sizeof *ids);
    net->next = net->segment_start = 0;
    forward(net, net->segment, length + n);
    return net->hidden + length * (size_t)net->x->d_model;
}
