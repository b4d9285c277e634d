/* Walks a table of parameters: names, shapes, and which tensors a model has. */
#include "parameters.h"
#include "family.h"
#include "lib/base/files.h"
#include "lib/base/numbers.h"

#include <stdio.h>
#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Writes the pattern with `number` in place of its star. */
static void make_name(char *out, size_t size, const char *pattern, int number) {
    const char *star = strchr(pattern, '*');
    if (star)
        snprintf(out, size, "%.*s%d%s", (int)(star - pattern), pattern, number, star + 1);
    else
        snprintf(out, size, "%s", pattern);
}

struct parameter_walk parameter_walk(const struct parameter_table *table, const void *settings) {
    return (struct parameter_walk){.table = table, .settings = settings};
}

/* The next parameter of this scope, band by band or layer by layer. */
static const struct parameter *next_parameter(struct parameter_walk *w) {
    const struct parameter_table *table = w->table;
    for (; w->i < table->count(w->settings, w->scope); w->i++, w->next = 0) {
        while (w->next < table->n) {
            const struct parameter *p = &table->parameter[w->next++];
            if (p->scope == w->scope && table->has(w->settings, p->when, w->i))
                return p;
        }
    }
    return NULL;
}

bool parameter_next(struct parameter_walk *w, struct parameter_tensor *tensor) {
    const struct parameter *p;
    while (!(p = next_parameter(w))) {
        if (w->scope == PARAMETER_LAYER)
            return false;
        w->scope = w->scope == PARAMETER_BAND ? PARAMETER_GLOBAL : PARAMETER_LAYER;
        w->i = w->next = 0;
    }
    *tensor =
        (struct parameter_tensor){.parameter = p, .number = w->next - 1, .i = w->i, .n_column = 1};
    tensor->n_row = w->table->size(w->settings, p->rows, w->i);
    if (p->kind != PARAMETER_VECTOR)
        tensor->n_column = w->table->size(w->settings, p->columns, w->i);
    make_name(tensor->name, sizeof tensor->name, p->name, w->i);
    return true;
}

void *network_part(const struct network *network, enum parameter_scope scope, int i) {
    if (scope == PARAMETER_BAND)
        return &network->bands.band[i];
    if (scope == PARAMETER_LAYER)
        return (char *)network->layer + (size_t)i * network->parameters->layer_size;
    return (void *)network;
}

txl_status parameters_open(struct network *network, const struct tensors *tensors,
                           txl_error *error) {
    struct parameter_walk walk = parameter_walk(network->parameters, network->settings);
    struct parameter_tensor t;
    txl_status status = TXL_OK;
    while (!status && parameter_next(&walk, &t)) {
        char *place = (char *)network_part(network, t.parameter->scope, t.i) + t.parameter->place;
        if (t.parameter->kind == PARAMETER_VECTOR)
            status = tensors_vector(tensors, t.name, t.n_row, (const float **)(void *)place, error);
        else
            status = tensors_matrix(tensors, t.name, t.n_row, t.n_column,
                                    (struct matrix *)(void *)place, error);
    }
    return status;
}

/* Whether the name matches the pattern, with a number in place of its star. */
static bool is_named(const char *pattern, const char *name) {
    const char *star = strchr(pattern, '*');
    if (!star)
        return strcmp(pattern, name) == 0;
    size_t before = (size_t)(star - pattern);
    if (strncmp(name, pattern, before) != 0 || !is_digit(name[before]))
        return false;
    for (name += before; is_digit(*name);)
        name++;
    return strcmp(name, star + 1) == 0;
}

const struct parameter *parameter_find(const struct parameter_table *table, const char *name) {
    for (int i = 0; i < table->n; i++)
        if (is_named(table->parameter[i].name, name))
            return &table->parameter[i];
    return NULL;
}

bool parameter_is_layer_matrix(const struct parameter_table *table, const char *name) {
    const struct parameter *p = parameter_find(table, name);
    return p && p->scope == PARAMETER_LAYER && p->kind != PARAMETER_VECTOR;
}

enum weights_type parameter_type(const struct parameter *p, uint64_t n_column,
                                 struct weights_types types) {
    if (p->kind == PARAMETER_VECTOR || p->kind == PARAMETER_HEAD)
        return WEIGHTS_F32;
    if (weights_is_float(types.matrices))
        return types.matrices;
    if (p->kind == PARAMETER_POSITIONS)
        return WEIGHTS_F16;
    if (weights_in_tiles(types.matrices) && p->scope == PARAMETER_GLOBAL)
        return WEIGHTS_F32; /* the head's few rows of the other bands */
    if (n_column < Q8_BLOCK)
        return WEIGHTS_F16;
    if (p->use == USED_BY_POSITIONS)
        return WEIGHTS_Q8; /* not read for each token */
    const bool embeds = p->scope == PARAMETER_BAND && ends_with(p->name, ".weight");
    return embeds ? types.embeddings : types.matrices;
}

struct matrix *parameter_matrix(const struct parameter *p, void *part) {
    return (struct matrix *)(void *)((char *)part + p->place);
}
