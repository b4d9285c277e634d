/* Opening models: settings are parsed, compressed tensors expanded, the network's parts found. */
#include "model.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/limits.h"
#include "lib/base/q8.h"
#include "lib/base/threads.h"
#include "lib/network/random_weights.h"
#include "lib/text/kind.h"
#include "lib/transformer_xl/transformer_xl.h"
#include "lib/weights/expand.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void openblas_set_num_threads(int n);
extern char *openblas_get_corename(void);

/* ---- Settings ----------------------------------------------------------------------------- */

static txl_status bad_setting(const txl_model *model, const char *key, const char *expected,
                              txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "%s: setting \"%s\" is missing or not %s",
                    model->weights->name, key, expected);
}

txl_status model_int(const txl_model *model, const char *key, long long low, long long high,
                     int *value, txl_error *error) {
    const json_t *number = json_object_get(model->settings, key);
    json_int_t n = json_integer_value(number);
    if (!json_is_integer(number) || n < low || n > high)
        return txl_fail(error, TXL_FORMAT,
                        "%s: setting \"%s\" is missing or not an integer from %lld to %lld",
                        model->weights->name, key, low, high);
    *value = (int)n;
    return TXL_OK;
}

txl_status model_bool(const txl_model *model, const char *key, bool *value, txl_error *error) {
    const json_t *truth = json_object_get(model->settings, key);
    if (!json_is_boolean(truth))
        return bad_setting(model, key, "true or false", error);
    *value = json_is_true(truth);
    return TXL_OK;
}

/* An id of a symbol, or null for -1. */
static txl_status symbol_setting(const txl_model *model, const char *key, int32_t n_token,
                                 int32_t *id, txl_error *error) {
    *id = -1;
    if (json_is_null(json_object_get(model->settings, key)))
        return TXL_OK;
    int value = -1;
    txl_status status = model_int(model, key, 0, n_token - 1, &value, error);
    if (!status)
        *id = value;
    return status;
}

static txl_status open_vocabulary(txl_model *model, txl_error *error) {
    int n_token = 0, kind = 0;
    int32_t unk = -1, eos = -1;
    bool lower_case = false;
    txl_status status = model_int(model, "n_token", 1, MAX_N_TOKEN, &n_token, error);
    if (!status)
        status = symbol_setting(model, "unk_id", n_token, &unk, error);
    if (!status)
        status = symbol_setting(model, "eos_id", n_token, &eos, error);
    if (!status)
        status = model_bool(model, "lower_case", &lower_case, error);
    if (status)
        return status;
    const char *name = json_string_value(json_object_get(model->settings, "tokenizer"));
    kind = name ? text_kind_of_name(name) : -1;
    if (kind < 0)
        return bad_setting(model, "tokenizer", "words, lm1b, bytes, text8 or characters", error);
    return vocabulary_open(&model->vocabulary, model->weights->vocabulary,
                           model->weights->vocabulary_size, n_token, (txl_kind)kind, lower_case,
                           unk, eos, model->weights->name, error);
}

static txl_status read_defaults(txl_model *model, txl_error *error) {
    txl_settings *d = &model->defaults;
    txl_status status = model_int(model, "tgt_len", 1, TXL_MAX_TGT_LEN, &d->tgt_len, error);
    if (!status)
        status = model_int(model, "mem_len", 0, TXL_MAX_MEM_LEN, &d->mem_len, error);
    if (!status)
        status = model_int(model, "clamp_len", -1, INT32_MAX, &d->clamp_len, error);
    if (!status)
        status = model_bool(model, "same_length", &d->same_length, error);
    return status;
}

