/* The least work for one token, once the memory is full.
 *
 * A generated token reads
 *
 *     the weights of each layer except W_r (the rows W_r R are stored), the head's, one embedding;
 *     in each layer, n_head d_head wide: `visible` rows of keys, as many of values, and
 *     `distances` position rows
 *
 * and a scored one takes one multiplication and one addition for each of these weights, and for
 * each element of these rows.
 *
 * `visible` is the number of positions that a token sees, on average over its segment; `distances`
 * is the number of different position rows among them: all beyond clamp_len share one.  The head is
 * the softmax's first band and the entries of the other bands.  Norms, softmax and sampling are
 * left out: their work is small. */
#include "lib/network/kv_rows.h"
#include "timeline.h"
#include "transformer_xl.h"

/* Rows of the memory and the current segment that a token uses in every layer. */
struct rows_seen {
    double visible, distances;
};

static struct rows_seen rows_seen(const struct transformer_xl *net, const txl_settings *s) {
    struct rows_seen seen = {.visible = s->mem_len + (s->tgt_len + 1) / 2.0};
    if (is_same_length(s))
        seen.visible = (double)same_length_reach(&net->network, s);
    if (!attention_is_relative(net->attn_type))
        return seen;
    bool relative = net->attn_type == ATTENTION_RELATIVE;
    seen.distances = seen.visible;
    if (s->clamp_len > 0 && seen.distances > s->clamp_len + relative)
        seen.distances = s->clamp_len + relative;
    if (!relative && seen.distances > net->max_klen)
        seen.distances = net->max_klen;
    return seen;
}

void transformer_xl_costs(const struct network *network, const txl_settings *settings,
                          txl_costs *costs) {
    const struct transformer_xl *net = (const struct transformer_xl *)network;
    uint64_t bytes = 0, products = 0;
    layers_costs(network, &bytes, &products);
    ends_costs(&network->ends, &bytes, &products);
    struct rows_seen seen = rows_seen(net, settings);
    double width = (double)net->n_head * net->d_head;
    double rows = (2 * seen.visible + seen.distances) * net->n_layer;
    bytes += (uint64_t)(rows * width * (double)rows_element_size(settings->memory_type));
    if (net->attn_type == ATTENTION_LEARNED_DISTANCE) /* their biases */
        bytes += (uint64_t)(seen.distances * net->n_layer * net->n_head * sizeof(float));
    costs->bytes = bytes;
    costs->flops = 2 * (products + (uint64_t)(rows * width));
    costs->block_flops = 0;
}
