/* The model that is trained: a copy of another's weights in f32, in the training's memory. */
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t padded(uint64_t n) {
    return (n + 15) / 16 * 16;
}

/* Finds the bands whose softmax projection is the embedding's, which then is the one to train. */
static void find_tied_projections(struct training *t, const txl_model *model) {
    const json_t *tied = json_object_get(model->json, "tied_projections");
    for (int i = 0; i < model->network->ends.n_band; i++)
        t->tied_projection[i] = json_is_true(json_array_get(tied, (size_t)i)) &&
                                model->network->ends.band[i].embedding_projection.n_row > 0;
}

bool training_is_trained(const struct training *t, const char *name) {
    int band, end = 0;
    if (strcmp(name, "position.inv_freq") == 0)
        return false;
    if (sscanf(name, "softmax.%d.projection%n", &band, &end) == 1 && end > 0 && !name[end])
        return band < 0 || band >= MAX_BAND || !t->tied_projection[band];
    return true;
}

void training_count_weights(struct training *t, const txl_model *model) {
    const struct weights *w = model->weights;
    find_tied_projections(t, model);
    t->n_weight = t->n_parameter = 0;
    for (size_t i = 0; i < w->n_tensor; i++) {
        uint64_t n = padded(w->tensor[i].n_element);
        t->n_weight += n;
        t->n_parameter += training_is_trained(t, w->tensor[i].name) ? n : 0;
    }
}

static void widen_tensor(const txl_model *model, size_t i, float *out) {
    const struct weights_tensor *tensor = &model->weights->tensor[i];
    const void *elements = model->tensors.element[i];
    const float *scale = NULL;
    if (tensor->type == WEIGHTS_Q8)
        scale = (const float *)((const char *)elements + weights_scales_offset(tensor->n_element));
    size_t rows = (size_t)tensor->shape[0];
    model->kernels.widen[tensor->type](elements, scale, rows, (size_t)tensor->n_element / rows,
                                       out);
}

static int compare_names(const void *a, const void *b) {
    const struct weights_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Gives the tensors of `w` their places, in an order that does not depend on the file: so a state
 * fits a new model of the same shape. */
static txl_status place_tensors(struct training *t, struct weights *w, txl_error *error) {
    float *trained = t->weight, *rest = t->weight + t->n_parameter;
    struct weights_tensor **order = calloc(w->n_tensor + 1, sizeof *order);
    if (!order)
        return txl_fail_memory(error, "the tensors", w->n_tensor * sizeof *order);
    for (size_t i = 0; i < w->n_tensor; i++)
        order[i] = &w->tensor[i];
    qsort(order, w->n_tensor, sizeof *order, compare_names);
    for (size_t i = 0; i < w->n_tensor; i++) {
        float **next = training_is_trained(t, order[i]->name) ? &trained : &rest;
        order[i]->raw = *next;
        *next += padded(order[i]->n_element);
    }
    free(order);
    return TXL_OK;
}

/* Copies the tensors to their places in the trainer, and lists those places in `w`. */
static txl_status copy_tensors(struct training *t, const txl_model *model, struct weights *w,
                               txl_error *error) {
    const struct weights *from = model->weights;
    w->tensor = calloc(from->n_tensor + 1, sizeof *w->tensor);
    if (!w->tensor)
        return txl_fail_memory(error, "the tensors", from->n_tensor * sizeof *w->tensor);
    for (size_t i = 0; i < from->n_tensor; i++) {
        struct weights_tensor *tensor = &w->tensor[i];
        if (!model->tensors.element[i])
            return txl_fail(error, TXL_ARGUMENT, "%s: a model opened compressed is not trained",
                            from->name);
        *tensor = from->tensor[i];
        tensor->name = strdup(from->tensor[i].name);
        w->n_tensor++;
        if (!tensor->name)
            return txl_fail_memory(error, "a tensor's name", strlen(from->tensor[i].name));
        tensor->type = WEIGHTS_F32;
        tensor->size = tensor->stored = tensor->n_element * sizeof(float);
        tensor->first_block = tensor->n_block = 0;
    }
    txl_status status = place_tensors(t, w, error);
    for (size_t i = 0; i < w->n_tensor && !status; i++)
        widen_tensor(model, i, (float *)w->tensor[i].raw);
    return status;
}

/* The model's settings with the lengths of the training. */
static char *make_settings(const struct training *t, const txl_model *model) {
    json_t *settings = json_copy_object(model->json);
    char *text = NULL;
    if (settings)
        json_object_del(settings, "name"); /* of another model */
    if (settings &&
        (!t->how.name || json_object_set_new(settings, "name", json_string(t->how.name)) == 0) &&
        json_object_set_new(settings, "tgt_len", json_integer(t->how.tgt_len)) == 0 &&
        json_object_set_new(settings, "mem_len", json_integer(t->how.mem_len)) == 0 &&
        json_object_set_new(settings, "clamp_len",
                            json_integer(t->how.clamp_len > 0 ? t->how.clamp_len : -1)) == 0 &&
        json_object_set_new(settings, "same_length", json_boolean(t->how.same_length)) == 0 &&
        json_object_set_new(settings, "type", json_string("f32")) == 0)
        text = json_text(settings, JSON_INDENT(1));
    json_decref(settings);
    return text;
}

void training_set_network(struct training *t, const txl_model *model) {
    t->net = (const struct transformer_xl *)model->network;
    t->ends = &t->net->network.ends;
}

txl_status training_open_model(struct training *t, const txl_model *model, txl_error *error) {
    struct weights *w = calloc(1, sizeof *w);
    if (!w)
        return txl_fail_memory(error, "the model", sizeof *w);
    txl_status status = copy_tensors(t, model, w, error);
    w->name = strdup("the model in training");
    w->settings = make_settings(t, model);
    t->vocabulary = malloc(model->weights->vocabulary_size + 1);
    if (!status && (!w->name || !w->settings || !t->vocabulary))
        status = txl_fail_memory(error, "the model", model->weights->vocabulary_size);
    if (status) {
        weights_close(w);
        return status;
    }
    memcpy(t->vocabulary, model->weights->vocabulary, model->weights->vocabulary_size);
    w->vocabulary = t->vocabulary;
    w->vocabulary_size = model->weights->vocabulary_size;
    w->checksum = model->weights->checksum;
    status = model_open_weights(w, false, 1, &t->model, error);
    if (!status)
        training_set_network(t, t->model);
    return status;
}

/* Tied projections are trained in the embedding; writes their transpose to the model's softmax. */
static void transpose_tied(struct training *t) {
    for (int i = 0; i < t->ends->n_band; i++) {
        const struct band *band = &t->ends->band[i];
        const float *from = band->embedding_projection.data;
        float *to = (float *)band->softmax_projection.data;
        size_t rows = band->embedding_projection.n_row, columns = band->embedding_projection.n_col;
        for (size_t r = 0; t->tied_projection[i] && r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                to[c * rows + r] = from[r * columns + c];
    }
}

const txl_model *training_model(struct training *t) {
    transpose_tied(t);
    return t->model;
}
