/* The memory of a session: how much it takes, and what it begins with. */
#include "timeline.h"
#include "attention.h"
#include "lib/base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum { MAX_CHUNK = 512 }; /* tokens of a pass: more gains nothing, and activations grow */

/* ---- Sizes -------------------------------------------------------------------------------- */

/* Sizes that follow from the model and the settings. */
struct plan {
    size_t chunk;    /* most tokens of one pass */
    size_t capacity; /* rows of the ring, in whole blocks: memory and segment */
    struct rows keys, values;
    struct position_plan positions;
};

/* How many distances can be told apart. */
static size_t count_distances(const struct transformer_xl *x, const txl_settings *s) {
    if (!attention_is_relative(x->attn_type))
        return 0;
    size_t reach = (size_t)s->mem_len + (is_same_length(s) ? 0 : (size_t)s->tgt_len);
    if (s->clamp_len > 0)
        reach = smaller(reach, (size_t)s->clamp_len + (x->attn_type == ATTENTION_RELATIVE));
    if (x->attn_type == ATTENTION_LEARNED_DISTANCE)
        reach = smaller(reach, (size_t)x->max_klen);
    return reach;
}

static struct position_plan plan_positions(const struct transformer_xl *x, const txl_settings *s) {
    static const enum position_kind kinds[] = {
        [ATTENTION_RELATIVE] = POSITIONS_SINUSOID,
        [ATTENTION_LEARNED_DISTANCE] = POSITIONS_LEARNED,
        [ATTENTION_SINUSOID] = POSITIONS_NONE,
        [ATTENTION_LEARNED_POSITION] = POSITIONS_NONE,
    };
    return (struct position_plan){.kind = kinds[x->attn_type],
                                  .n_layer = (size_t)x->n_layer,
                                  .n_head = (size_t)x->n_head,
                                  .d_head = (size_t)x->d_head,
                                  .d_model = (size_t)x->d_model,
                                  .distances = count_distances(x, s),
                                  .clamp_len = s->clamp_len,
                                  .inv_freq = x->inv_freq,
                                  .zero_memory = x->network.zero_memory && s->mem_len > FEW_TOKENS,
                                  .type = rows_type(s->memory_type)};
}

static struct plan make_plan(const struct transformer_xl *x, const txl_settings *s) {
    struct plan plan;
    size_t tgt_len = (size_t)s->tgt_len, mem_len = (size_t)s->mem_len;
    /* With same_length the segments' boundaries have no effect, so passes may be longer. */
    plan.chunk = is_same_length(s) ? MAX_CHUNK : smaller(tgt_len, MAX_CHUNK);
    if (!attention_is_relative(x->attn_type))
        plan.chunk = tgt_len;
    /* A pass sees blocks from that of its first key to that of its last: at most so many rows. */
    plan.capacity = in_blocks(mem_len + larger(tgt_len, plan.chunk) + ROW_BLOCK - 1);
    plan.keys = plan.values = (struct rows){.type = rows_type(s->memory_type),
                                            .n_layer = (size_t)x->n_layer,
                                            .n_block = plan.capacity / ROW_BLOCK,
                                            .n_head = (size_t)x->n_head};
    plan.keys.transposed = true;
    plan.keys.width = rows_width(plan.keys.type, (size_t)x->d_head);
    plan.values.width = ((size_t)x->d_head + 15) / 16 * 16;
    plan.positions = plan_positions(x, s);
    return plan;
}

/* Floats of activations for each token of a pass. */
static size_t activation_row(const struct transformer_xl *x) {
    return 2 * (size_t)x->d_model + 4 * head_width(x) +
           (size_t)(x->d_inner > x->d_model ? x->d_inner : x->d_model);
}

/* Of scratch that an attention task needs: scores, position scores, two queries, results. */
static size_t attention_scratch(const struct transformer_xl *x, const struct plan *plan) {
    size_t queries = smaller(QUERY_BLOCK, plan->chunk);
    return queries * (plan->capacity + in_blocks(plan->positions.distances) +
                      2 * (size_t)x->d_head + plan->values.width);
}

