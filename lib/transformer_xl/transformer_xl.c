/* Finding a Transformer-XL's parts in a weights file, and checking that they fit together.  The
 * tensors' names are those of weights-format.md. */
#include "transformer_xl.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name with numbers in it; lives until the next call with the same buffer. */
struct name {
    char text[64];
};

#define NAME(...) (snprintf(name.text, sizeof name.text, __VA_ARGS__), name.text)

static txl_status read_dimensions(const txl_model *model, struct transformer_xl *x,
                                  txl_error *error) {
    int attn_type = 0;
    struct {
        const char *key;
        int low, high, *value;
    } dimension[] = {
        {"n_layer", 1, MAX_N_LAYER, &x->n_layer}, {"n_head", 1, MAX_N_HEAD, &x->n_head},
        {"d_head", 1, MAX_D_HEAD, &x->d_head},    {"d_model", 2, MAX_D_MODEL, &x->d_model},
        {"d_embed", 1, MAX_D_MODEL, &x->d_embed}, {"d_inner", 1, MAX_D_INNER, &x->d_inner},
        {"attn_type", 0, 3, &attn_type},
    };
    txl_status status = TXL_OK;
    for (size_t i = 0; i < sizeof dimension / sizeof *dimension && !status; i++)
        status = model_int(model, dimension[i].key, dimension[i].low, dimension[i].high,
                           dimension[i].value, error);
    if (!status)
        status = model_bool(model, "pre_lnorm", &x->pre_lnorm, error);
    if (status)
        return status;
    x->attn_type = (enum attention_type)attn_type;
    x->zero_memory = strcmp(txl_model_memory_start(model), "zeros") == 0;
    x->forward_order = strcmp(txl_model_cluster_order(model), "forward") == 0;
    if (x->d_model % 2)
        return txl_fail(error, TXL_FORMAT, "%s: d_model is odd", model->weights->name);
    if (x->attn_type == ATTENTION_LEARNED_POSITION && x->n_head * x->d_head != x->d_model)
        return txl_fail(error, TXL_FORMAT, "%s: attn_type 3 needs n_head * d_head = d_model",
                        model->weights->name);
    return TXL_OK;
}

static txl_status read_norm(const txl_model *model, const char *prefix, int n, int d_model,
                            struct layer_norm *norm, txl_error *error) {
    struct name name;
    txl_status status = model_vector(model, NAME("layer.%d.%s.norm.weight", n, prefix),
                                     (size_t)d_model, &norm->weight, error);
    if (!status)
        status = model_vector(model, NAME("layer.%d.%s.norm.bias", n, prefix), (size_t)d_model,
                              &norm->bias, error);
    return status;
}

/* The biases u and v: a layer's own, or one pair for all. */
static txl_status read_pair(const txl_model *model, int n, const char *which, size_t size,
                            const float **vector, txl_error *error) {
    struct name name;
    if (!model_has(model, NAME("layer.%d.attention.%s", n, which)))
        snprintf(name.text, sizeof name.text, "attention.%s", which);
    return model_vector(model, name.text, size, vector, error);
}

static txl_status read_positions(const txl_model *model, struct transformer_xl *x, int n,
                                 txl_error *error) {
    struct layer *layer = &x->layer[n];
    struct name name;
    size_t heads = (size_t)x->n_head * (size_t)x->d_head;
    txl_status status = TXL_OK;
    if (x->attn_type == ATTENTION_RELATIVE)
        status = model_matrix(model, NAME("layer.%d.attention.r", n), heads, (size_t)x->d_model,
                              &layer->r, error);
    if (!status && x->attn_type <= ATTENTION_LEARNED_DISTANCE)
        status = read_pair(model, n, "u", heads, &layer->u, error);
    if (!status && x->attn_type == ATTENTION_RELATIVE)
        status = read_pair(model, n, "v", heads, &layer->v, error);
    if (x->attn_type == ATTENTION_LEARNED_DISTANCE || x->attn_type == ATTENTION_LEARNED_POSITION) {
        size_t rows = (size_t)x->max_klen;
        if (!status)
            status = model_matrix(model, NAME("layer.%d.attention.r_emb", n), rows, heads,
                                  &layer->r_emb, error);
    }
    if (!status && x->attn_type == ATTENTION_LEARNED_DISTANCE) {
        const float *bias;
        status = model_vector(model, NAME("layer.%d.attention.r_bias", n),
                              (size_t)x->max_klen * (size_t)x->n_head, &bias, error);
        layer->r_bias = bias;
    }
    return status;
}

