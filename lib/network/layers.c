/* Gives a pass its layers: in place, or expanded one at a time. */
#include "family.h"
#include "lib/base/memory.h"
#include "lib/weights/weights.h"

#include <string.h>

/* Walks the parameters of layer l that are matrices: returns the number of the one after `from` (-1
 * at first), or -1 after the last. */
static int next_matrix(const struct network *network, int l, int from) {
    const struct parameter_table *table = network->parameters;
    for (int i = from + 1; i < table->n; i++) {
        const struct parameter *p = &table->parameter[i];
        if (p->scope == PARAMETER_LAYER && p->kind != PARAMETER_VECTOR &&
            table->has(network->settings, p->when, l))
            return i;
    }
    return -1;
}

static struct matrix *matrix_of(const struct network *network, int l, int parameter) {
    return parameter_matrix(&network->parameters->parameter[parameter],
                            network_part(network, PARAMETER_LAYER, l));
}

void layers_order(const struct network *network, struct compute *compute) {
    for (int l = 0; l < network->n_layer; l++) {
        for (int i = -1; (i = next_matrix(network, l, i)) >= 0;)
            if (network->parameters->parameter[i].use == USED_BY_TOKEN)
                compute_order(compute, matrix_of(network, l, i));
    }
}

size_t layers_scratch(const struct network *network, size_t n_x, size_t n_position) {
    size_t most = 0;
    for (int l = 0; l < network->n_layer; l++) {
        for (int i = -1; (i = next_matrix(network, l, i)) >= 0;) {
            bool of_positions = network->parameters->parameter[i].use == USED_BY_POSITIONS;
            most = larger(
                most, compute_scratch(matrix_of(network, l, i), of_positions ? n_position : n_x));
        }
    }
    return most;
}

bool layers_reach_sgemm(const struct network *network, const struct kernels *kernels, size_t n_x) {
    struct parameter_walk walk = parameter_walk(network->parameters, network->settings);
    struct parameter_tensor t;
    while (parameter_next(&walk, &t)) {
        const struct parameter *p = t.parameter;
        if (p->kind != PARAMETER_VECTOR &&
            compute_uses_sgemm(kernels, n_x,
                               parameter_matrix(p, network_part(network, p->scope, t.i))))
            return true;
    }
    return false;
}

void layers_costs(const struct network *network, uint64_t *bytes, uint64_t *products) {
    struct parameter_walk walk = parameter_walk(network->parameters, network->settings);
    struct parameter_tensor t;
    while (parameter_next(&walk, &t)) {
        const struct parameter *p = t.parameter;
        if (p->use != USED_BY_TOKEN)
            continue;
        if (p->kind == PARAMETER_VECTOR) {
            *bytes += t.n_row * sizeof(float);
            continue;
        }
        *bytes += matrix_bytes(parameter_matrix(p, network_part(network, p->scope, t.i)));
        *products += t.n_row * t.n_column;
    }
}

/* Bytes and blocks of a layer's compressed matrices when expanded, the most of any layer. */
struct expansion {
    size_t bytes, n_block;
};

static struct expansion largest_expansion(const struct network *network) {
    struct expansion most = {0, 0};
    for (int l = 0; l < network->n_layer; l++) {
        size_t bytes = 0, n_block = 0;
        for (int i = -1; (i = next_matrix(network, l, i)) >= 0;) {
            const struct weights_tensor *tensor = matrix_of(network, l, i)->compressed;
            bytes += tensor ? expanded_bytes(tensor) : 0;
            n_block += tensor ? tensor->n_block : 0;
        }
        most = (struct expansion){larger(most.bytes, bytes), larger(most.n_block, n_block)};
    }
    return most;
}

void layers_lay_out(struct layers *layers, const struct network *network, struct arena *arena) {
    struct expansion most = largest_expansion(network);
    *layers = (struct layers){.network = network, .n_block = most.n_block, .number = -1};
    if (most.n_block == 0)
        return;
    layers->layer = arena_take(arena, 1, network->parameters->layer_size);
    layers->memory = arena_take(arena, 1, most.bytes);
}

uint64_t layers_bytes(const struct network *network, int threads) {
    struct expansion most = largest_expansion(network);
    return most.n_block > 0 ? expander_bytes(threads, most.n_block) : 0;
}

txl_status layers_open(struct layers *layers, struct pool *pool, txl_error *error) {
    if (layers->n_block == 0)
        return TXL_OK;
    return expander_new(layers->network->weights, pool, layers->n_block, &layers->expander, error);
}

void layers_close(struct layers *layers) {
    expander_free(layers->expander);
}

static txl_status expand_layer(struct layers *layers, int l, txl_error *error) {
    const struct network *network = layers->network;
    char *next = layers->memory;
    layers->number = -1;
    memcpy(layers->layer, network_part(network, PARAMETER_LAYER, l),
           network->parameters->layer_size);
    for (int i = -1; (i = next_matrix(network, l, i)) >= 0;) {
        struct matrix *matrix = parameter_matrix(&network->parameters->parameter[i], layers->layer);
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
    *layer = layers->expander ? layers->layer : network_part(layers->network, PARAMETER_LAYER, l);
    if (layers->expander && layers->number != l)
        status = expand_layer(layers, l, error);
    return status;
}
