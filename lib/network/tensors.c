/* Finds the tensors of a parameter table in a weights file, and expands compressed ones. */
#include "tensors.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/numbers.h"
#include "lib/base/threads.h"
#include "lib/weights/weights.h"

#include <stdlib.h>
#include <sys/mman.h>

/* ---- Places ------------------------------------------------------------------------------- */

static txl_status map_arena(struct tensors *t, txl_error *error) {
    const struct weights *w = t->weights;
    size_t total = 0;
    for (size_t i = 0; i < w->n_tensor; i++) {
        if (!t->expanded[i])
            continue;
        if (expanded_bytes(&w->tensor[i]) > (size_t)INT64_MAX - total)
            return txl_fail(error, TXL_FORMAT, "%s: the tensors are impossibly large", w->name);
        total += expanded_bytes(&w->tensor[i]);
    }
    if (total == 0)
        return TXL_OK;
    t->arena = pages_map(total);
    if (!t->arena)
        return txl_fail_memory(error, "the expanded weights", total);
    t->arena_size = total;
    return TXL_OK;
}

/* Raw tensors are used in the mapped file; tensors that stay compressed are expanded by each
 * session. */
txl_status tensors_open(struct tensors *t, const struct weights *weights,
                        bool (*stays_compressed)(const void *context, const char *name),
                        const void *context, txl_error *error) {
    size_t n = weights->n_tensor;
    *t = (struct tensors){.weights = weights};
    t->element = calloc(n + 1, sizeof *t->element);
    t->expanded = calloc(n + 1, sizeof *t->expanded);
    if (!t->element || !t->expanded)
        return txl_fail_memory(error, "the tensors", n * sizeof *t->element);
    for (size_t i = 0; i < n; i++)
        t->expanded[i] = !weights->tensor[i].raw &&
                         !(stays_compressed && stays_compressed(context, weights->tensor[i].name));
    txl_status status = map_arena(t, error);
    char *next = t->arena;
    for (size_t i = 0; i < n && !status; i++) {
        t->element[i] = weights->tensor[i].raw;
        if (!t->expanded[i])
            continue;
        t->element[i] = next;
        next += expanded_bytes(&weights->tensor[i]);
    }
    return status;
}

void tensors_close(struct tensors *t) {
    pages_unmap(t->arena, t->arena_size);
    free(t->element);
    free(t->expanded);
}

/* ---- Expanding ---------------------------------------------------------------------------- */

static size_t count_blocks(const struct tensors *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->weights->n_tensor; i++)
        n += t->expanded[i] ? t->weights->tensor[i].n_block : 0;
    return n;
}

/* Trained weights never compress this much. */
enum { EXPANSION = 64 };

txl_status tensors_expand(struct tensors *t, int threads, txl_error *error) {
    if (!t->arena)
        return TXL_OK;
    /* A file that expands to far more than its size is checked completely before it gets memory. */
    if (t->arena_size / EXPANSION > t->weights->size) {
        txl_status status = weights_verify(t->weights, NULL, NULL, error);
        if (status)
            return status;
    }
    struct expander *expander = NULL;
    struct pool *pool = pool_new(threads);
    txl_status status = pool ? expander_new(t->weights, pool, count_blocks(t), &expander, error)
                             : txl_fail(error, TXL_MEMORY, "threads cannot be started");
    for (size_t i = 0; !status && i < t->weights->n_tensor; i++)
        if (t->expanded[i])
            expander_add(expander, &t->weights->tensor[i], (void *)t->element[i]);
    if (!status)
        status = expander_run(expander, error);
    expander_free(expander);
    pool_free(pool);
    if (!status)
        mprotect(t->arena, t->arena_size, PROT_READ);
    return status;
}

/* ---- Tensors by name ---------------------------------------------------------------------- */

