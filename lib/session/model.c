/* Opens models: checks the settings, finds the network's tensors, expands compressed ones. */
#include "model.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/network/compute.h"
#include "lib/network/family.h"
#include "lib/text/kind.h"
#include "lib/text/sentencepiece.h"
#include "lib/text/tokenizer.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

extern char *openblas_get_corename(void);

/* ---- Settings ----------------------------------------------------------------------------- */

/* Finds the family, and reads the settings of the text. */
static txl_status read_family(txl_model *model, txl_error *error) {
    json_error_t where;
    const char *file = model->weights->name;
    model->json = json_loads(model->weights->settings, 0, &where);
    if (!model->json)
        return txl_fail(error, json_lacked_memory(&where) ? TXL_MEMORY : TXL_FORMAT,
                        "%s: the settings are not JSON: %s", file, where.text);
    if (!json_is_object(model->json))
        return txl_fail(error, TXL_FORMAT, "%s: the settings are not a JSON object", file);
    const char *name = json_string_value(json_object_get(model->json, "family"));
    model->family = family_find(name);
    if (!model->family)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: this txl knows no model family \"%s\"", file,
                        name ? name : "");
    model->settings = calloc(1, model->family->settings_size);
    if (!model->settings)
        return txl_fail_memory(error, "the settings", model->family->settings_size);
    return settings_read(&settings_of_text, model->json, file, TXL_FORMAT, model->settings, error);
}

static txl_status open_vocabulary(txl_model *model, txl_error *error) {
    const struct weights *w = model->weights;
    const struct model_settings *s = model->settings;
    const struct vocabulary_settings settings = {s->n_token, s->tokenizer, s->lower_case, s->unk_id,
                                                 s->eos_id};
    return vocabulary_open(&model->vocabulary, w->vocabulary, w->vocabulary_size, &settings,
                           w->name, error);
}

static txl_status list_banned(txl_model *model, txl_error *error) {
    const struct vocabulary *v = &model->vocabulary;
    bool good = v->unk < 0 || id_list_add(&model->banned, v->unk);
    for (int32_t id = 0; v->pieces && good && id < v->n; id++)
        if (v->pieces->types[id] == PIECE_CONTROL && id != v->eos && id != v->unk)
            good = id_list_add(&model->banned, id);
    return good ? TXL_OK : txl_fail_memory(error, "the banned symbols", sizeof v->unk);
}

static bool stays_compressed(const void *context, const char *name) {
    const txl_model *model = context;
    return model->compressed && parameter_is_layer_matrix(model->family->parameters, name);
}

/* ---- The public functions ----------------------------------------------------------------- */

txl_status model_open_weights(struct weights *weights, bool compressed, int threads,
                              txl_model **model, txl_error *error) {
    txl_model *m = calloc(1, sizeof *m);
    if (!m) {
        weights_close(weights);
        return txl_fail_memory(error, "a model", sizeof *m);
    }
    blas_threads_hold();
    m->weights = weights;
    m->compressed = compressed;
    txl_status status = kernels_choose(&m->kernels, error);
    if (!status) {
        m->rounding = kernels_rounding(&m->kernels);
        m->exact = *m->kernels.exact;
        m->integers = *m->kernels.in_integers;
        m->exact.tiles = m->integers.tiles = m->kernels.tiles;
        status = read_family(m, error);
    }
    if (!status)
        status = open_vocabulary(m, error);
    if (!status)
        status = list_banned(m, error);
    if (!status)
        status =
            family_read_settings(m->family, m->json, weights->name, TXL_FORMAT, m->settings, error);
    if (!status)
        status = tensors_open(&m->tensors, weights, stays_compressed, m, error);
    if (!status)
        status = m->family->open(m->settings, &m->tensors, &m->network, error);
    if (!status) /* last, because it takes longest: a wrong file is refused before */
        status = tensors_expand(&m->tensors, threads, error);
    if (status) {
        txl_model_close(m);
        return status;
    }
    *model = m;
    return TXL_OK;
}

bool model_has_integers(const txl_model *model) {
    const struct network *network = model->network;
    struct parameter_walk walk = parameter_walk(network->parameters, network->settings);
    struct parameter_tensor t;
    bool has = model->family->number == TXL_FAMILY_TRANSFORMER_XL && network->has_memory;
    while (has && parameter_next(&walk, &t)) {
        const struct parameter *p = t.parameter;
        if (p->kind == PARAMETER_VECTOR)
            continue;
        const struct matrix *matrix = parameter_matrix(p, network_part(network, p->scope, t.i));
        has = matrix->type == WEIGHTS_Q8 || matrix->type == WEIGHTS_Q4;
    }
    return has;
}

