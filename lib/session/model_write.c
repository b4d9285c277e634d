/* Writes an open model as a weights file. */
#include "model.h"

#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/json_memory.h"
#include "lib/base/numbers.h"
#include "lib/base/output_file.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEVEL = 1,        /* zstd's: the fastest that saves space */
    N_HEAD_TENSOR = 4 /* of a head for sequence classification */
};

struct tensor_source {
    const txl_model *model;
    size_t i;
    struct calibrator *calibrator;
};

/* Reads elements [first, first + count) as f32, widening row by row. */
static txl_status read_elements(void *context, uint64_t first, size_t count, float *out,
                                txl_error *error) {
    const struct tensor_source *s = context;
    const struct matrix matrix = tensors_at(&s->model->tensors, s->i);
    const size_t n_col = matrix.n_col;
    if (weights_is_float(matrix.type)) {
        const size_t size = weights_type_size(matrix.type);
        s->model->kernels.widen[matrix.type]((const char *)matrix.data + first * size, NULL, 1,
                                             count, out);
        return TXL_OK;
    }
    float *row = malloc(n_col * sizeof *row);
    if (!row)
        return txl_fail_memory(error, "a row", n_col * sizeof *row);
    while (count > 0) {
        size_t r = (size_t)(first / n_col), column = (size_t)(first % n_col);
        size_t n = n_col - column < count ? n_col - column : count;
        matrix_widen(&s->model->kernels, &matrix, r, 1, row);
        memcpy(out, row + column, n * sizeof *out);
        out += n;
        first += n;
        count -= n;
    }
    free(row);
    return TXL_OK;
}

/* Whether f16 can hold all elements. */
static txl_status fits_f16(struct tensor_source *s, bool *fits, txl_error *error) {
    const struct weights_tensor *t = &s->model->weights->tensor[s->i];
    float x[1024];
    *fits = true;
    for (uint64_t first = 0; first < t->n_element && *fits; first += 1024) {
        size_t n = t->n_element - first < 1024 ? (size_t)(t->n_element - first) : 1024;
        txl_status status = read_elements(s, first, n, x, error);
        if (status)
            return status;
        for (size_t i = 0; i < n; i++)
            *fits = *fits && (f16_of_float(x[i]) & 0x7fff) != 0x7c00;
    }
    return TXL_OK;
}

/* The rules of weights-format.md.  A tensor that belongs to no parameter keeps its own type. */
static txl_status choose_type(struct tensor_source *s, struct weights_types wanted,
                              enum weights_type *type, txl_error *error) {
    const struct weights_tensor *t = &s->model->weights->tensor[s->i];
    const struct parameter *p = parameter_find(s->model->family->parameters, t->name);
    *type = p ? parameter_type(p, t->shape[1], wanted) : t->type;
    if (*type != WEIGHTS_F16 || weights_is_float(wanted.matrices))
        return TXL_OK;
    bool fits;
    txl_status status = fits_f16(s, &fits, error);
    *type = fits ? WEIGHTS_F16 : WEIGHTS_F32;
    return status;
}

static txl_status list_sources(const txl_model *model, struct weights_types types,
                               struct weights_source *source, struct tensor_source *context,
                               txl_error *error) {
    const struct weights *w = model->weights;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < w->n_tensor && !status; i++) {
        const struct weights_tensor *t = &w->tensor[i];
        if (!model->tensors.element[i])
            return txl_fail(error, TXL_ARGUMENT, "%s: a model opened compressed is not written",
                            w->name);
        context[i] = (struct tensor_source){.model = model, .i = i};
        source[i] = (struct weights_source){
            .n_dim = t->n_dim, .read = read_elements, .context = &context[i]};
        snprintf(source[i].name, sizeof source[i].name, "%s", t->name);
        memcpy(source[i].shape, t->shape, sizeof t->shape);
        status = choose_type(&context[i], types, &source[i].type, error);
    }
    return status;
}

static char *settings_with_type(const txl_model *model, const char *type) {
    json_t *settings = json_copy_object(model->json);
    char *text = NULL;
    if (settings && json_object_set_new(settings, "type", json_string(type)) == 0)
        text = json_text(settings, JSON_INDENT(1));
    json_decref(settings);
    return text;
}

