/* Gives a pass its layers: in place, or expanded one at a time. */
#include "layers.h"
#include "lib/base/sizes.h"
#include "lib/weights/expand.h"

#include <string.h>

/* Walks the parameters of layer l that are matrices: returns the number of the one after `from` (-1
 * at first), or -1 after the last. */
static int next_matrix(const struct layer_list *list, int l, int from) {
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

void layers_order(const struct layer_list *list, struct compute *compute) {
    int n_layer = list->table->count(list->settings, PARAMETER_LAYER);
    for (int l = 0; l < n_layer; l++) {
        for (int i = -1; (i = next_matrix(list, l, i)) >= 0;) {
            const struct parameter *p = &list->table->parameter[i];
            if (p->use == USED_BY_TOKEN)
                compute_order(compute, parameter_matrix(p, layer_at(list, l)));
        }
    }
}

size_t layers_scratch(const struct layer_list *list, size_t n_x, size_t n_position) {
    int n_layer = list->table->count(list->settings, PARAMETER_LAYER);
    size_t most = 0;
    for (int l = 0; l < n_layer; l++) {
        for (int i = -1; (i = next_matrix(list, l, i)) >= 0;) {
            const struct parameter *p = &list->table->parameter[i];
            size_t rows = p->use == USED_BY_POSITIONS ? n_position : n_x;
            most = larger(most, compute_scratch(parameter_matrix(p, layer_at(list, l)), rows));
        }
    }
    return most;
}

void layers_costs(const struct layer_list *list, uint64_t *bytes, uint64_t *products) {
    struct parameter_walk walk = parameter_walk(list->table, list->settings);
    struct parameter_tensor t;
    while (parameter_next(&walk, &t)) {
        const struct parameter *p = t.parameter;
        if (p->use != USED_BY_TOKEN)
            continue;
        if (p->kind == PARAMETER_VECTOR) {
            *bytes += t.n_row * sizeof(float);
            continue;
        }
        *bytes +=
            matrix_bytes(parameter_matrix(p, list->table->part(list->network, p->scope, t.i)));
        *products += t.n_row * t.n_column;
    }
}

/* Bytes and blocks of a layer's compressed matrices when expanded, the most of any layer. */
struct expansion {
    size_t bytes, n_block;
};

static struct expansion largest_expansion(const struct layer_list *list) {
    struct expansion most = {0, 0};
    int n_layer = list->table->count(list->settings, PARAMETER_LAYER);
    for (int l = 0; l < n_layer; l++) {
        size_t bytes = 0, n_block = 0;
        for (int i = -1; (i = next_matrix(list, l, i)) >= 0;) {
            const struct parameter *p = &list->table->parameter[i];
            const struct weights_tensor *tensor =
                parameter_matrix(p, layer_at(list, l))->compressed;
            bytes += tensor ? expanded_bytes(tensor) : 0;
            n_block += tensor ? tensor->n_block : 0;
        }
        most = (struct expansion){larger(most.bytes, bytes), larger(most.n_block, n_block)};
    }
    return most;
}

void layers_lay_out(struct layers *layers, const struct layer_list *list, struct arena *arena) {
    struct expansion most = largest_expansion(list);
    *layers = (struct layers){.list = *list, .n_block = most.n_block, .number = -1};
    if (most.n_block == 0)
        return;
    layers->layer = arena_take(arena, 1, list->table->layer_size);
    layers->memory = arena_take(arena, 1, most.bytes);
}

uint64_t layers_bytes(const struct layer_list *list, int threads) {
    struct expansion most = largest_expansion(list);
    return most.n_block > 0 ? expander_bytes(threads, most.n_block) : 0;
}

txl_status layers_open(struct layers *layers, struct pool *pool, txl_error *error) {
    if (layers->n_block == 0)
        return TXL_OK;
    return expander_new(layers->list.weights, pool, layers->n_block, &layers->expander, error);
}

void layers_close(struct layers *layers) {
    expander_free(layers->expander);
}

static txl_status expand_layer(struct layers *layers, int l, txl_error *error) {
    const struct layer_list *list = &layers->list;
    char *next = layers->memory;
    layers->number = -1;
    memcpy(layers->layer, layer_at(list, l), list->table->layer_size);
    for (int i = -1; (i = next_matrix(list, l, i)) >= 0;) {
        struct matrix *matrix = parameter_matrix(&list->table->parameter[i], layers->layer);
        const struct weights_tensor *tensor = matrix->compressed;
        if (!tensor)
            continue;
        expander_add(layers->expander, tensor, next);
        matrix_place(matrix, next);
        next += expanded_bytes(tensor);
    }
    txl_status status = expander_run(layers->expander, error);
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
