/* Opens models and sessions, and prints settings. */
#include "model.h"

#include "cli/system/blas_core.h"
#include "cli/system/output.h"
#include "cli/system/signals.h"
#include "cli/system/terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The weights file that is part of the program (default_model.c). */
extern const unsigned char txl_default_model[];
extern const size_t txl_default_model_size;

const char *const answers[] = {"yes", "no", NULL};
const char *const session_computes[] = {"type", "int8", NULL};
const char *const computes[] = {"f32", "bf16", NULL};
const char *const text_forms[] = {"raw", "tokens", NULL};

const char *const memory_types[] = {"f32", "f16", "bf16", NULL};

static txl_status open_path(struct model *model, const char *path, int threads, bool low_memory,
                            txl_error *error) {
    model->name = path;
    signals_set_mapped(path);
    return low_memory ? txl_model_open_compressed(path, threads, &model->handle, error)
                      : txl_model_open(path, threads, &model->handle, error);
}

static txl_status open_built_in(struct model *model, int threads, bool low_memory,
                                txl_error *error) {
    static const char name[] = "the built-in model";
    const void *data = txl_default_model;
    size_t size = txl_default_model_size;
    model->name = BUILT_IN;
    return low_memory
               ? txl_model_open_memory_compressed(data, size, name, threads, &model->handle, error)
               : txl_model_open_memory(data, size, name, threads, &model->handle, error);
}

bool model_is_built_in(const char *path) {
    return !path || strcmp(path, BUILT_IN) == 0;
}

const void *model_built_in(size_t *size) {
    *size = txl_default_model_size;
    return txl_default_model;
}

txl_status model_open_file(struct model *model, const char *path, int threads, bool low_memory,
                           txl_error *error) {
    *model = (struct model){0};
    return model_is_built_in(path) ? open_built_in(model, threads, low_memory, error)
                                   : open_path(model, path, threads, low_memory, error);
}

const char *model_environment(void) {
    const char *path = getenv("TXL_MODEL");
    return path && *path != '\0' ? path : NULL;
}

struct model_checksum model_checksum(const struct model *model) {
    struct model_checksum checksum;
    snprintf(checksum.text, sizeof checksum.text, "%016" PRIx64, txl_model_checksum(model->handle));
    return checksum;
}

/* Weights stored raw are never expanded. */
static bool is_raw(const struct model *model) {
    uint64_t stored, expanded;
    txl_model_bytes(model->handle, &stored, &expanded);
    return expanded == 0;
}

bool model_open(struct model *model, const struct common_options *options) {
    const char *path = options->model ? options->model : model_environment();
    txl_error error;
    if (model_open_file(model, path, (int)options->threads, options->low_memory, &error) !=
        TXL_OK) {
        terminal_error("%s", error.message);
        return false;
    }
    if (options->low_memory && is_raw(model)) {
        terminal_note("%s is not compressed: its weights are used where the file is mapped, and "
                      "--low-memory changes nothing",
                      model->name);
    }
    const char *hint = blas_core_hint();
    if (hint)
        terminal_note("%s", hint);
    return true;
}

void model_close(struct model *model) {
    txl_model_close(model->handle);
    signals_set_mapped(NULL);
    model->handle = NULL;
}

size_t model_score_tokens(const struct model *model) {
    enum { FEW = 512, MANY = 1024 };
    txl_settings settings;
    txl_costs costs;
    txl_model_defaults(model->handle, &settings);
    txl_model_costs(model->handle, &settings, &costs);
    return costs.flops < (uint64_t)200e9 / MANY ? MANY : FEW;
}

bool model_has_words(const struct model *model) {
    return txl_kind_unit(txl_model_kind(model->handle)) == TXL_UNIT_WORD;
}

bool model_has_characters(const struct model *model) {
    return txl_kind_unit(txl_model_kind(model->handle)) == TXL_UNIT_CHARACTER;
}

bool model_has_pieces(const struct model *model) {
    return txl_kind_unit(txl_model_kind(model->handle)) == TXL_UNIT_PIECE;
}

const char *text_form(const struct model *model, int form, bool ids) {
    return ids ? "ids" : model_has_words(model) ? text_forms[form] : "-";
}

bool text_form_choose(txl_kind kind, int asked, int standard, int *form) {
    *form = asked == CHOICE_UNSET ? standard : asked;
    if (asked == CHOICE_UNSET || txl_kind_unit(kind) == TXL_UNIT_WORD)
        return true;
    terminal_error(
        "--text %s is for models of words; there is one way alone to split this one's text",
        text_forms[asked]);
    return false;
}