static struct layer_list layer_list(const struct transformer_xl *x) {
    return (struct layer_list){.table = &transformer_xl_parameters,
                               .settings = x->network.settings,
                               .network = (void *)x,
                               .weights = x->network.weights};
}

static size_t all_scratch(const struct transformer_xl *x, const struct plan *plan) {
    const struct layer_list list = layer_list(x);
    size_t most =
        larger(attention_scratch(x, plan), adaptive_scratch(&x->network.ends, plan->chunk));
    most = larger(most, positions_scratch(&plan->positions));
    for (int l = 0; l < x->n_layer; l++) {
        for (int i = -1; (i = layers_next_matrix(&list, l, i)) >= 0;) {
            const struct parameter *p = &list.table->parameter[i];
            size_t rows = p->use == USED_BY_POSITIONS ? POSITION_BLOCK : plan->chunk;
            most = larger(most, compute_scratch(parameter_matrix(p, &x->layer[l]), rows));
        }
    }
    return most;
}

/* The most that any product of a session packs. */
static size_t all_packed(const struct transformer_xl *x, const struct kernels *kernels,
                         const struct plan *plan) {
    size_t k = larger(larger((size_t)x->d_model, (size_t)x->d_inner),
                      larger(head_width(x), x->network.ends.band[0].embedding.n_col));
    return compute_packed(kernels, larger(plan->chunk, POSITION_ROWS), k);
}

/* The TensorFlow dialect's first memory is mem_len inputs of zeros, seen through each layer's own
 * projection.  Without pre_lnorm that gives zeros; with it, the projection of the norm's bias. */
static bool projects_zeros(const struct transformer_xl *x, const txl_settings *s) {
    return x->network.zero_memory && x->pre_lnorm && s->mem_len > 0;
}

static size_t zero_bytes(const struct transformer_xl *x, const txl_settings *s) {
    return projects_zeros(x, s) ? (size_t)x->n_layer * 3 * head_width(x) * sizeof(float) : 0;
}

uint64_t transformer_xl_timeline_bytes(const struct network *network, const struct kernels *kernels,
                                       const txl_settings *settings) {
    const struct transformer_xl *x = (const struct transformer_xl *)network;
    const struct layer_list list = layer_list(x);
    struct plan plan = make_plan(x, settings);
    uint64_t threads = (uint64_t)(settings->threads > 0 ? settings->threads : pool_processors());
    return rows_bytes(&plan.keys) + rows_bytes(&plan.values) + positions_bytes(&plan.positions) +
           layers_bytes(&list, (int)threads) + zero_bytes(x, settings) +
           plan.chunk * activation_row(x) * sizeof(float) +
           (threads * all_scratch(x, &plan) + all_packed(x, kernels, &plan)) * sizeof(float) +
           adaptive_bytes(&network->ends, plan.chunk);
}

txl_status transformer_xl_check_session(const struct network *network, const txl_settings *s,
                                        txl_error *error) {
    const struct transformer_xl *x = (const struct transformer_xl *)network;
    if (!attention_is_relative(x->attn_type) && s->mem_len > 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "mem_len must be 0: attention type %d has absolute positions and no memory",
                        x->attn_type);
    if (x->attn_type == ATTENTION_LEARNED_POSITION && s->tgt_len > x->max_klen)
        return txl_fail(error, TXL_ARGUMENT,
                        "tgt_len must be at most %d, the positions that this model has learned",
                        x->max_klen);
    return TXL_OK;
}

static txl_status make_activations(struct transformer_xl_timeline *line, txl_error *error) {
    const struct transformer_xl *x = line->x;
    size_t chunk = line->base.chunk, width = head_width(x), d_model = (size_t)x->d_model;
    line->hidden = calloc(chunk, d_model * sizeof(float));
    line->normed = calloc(chunk, d_model * sizeof(float));
    line->qkv = calloc(chunk, 3 * width * sizeof(float));
    line->heads = calloc(chunk, width * sizeof(float));
    line->inner = calloc(chunk, larger((size_t)x->d_inner, d_model) * sizeof(float));
    line->base.segment = calloc(x->network.has_memory ? 1 : chunk, sizeof *line->base.segment);
    if (!line->hidden || !line->normed || !line->qkv || !line->heads || !line->inner ||
        !line->base.segment)
        return txl_fail_memory(error, "a segment", chunk * activation_row(x) * sizeof(float));
    return TXL_OK;
}

