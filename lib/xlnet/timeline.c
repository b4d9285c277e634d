/* The memory of a session: its size, copies of it, and rows to save; and the row of the family, of
 * which it is most. */
#include "timeline.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/network/family.h"

/* ---- Sizes -------------------------------------------------------------------------------- */

/* Floats of scratch that an attention task needs: scores, position scores, two queries, results,
 * and one row's position scores for each key. */
static size_t attention_scratch(const struct xlnet_timeline *timeline) {
    size_t row = timeline->capacity + distances_rows(&timeline->base.settings) +
                 2 * (size_t)timeline->net->d_head + timeline->values.width;
    return XLNET_BLOCK * row + timeline->capacity;
}

static size_t all_scratch(const struct xlnet_timeline *timeline) {
    size_t most = larger(attention_scratch(timeline),
                         adaptive_scratch(&timeline->net->network.bands, XLNET_QUERIES));
    const struct xlnet_head *head = &timeline->net->head;
    const struct matrix *const matrices[] = {&head->summary,       &head->logits,
                                             &head->end_hidden,    &head->end,
                                             &head->answer_hidden, &head->answer};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (matrices[i]->data)
            most = larger(most, compute_scratch(matrices[i], XLNET_CHUNK));
    return larger(most, layers_scratch(&timeline->net->network, XLNET_CHUNK, XLNET_CHUNK));
}

/* The most that any product of a session packs. */
static size_t all_packed(const struct xlnet *net, const struct kernels *kernels) {
    size_t k = larger(larger((size_t)net->d_model, (size_t)net->d_inner), xlnet_width(net));
    if (net->network.head == TXL_HEAD_BEAMS)
        k = larger(k, 2 * (size_t)net->d_model);
    return compute_packed(kernels, XLNET_CHUNK, k);
}

static txl_status check_session(const struct network *network, const txl_settings *s,
                                txl_error *error) {
    (void)network;
    if (s->arithmetic != TXL_ARITHMETIC_FAST)
        return txl_fail(error, TXL_UNSUPPORTED, "the exact arithmetic does not cover XLNet");
    if (s->same_length)
        return txl_fail(error, TXL_ARGUMENT,
                        "same_length means nothing to an XLNet, which sees both sides");
    return TXL_OK;
}

/* ---- Memory ------------------------------------------------------------------------------- */

static void take_rows(struct xlnet_timeline *timeline, struct arena *arena) {
    const struct xlnet *net = timeline->net;
    size_t width = xlnet_width(net), d_model = (size_t)net->d_model, d_inner = (size_t)net->d_inner;
    size_t tgt_len = (size_t)timeline->base.settings.tgt_len;
    /* the content rows of a block and one before it, and the query rows */
    size_t most_rows = tgt_len + 2 * XLNET_QUERIES;
    timeline->row = arena_take(arena, most_rows, sizeof *timeline->row);
    timeline->hidden = arena_take(arena, most_rows * d_model, sizeof *timeline->hidden);
    timeline->gap = arena_take(arena, tgt_len, sizeof *timeline->gap);
    timeline->pending = arena_take(arena, tgt_len, sizeof *timeline->pending);
    timeline->where = arena_take(arena, tgt_len, sizeof *timeline->where);
    timeline->sum = arena_take(arena, XLNET_CHUNK * d_model, sizeof *timeline->sum);
    timeline->qkv = arena_take(arena, XLNET_CHUNK * 3 * width, sizeof *timeline->qkv);
    timeline->heads = arena_take(arena, XLNET_CHUNK * width, sizeof *timeline->heads);
    timeline->inner = arena_take(arena, XLNET_CHUNK * d_inner, sizeof *timeline->inner);
    timeline->segment = arena_take(arena, tgt_len, sizeof *timeline->segment);
    if (net->network.head == TXL_HEAD_NONE)
        return;
    timeline->pair = arena_take(arena, XLNET_CHUNK * 2 * d_model, sizeof *timeline->pair);
    timeline->results = arena_take(arena, XLNET_CHUNK * d_model, sizeof *timeline->results);
}

static struct timeline *lay_out(const struct network *network, const struct kernels *kernels,
                                const txl_settings *settings, struct arena *arena) {
    const struct xlnet *net = (const struct xlnet *)network;
    struct xlnet_timeline unused, *taken = arena_take(arena, 1, sizeof *taken);
    struct xlnet_timeline *timeline = taken ? taken : &unused;
    *timeline = (struct xlnet_timeline){.base = {.network = network,
                                                 .settings = *settings,
                                                 .chunk = XLNET_QUERIES,
                                                 .most_batch = XLNET_MOST_BATCH},
                                        .net = net};
    timeline->capacity = rows_plan(settings->memory_type, net->n_layer, net->n_head, net->d_head,
                                   (size_t)settings->mem_len + (size_t)settings->tgt_len,
                                   &timeline->keys, &timeline->values);
    struct timeline *t = &timeline->base;
    compute_lay_out(&t->compute, settings->threads, all_scratch(timeline), all_packed(net, kernels),
                    4 * (size_t)net->n_layer + BANDS_ORDER, arena);
    layers_lay_out(&t->layers, network, arena);
    adaptive_lay_out(&t->adaptive, &network->bands, XLNET_QUERIES, false, arena);
    take_rows(timeline, arena);
    rows_lay_out(&timeline->keys, arena);
    rows_lay_out(&timeline->values, arena);
    if (!taken)
        return NULL;
    layers_order(network, &t->compute);
    adaptive_order(&network->bands, &t->compute);
    return &taken->base;
}

