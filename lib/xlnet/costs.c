/* The least work for one token, once the memory is full.
 *
 * A generated token, which takes a content and a query row, reads
 *
 *     the weights of each layer except W_r (the rows W_r R are stored), the softmax's, one
 *     embedding;
 *     in each layer, n_head d_head wide: mem_len + 1 rows of keys, as many of values and as many
 *     position rows; fewer of the last with a clamp, beyond which all distances share one
 *
 * and a scored one takes these products, each one multiplication and one addition:
 *
 *     for each weight of a layer except W_r: two, one for either row; for W_k and W_v: one
 *     for each weight of the softmax: one
 *     for each element of the keys, values and position rows that it sees, which are
 *     mem_len + (tgt_len + 1) / 2 rows on average over a segment: two, one for either row
 *
 * A token of a block has a content row only, of which the last layer computes just the keys and
 * values.  It takes one product for each weight of a layer except W_r, and for each element of the
 * keys, values and position rows of the tgt_len tokens that it sees; in the last layer, for each
 * weight of W_k and W_v.
 *
 * Norms, activations, softmax and sampling are left out: their work is small. */
#include "lib/network/kv_rows.h"
#include "xlnet.h"

void xlnet_costs(const struct network *network, const txl_settings *settings, txl_costs *costs) {
    const struct xlnet *net = (const struct xlnet *)network;
    uint64_t bytes = 0, layers = 0, ends = 0;
    layers_costs(network, &bytes, &layers);
    ends_costs(&network->ends, &bytes, &ends);
    double width = (double)net->n_head * net->d_head * net->n_layer;
    double generated = settings->mem_len + 1, distances = generated;
    if (settings->clamp_len > 0 && distances > settings->clamp_len + 1)
        distances = settings->clamp_len + 1;
    size_t element = rows_element_size(settings->memory_type);
    costs->bytes = bytes + (uint64_t)((2 * generated + distances) * width * (double)element);
    double scored = settings->mem_len + (settings->tgt_len + 1) / 2.0;
    double keys = 2 * width * net->d_model; /* W_k and W_v */
    costs->flops = 2 * (uint64_t)(2 * (double)layers - keys + (double)ends + 6 * scored * width);
    double others = net->n_layer - 1; /* layers but the last */
    double block = (double)layers * others + keys + 3 * settings->tgt_len * width * others;
    costs->block_flops = 2 * (uint64_t)(block / net->n_layer);
}