static txl_status open_parts(struct transformer_xl_timeline *line, const struct kernels *kernels,
                             txl_error *error) {
    const struct transformer_xl *x = line->x;
    const struct layer_list list = layer_list(x);
    struct timeline *t = &line->base;
    struct plan plan = make_plan(x, &t->settings);
    t->chunk = t->together = plan.chunk;
    line->capacity = plan.capacity;
    line->keys = plan.keys;
    line->values = plan.values;
    txl_status status = compute_open(&t->compute, kernels, t->settings.threads,
                                     all_scratch(x, &plan), all_packed(x, kernels, &plan), error);
    if (!status)
        status = layers_open(&t->layers, &list, t->compute.pool, error);
    if (!status)
        status = adaptive_open(&t->adaptive, &x->network.ends, plan.chunk, error);
    if (!status)
        status = make_activations(line, error);
    if (!status)
        status = rows_open(&line->keys, "the segment memory", error);
    if (!status)
        status = rows_open(&line->values, "the segment memory", error);
    if (!status)
        status = positions_new(&plan.positions, &line->positions, error);
    if (!status)
        t->settings.threads = pool_size(t->compute.pool);
    return status;
}

static txl_status project_zeros(struct transformer_xl_timeline *line, txl_error *error) {
    const struct transformer_xl *x = line->x;
    size_t width = 3 * head_width(x);
    if (!projects_zeros(x, &line->base.settings))
        return TXL_OK;
    line->zero_rows = calloc((size_t)x->n_layer, width * sizeof *line->zero_rows);
    if (!line->zero_rows)
        return txl_fail_memory(error, "the first memory", zero_bytes(x, &line->base.settings));
    for (int l = 0; l < x->n_layer; l++) {
        const void *got;
        txl_status status = layers_get(&line->base.layers, l, &got, error);
        if (status)
            return status;
        const struct layer *layer = got;
        compute_product(&line->base.compute, 1, layer->attention_norm.bias, 0, &layer->qkv, NULL,
                        LINEAR, line->zero_rows + (size_t)l * width, 0);
    }
    return TXL_OK;
}

txl_status transformer_xl_timeline_open(const struct network *network,
                                        const struct kernels *kernels, const txl_settings *settings,
                                        struct timeline **timeline, txl_error *error) {
    const struct transformer_xl *x = (const struct transformer_xl *)network;
    struct transformer_xl_timeline *line = calloc(1, sizeof *line);
    if (!line)
        return txl_fail_memory(error, "a session", sizeof *line);
    *line = (struct transformer_xl_timeline){
        .base = {.network = network, .settings = *settings}, .x = x, .fresh = true};
    txl_status status = open_parts(line, kernels, error);
    if (!status)
        status = project_zeros(line, error);
    if (status) {
        transformer_xl_timeline_close(&line->base);
        return status;
    }
    transformer_xl_reset(&line->base);
    *timeline = &line->base;
    return TXL_OK;
}

void transformer_xl_timeline_close(struct timeline *timeline) {
    struct transformer_xl_timeline *line = xl_timeline(timeline);
    if (!line)
        return;
    positions_free(line->positions);
    rows_close(&line->keys);
    rows_close(&line->values);
    free(line->hidden);
    free(line->normed);
    free(line->qkv);
    free(line->heads);
    free(line->inner);
    free(line->base.segment);
    free(line->zero_rows);
    layers_close(&line->base.layers);
    adaptive_close(&line->base.adaptive);
    compute_close(&line->base.compute);
    free(line);
}

/* ---- The ring ----------------------------------------------------------------------------- */

static void store_zero_memory(struct transformer_xl_timeline *line) {
    const struct transformer_xl *x = line->x;
    size_t n = (size_t)line->base.settings.mem_len, width = 3 * head_width(x);
    if (!line->zero_rows && line->fresh)
        return;
    if (!line->zero_rows)
        memset(line->qkv, 0, width * sizeof *line->qkv);
    for (int layer = 0; layer < x->n_layer; layer++) {
        const float *row = line->zero_rows ? line->zero_rows + (size_t)layer * width : line->qkv;
        attention_store(line, layer, 0, n, row, 0);
    }
}