static uint64_t timeline_bytes(const struct network *network, const txl_settings *settings) {
    const struct xlnet *net = (const struct xlnet *)network;
    return pool_bytes(settings->threads) + layers_bytes(network, settings->threads) +
           distances_bytes(net, settings);
}

static txl_status timeline_open(struct timeline *t, const struct kernels *kernels,
                                struct timeline *like, txl_error *error) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    txl_status status = compute_open(&t->compute, kernels, t->settings.threads,
                                     t->network->head != TXL_HEAD_NONE || /* which is in f32 */
                                         layers_reach_sgemm(t->network, kernels, XLNET_CHUNK),
                                     error);
    if (!status)
        status = layers_open(&t->layers, t->compute.pool, error);
    if (status)
        return status;
    timeline->distances = like ? arena_join(xlnet_timeline(like)->distances)
                               : distances_new(timeline->net, &t->settings, error);
    return timeline->distances ? TXL_OK : TXL_MEMORY;
}

static void timeline_close(struct timeline *t) {
    arena_leave(xlnet_timeline(t)->distances);
    layers_close(&t->layers);
    compute_close(&t->compute);
}

void xlnet_reset(struct timeline *t) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    t->next = t->segment_start = 0;
    timeline->n_gap = timeline->n_pending = 0;
    t->unfinished = false;
}

/* ---- Copies and saved rows ---------------------------------------------------------------- */

/* Computes the position rows of all distances. */
static txl_status complete_distances(struct xlnet_timeline *timeline, txl_error *error) {
    struct distances *d = timeline->distances;
    distances_need(d, &timeline->base.compute, -d->right, d->left);
    for (int l = 0; l < timeline->net->n_layer && !distances_are_known(d); l++) {
        const void *layer;
        txl_status status = layers_get(&timeline->base.layers, l, &layer, error);
        if (status)
            return status;
        distances_fill(d, &timeline->base.compute, l, layer);
    }
    distances_finish(d);
    return TXL_OK;
}

static txl_status copy(struct timeline *to_timeline, struct timeline *from_timeline,
                       txl_error *error) {
    struct xlnet_timeline *to = xlnet_timeline(to_timeline), *from = xlnet_timeline(from_timeline);
    txl_status status = complete_distances(from, error);
    if (status)
        return status;
    to->base.next = from->base.next;
    to->base.segment_start = from->base.segment_start;
    for (uint64_t b = xlnet_first_visible(&from->base) / ROW_BLOCK; b * ROW_BLOCK < from->base.next;
         b++) {
        rows_copy_block(&to->keys, &from->keys, (size_t)(b % from->keys.n_block));
        rows_copy_block(&to->values, &from->values, (size_t)(b % from->keys.n_block));
    }
    return TXL_OK;
}

static uint64_t first_row(const struct network *network, const txl_settings *settings,
                          uint64_t next, uint64_t segment_start) {
    (void)network;
    bool full = next - segment_start == (uint64_t)settings->tgt_len;
    return memory_begin(settings, full ? next : segment_start);
}

static void export_row(const struct timeline *base, int layer, uint64_t position, void *row) {
    const struct xlnet_timeline *timeline = (const struct xlnet_timeline *)base;
    rows_export(&timeline->keys, &timeline->values, (size_t)layer, position % timeline->capacity,
                (size_t)timeline->net->d_head, row);
}

static void import_row(struct timeline *base, int layer, uint64_t position, const void *row) {
    struct xlnet_timeline *timeline = xlnet_timeline(base);
    rows_import(&timeline->keys, &timeline->values, (size_t)layer, position % timeline->capacity,
                (size_t)timeline->net->d_head, row);
}

/* ---- The row in the table of families ----------------------------------------------------- */

const struct family xlnet_family = {
    .number = TXL_FAMILY_XLNET,
    .name = "xlnet",
    .settings_size = sizeof(struct xlnet_settings),
    .settings = &xlnet_setting_table,
    .check = xlnet_check,
    .parameters = &xlnet_parameters,
    .open = xlnet_open,
    .close = xlnet_close,
    .costs = xlnet_costs,
    .check_session = check_session,
    .lay_out = lay_out,
    .timeline_bytes = timeline_bytes,
    .timeline_open = timeline_open,
    .timeline_close = timeline_close,
    .reset = xlnet_reset,
    .room = xlnet_room,
    .advance = xlnet_advance,
    .advance_each = xlnet_advance_each,
    .copy = copy,
    .first_row = first_row,
    .export_row = export_row,
    .import_row = import_row,
    .both_sides = &xlnet_both_sides,
    .heads = &xlnet_heads,
};
