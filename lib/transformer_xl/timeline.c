/* The memory of a session: its size, its first content, copies of it, and rows to save; and the row
 * of the family, of which it is most. */
#include "timeline.h"
#include "lib/base/error.h"
#include "lib/network/family.h"

#include <string.h>

enum { MAX_CHUNK = 512 }; /* tokens of a pass: more gains nothing, and activations grow */

/* ---- Sizes -------------------------------------------------------------------------------- */

/* Sizes that follow from the model and the settings. */
struct timeline_plan {
    size_t chunk; /* most tokens of one pass */
    struct kv_ring ring;
    struct position_plan positions;
};

/* The number of distances that have position rows of their own. */
static size_t count_distances(const struct transformer_xl *net, const txl_settings *s) {
    if (!attention_is_relative(net->attn_type))
        return 0;
    size_t reach = is_same_length(s) ? same_length_reach(&net->network, s)
                                     : (size_t)s->mem_len + (size_t)s->tgt_len;
    if (s->clamp_len > 0)
        reach = smaller(reach, (size_t)s->clamp_len + (net->attn_type == ATTENTION_RELATIVE));
    if (net->attn_type == ATTENTION_LEARNED_DISTANCE)
        reach = smaller(reach, (size_t)net->max_klen);
    return reach;
}

static struct position_plan plan_positions(const struct transformer_xl *net,
                                           const txl_settings *s) {
    static const enum position_kind kinds[] = {
        [ATTENTION_RELATIVE] = POSITIONS_SINUSOID,
        [ATTENTION_LEARNED_DISTANCE] = POSITIONS_LEARNED,
        [ATTENTION_SINUSOID] = POSITIONS_NONE,
        [ATTENTION_LEARNED_POSITION] = POSITIONS_NONE,
    };
    return (struct position_plan){.kind = kinds[net->attn_type],
                                  .n_layer = (size_t)net->n_layer,
                                  .n_head = (size_t)net->n_head,
                                  .d_head = (size_t)net->d_head,
                                  .d_model = (size_t)net->d_model,
                                  .distances = count_distances(net, s),
                                  .clamp_len = s->clamp_len,
                                  .inv_freq = net->inv_freq,
                                  .zero_memory =
                                      net->network.zero_memory && s->mem_len > FIRST_TOKENS,
                                  .exact = s->arithmetic != TXL_ARITHMETIC_FAST,
                                  .type = rows_type(s->memory_type)};
}

static struct timeline_plan make_plan(const struct transformer_xl *net, const txl_settings *s) {
    struct timeline_plan plan;
    size_t tgt_len = (size_t)s->tgt_len, mem_len = (size_t)s->mem_len;
    /* With same_length the segments' boundaries have no effect, so passes may be longer. */
    plan.chunk = is_same_length(s) ? MAX_CHUNK : smaller(tgt_len, MAX_CHUNK);
    if (!attention_is_relative(net->attn_type))
        plan.chunk = tgt_len;
    plan.ring =
        ring_plan(s->memory_type, net->n_layer, net->n_head, net->d_head,
                  mem_len + larger(tgt_len, plan.chunk), first_position_of(&net->network, s));
    plan.positions = plan_positions(net, s);
    return plan;
}

/* Floats of scratch that an attention task needs: scores, position scores, two queries, results. */
static size_t attention_scratch(const struct transformer_xl *net,
                                const struct timeline_plan *plan) {
    size_t queries = smaller(QUERY_BLOCK, plan->chunk);
    return queries * (plan->ring.capacity + in_blocks(plan->positions.distances) +
                      2 * (size_t)net->d_head + plan->ring.values.width);
}

static size_t all_scratch(const struct transformer_xl *net, const struct timeline_plan *plan) {
    size_t most =
        larger(attention_scratch(net, plan), adaptive_scratch(&net->network.bands, plan->chunk));
    most = larger(most, positions_scratch(&plan->positions));
    return larger(most, layers_scratch(&net->network, plan->chunk, POSITION_BLOCK));
}

/* The most that any product of a session packs. */
static size_t all_packed(const struct transformer_xl *net, const struct kernels *kernels,
                         const struct timeline_plan *plan) {
    size_t k = larger(larger((size_t)net->d_model, (size_t)net->d_inner),
                      larger(head_width(net), net->network.bands.band[0].embedding.n_col));
    return compute_packed(kernels, larger(plan->chunk, POSITION_ROWS), k);
}

/* In the TensorFlow dialect the first memory is mem_len zero inputs to each layer, which are
 * projected to keys and values.  Without pre_lnorm these are zeros; with it, the projection of the
 * norm's bias. */