static txl_status open_path(const char *path, bool compressed, int threads, txl_model **model,
                            txl_error *error) {
    struct weights *weights;
    txl_status status = weights_open(path, &weights, error);
    return status ? status : model_open_weights(weights, compressed, threads, model, error);
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
    return status ? status : model_open_weights(weights, compressed, threads, model, error);
}

txl_status txl_model_open_memory(const void *data, size_t size, const char *name, int threads,
                                 txl_model **model, txl_error *error) {
    return open_memory(data, size, name, false, threads, model, error);
}

txl_status txl_model_open_memory_compressed(const void *data, size_t size, const char *name,
                                            int threads, txl_model **model, txl_error *error) {
    return open_memory(data, size, name, true, threads, model, error);
}

/* Parses the settings of a new model, and finds its family; *object is the caller's. */
static txl_status parse_settings(const char *text, json_t **object, const struct family **family,
                                 txl_error *error) {
    json_error_t where;
    *object = json_loads(text, 0, &where);
    if (!json_is_object(*object))
        return txl_fail(error, !*object && json_lacked_memory(&where) ? TXL_MEMORY : TXL_ARGUMENT,
                        "the new model's settings: %s", *object ? "no object" : where.text);
    const char *name = json_string_value(json_object_get(*object, "family"));
    *family = family_find(name);
    return *family ? TXL_OK
                   : txl_fail(error, TXL_ARGUMENT,
                              "the new model's settings: unknown family \"%s\"", name ? name : "");
}

txl_status model_make(const char *settings_json, const struct random_model *how, txl_model **model,
                      txl_error *error) {
    json_t *settings;
    const struct family *family;
    struct weights *weights;
    txl_status status = parse_settings(settings_json, &settings, &family, error);
    if (!status)
        status = random_weights(family, settings, how, &weights, error);
    json_decref(settings);
    return status ? status : model_open_weights(weights, false, how->threads, model, error);
}

txl_status txl_model_random(const char *settings_json, const char *type, uint64_t seed, int threads,
                            txl_model **model, txl_error *error) {
    struct random_model how = {.seed = seed, .threads = threads, .most = UINT64_MAX};
    txl_status status = weights_types_read(type, &how.types, error);
    return status ? status : model_make(settings_json, &how, model, error);
}

txl_status txl_model_new(const char *settings_json, const void *vocabulary, size_t size,
                         uint64_t seed, int threads, txl_model **model, txl_error *error) {
    const struct random_model how = {.types = {WEIGHTS_F32, WEIGHTS_F32},
                                     .seed = seed,
                                     .threads = threads,
                                     .vocabulary = vocabulary,
                                     .vocabulary_size = size,
                                     .most = UINT64_MAX};
    return model_make(settings_json, &how, model, error);
}

void txl_model_close(txl_model *model) {
    if (!model)
        return;
    if (model->network)
        model->family->close(model->network);
    vocabulary_close(&model->vocabulary);
    id_list_free(&model->banned);
    tensors_close(&model->tensors);
    free(model->settings);
    json_decref(model->json);
    weights_close(model->weights);
    free(model);
    blas_threads_release();
}

txl_status txl_encoder_new(const txl_model *model, const txl_encoding *encoding,
                           txl_encoder **encoder, txl_error *error) {
    return encoder_new(&model->vocabulary, encoding, encoder, error);
}

/* Where txl_encode puts ids. */
struct encoded_ids {
    int32_t *ids; /* [room] */
    size_t n, room;
};

static txl_status take_id(void *context, const txl_symbol *symbol, txl_error *error) {
    struct encoded_ids *out = context;
    (void)error;
    if (symbol->text && out->n < out->room)
        out->ids[out->n] = symbol->id;
    out->n += symbol->text != NULL;
    return TXL_OK;
}

