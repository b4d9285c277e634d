/* Layers where they are, or expanded. */
#include "layers.h"
#include "lib/base/error.h"
#include "lib/weights/expand.h"

#include <stdlib.h>
#include <string.h>

int layers_next_matrix(const struct layer_list *list, int l, int from) {
    for (int i = from + 1; i < list->table->n; i++) {
        const struct parameter *p = &list->table->parameter[i];
        if (p->scope == PARAMETER_LAYER && p->kind != PARAMETER_VECTOR &&
            list->table->has(list->settings, p->when, l))
            return i;
    }
    return -1;
}

static void *layer_at(const struct layer_list *list, int l) {
    return list->table->part(list->network, PARAMETER_LAYER, l);
}

/* Bytes of a layer's compressed matrices, expanded. */
static size_t layer_bytes(const struct layer_list *list, int l) {
    size_t bytes = 0;
    for (int i = -1; (i = layers_next_matrix(list, l, i)) >= 0;) {
        const struct matrix *matrix =
            parameter_matrix(&list->table->parameter[i], layer_at(list, l));
        bytes += matrix->compressed ? expanded_bytes(matrix->compressed) : 0;
    }
    return bytes;
}

static size_t largest_layer(const struct layer_list *list) {
    size_t most = 0;
    int n_layer = list->table->count(list->settings, PARAMETER_LAYER);
    for (int l = 0; l < n_layer; l++) {
        size_t bytes = layer_bytes(list, l);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t layers_bytes(const struct layer_list *list, int threads) {
    size_t most = largest_layer(list);
    return most > 0 ? most + (uint64_t)threads * WEIGHTS_BLOCK_SIZE : 0;
}

txl_status layers_open(struct layers *layers, const struct layer_list *list, struct pool *pool,
                       txl_error *error) {
    *layers = (struct layers){.list = *list, .number = -1};
    layers->size = largest_layer(list);
    if (layers->size == 0)
        return TXL_OK;
    layers->layer = calloc(1, list->table->layer_size);
    layers->memory = expansion_map(layers->size);
    if (!layers->layer || !layers->memory)
        return txl_fail_memory(error, "an expanded layer", layers->size);
    return expander_new(list->weights, pool, &layers->expander, error);
}

void layers_close(struct layers *layers) {
    expander_free(layers->expander);
    expansion_unmap(layers->memory, layers->size);
    free(layers->layer);
}

static txl_status expand_layer(struct layers *layers, int l, txl_error *error) {
    const struct layer_list *list = &layers->list;
    char *next = layers->memory;
    txl_status status = TXL_OK;
    layers->number = -1;
    memcpy(layers->layer, layer_at(list, l), list->table->layer_size);
    for (int i = -1; !status && (i = layers_next_matrix(list, l, i)) >= 0;) {
        struct matrix *matrix = parameter_matrix(&list->table->parameter[i], layers->layer);
        const struct weights_tensor *tensor = matrix->compressed;
        if (!tensor)
            continue;
        status = expander_add(layers->expander, tensor, next, error);
        matrix_place(matrix, next);
        next += expanded_bytes(tensor);
    }
    if (!status)
        status = expander_run(layers->expander, error);
    if (!status)
        layers->number = l;
    return status;
}

txl_status layers_get(struct layers *layers, int l, const void **layer, txl_error *error) {
    txl_status status = TXL_OK;
    *layer = layers->expander ? layers->layer : layer_at(&layers->list, l);
    if (layers->expander && layers->number != l)
        status = expand_layer(layers, l, error);
    return status;
}