static bool projects_zeros(const struct transformer_xl *net, const txl_settings *s) {
    return net->network.zero_memory && net->pre_lnorm && s->mem_len > 0;
}

static txl_status check_session(const struct network *network, const txl_settings *s,
                                txl_error *error) {
    const struct transformer_xl *net = (const struct transformer_xl *)network;
    if (!attention_is_relative(net->attn_type) && s->mem_len > 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "mem_len must be 0: attention type %d has absolute positions and no memory",
                        net->attn_type);
    if (!attention_is_relative(net->attn_type) && s->arithmetic != TXL_ARITHMETIC_FAST)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "the exact arithmetic does not cover attention type %d, whose positions "
                        "count from the segment's end",
                        net->attn_type);
    if (net->attn_type == ATTENTION_LEARNED_POSITION && s->tgt_len > net->max_klen)
        return txl_fail(error, TXL_ARGUMENT,
                        "tgt_len must be at most %d, the positions that this model has learned",
                        net->max_klen);
    return TXL_OK;
}

/* ---- Memory ------------------------------------------------------------------------------- */

static struct timeline *lay_out(const struct network *network, const struct kernels *kernels,
                                const txl_settings *settings, struct arena *arena) {
    const struct transformer_xl *net = (const struct transformer_xl *)network;
    const struct timeline_plan plan = make_plan(net, settings);
    struct transformer_xl_timeline unused, *taken = arena_take(arena, 1, sizeof *taken);
    struct transformer_xl_timeline *timeline = taken ? taken : &unused;
    *timeline = (struct transformer_xl_timeline){.base = {.network = network,
                                                          .settings = *settings,
                                                          .chunk = plan.chunk,
                                                          .most_batch = plan.chunk},
                                                 .net = net,
                                                 .ring = plan.ring};
    struct timeline *t = &timeline->base;
    /* Before the scratch: the members of a group write it, and then touch one huge page. */
    ring_lay_out(&timeline->ring, arena);
    compute_lay_out(&t->compute, settings->threads, all_scratch(net, &plan),
                    all_packed(net, kernels, &plan), 4 * (size_t)net->n_layer + BANDS_ORDER, arena);
    layers_lay_out(&t->layers, network, arena);
    adaptive_lay_out(&t->adaptive, &network->bands, plan.chunk,
                     settings->arithmetic != TXL_ARITHMETIC_FAST, arena);
    size_t width = head_width(net), d_model = (size_t)net->d_model, d_inner = (size_t)net->d_inner;
    timeline->hidden = arena_take(arena, plan.chunk * d_model, sizeof(float));
    timeline->normed = arena_take(arena, plan.chunk * d_model, sizeof(float));
    timeline->qkv = arena_take(arena, plan.chunk * 3 * width, sizeof(float));
    timeline->heads = arena_take(arena, plan.chunk * width, sizeof(float));
    timeline->inner = arena_take(arena, plan.chunk * larger(d_inner, d_model), sizeof(float));
    timeline->scores = arena_take(
        arena, (size_t)net->n_head * (plan.ring.capacity + in_blocks(plan.positions.distances)),
        sizeof(float));
    timeline->group = arena_take(arena, plan.chunk + 1, sizeof *timeline->group);
    timeline->most_later =
        LATER_TIMELINES * (size_t)net->n_head * 2 * 2; /* a ring may begin anew */
    timeline->later = arena_take(arena, timeline->most_later, sizeof *timeline->later);
    if (!network->has_memory)
        t->segment = arena_take(arena, plan.chunk, sizeof *t->segment);
    if (projects_zeros(net, settings))
        timeline->zero_rows = arena_take(arena, (size_t)net->n_layer * 3 * width, sizeof(float));
    if (!taken)
        return NULL;
    layers_order(network, &t->compute);
    adaptive_order(&network->bands, &t->compute);
    return &taken->base;
}

static txl_status project_zeros(struct transformer_xl_timeline *timeline, txl_error *error) {
    const struct transformer_xl *net = timeline->net;
    size_t width = 3 * head_width(net);
    for (int l = 0; timeline->zero_rows && l < net->n_layer; l++) {
        const void *got;
        txl_status status = layers_get(&timeline->base.layers, l, &got, error);
        if (status)
            return status;
        const struct layer *layer = got;
        compute_product(&timeline->base.compute, 1, layer->attention_norm.bias, 0, &layer->qkv,
                        NULL, LINEAR, timeline->zero_rows + (size_t)l * width, 0);
    }
    return TXL_OK;
}

/* How many rows of the first memory, from the first on, may not be what they should be: those that
 * later tokens, also of a call that failed, can have overwritten.  A new arena is zero. */