void settings_override(txl_settings *settings, const struct session_options *options,
                       const struct common_options *common) {
    if (options->tgt_len != INTEGER_UNSET)
        settings->tgt_len = (int)options->tgt_len;
    if (options->mem_len != INTEGER_UNSET)
        settings->mem_len = (int)options->mem_len;
    if (options->clamp_len != INTEGER_UNSET)
        settings->clamp_len = (int)options->clamp_len;
    if (options->same_length != CHOICE_UNSET)
        settings->same_length = options->same_length == ANSWER_YES;
    if (options->memory_type != CHOICE_UNSET)
        settings->memory_type = (txl_memory_type)options->memory_type;
    if (options->compute != CHOICE_UNSET)
        settings->compute = (txl_compute)options->compute;
    settings->threads = (int)common->threads;
}

bool session_open(const struct model *model, const txl_settings *settings, txl_session **session) {
    txl_error error;
    if (txl_session_new(model->handle, settings, session, &error) != TXL_OK) {
        terminal_error("%s", error.message);
        return false;
    }
    return true;
}

/* No limit is printed as -1, as the published settings write it. */
static int stated_clamp_len(const txl_settings *settings) {
    return settings->clamp_len > 0 ? settings->clamp_len : -1;
}

static json_t *string_or_null(const char *text) {
    return text && strcmp(text, "-") != 0 ? json_string(text) : json_null();
}

static bool run_to_json(json_t *object, const struct model *model, const struct run_settings *run) {
    json_t *streams = run->streams > 0 ? json_integer(run->streams) : json_null();
    return json_object_set_new(object, "streams", streams) == 0 &&
           json_object_set_new(object, "txl", json_string(TXL_VERSION)) == 0 &&
           json_object_set_new(object, "model", output_json_string(model->name)) == 0 &&
           json_object_set_new(object, "checksum", json_string(model_checksum(model).text)) == 0 &&
           json_object_set_new(object, "mode", string_or_null(run->mode)) == 0 &&
           json_object_set_new(object, "text", string_or_null(run->text)) == 0 &&
           json_object_set_new(object, "kernels", json_string(txl_kernels_name(NULL))) == 0 &&
           json_object_set_new(object, "blas", json_string(txl_blas_name())) == 0;
}

bool model_sees_both_sides(const struct model *model) {
    return txl_model_family(model->handle) == TXL_FAMILY_XLNET;
}

bool model_list_banned(const struct model *model, struct id_list *banned) {
    /* Only the vocabularies of pieces have control symbols. */
    int32_t n_token = model_has_pieces(model) ? txl_model_n_token(model->handle) : 0;
    int32_t unk = txl_model_unk(model->handle);
    bool good = unk < 0 || id_list_add(banned, unk);
    for (int32_t id = 0; id < n_token && good; id++)
        good = !txl_model_is_control(model->handle, id) || id_list_add(banned, id);
    if (!good)
        terminal_error("out of memory");
    return good;
}

bool model_allows(const struct model *model, const struct meaningless *options, size_t n) {
    for (size_t i = 0; model_sees_both_sides(model) && i < n; i++) {
        if (options[i].given) {
            terminal_error("%s: %s is an XLNet, %s", options[i].option, model->name,
                           options[i].reason);
            return false;
        }
    }
    return true;
}

bool model_needs_both_sides(const struct model *model, const struct meaningless *options,
                            size_t n) {
    for (size_t i = 0; !model_sees_both_sides(model) && i < n; i++) {
        if (options[i].given) {
            terminal_error("%s: %s is a Transformer-XL, %s", options[i].option, model->name,
                           options[i].reason);
            return false;
        }
    }
    return true;
}

/* A setting of the weights file that is a word; the caller frees it. */
static char *setting_word(const struct model *model, const char *key) {
    json_t *settings = json_loads(txl_model_settings_json(model->handle), 0, NULL);
    const char *word = json_string_value(json_object_get(settings, key));
    char *copy = word ? strdup(word) : NULL;
    json_decref(settings);
    return copy;
}

