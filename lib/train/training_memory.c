/* The memory of a training: weights, gradients, activations and scratch, in one allocation. */
#include "lib/base/memory.h"
#include "training.h"

static float *take_rows(struct arena *arena, uint64_t rows, uint64_t columns) {
    return arena_take(arena, rows, columns * sizeof(float));
}

static struct normed take_norm(struct arena *arena, uint64_t rows, uint64_t d_model) {
    return (struct normed){take_rows(arena, rows, d_model), take_rows(arena, rows, 1),
                           take_rows(arena, rows, 1)};
}

/* Rows whose logits are computed together: those that fit into 32 MiB, but at least a piece. */
static size_t softmax_rows(const struct training *t, size_t n) {
    size_t rows = ((size_t)8 << 20) / ends_most_entries(t->ends) / ROW_PIECE * ROW_PIECE;
    rows = rows < ROW_PIECE ? ROW_PIECE : rows;
    return rows < n ? rows : n;
}

static void lay_out_layer(struct training *t, struct arena *arena, struct trained_layer *layer,
                          uint64_t n, uint64_t m) {
    const struct transformer_xl *net = t->net;
    uint64_t d = (uint64_t)net->d_model, width = head_width(net);
    uint64_t keys = (uint64_t)t->how.mem_len + (uint64_t)t->how.tgt_len;
    layer->memory = take_rows(arena, m, d);
    if (net->pre_lnorm) {
        layer->input_norm = take_norm(arena, n, d);
        layer->memory_norm = take_norm(arena, m, d);
    } else {
        layer->norm_2 = take_norm(arena, n, d);
    }
    layer->qkv = take_rows(arena, n, 3 * width);
    layer->memory_kv = take_rows(arena, m, 2 * width);
    layer->positions = take_rows(arena, keys, width);
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
             d_embed = t->ends->band[0].embedding.n_col;
    uint64_t keys = (uint64_t)t->how.mem_len + (uint64_t)t->how.tgt_len;
    uint64_t batch = (uint64_t)t->how.batch, rows = n > m ? n : m;
    bool drops = t->how.dropout > 0;
    t->ids = arena_take(arena, n, sizeof *t->ids);
    t->target = arena_take(arena, n, sizeof *t->target);
    t->nats = take_rows(arena, n, 1);
    t->member = arena_take(arena, n, sizeof *t->member);
    t->sines = take_rows(arena, keys, d);
    t->dropped_sines = drops ? take_rows(arena, keys, d) : NULL;
    t->embedding = take_rows(arena, n, d);
    t->hidden = drops ? take_rows(arena, n, d) : NULL;
    t->narrow = take_rows(arena, n, d_embed);
    t->d_narrow = take_rows(arena, n, d_embed);
    t->gather = take_rows(arena, t->ends->n_band > 1 ? n : 0, d);
    t->d_gather = take_rows(arena, t->ends->n_band > 1 ? n : 0, d);
    t->softmax_rows = softmax_rows(t, n);
    t->logit = take_rows(arena, t->softmax_rows, ends_most_entries(t->ends));
    t->cluster = take_rows(arena, n, (uint64_t)t->ends->n_band - 1);
    t->output = take_rows(arena, n, d);
    t->d_a = take_rows(arena, n, d);
    t->d_b = take_rows(arena, n, d);
    t->d_c = drops ? take_rows(arena, n, d) : NULL;
    t->d_inner = take_rows(arena, n, (uint64_t)net->d_inner);
    t->d_qkv = take_rows(arena, n, 3 * width);
    t->d_attended = take_rows(arena, n, width);
    t->d_memory_kv = take_rows(arena, m, 2 * width);
    t->d_memory = take_rows(arena, net->pre_lnorm ? m : 0, d);
    t->d_positions = take_rows(arena, batch * keys, width);
    t->d_position = take_rows(arena, keys, width);
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
    size_t rows = t->softmax_rows, entries = ends_most_entries(t->ends),
           clusters = (size_t)t->ends->n_band;
    size_t keys = (size_t)t->how.mem_len + (size_t)t->how.tgt_len;
    size_t embed = larger(t->ends->band[0].embedding.n_col, d);
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

void training_lay_out(struct training *t, int threads, struct arena *arena) {
    uint64_t n = (uint64_t)t->how.batch * (uint64_t)t->how.tgt_len;
    uint64_t m = (uint64_t)t->how.batch * (uint64_t)t->how.mem_len;
    t->weight = take_rows(arena, t->n_weight, 1);
    t->gradient = take_rows(arena, t->n_parameter, 1);
    for (int i = 0; i < t->n_beside; i++)
        t->beside[i] = take_rows(arena, t->n_weight, 1);
    t->layer = arena_take(arena, (uint64_t)t->net->n_layer, sizeof *t->layer);
    lay_out_work(t, arena, n, m);
    uint64_t room = t->products.packed ? packed_room(t, (size_t)n, (size_t)m) : 0;
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