static txl_status read_settings(txl_model *model, txl_error *error) {
    json_error_t where;
    model->settings = json_loads(model->weights->settings, 0, &where);
    if (!model->settings)
        return txl_fail(error, json_lacked_memory(&where) ? TXL_MEMORY : TXL_FORMAT,
                        "%s: the settings are not JSON: %s", model->weights->name, where.text);
    if (!json_is_object(model->settings))
        return txl_fail(error, TXL_FORMAT, "%s: the settings are not a JSON object",
                        model->weights->name);
    const char *family = json_string_value(json_object_get(model->settings, "family"));
    if (!family || strcmp(family, "transformer-xl") != 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: this txl knows no model family \"%s\"",
                        model->weights->name, family ? family : "");
    txl_status status = open_vocabulary(model, error);
    return status ? status : read_defaults(model, error);
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* The others stay where the file is mapped: raw ones are used there, a layer's matrices in a model
 * opened compressed are expanded by each session. */
static bool is_expanded(const txl_model *model, const struct weights_tensor *tensor) {
    return !tensor->raw && !(model->compressed && transformer_xl_is_layer_matrix(tensor->name));
}

static txl_status map_arena(txl_model *model, txl_error *error) {
    const struct weights *w = model->weights;
    size_t total = 0;
    for (size_t i = 0; i < w->n_tensor; i++) {
        if (!is_expanded(model, &w->tensor[i]))
            continue;
        if (expanded_bytes(&w->tensor[i]) > (size_t)INT64_MAX - total)
            return txl_fail(error, TXL_FORMAT, "%s: the tensors are impossibly large", w->name);
        total += expanded_bytes(&w->tensor[i]);
    }
    if (total == 0)
        return TXL_OK;
    model->arena = expansion_map(total);
    if (!model->arena)
        return txl_fail_memory(error, "the expanded weights", total);
    model->arena_size = total;
    return TXL_OK;
}

/* Finds every tensor's place: raw ones in the file, expanded ones in the arena, which has their
 * elements only after expand_tensors. */
static txl_status place_tensors(txl_model *model, txl_error *error) {
    const struct weights *w = model->weights;
    model->element = calloc(w->n_tensor + 1, sizeof *model->element);
    if (!model->element)
        return txl_fail_memory(error, "the tensors", w->n_tensor * sizeof *model->element);
    txl_status status = map_arena(model, error);
    char *next = model->arena;
    for (size_t i = 0; i < w->n_tensor && !status; i++) {
        model->element[i] = w->tensor[i].raw;
        if (!is_expanded(model, &w->tensor[i]))
            continue;
        model->element[i] = next;
        next += expanded_bytes(&w->tensor[i]);
    }
    return status;
}

static txl_status list_blocks(const txl_model *model, struct expander *expander, txl_error *error) {
    const struct weights *w = model->weights;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < w->n_tensor && !status; i++)
        if (is_expanded(model, &w->tensor[i]))
            status = expander_add(expander, &w->tensor[i], (void *)model->element[i], error);
    return status;
}

/* What expands to so many times the file's size was not trained. */
enum { EXPANSION = 64 };

static txl_status expand_tensors(txl_model *model, int threads, txl_error *error) {
    if (!model->arena)
        return TXL_OK;
    /* A few bytes then get the memory that they ask for only when all of them are sound. */
    if (model->arena_size / EXPANSION > model->weights->size) {
        txl_status status = weights_verify(model->weights, NULL, NULL, error);
        if (status)
            return status;
    }
    struct expander *expander = NULL;
    struct pool *pool = pool_new(threads);
    txl_status status = pool ? expander_new(model->weights, pool, &expander, error)
                             : txl_fail(error, TXL_MEMORY, "threads cannot be started");
    if (!status)
        status = list_blocks(model, expander, error);
    if (!status)
        status = expander_run(expander, error);
    expander_free(expander);
    pool_free(pool);
    if (!status)
        mprotect(model->arena, model->arena_size, PROT_READ);
    return status;
}

bool model_has(const txl_model *model, const char *name) {
    return weights_find(model->weights, name) != NULL;
}