txl_status txl_encode(const txl_model *model, const txl_encoding *encoding, const char *text,
                      size_t length, int32_t *ids, size_t room, size_t *n, txl_error *error) {
    struct encoded_ids out = {.ids = ids, .room = room};
    txl_encoding how = *encoding;
    txl_encoder *encoder;
    how.lookup = true;
    how.symbol = take_id;
    how.context = &out;
    *n = 0;
    txl_status status = txl_encoder_new(model, &how, &encoder, error);
    if (status)
        return status;
    status = txl_encoder_feed(encoder, text, length, error);
    if (!status)
        status = txl_encoder_finish(encoder, error);
    txl_encoder_free(encoder);
    *n = status ? 0 : out.n;
    return status;
}

txl_status txl_decoder_new(const txl_model *model, bool raw, txl_decoder **decoder,
                           txl_error *error) {
    return decoder_new(&model->vocabulary, raw, decoder, error);
}

txl_family txl_model_family(const txl_model *model) {
    return model->family->number;
}

const char *txl_family_name(txl_family family) {
    return family_of(family)->name;
}

const char *txl_model_settings_json(const txl_model *model) {
    return model->weights->settings;
}

int txl_model_d_model(const txl_model *model) {
    return (int)model->network->bands.d_model;
}

txl_kind txl_model_kind(const txl_model *model) {
    return model->vocabulary.kind;
}

static const char *text_setting(const txl_model *model, const char *key) {
    const char *text = json_string_value(json_object_get(model->json, key));
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

const char *txl_model_same_length_reach(const txl_model *model) {
    const struct network *n = model->network;
    return model->family->both_sides ? "" : n->same_length_more > 0 ? "mem_len + 1" : "mem_len";
}

double txl_model_layer_norm_eps(const txl_model *model) {
    return model->network->layer_norm_eps;
}

double txl_model_dynamic_lr(const txl_model *model) {
    const struct model_settings *s = model->settings;
    return s->dynamic_lr;
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

const int32_t *txl_model_banned(const txl_model *model, size_t *n) {
    *n = model->banned.n;
    return model->banned.ids;
}

int32_t txl_model_first_context(const txl_model *model) {
    const struct text_kind *kind = text_kind(model->vocabulary.kind);
    int32_t id = kind->boundary ? model->vocabulary.eos
                                : txl_model_id(model, kind->space, strlen(kind->space));
    return id < 0 ? 0 : id;
}

txl_head txl_model_head(const txl_model *model) {
    return model->network->head;
}

bool txl_model_is_language_model(const txl_model *model) {
    return !model->network->lacks_softmax;
}

int txl_model_n_label(const txl_model *model) {
    return (int)json_array_size(json_object_get(model->json, "labels"));
}

const char *txl_model_label(const txl_model *model, int i) {
    return json_string_value(json_array_get(json_object_get(model->json, "labels"), (size_t)i));
}

bool txl_model_is_multi_label(const txl_model *model) {
    return json_is_true(json_object_get(model->json, "multi_label"));
}

void txl_model_bytes(const txl_model *model, uint64_t *stored, uint64_t *expanded) {
    *stored = model->weights->size;
    *expanded = model->tensors.arena_size;
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
    const struct model_settings *s = model->settings;
    *settings = (txl_settings){.tgt_len = s->tgt_len,
                               .mem_len = s->mem_len,
                               .clamp_len = s->clamp_len,
                               .same_length = s->same_length && !model->family->both_sides};
}

const char *txl_kernels_name(txl_error *error) {
    struct kernels kernels;
    return kernels_choose(&kernels, error) ? NULL : kernels.name;
}

const char *txl_version(void) {
    return TXL_VERSION;
}

const char *txl_blas_name(void) {
    return openblas_get_corename();
}

const char *txl_blas_better_core(void) {
    return blas_better_core();
}

void txl_model_costs(const txl_model *model, const txl_settings *settings, txl_costs *costs) {
    model->family->costs(model->network, settings, costs);
}

uint64_t txl_model_target_flops(const txl_model *model, int32_t id) {
    return 2 * bands_target_products(&model->network->bands, id);
}

/* The table of families: the only place that lists them. */

static const struct family *const families[] = {
    [TXL_FAMILY_TRANSFORMER_XL] = &transformer_xl_family,
    [TXL_FAMILY_XLNET] = &xlnet_family,
};

enum { N_FAMILY = sizeof families / sizeof *families };

const struct family *family_find(const char *name) {
    for (int i = 0; name && i < N_FAMILY; i++)
        if (strcmp(families[i]->name, name) == 0)
            return families[i];
    return NULL;
}

const struct family *family_of(txl_family family) {
    return families[family];
}