static size_t zeros_to_store(const struct transformer_xl_timeline *timeline) {
    const uint64_t mem_len = (uint64_t)timeline->base.settings.mem_len;
    const uint64_t end = timeline->base.next + timeline->base.chunk;
    if (timeline->zero_rows)
        return mem_len;
    if (timeline->base.next == 0 || end <= timeline->ring.capacity)
        return 0;
    return smaller(mem_len, end - timeline->ring.capacity);
}

static void store_zero_memory(struct transformer_xl_timeline *timeline) {
    const struct transformer_xl *net = timeline->net;
    size_t n = zeros_to_store(timeline), width = 3 * head_width(net);
    if (n > 0 && !timeline->zero_rows)
        memset(timeline->qkv, 0, width * sizeof *timeline->qkv);
    for (int layer = 0; n > 0 && layer < net->n_layer; layer++) {
        const float *row =
            timeline->zero_rows ? timeline->zero_rows + (size_t)layer * width : timeline->qkv;
        struct stored_rows rows = {timeline, layer, n, 0, row, 0};
        timeline_store(&rows);
    }
}

static void reset(struct timeline *base) {
    struct transformer_xl_timeline *timeline = xl_timeline(base);
    ring_reset(&timeline->ring);
    if (first_position(&timeline->base) > 0)
        store_zero_memory(timeline);
    timeline->base.next = timeline->base.segment_start = first_position(&timeline->base);
}

static uint64_t timeline_bytes(const struct network *network, const txl_settings *settings) {
    const struct transformer_xl *net = (const struct transformer_xl *)network;
    const struct timeline_plan plan = make_plan(net, settings);
    struct compute order = {0};
    if (settings->arithmetic == TXL_ARITHMETIC_INTEGERS) {
        layers_order(network, &order);
        adaptive_order(&network->bands, &order);
    }
    return compute_weights_bytes(&order) + pool_bytes(settings->threads) +
           layers_bytes(network, settings->threads) + ring_bytes(&plan.ring) +
           positions_bytes(&plan.positions);
}

static txl_status timeline_open(struct timeline *t, const struct kernels *kernels,
                                struct timeline *like, txl_error *error) {
    struct transformer_xl_timeline *timeline = xl_timeline(t);
    const struct position_plan positions = plan_positions(timeline->net, &t->settings);
    const bool reaches_sgemm =
        layers_reach_sgemm(t->network, kernels, larger(t->chunk, POSITION_BLOCK)) ||
        positions_reach_sgemm(&positions, kernels);
    txl_status status =
        compute_open(&t->compute, kernels, t->settings.threads, reaches_sgemm, error);
    if (!status && kernels->integers)
        status = compute_pack_weights(&t->compute, like ? &like->compute : NULL, error);
    if (!status)
        status = layers_open(&t->layers, t->compute.pool, error);
    if (!status)
        status = ring_open(&timeline->ring, error);
    if (status)
        return status;
    timeline->positions =
        like ? arena_join(xl_timeline(like)->positions) : positions_new(&positions, error);
    status = timeline->positions ? project_zeros(timeline, error) : TXL_MEMORY;
    if (!status)
        reset(t);
    return status;
}

static void timeline_close(struct timeline *t) {
    arena_leave(xl_timeline(t)->positions);
    ring_close(&xl_timeline(t)->ring);
    layers_close(&t->layers);
    compute_close(&t->compute);
}

/* ---- The ring ----------------------------------------------------------------------------- */

enum { FETCHED = 8 }; /* how many rows ahead keys and values are prefetched */

void timeline_store_head(const struct stored_rows *s, size_t head) {
    const struct transformer_xl_timeline *timeline = s->timeline;
    const struct kernels *kernels = timeline->base.compute.kernels;
    const struct kv_store *own = timeline->ring.own;
    size_t d_head = (size_t)timeline->net->d_head, width = head_width(timeline->net);
    size_t layer = (size_t)s->layer, row = ring_row(&timeline->ring, s->position);
    const float *k = s->qkv + width + head * d_head, *v = k + width;
    for (size_t t = 0; t < s->n; t++) {
        /* The processor itself does not fetch rows that are pages apart. */
        for (size_t j = 0; t + FETCHED < s->n && j < d_head; j += 64 / sizeof *k) {
            __builtin_prefetch(k + (t + FETCHED) * s->stride + j);
            __builtin_prefetch(v + (t + FETCHED) * s->stride + j);
        }
        rows_put(&own->keys, kernels, layer, row, head, k + t * s->stride, d_head);
        rows_put(&own->values, kernels, layer, row, head, v + t * s->stride, d_head);
        row = row + 1 == timeline->ring.capacity ? 0 : row + 1;
    }
}

