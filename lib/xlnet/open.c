/* Opening an XLNet: the table of parameters says which tensors to find. */
#include "open.h"
#include "lib/base/error.h"
#include "xlnet.h"

#include <stdlib.h>

static void set_dimensions(struct xlnet *x, const struct xlnet_settings *s) {
    x->n_layer = s->n_layer;
    x->n_head = s->n_head;
    x->d_head = s->d_head;
    x->d_model = s->d_model;
    x->d_inner = s->d_inner;
    x->activation = (enum activation)(RELU + s->ff_activation);
    x->uni = s->attn_type == XLNET_UNI;
    x->network.layer_norm_eps = s->layer_norm_eps;
    x->band.n_token = (size_t)s->model.n_token;
    x->network.n_layer = s->n_layer;
    x->network.row_width = 2 * (size_t)s->n_head * (size_t)s->d_head;
    x->network.has_memory = true;
    x->network.ends =
        (struct ends){.d_model = (size_t)s->d_model, .scale = 1, .n_band = 1, .band = &x->band};
}

txl_status xlnet_open(const void *settings, const struct tensors *tensors, struct network **network,
                      txl_error *error) {
    const struct xlnet_settings *s = settings;
    struct xlnet *x = calloc(1, sizeof *x);
    if (!x)
        return txl_fail_memory(error, "the network", sizeof *x);
    *network = &x->network;
    x->network.settings = settings;
    x->network.weights = tensors->weights;
    set_dimensions(x, s);
    x->layer = calloc((size_t)s->n_layer, sizeof *x->layer);
    if (!x->layer)
        return txl_fail_memory(error, "the layers", (uint64_t)s->n_layer * sizeof *x->layer);
    txl_status status = parameters_open(&xlnet_parameters, settings, tensors, x, error);
    if (!status && s->tied_weights)
        x->band.softmax = x->band.embedding;
    return status;
}

void xlnet_close(struct network *network) {
    struct xlnet *x = (struct xlnet *)network;
    if (!x)
        return;
    free(x->layer);
    free(x);
}
