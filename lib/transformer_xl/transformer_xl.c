/* A Transformer-XL as it is opened, and what a token of it costs. */
#include "transformer_xl.h"
#include "lib/base/error.h"
#include "lib/network/kv_rows.h"

#include <math.h>
#include <stdlib.h>

/* ---- Opening ------------------------------------------------------------------------------ */

/* The table of parameters says which tensors to find; then each layer and band is given the tensors
 * that they share. */

static txl_status allocate(struct transformer_xl *net, const struct transformer_xl_settings *s,
                           txl_error *error) {
    size_t n_band = (size_t)s->n_band, n_layer = (size_t)s->n_layer;
    net->network.bands.band = calloc(n_band, sizeof *net->network.bands.band);
    if (!net->network.bands.band)
        return txl_fail_memory(error, "the bands", n_band * sizeof *net->network.bands.band);
    net->network.layer = net->layer = calloc(n_layer, sizeof *net->layer);
    if (!net->layer)
        return txl_fail_memory(error, "the layers", n_layer * sizeof *net->layer);
    return TXL_OK;
}

/* With div_val 1 the tensors of band 0 contain the rows of all bands, and the embedding projection
 * that they share. */
static void divide_bands(struct bands *bands, const struct transformer_xl_settings *s) {
    const struct band whole = bands->band[0];
    for (int i = 0; i < s->n_band; i++) {
        struct band *band = &bands->band[i];
        band->first = i > 0 ? (size_t)s->cutoff[i - 1] : 0;
        band->n_token = (size_t)transformer_xl_band_tokens(s, i);
        if (s->div_val == 1) {
            band->embedding = matrix_rows(&whole.embedding, band->first, band->n_token);
            band->embedding_projection = whole.embedding_projection;
            if (!s->tied_weights)
                band->softmax = matrix_rows(&whole.softmax, band->first, band->n_token);
            band->softmax_bias = whole.softmax_bias + band->first;
        }
        if (s->tied_weights)
            band->softmax = band->embedding;
    }
}

static void share_biases(struct transformer_xl *net) {
    for (int n = 0; n < net->n_layer; n++) {
        struct layer *layer = &net->layer[n];
        layer->u = layer->u ? layer->u : net->u;
        layer->v = layer->v ? layer->v : net->v;
    }
}

static void set_dimensions(struct transformer_xl *net, const struct transformer_xl_settings *s) {
    net->n_layer = s->n_layer;
    net->n_head = s->n_head;
    net->d_head = s->d_head;
    net->d_model = s->d_model;
    net->d_inner = s->d_inner;
    net->attn_type = s->attn_type;
    net->pre_lnorm = s->pre_lnorm;
    net->max_klen = s->max_klen;
    net->network.parameters = &transformer_xl_parameters;
    net->network.settings = s;
    net->network.n_layer = s->n_layer;
    net->network.row_width = 2 * (size_t)s->n_head * (size_t)s->d_head;
    net->network.row_heads = 2 * (size_t)s->n_head;
    net->network.has_memory = attention_is_relative(net->attn_type);
    net->network.zero_memory = s->memory_start == MEMORY_ZEROS;
    net->network.same_length_more = s->same_length_reach == REACH_MEM_LEN_AND_1;
    net->network.layer_norm_eps = s->layer_norm_eps;
    net->network.bands.d_model = (size_t)s->d_model;
    net->network.bands.n_band = s->n_band;
    net->network.bands.scale = sqrtf((float)s->d_model);
    net->network.bands.forward_order = s->cluster_order == CLUSTERS_FORWARD;
}

txl_status transformer_xl_open(const void *settings, const struct tensors *tensors,
                               struct network **network, txl_error *error) {
    struct transformer_xl *net = calloc(1, sizeof *net);
    if (!net)
        return txl_fail_memory(error, "the network", sizeof *net);
    *network = &net->network;
    net->network.weights = tensors->weights;
    set_dimensions(net, settings);
    txl_status status = allocate(net, settings, error);
    if (!status)
        status = parameters_open(&net->network, tensors, error);
    if (status)
        return status;
    divide_bands(&net->network.bands, settings);
    share_biases(net);
    return TXL_OK;
}

void transformer_xl_close(struct network *network) {
    struct transformer_xl *net = (struct transformer_xl *)network;
    if (!net)
        return;
    free(net->layer);
    free(net->network.bands.band);
    free(net);
}

/* ---- Costs -------------------------------------------------------------------------------- */

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
    bands_costs(&network->bands, &bytes, &products);
    struct rows_seen seen = rows_seen(net, settings);
    double width = (double)net->n_head * net->d_head;
    double rows = (2 * seen.visible + seen.distances) * net->n_layer;
    size_t each = rows_bytes(settings->memory_type, (size_t)net->n_head, head_width(net));
    bytes += (uint64_t)(rows * (double)each);
    if (net->attn_type == ATTENTION_LEARNED_DISTANCE) /* their biases */
        bytes += (uint64_t)(seen.distances * net->n_layer * net->n_head * sizeof(float));
    costs->bytes = bytes;
    costs->flops = 2 * (products + (uint64_t)(rows * width));
    costs->block_flops = 0;
}
