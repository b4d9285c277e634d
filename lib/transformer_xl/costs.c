/* What one token needs at least, once the memory is full.
 *
 * A generated token reads
 *
 *     the weights: each layer's but W_r, whose rows W_r R are kept; the head's; one embedding's
 *     in each layer, n_head d_head wide: `visible` rows of keys and as many of values, and
 *     `distances` position rows
 *
 * and a scored one takes, an addition and a multiplication each,
 *
 *     for each of these weights: one
 *     for each element of these rows: one
 *
 * visible: the positions that a token sees, on average over its segment.  distances: those of them
 * that differ, since all beyond clamp_len share one position row.  The head is the softmax's first
 * band with the entries of the others.  What is left out, norms, softmax and sampling, is linear in
 * what is counted, and small. */
#include "costs.h"
#include "lib/network/kv_rows.h"
#include "transformer_xl.h"

/* What a token uses of the memory and the segment at hand, in every layer. */
struct sight {
    double visible, distances;
};

static struct sight full_sight(const struct transformer_xl *x, const txl_settings *s) {
    struct sight sight = {.visible = s->mem_len + (s->tgt_len + 1) / 2.0};
    if (s->same_length && s->mem_len > 0)
        sight.visible = s->mem_len;
    if (!attention_is_relative(x->attn_type))
        return sight;
    bool relative = x->attn_type == ATTENTION_RELATIVE;
    sight.distances = sight.visible;
    if (s->clamp_len > 0 && sight.distances > s->clamp_len + relative)
        sight.distances = s->clamp_len + relative;
    if (!relative && sight.distances > x->max_klen)
        sight.distances = x->max_klen;
    return sight;
}

/* Bytes and products of what is not embedding or softmax. */
static void add_parameters(const struct transformer_xl *x, uint64_t *bytes, uint64_t *products) {
    const struct parameter_table *table = &transformer_xl_parameters;
    struct parameter_walk walk = parameter_walk(table, x->network.settings);
    struct parameter_tensor t;
    while (parameter_next(&walk, &t)) {
        const struct parameter *p = t.parameter;
        if (p->use != USED_BY_TOKEN)
            continue;
        if (p->kind == PARAMETER_VECTOR) {
            *bytes += t.n_row * sizeof(float);
            continue;
        }
        *bytes += matrix_bytes(parameter_matrix(p, table->part((void *)x, p->scope, t.i)));
        *products += t.n_row * t.n_column;
    }
}

void transformer_xl_costs(const struct network *network, const txl_settings *settings,
                          txl_costs *costs) {
    const struct transformer_xl *x = (const struct transformer_xl *)network;
    uint64_t bytes = 0, products = 0;
    add_parameters(x, &bytes, &products);
    ends_costs(&network->ends, &bytes, &products);
    struct sight sight = full_sight(x, settings);
    double width = (double)x->n_head * x->d_head;
    double rows = (2 * sight.visible + sight.distances) * x->n_layer;
    bytes += (uint64_t)(rows * width * (double)rows_element_size(settings->memory_type));
    if (x->attn_type == ATTENTION_LEARNED_DISTANCE) /* their biases */
        bytes += (uint64_t)(sight.distances * x->n_layer * x->n_head * sizeof(float));
    costs->bytes = bytes;
    costs->flops = 2 * (products + (uint64_t)(rows * width));
    costs->block_flops = 0;
}