static txl_status find_tensor(const txl_model *model, const char *name, size_t n_row, size_t n_col,
                              const struct weights_tensor **tensor, const void **elements,
                              txl_error *error) {
    const struct weights *w = model->weights;
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
    *elements = model->element[t - w->tensor];
    return TXL_OK;
}

txl_status model_matrix(const txl_model *model, const char *name, size_t n_row, size_t n_col,
                        struct matrix *matrix, txl_error *error) {
    const struct weights_tensor *t = NULL;
    const void *elements = NULL;
    txl_status status = find_tensor(model, name, n_row, n_col, &t, &elements, error);
    if (status)
        return status;
    *matrix = (struct matrix){.type = t->type, .n_row = n_row, .n_col = n_col};
    if (elements)
        matrix_place(matrix, elements);
    else
        matrix->compressed = t;
    return TXL_OK;
}

void matrix_place(struct matrix *matrix, const void *elements) {
    uint64_t n_element = (uint64_t)matrix->n_row * matrix->n_col;
    matrix->data = elements;
    if (matrix->type == WEIGHTS_Q8)
        matrix->scale = (const float *)((const char *)elements + weights_scales_offset(n_element));
}

struct matrix matrix_rows(const struct matrix *matrix, size_t first, size_t n) {
    struct matrix rows = *matrix;
    rows.data =
        (const char *)matrix->data + first * matrix->n_col * weights_type_size(matrix->type);
    rows.n_row = n;
    if (rows.scale)
        rows.scale += first * q8_blocks(matrix->n_col);
    return rows;
}

txl_status model_vector(const txl_model *model, const char *name, size_t n, const float **vector,
                        txl_error *error) {
    const struct weights_tensor *t = NULL;
    const void *elements = NULL;
    txl_status status = find_tensor(model, name, n, 1, &t, &elements, error);
    if (!status && t->type != WEIGHTS_F32)
        status =
            txl_fail(error, TXL_FORMAT, "%s: tensor %s must be f32", model->weights->name, name);
    if (!status)
        *vector = elements;
    return status;
}

/* ---- The public functions ----------------------------------------------------------------- */

/* Takes over `weights`. */
static txl_status open_model(struct weights *weights, bool compressed, int threads,
                             txl_model **model, txl_error *error) {
    txl_model *m = calloc(1, sizeof *m);
    if (!m) {
        weights_close(weights);
        return txl_fail_memory(error, "a model", sizeof *m);
    }
    openblas_set_num_threads(1);
    m->weights = weights;
    m->compressed = compressed;
    txl_status status = kernels_choose(&m->kernels, error);
    if (!status)
        status = read_settings(m, error);
    if (!status)
        status = place_tensors(m, error);
    if (!status)
        status = transformer_xl_open(m, &m->network, error);
    if (!status) /* last: what does not fit together is refused before all that work */
        status = expand_tensors(m, threads, error);
    if (status) {
        txl_model_close(m);
        return status;
    }
    *model = m;
    return TXL_OK;
}

static txl_status open_path(const char *path, bool compressed, int threads, txl_model **model,
                            txl_error *error) {
    struct weights *weights;
    txl_status status = weights_open(path, &weights, error);
    return status ? status : open_model(weights, compressed, threads, model, error);
}

txl_status txl_model_open(const char *path, int threads, txl_model **model, txl_error *error) {
    return open_path(path, false, threads, model, error);
}

txl_status txl_model_open_compressed(const char *path, int threads, txl_model **model,
                                     txl_error *error) {
    return open_path(path, true, threads, model, error);
}

static txl_status open_memory(const void *data, size_t size, const char *name, bool compressed,
                              int threads, txl_model **model, txl_error *error) {
    struct weights *weights;
    txl_status status = weights_open_memory(data, size, name, &weights, error);
    return status ? status : open_model(weights, compressed, threads, model, error);
}

txl_status txl_model_open_memory(const void *data, size_t size, const char *name, int threads,
                                 txl_model **model, txl_error *error) {
    return open_memory(data, size, name, false, threads, model, error);
}