void transformer_xl_reset(struct timeline *timeline) {
    struct transformer_xl_timeline *line = xl_timeline(timeline);
    if (first_position(&line->base) > 0)
        store_zero_memory(line);
    line->base.next = line->base.segment_start = first_position(&line->base);
}

/* Position rows of all distances. */
static txl_status complete_positions(struct transformer_xl_timeline *line, txl_error *error) {
    struct positions *p = line->positions;
    positions_want(p, &line->base.compute, p->distances);
    for (int l = 0; l < line->x->n_layer && p->known < p->wanted; l++) {
        const void *layer;
        txl_status status = layers_get(&line->base.layers, l, &layer, error);
        if (status)
            return status;
        const struct position_weights weights = position_weights(layer);
        positions_fill(p, &line->base.compute, l, &weights);
    }
    positions_finish(p);
    return TXL_OK;
}

txl_status transformer_xl_copy(struct timeline *to_timeline, struct timeline *from_timeline,
                               txl_error *error) {
    struct transformer_xl_timeline *to = xl_timeline(to_timeline),
                                   *from = xl_timeline(from_timeline);
    txl_status status = complete_positions(from, error);
    if (status)
        return status;
    positions_free(to->positions);
    to->positions = from->positions;
    atomic_fetch_add(&to->positions->users, 1);
    to->base.next = from->base.next;
    to->base.segment_start = from->base.segment_start;
    to->fresh = from->fresh;
    memcpy(to->base.segment, from->base.segment,
           (from->x->network.has_memory ? 1 : from->base.chunk) * sizeof *to->base.segment);
    /* Both hold the first memory, which may be large and untouched. */
    uint64_t low = first_visible(&from->base, from->base.next), first = first_position(&from->base);
    for (uint64_t p = (low > first ? low : first) / ROW_BLOCK; p * ROW_BLOCK < from->base.next;
         p++) {
        rows_copy_block(&to->keys, &from->keys, (size_t)(p % from->keys.n_block));
        rows_copy_block(&to->values, &from->values, (size_t)(p % from->keys.n_block));
    }
    return TXL_OK;
}

/* ---- Saving the ring ---------------------------------------------------------------------- */

uint64_t transformer_xl_first_row(const struct network *network, const txl_settings *settings,
                                  uint64_t next, uint64_t segment_start) {
    uint64_t mem_len = (uint64_t)settings->mem_len, begin = segment_start;
    if (!network->has_memory)
        return next;
    if (is_same_length(settings) || next - segment_start == (uint64_t)settings->tgt_len)
        begin = next;
    return begin > mem_len ? begin - mem_len : 0;
}

void transformer_xl_export_row(const struct timeline *timeline, int layer, uint64_t position,
                               float *row) {
    const struct transformer_xl_timeline *line = (const struct transformer_xl_timeline *)timeline;
    size_t n_head = (size_t)line->x->n_head, d_head = (size_t)line->x->d_head;
    size_t at = position % line->capacity;
    for (size_t h = 0; h < n_head; h++) {
        rows_get(&line->keys, (size_t)layer, at, h, row + h * d_head, d_head);
        rows_get(&line->values, (size_t)layer, at, h, row + (n_head + h) * d_head, d_head);
    }
}

void transformer_xl_import_row(struct timeline *timeline, int layer, uint64_t position,
                               const float *row) {
    struct transformer_xl_timeline *line = xl_timeline(timeline);
    size_t n_head = (size_t)line->x->n_head, d_head = (size_t)line->x->d_head;
    const struct kernels *kernels = line->base.compute.kernels;
    size_t at = position % line->capacity;
    for (size_t h = 0; h < n_head; h++) {
        rows_put(&line->keys, kernels, (size_t)layer, at, h, row + h * d_head, d_head);
        rows_put(&line->values, kernels, (size_t)layer, at, h, row + (n_head + h) * d_head, d_head);
    }
}