static txl_status calibrate(void *context, const struct tile_calibration **calibration,
                            txl_error *error) {
    const struct tensor_source *s = context;
    return calibrator_get(s->calibrator, s->i, calibration, error);
}

/* Embeddings are not calibrated: most of their rows are read, not multiplied. */
static bool is_calibrated(const txl_model *model, size_t i, enum weights_type type) {
    const char *name = model->weights->tensor[i].name;
    const struct parameter *p = parameter_find(model->family->parameters, name);
    return weights_in_tiles(type) && p &&
           !(p->scope == PARAMETER_BAND && ends_with(name, ".weight"));
}

static txl_status start_calibration(const txl_model *model, const txl_calibration *how, int threads,
                                    struct weights_source *source, struct tensor_source *context,
                                    bool *wanted, struct calibrator **calibrator,
                                    txl_error *error) {
    const size_t n = model->weights->n_tensor;
    for (size_t i = 0; i < n; i++)
        wanted[i] = is_calibrated(model, i, source[i].type);
    txl_status status = calibrator_new(model, how, wanted, threads, calibrator, error);
    for (size_t i = 0; i < n && !status; i++) {
        context[i].calibrator = *calibrator;
        source[i].calibrate = calibrate;
    }
    return status;
}

static txl_status write_model(const txl_model *model, struct output_file *out, const char *type,
                              const txl_calibration *how, int threads, txl_error *error) {
    const struct weights *w = model->weights;
    struct weights_types types;
    struct calibrator *calibrator = NULL;
    txl_status status = weights_types_read(type, &types, error);
    if (status)
        return status;
    struct weights_source *source = calloc(w->n_tensor + 1, sizeof *source);
    struct tensor_source *context = calloc(w->n_tensor + 1, sizeof *context);
    bool *wanted = calloc(w->n_tensor + 1, sizeof *wanted);
    char *settings = settings_with_type(model, weights_type_name(types.matrices));
    if (!source || !context || !wanted || !settings)
        status = txl_fail_memory(error, "the list of tensors", w->n_tensor * sizeof *source);
    if (!status)
        status = list_sources(model, types, source, context, error);
    if (!status && how)
        status =
            start_calibration(model, how, threads, source, context, wanted, &calibrator, error);
    struct weights_contents contents = {.settings = settings,
                                        .vocabulary = w->vocabulary,
                                        .vocabulary_size = w->vocabulary_size,
                                        .source = source,
                                        .n_source = w->n_tensor,
                                        .level = LEVEL,
                                        .threads = threads};
    if (!status)
        status = weights_write_into(out, &contents, error);
    calibrator_free(calibrator);
    free(source);
    free(context);
    free(wanted);
    free(settings);
    return status;
}

txl_status txl_model_write(const txl_model *model, const char *path, const char *type, int threads,
                           txl_error *error) {
    struct output_file out;
    txl_status status = output_file_open(&out, path, error);
    if (!status)
        status = write_model(model, &out, type, NULL, threads, error);
    if (!status)
        status = output_file_commit(&out, error);
    output_file_close(&out);
    return status;
}

/* ---- With another head -------------------------------------------------------------------- */

static const char HEAD[] = "head."; /* what the names of a head's tensors begin with */

static bool is_of_head(const struct weights_tensor *t) {
    return strncmp(t->name, HEAD, sizeof HEAD - 1) == 0;
}

/* The model's settings, with those of the head in the place of any other head's. */
static char *settings_with_head(const txl_model *model, const struct sequence_head *head) {
    static const char *const others[] = {"multi_label", "start_n_top", "end_n_top"};
    json_t *settings = json_copy_object(model->json), *labels = json_array();
    char *text = NULL;
    bool good = settings && labels;
    for (int i = 0; i < head->n_label && good; i++)
        good = json_array_append_new(labels, json_string(head->labels[i])) == 0;
    for (size_t i = 0; i < sizeof others / sizeof *others && good; i++)
        json_object_del(settings, others[i]);
    json_t *own = json_pack("{s:s, s:O, s:s, s:b, s:s}", "head", txl_head_name(TXL_HEAD_SEQUENCE),
                            "labels", labels, "summary", "last", "summary_projected", true,
                            "summary_activation", "tanh");
    if (good && own && json_object_update(settings, own) == 0)
        text = json_text(settings, JSON_INDENT(1));
    json_decref(own);
    json_decref(labels);
    json_decref(settings);
    return text;
}