txl_status txl_model_open_memory_compressed(const void *data, size_t size, const char *name,
                                            int threads, txl_model **model, txl_error *error) {
    return open_memory(data, size, name, true, threads, model, error);
}

txl_status model_open_weights(struct weights *weights, int threads, txl_model **model,
                              txl_error *error) {
    return open_model(weights, false, threads, model, error);
}

txl_status txl_model_random(const char *settings_json, const char *type, uint64_t seed, int threads,
                            txl_model **model, txl_error *error) {
    int known = weights_type_of_name(type);
    if (known < 0)
        return txl_fail(error, TXL_ARGUMENT, "%s is no type of weights", type);
    struct weights *weights;
    txl_status status =
        random_weights(settings_json, (enum weights_type)known, seed, threads, &weights, error);
    return status ? status : model_open_weights(weights, threads, model, error);
}

void txl_model_close(txl_model *model) {
    if (!model)
        return;
    transformer_xl_close(model->network);
    vocabulary_close(&model->vocabulary);
    expansion_unmap(model->arena, model->arena_size);
    free(model->element);
    json_decref(model->settings);
    weights_close(model->weights);
    free(model);
}

const struct vocabulary *model_vocabulary(const txl_model *model) {
    return &model->vocabulary;
}

const char *txl_model_settings_json(const txl_model *model) {
    return model->weights->settings;
}

txl_kind txl_model_kind(const txl_model *model) {
    return model->vocabulary.kind;
}

static const char *text_setting(const txl_model *model, const char *key) {
    const char *text = json_string_value(json_object_get(model->settings, key));
    return text ? text : "";
}

const char *txl_model_type(const txl_model *model) {
    return text_setting(model, "type");
}

const char *txl_model_memory_start(const txl_model *model) {
    return text_setting(model, "memory_start");
}

const char *txl_model_cluster_order(const txl_model *model) {
    return text_setting(model, "cluster_order");
}

uint64_t txl_model_checksum(const txl_model *model) {
    return model->weights->checksum;
}

int32_t txl_model_n_token(const txl_model *model) {
    return model->vocabulary.n;
}

const char *txl_model_symbol(const txl_model *model, int32_t id, size_t *length) {
    return vocabulary_symbol(&model->vocabulary, id, length);
}

int32_t txl_model_id(const txl_model *model, const char *symbol, size_t length) {
    return vocabulary_find(&model->vocabulary, symbol, length);
}

int32_t txl_model_unk(const txl_model *model) {
    return model->vocabulary.unk;
}

int32_t txl_model_eos(const txl_model *model) {
    return model->vocabulary.eos;
}

int32_t txl_model_first_context(const txl_model *model) {
    const char *first = text_kind(model->vocabulary.kind)->first;
    int32_t id = first ? txl_model_id(model, first, strlen(first)) : model->vocabulary.eos;
    return id < 0 ? 0 : id;
}

void txl_model_bytes(const txl_model *model, uint64_t *stored, uint64_t *expanded) {
    *stored = model->weights->size;
    *expanded = model->arena_size;
}

size_t txl_model_n_tensor(const txl_model *model) {
    return model->weights->n_tensor;
}

void txl_model_tensor(const txl_model *model, size_t i, txl_tensor *tensor) {
    const struct weights_tensor *t = &model->weights->tensor[i];
    *tensor = (txl_tensor){.name = t->name,
                           .type = weights_type_name(t->type),
                           .n_dim = t->n_dim,
                           .stored = t->stored,
                           .expanded = t->size};
    memcpy(tensor->shape, t->shape, sizeof tensor->shape);
}

void txl_model_defaults(const txl_model *model, txl_settings *settings) {
    *settings = model->defaults;
}

const char *txl_kernels_name(txl_error *error) {
    const struct kernels *kernels;
    return kernels_choose(&kernels, error) ? NULL : kernels->name;
}

const char *txl_blas_name(void) {
    return openblas_get_corename();
}
