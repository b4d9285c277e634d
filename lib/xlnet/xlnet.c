/* An XLNet as it is opened, and what a token of it costs. */
#include "xlnet.h"
#include "lib/base/error.h"
#include "lib/network/kv_rows.h"

#include <stdlib.h>

static void set_dimensions(struct xlnet *net, const struct xlnet_settings *s) {
    net->n_layer = s->n_layer;
    net->n_head = s->n_head;
    net->d_head = s->d_head;
    net->d_model = s->d_model;
    net->d_inner = s->d_inner;
    net->activation = (enum activation)(RELU + s->ff_activation);
    net->uni = s->attn_type == XLNET_UNI;
    net->network.layer_norm_eps = s->layer_norm_eps;
    net->band.n_token = (size_t)s->model.n_token;
    net->network.n_layer = s->n_layer;
    net->network.row_width = 2 * (size_t)s->n_head * (size_t)s->d_head;
    net->network.row_heads = 2 * (size_t)s->n_head;
    net->network.has_memory = true;
    net->network.head = (txl_head)s->head;
    net->network.n_logit = xlnet_n_logit(s);
    net->network.lacks_softmax = !s->language_model;
    net->network.bands =
        (struct bands){.d_model = (size_t)s->d_model, .scale = 1, .n_band = 1, .band = &net->band};
}

txl_status xlnet_open(const void *settings, const struct tensors *tensors, struct network **network,
                      txl_error *error) {
    const struct xlnet_settings *s = settings;
    struct xlnet *net = calloc(1, sizeof *net);
    if (!net)
        return txl_fail_memory(error, "the network", sizeof *net);
    *network = &net->network;
    net->network.parameters = &xlnet_parameters;
    net->network.settings = settings;
    net->network.weights = tensors->weights;
    set_dimensions(net, s);
    net->network.layer = net->layer = calloc((size_t)s->n_layer, sizeof *net->layer);
    if (!net->layer)
        return txl_fail_memory(error, "the layers", (uint64_t)s->n_layer * sizeof *net->layer);
    txl_status status = parameters_open(&net->network, tensors, error);
    if (!status && s->tied_weights)
        net->band.softmax = net->band.embedding;
    return status;
}

void xlnet_close(struct network *network) {
    struct xlnet *net = (struct xlnet *)network;
    if (!net)
        return;
    free(net->layer);
    free(net);
}

/* ---- Costs -------------------------------------------------------------------------------- */

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

void xlnet_costs(const struct network *network, const txl_settings *settings, txl_costs *costs) {
    const struct xlnet *net = (const struct xlnet *)network;
    uint64_t bytes = 0, layers = 0, head = 0;
    layers_costs(network, &bytes, &layers);
    bands_costs(&network->bands, &bytes, &head);
    double width = (double)net->n_head * net->d_head * net->n_layer;
    double generated = settings->mem_len + 1, distances = generated;
    if (settings->clamp_len > 0 && distances > settings->clamp_len + 1)
        distances = settings->clamp_len + 1;
    size_t each = rows_bytes(settings->memory_type, (size_t)net->n_head,
                             (size_t)net->n_head * (size_t)net->d_head);
    costs->bytes = bytes + (uint64_t)((2 * generated + distances) * net->n_layer * (double)each);
    double scored = settings->mem_len + (settings->tgt_len + 1) / 2.0;
    double keys = 2 * width * net->d_model; /* W_k and W_v */
    costs->flops = 2 * (uint64_t)(2 * (double)layers - keys + (double)head + 6 * scored * width);
    double others = net->n_layer - 1; /* layers but the last */
    double block = (double)layers * others + keys + 3 * settings->tgt_len * width * others;
    costs->block_flops = 2 * (uint64_t)(block / net->n_layer);
}