/* Reads elements of a tensor in memory. */
static txl_status read_memory(void *context, uint64_t first, size_t count, float *out,
                              txl_error *error) {
    (void)error;
    memcpy(out, (const float *)context + first, count * sizeof *out);
    return TXL_OK;
}

/* Lists the tensors of the body, then the head's; returns how many. */
static size_t list_with_head(const txl_model *model, const struct sequence_head *head,
                             struct weights_source *source) {
    const struct weights *w = model->weights;
    const uint64_t d_model = model->network->bands.d_model, n_label = (uint64_t)head->n_label;
    const struct weights_source own[] = {{.name = "head.summary.weight",
                                          .n_dim = 2,
                                          .shape = {d_model, d_model},
                                          .context = (void *)head->summary},
                                         {.name = "head.summary.bias",
                                          .n_dim = 1,
                                          .shape = {d_model},
                                          .context = (void *)head->summary_bias},
                                         {.name = "head.logits.weight",
                                          .n_dim = 2,
                                          .shape = {n_label, d_model},
                                          .context = (void *)head->logits},
                                         {.name = "head.logits.bias",
                                          .n_dim = 1,
                                          .shape = {n_label},
                                          .context = (void *)head->logits_bias}};
    size_t n = 0;
    for (size_t i = 0; i < w->n_tensor; i++) {
        const struct weights_tensor *t = &w->tensor[i];
        if (is_of_head(t))
            continue;
        source[n] =
            (struct weights_source){.type = t->type, .n_dim = t->n_dim, .from = w, .copied = t};
        snprintf(source[n].name, sizeof source[n].name, "%s", t->name);
        memcpy(source[n++].shape, t->shape, sizeof t->shape);
    }
    for (size_t i = 0; i < N_HEAD_TENSOR; i++) {
        source[n] = own[i];
        source[n++].read = read_memory; /* f32, like all heads */
    }
    return n;
}

txl_status model_write_head(const txl_model *model, const struct sequence_head *head,
                            const char *path, int threads, txl_error *error) {
    const struct weights *w = model->weights;
    if (w->n_block == 0)
        return txl_fail(error, TXL_ARGUMENT, "%s: a model that is in no file gets no head",
                        w->name);
    for (int i = 0; i < head->n_label; i++)
        if (!setting_is_label(head->labels[i]))
            return txl_fail(error, TXL_ARGUMENT, "label %d is not " SETTING_LABEL_RULE, i);
    struct weights_source *source = calloc(w->n_tensor + N_HEAD_TENSOR, sizeof *source);
    char *settings = settings_with_head(model, head);
    txl_status status = source && settings
                            ? TXL_OK
                            : txl_fail_memory(error, "the list of tensors",
                                              (w->n_tensor + N_HEAD_TENSOR) * sizeof *source);
    if (!status) {
        const struct weights_contents contents = {.settings = settings,
                                                  .vocabulary = w->vocabulary,
                                                  .vocabulary_size = w->vocabulary_size,
                                                  .source = source,
                                                  .n_source = list_with_head(model, head, source),
                                                  .level = LEVEL,
                                                  .threads = threads};
        status = weights_write(path, &contents, error);
    }
    free(source);
    free(settings);
    return status;
}

txl_status txl_model_write_calibrated(const txl_model *model, int file, const char *name,
                                      const char *type, const txl_calibration *calibration,
                                      int threads, txl_error *error) {
    struct output_file out = {.path = name, .file = file};
    if (model->family->number != TXL_FAMILY_TRANSFORMER_XL)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: an XLNet is not calibrated, only a Transformer-XL",
                        model->weights->name);
    if (type[0] != 'q' || type[1] == '8')
        return txl_fail(error, TXL_ARGUMENT, "calibration is for weights in q4 and q5, not in %s",
                        type);
    if (calibration->n < 2)
        return txl_fail(error, TXL_ARGUMENT, "calibration needs a text of two tokens and more");
    return write_model(model, &out, type, calibration, threads, error);
}