/* Adds the settings that only an XLNet has, and removes those that mean nothing to it. */
static bool both_sides_to_json(json_t *object, const struct model *model,
                               const struct run_settings *run) {
    bool ordered = run->fills || (run->generates && run->refresh == 0);
    char *activation = setting_word(model, "ff_activation");
    json_t *refresh =
        run->generates || run->refresh > 0 ? json_integer((json_int_t)run->refresh) : json_null();
    int bad = json_object_set_new(object, "same_length", json_null());
    bad |= json_object_set_new(object, "cluster_order", json_null());
    bad |= run->refresh > 0 ? json_object_set_new(object, "mem_len", json_null()) : 0;
    bad |= json_object_set_new(object, "family", json_string(txl_family_name(TXL_FAMILY_XLNET)));
    bad |= json_object_set_new(object, "activation", string_or_null(activation));
    bad |= json_object_set_new(object, "refresh", refresh);
    bad |= json_object_set_new(object, "order", string_or_null(ordered ? run->order : NULL));
    free(activation);
    return bad == 0;
}

bool settings_to_json(json_t *object, const struct model *model, const txl_settings *settings,
                      const struct run_settings *run) {
    const txl_model *handle = model->handle;
    return json_object_set_new(object, "tgt_len", json_integer(settings->tgt_len)) == 0 &&
           json_object_set_new(object, "mem_len", json_integer(settings->mem_len)) == 0 &&
           json_object_set_new(object, "clamp_len", json_integer(stated_clamp_len(settings))) ==
               0 &&
           json_object_set_new(object, "same_length", json_boolean(settings->same_length)) == 0 &&
           json_object_set_new(object, "memory_start",
                               json_string(txl_model_memory_start(handle))) == 0 &&
           json_object_set_new(object, "cluster_order",
                               json_string(txl_model_cluster_order(handle))) == 0 &&
           json_object_set_new(object, "type", json_string(txl_model_type(handle))) == 0 &&
           json_object_set_new(object, "memory_type",
                               json_string(memory_types[settings->memory_type])) == 0 &&
           (settings->compute == TXL_COMPUTE_BY_TYPE ||
            json_object_set_new(object, "compute",
                                json_string(session_computes[settings->compute])) == 0) &&
           json_object_set_new(object, "threads", json_integer(settings->threads)) == 0 &&
           run_to_json(object, model, run) &&
           (!model_sees_both_sides(model) || both_sides_to_json(object, model, run));
}

/* The part of the line in which the families differ. */
static void family_to_text(char *text, size_t size, const struct model *model,
                           const txl_settings *settings, const struct run_settings *run) {
    const txl_model *handle = model->handle;
    if (!model_sees_both_sides(model)) {
        snprintf(
            text, size, "mem_len=%d clamp_len=%d same_length=%s memory_start=%s cluster_order=%s",
            settings->mem_len, stated_clamp_len(settings), settings->same_length ? "yes" : "no",
            txl_model_memory_start(handle), txl_model_cluster_order(handle));
        return;
    }
    char mem_len[16] = "-", more[64] = "";
    char *activation = setting_word(model, "ff_activation");
    if (run->refresh == 0)
        snprintf(mem_len, sizeof mem_len, "%d", settings->mem_len);
    if (run->generates || run->refresh > 0)
        snprintf(more, sizeof more, " refresh=%llu", (unsigned long long)run->refresh);
    if (run->generates && run->refresh == 0)
        snprintf(more, sizeof more, " refresh=0 order=%s", run->order);
    if (run->fills)
        snprintf(more, sizeof more, " order=%s", run->order);
    snprintf(text, size, "mem_len=%s clamp_len=%d memory_start=%s family=%s activation=%s%s",
             mem_len, stated_clamp_len(settings), txl_model_memory_start(handle),
             txl_family_name(TXL_FAMILY_XLNET), activation ? activation : "-", more);
    free(activation);
}

void settings_to_text(char *text, size_t size, const struct model *model,
                      const txl_settings *settings, const struct run_settings *run) {
    char family[256];
    family_to_text(family, sizeof family, model, settings, run);
    snprintf(text, size,
             "tgt_len=%d %s type=%s memory_type=%s%s threads=%d streams=%lld kernels=%s blas=%s "
             "model=%s",
             settings->tgt_len, family, txl_model_type(model->handle),
             memory_types[settings->memory_type],
             settings->compute == TXL_COMPUTE_INT8 ? " compute=int8" : "", settings->threads,
             (long long)(run->streams > 0 ? run->streams : 1), txl_kernels_name(NULL),
             txl_blas_name(), model->name);
}