static txl_status read_layer(const txl_model *model, struct transformer_xl *x, int n,
                             txl_error *error) {
    struct layer *layer = &x->layer[n];
    struct name name;
    size_t heads = (size_t)x->n_head * (size_t)x->d_head;
    size_t d_model = (size_t)x->d_model, d_inner = (size_t)x->d_inner;
    txl_status status = model_matrix(model, NAME("layer.%d.attention.qkv", n), 3 * heads, d_model,
                                     &layer->qkv, error);
    if (!status)
        status =
            model_matrix(model, NAME("layer.%d.attention.o", n), d_model, heads, &layer->o, error);
    if (!status)
        status = read_positions(model, x, n, error);
    if (!status)
        status = read_norm(model, "attention", n, x->d_model, &layer->attention_norm, error);
    if (!status)
        status = model_matrix(model, NAME("layer.%d.feed_forward.1.weight", n), d_inner, d_model,
                              &layer->feed_forward_1, error);
    if (!status)
        status = model_vector(model, NAME("layer.%d.feed_forward.1.bias", n), d_inner,
                              &layer->feed_forward_bias_1, error);
    if (!status)
        status = model_matrix(model, NAME("layer.%d.feed_forward.2.weight", n), d_model, d_inner,
                              &layer->feed_forward_2, error);
    if (!status)
        status = model_vector(model, NAME("layer.%d.feed_forward.2.bias", n), d_model,
                              &layer->feed_forward_bias_2, error);
    if (!status)
        status = read_norm(model, "feed_forward", n, x->d_model, &layer->feed_forward_norm, error);
    return status;
}

/* The bands' edges: 0, the cutoffs, n_token. */
static txl_status read_cutoffs(const txl_model *model, struct transformer_xl *x, txl_error *error) {
    const json_t *cutoffs = json_object_get(model->settings, "cutoffs");
    size_t n = json_array_size(cutoffs), first = 0, n_token = (size_t)txl_model_n_token(model);
    if (!json_is_array(cutoffs) || n > MAX_BAND - 1)
        return txl_fail(error, TXL_FORMAT,
                        "%s: setting \"cutoffs\" is missing or not a list of up to %d",
                        model->weights->name, MAX_BAND - 1);
    x->n_band = (int)n + 1;
    x->band = calloc(n + 1, sizeof *x->band);
    if (!x->band)
        return txl_fail_memory(error, "the bands", (n + 1) * sizeof *x->band);
    for (size_t i = 0; i <= n; i++) {
        json_int_t end =
            i < n ? json_integer_value(json_array_get(cutoffs, i)) : (json_int_t)n_token;
        if (end <= (json_int_t)first || end > (json_int_t)n_token)
            return txl_fail(error, TXL_FORMAT,
                            "%s: the cutoffs do not ascend to below n_token (%zu)",
                            model->weights->name, n_token);
        x->band[i].first = first;
        x->band[i].n_token = (size_t)end - first;
        first = (size_t)end;
    }
    return TXL_OK;
}

/* The projections that widen a band's rows, absent where d_band is d_model and nothing projects. */
static txl_status read_projections(const txl_model *model, const struct transformer_xl *x, int i,
                                   int div_val, size_t d_band, txl_error *error) {
    struct band *band = &x->band[i];
    struct name name;
    size_t d_model = (size_t)x->d_model;
    txl_status status = TXL_OK;
    int source = div_val == 1 ? 0 : i; /* with div_val 1 one embedding serves all bands */
    if (model_has(model, NAME("embedding.%d.projection", source)))
        status =
            model_matrix(model, name.text, d_model, d_band, &band->embedding_projection, error);
    else if (d_band != d_model)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s is missing", model->weights->name,
                        name.text);
    if (status)
        return status;
    if (model_has(model, NAME("softmax.%d.projection", i)))
        return model_matrix(model, name.text, d_band, d_model, &band->softmax_projection, error);
    if (d_band != d_model)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s is missing", model->weights->name,
                        name.text);
    return TXL_OK;
}