static void store_task(void *context, int i, int thread) {
    (void)thread;
    timeline_store_head(context, (size_t)i);
}

void timeline_store(struct stored_rows *rows) {
    pool_run(rows->timeline->base.compute.pool, rows->timeline->net->n_head, store_task, rows);
}

/* Computes the position rows of all distances. */
static txl_status complete_positions(struct transformer_xl_timeline *timeline, txl_error *error) {
    struct positions *p = timeline->positions;
    positions_need(p, &timeline->base.compute, p->distances);
    for (int l = 0; l < timeline->net->n_layer && p->known < p->needed; l++) {
        const void *layer;
        txl_status status = layers_get(&timeline->base.layers, l, &layer, error);
        if (status)
            return status;
        const struct position_weights weights = position_weights(layer);
        positions_fill(p, &timeline->base.compute, l, &weights);
    }
    positions_finish(p);
    return TXL_OK;
}

static uint64_t first_row_of(const struct network *network, const txl_settings *settings,
                             uint64_t next, uint64_t segment_start) {
    if (!network->has_memory)
        return next;
    bool ended = is_same_length(settings) || next - segment_start == (uint64_t)settings->tgt_len;
    return memory_begin(settings, ended ? next : segment_start);
}

/* The first position that a later token, or a saved memory, may still see. */
static uint64_t first_row(const struct timeline *t) {
    return first_row_of(t->network, &t->settings, t->next, t->segment_start);
}

static txl_status copy(struct timeline *to_timeline, struct timeline *from_timeline,
                       txl_error *error) {
    struct transformer_xl_timeline *to = xl_timeline(to_timeline);
    struct transformer_xl_timeline *from = xl_timeline(from_timeline);
    txl_status status = complete_positions(from, error);
    if (status)
        return status;
    to->base.next = from->base.next;
    to->base.segment_start = from->base.segment_start;
    if (to->base.segment)
        memcpy(to->base.segment, from->base.segment, from->base.chunk * sizeof *to->base.segment);
    if (!from->base.network->has_memory)
        return TXL_OK;
    /* Both have the same first memory, which may be large and not resident: it is not shared. */
    uint64_t seen = first_row(&from->base), first = first_position(&from->base);
    return ring_share(&to->ring, &from->ring, seen > first ? seen : first, from->base.next, error);
}

void timeline_forget(struct transformer_xl_timeline *timeline) {
    ring_forget(&timeline->ring, first_row(&timeline->base));
}

/* ---- Saving the ring ---------------------------------------------------------------------- */

static void export_row(const struct timeline *base, int layer, uint64_t position, void *row) {
    const struct transformer_xl_timeline *timeline = (const struct transformer_xl_timeline *)base;
    const struct kv_store *store = ring_find(&timeline->ring, position);
    rows_export(&store->keys, &store->values, (size_t)layer, ring_row(&timeline->ring, position),
                (size_t)timeline->net->d_head, row);
}

/* Zeros of the first memory are not taken from a file: every session has them, and zeros_to_store
 * relies on them. */
static void import_row(struct timeline *base, int layer, uint64_t position, const void *row) {
    struct transformer_xl_timeline *timeline = xl_timeline(base);
    if (!timeline->zero_rows && position < first_position(base))
        return;
    const struct kv_store *own = timeline->ring.own;
    rows_import(&own->keys, &own->values, (size_t)layer, ring_row(&timeline->ring, position),
                (size_t)timeline->net->d_head, row);
}

/* ---- The row in the table of families ----------------------------------------------------- */

const struct family transformer_xl_family = {
    .number = TXL_FAMILY_TRANSFORMER_XL,
    .name = "transformer-xl",
    .settings_size = sizeof(struct transformer_xl_settings),
    .settings = &transformer_xl_setting_table,
    .check = transformer_xl_check,
    .parameters = &transformer_xl_parameters,
    .open = transformer_xl_open,
    .close = transformer_xl_close,
    .costs = transformer_xl_costs,
    .check_session = check_session,
    .lay_out = lay_out,
    .timeline_bytes = timeline_bytes,
    .timeline_open = timeline_open,
    .timeline_close = timeline_close,
    .reset = reset,
    .room = transformer_xl_room,
    .advance = transformer_xl_advance,
    .trial = transformer_xl_trial,
    .advance_trial = transformer_xl_advance_trial,
    .keep_trial = transformer_xl_keep_trial,
    .differs_in_batch = transformer_xl_differs_in_batch,
    .advance_each = transformer_xl_advance_each,
    .copy = copy,
    .first_row = first_row_of,
    .export_row = export_row,
    .import_row = import_row,
};
