/* Layers where they are, or expanded. */
#include "layers.h"
#include "lib/base/error.h"
#include "lib/weights/expand.h"

/* Bytes of a layer's compressed matrices, expanded. */
static size_t layer_bytes(struct layer layer) {
    struct matrix *matrix[LAYER_MATRICES];
    size_t bytes = 0;
    transformer_xl_layer_matrices(&layer, matrix);
    for (int i = 0; i < LAYER_MATRICES; i++)
        bytes += matrix[i]->compressed ? expanded_bytes(matrix[i]->compressed) : 0;
    return bytes;
}

static size_t largest_layer(const struct transformer_xl *x) {
    size_t most = 0;
    for (int l = 0; l < x->n_layer; l++) {
        size_t bytes = layer_bytes(x->layer[l]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t layers_bytes(const struct transformer_xl *x, int threads) {
    size_t most = largest_layer(x);
    return most > 0 ? most + (uint64_t)threads * WEIGHTS_BLOCK_SIZE : 0;
}

txl_status layers_open(struct layers *layers, const txl_model *model, struct pool *pool,
                       txl_error *error) {
    *layers = (struct layers){.x = model->network, .number = -1};
    layers->size = largest_layer(layers->x);
    if (layers->size == 0)
        return TXL_OK;
    layers->memory = expansion_map(layers->size);
    if (!layers->memory)
        return txl_fail_memory(error, "an expanded layer", layers->size);
    return expander_new(model->weights, pool, &layers->expander, error);
}

void layers_close(struct layers *layers) {
    expander_free(layers->expander);
    expansion_unmap(layers->memory, layers->size);
}

static txl_status expand_layer(struct layers *layers, int l, txl_error *error) {
    struct matrix *matrix[LAYER_MATRICES];
    char *next = layers->memory;
    txl_status status = TXL_OK;
    layers->number = -1;
    layers->layer = layers->x->layer[l];
    transformer_xl_layer_matrices(&layers->layer, matrix);
    for (int i = 0; i < LAYER_MATRICES && !status; i++) {
        const struct weights_tensor *tensor = matrix[i]->compressed;
        if (!tensor)
            continue;
        status = expander_add(layers->expander, tensor, next, error);
        matrix_place(matrix[i], next);
        next += expanded_bytes(tensor);
    }
    if (!status)
        status = expander_run(layers->expander, error);
    if (!status)
        layers->number = l;
    return status;
}

txl_status layers_get(struct layers *layers, int l, const struct layer **layer, txl_error *error) {
    txl_status status = TXL_OK;
    *layer = layers->expander ? &layers->layer : &layers->x->layer[l];
    if (layers->expander && layers->number != l)
        status = expand_layer(layers, l, error);
    return status;
}