static txl_status find_tensor(const struct tensors *tensors, const char *name, size_t n_row,
                              size_t n_col, const struct weights_tensor **tensor,
                              const void **elements, txl_error *error) {
    const struct weights *w = tensors->weights;
    const struct weights_tensor *t = weights_find(w, name);
    if (!t)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s is missing", w->name, name);
    uint64_t rows = t->shape[0], columns = t->shape[1] * t->shape[2] * t->shape[3];
    if (rows != n_row || columns != n_col)
        return txl_fail(error, TXL_FORMAT,
                        "%s: tensor %s has %llu rows of %llu; the settings call for %zu of %zu",
                        w->name, name, (unsigned long long)rows, (unsigned long long)columns, n_row,
                        n_col);
    *tensor = t;
    *elements = tensors->element[t - w->tensor];
    return TXL_OK;
}

struct matrix tensors_at(const struct tensors *tensors, size_t i) {
    const struct weights_tensor *t = &tensors->weights->tensor[i];
    struct matrix matrix = {.type = t->type,
                            .n_row = (size_t)t->shape[0],
                            .n_col = (size_t)(t->n_element / t->shape[0])};
    matrix_place(&matrix, tensors->element[i]);
    return matrix;
}

txl_status tensors_matrix(const struct tensors *tensors, const char *name, size_t n_row,
                          size_t n_col, struct matrix *matrix, txl_error *error) {
    const struct weights_tensor *t = NULL;
    const void *elements = NULL;
    txl_status status = find_tensor(tensors, name, n_row, n_col, &t, &elements, error);
    if (status)
        return status;
    *matrix = (struct matrix){.type = t->type, .n_row = n_row, .n_col = n_col};
    if (elements)
        matrix_place(matrix, elements);
    else
        matrix->compressed = t;
    return TXL_OK;
}

txl_status tensors_vector(const struct tensors *tensors, const char *name, size_t n,
                          const float **vector, txl_error *error) {
    const struct weights_tensor *t = NULL;
    const void *elements = NULL;
    txl_status status = find_tensor(tensors, name, n, 1, &t, &elements, error);
    if (!status && t->type != WEIGHTS_F32)
        status =
            txl_fail(error, TXL_FORMAT, "%s: tensor %s must be f32", tensors->weights->name, name);
    if (!status)
        *vector = elements;
    return status;
}

/* ---- Matrices ----------------------------------------------------------------------------- */

size_t matrix_row_bytes(const struct matrix *matrix) {
    return weights_in_tiles(matrix->type)
               ? tile_row_bytes(weights_top(matrix->type), matrix->n_col) / TILE_HEIGHT
               : matrix->n_col * weights_type_size(matrix->type);
}

uint64_t matrix_bytes(const struct matrix *matrix) {
    uint64_t row = matrix_row_bytes(matrix);
    if (weights_in_tiles(matrix->type))
        return (matrix->skip + matrix->n_row + TILE_HEIGHT - 1) / TILE_HEIGHT * TILE_HEIGHT * row +
               matrix->n_row * 2 * sizeof *matrix->scale;
    if (matrix->type == WEIGHTS_Q8)
        row += q8_blocks(matrix->n_col) * sizeof *matrix->scale;
    return matrix->n_row * row;
}

void matrix_place(struct matrix *matrix, const void *elements) {
    uint64_t n_element = (uint64_t)matrix->n_row * matrix->n_col;
    matrix->data = elements;
    if (matrix->type == WEIGHTS_Q8)
        matrix->scale = (const float *)((const char *)elements + weights_scales_offset(n_element));
    if (weights_in_tiles(matrix->type))
        matrix->scale =
            (const float *)((const char *)elements +
                            tiles_bytes(weights_top(matrix->type), matrix->n_row, matrix->n_col));
}

struct matrix matrix_rows(const struct matrix *matrix, size_t first, size_t n) {
    struct matrix rows = *matrix;
    const bool tiled = weights_in_tiles(matrix->type);
    if (tiled) {
        rows.skip = (matrix->skip + first) % TILE_HEIGHT;
        first = matrix->skip + first - rows.skip;
    }
    rows.data = (const char *)matrix->data + first * matrix_row_bytes(matrix);
    rows.n_row = n;
    if (rows.scale)
        rows.scale += first * (tiled ? 2 : q8_blocks(matrix->n_col));
    return rows;
}
