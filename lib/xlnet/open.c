/* Opening an XLNet: the table of parameters says which tensors to find. */
#include "lib/base/error.h"
#include "xlnet.h"

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
    net->network.has_memory = true;
    net->network.ends =
        (struct ends){.d_model = (size_t)s->d_model, .scale = 1, .n_band = 1, .band = &net->band};
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