/* With div_val 1 all bands are rows of tensors numbered 0; else each has its own. */
static txl_status read_band(const txl_model *model, const struct transformer_xl *x, int i,
                            int div_val, bool tied, txl_error *error) {
    struct band *band = &x->band[i];
    struct name name;
    size_t d_band = (size_t)x->d_embed, rows = band->n_token, first = 0;
    int source = i;
    if (div_val == 1) {
        rows = (size_t)txl_model_n_token(model);
        first = band->first;
        source = 0;
    }
    for (int k = 0; k < i && div_val > 1; k++)
        d_band /= (size_t)div_val;
    if (d_band == 0)
        return txl_fail(error, TXL_FORMAT, "%s: div_val %d leaves band %d no width",
                        model->weights->name, div_val, i);
    txl_status status = model_matrix(model, NAME("embedding.%d.weight", source), rows, d_band,
                                     &band->embedding, error);
    band->softmax = band->embedding;
    if (!status && !tied)
        status = model_matrix(model, NAME("softmax.%d.weight", source), rows, d_band,
                              &band->softmax, error);
    if (!status)
        status =
            model_vector(model, NAME("softmax.%d.bias", source), rows, &band->softmax_bias, error);
    if (status)
        return status;
    band->embedding = matrix_rows(&band->embedding, first, band->n_token);
    band->softmax = matrix_rows(&band->softmax, first, band->n_token);
    band->softmax_bias += first;
    return read_projections(model, x, i, div_val, d_band, error);
}

static txl_status read_bands(const txl_model *model, struct transformer_xl *x, txl_error *error) {
    int div_val = 1;
    bool tied = true;
    txl_status status = read_cutoffs(model, x, error);
    if (!status)
        status = model_int(model, "div_val", 1, MAX_D_MODEL, &div_val, error);
    if (!status)
        status = model_bool(model, "tied_weights", &tied, error);
    for (int i = 0; i < x->n_band && !status; i++)
        status = read_band(model, x, i, div_val, tied, error);
    size_t clusters = (size_t)x->n_band - 1;
    if (!status && clusters > 0)
        status = model_matrix(model, "softmax.cluster.weight", clusters, (size_t)x->d_embed,
                              &x->cluster, error);
    if (!status && clusters > 0)
        status = model_vector(model, "softmax.cluster.bias", clusters, &x->cluster_bias, error);
    return status;
}

static txl_status read_network(const txl_model *model, struct transformer_xl *x, txl_error *error) {
    txl_status status = read_dimensions(model, x, error);
    if (!status && (x->attn_type == ATTENTION_RELATIVE || x->attn_type == ATTENTION_SINUSOID))
        status =
            model_vector(model, "position.inv_freq", (size_t)x->d_model / 2, &x->inv_freq, error);
    if (!status &&
        (x->attn_type == ATTENTION_LEARNED_DISTANCE || x->attn_type == ATTENTION_LEARNED_POSITION))
        status = model_int(model, "max_klen", 1, MAX_KLEN, &x->max_klen, error);
    if (!status)
        status = read_bands(model, x, error);
    if (status)
        return status;
    x->layer = calloc((size_t)x->n_layer, sizeof *x->layer);
    if (!x->layer)
        return txl_fail_memory(error, "the layers", (uint64_t)x->n_layer * sizeof *x->layer);
    for (int n = 0; n < x->n_layer && !status; n++)
        status = read_layer(model, x, n, error);
    return status;
}

txl_status transformer_xl_open(const txl_model *model, struct transformer_xl **network,
                               txl_error *error) {
    *network = calloc(1, sizeof **network);
    if (!*network)
        return txl_fail_memory(error, "the network", sizeof **network);
    return read_network(model, *network, error);
}

void transformer_xl_close(struct transformer_xl *network) {
    if (!network)
        return;
    free(network->layer);
    free(network->band);
    free(network);
}

bool transformer_xl_is_layer_matrix(const char *name) {
    static const char *const matrices[LAYER_MATRICES] = {
        ".attention.qkv",   ".attention.o",           ".attention.r",
        ".attention.r_emb", ".feed_forward.1.weight", ".feed_forward.2.weight"};
    static const char prefix[] = "layer.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    name += sizeof prefix - 1;
    name += strspn(name, "0123456789");
    for (size_t i = 0; i < LAYER_MATRICES; i++)
        if (strcmp(name, matrices[i]) == 0)
            return true;
    return false;
}

void transformer_xl_layer_matrices(struct layer *layer, struct matrix *matrix[LAYER_MATRICES]) {
    struct matrix *const all[LAYER_MATRICES] = {
        &layer->qkv,           &layer->o, &layer->r, &layer->r_emb, &layer->feed_forward_1,
        &layer->feed_forward_2};
    memcpy(matrix, all, sizeof all);
}
