/* Opens models, says what they are, and refuses what a family of networks cannot do. */
#include "model.h"

#include "cli/io/signals.h"
#include "cli/io/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* The weights file that is part of the program (default_model.c). */
extern const unsigned char txl_default_model[];
extern const size_t txl_default_model_size;

bool model_is_built_in(const char *path) {
    return !path || strcmp(path, BUILT_IN) == 0;
}

const void *model_built_in(size_t *size) {
    *size = txl_default_model_size;
    return txl_default_model;
}

const char *model_origin(const char *path) {
    const char *named = model_environment();
    return named && path && strcmp(path, named) == 0 ? " (TXL_MODEL in the environment)" : "";
}

/* Says of a path that is no weights file what it is, and where it came from. */
static void explain(const char *path, txl_error *error) {
    const txl_error told = *error;
    const int room = (int)sizeof error->message / 3; /* for what is of any length */
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        snprintf(error->message, sizeof error->message,
                 "%.*s: a folder, not a weights file; txl convert %.*s -o MODEL.txl makes one of a "
                 "checkpoint%s",
                 room, path, room, path, model_origin(path));
    else
        snprintf(error->message, sizeof error->message, "%.*s%s",
                 (int)(sizeof error->message - strlen(model_origin(path)) - 1), told.message,
                 model_origin(path));
}

txl_status model_open_file(struct model *model, const char *path, int threads, bool low_memory,
                           txl_error *error) {
    static const char name[] = "the built-in model";
    const void *data = txl_default_model;
    size_t size = txl_default_model_size;
    txl_model **handle = &model->handle;
    *model = (struct model){.name = model_is_built_in(path) ? BUILT_IN : path};
    if (model_is_built_in(path))
        return low_memory
                   ? txl_model_open_memory_compressed(data, size, name, threads, handle, error)
                   : txl_model_open_memory(data, size, name, threads, handle, error);
    signals_set_mapped(path);
    txl_status status = low_memory ? txl_model_open_compressed(path, threads, handle, error)
                                   : txl_model_open(path, threads, handle, error);
    if (status)
        explain(path, error);
    return status;
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

bool model_open_any(struct model *model, const struct common_options *options) {
    const char *path = options->model ? options->model : model_environment();
    txl_error error;
    if (model_open_file(model, path, (int)options->threads, options->low_memory, &error))
        return terminal_error("%s", error.message);
    if (options->low_memory && is_raw(model))
        terminal_note("%s is not compressed, so --low-memory changes nothing", model->name);
    return true;
}

/* What a model's head is for, and whether txl answer takes it; else txl classify does. */
static bool describe_head(const txl_model *model, char *text, size_t size) {
    const int n = txl_model_n_label(model);
    switch (txl_model_head(model)) {
    case TXL_HEAD_SEQUENCE:
        snprintf(text, size, "a classifier of %d label%s", n, n == 1 ? "" : "s");
        return false;
    case TXL_HEAD_CHOICE:
        snprintf(text, size, "a model that takes one of several choices");
        return false;
    case TXL_HEAD_TOKENS:
        snprintf(text, size, "a classifier of words with %d label%s", n, n == 1 ? "" : "s");
        return false;
    default:
        snprintf(text, size, "a model that answers questions");
        return true;
    }
}

bool model_open(struct model *model, const struct common_options *options) {
    char head[80];
    if (!model_open_any(model, options))
        return false;
    if (txl_model_is_language_model(model->handle))
        return true;
    const bool questions = describe_head(model->handle, head, sizeof head);
    return terminal_error("%s: %s, no language model: txl %s takes it", model->name, head,
                          questions ? "answer" : "classify");
}

bool model_open_head(struct model *model, const struct common_options *options, bool questions) {
    char head[80];
    if (!model_open_any(model, options))
        return false;
    if (txl_model_head(model->handle) == TXL_HEAD_NONE)
        return terminal_error("%s: a language model without a head; txl convert makes a model with "
                              "one of a fine-tuned XLNet's checkpoint (txl help heads)",
                              model->name);
    if (describe_head(model->handle, head, sizeof head) == questions)
        return true;
    return terminal_error("%s: %s: txl %s takes it", model->name, head,
                          questions ? "classify" : "answer");
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

uint64_t model_parameters(const txl_model *model) {
    uint64_t sum = 0;
    for (size_t i = 0; i < txl_model_n_tensor(model); i++) {
        txl_tensor tensor;
        uint64_t n = 1;
        txl_model_tensor(model, i, &tensor);
        for (int d = 0; d < tensor.n_dim; d++)
            n *= tensor.shape[d];
        sum += strcmp(tensor.name, "position.inv_freq") == 0 ? 0 : n;
    }
    return sum;
}

bool model_has_symbols(const struct model *model, int64_t logprobs) {
    int32_t n = txl_model_n_token(model->handle);
    return logprobs <= n ||
           terminal_error("--logprobs %" PRId64 ": the model has %" PRId32 " symbols", logprobs, n);
}

bool model_sees_both_sides(const struct model *model) {
    return txl_model_family(model->handle) == TXL_FAMILY_XLNET;
}

txl_unit model_unit(const txl_model *model) {
    return txl_kind_unit(txl_model_kind(model));
}

static bool refuse_given(const struct model *model, const char *family,
                         const struct meaningless *options, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (options[i].given) {
            return terminal_error("%s: %s is %s, %s", options[i].option, model->name, family,
                                  options[i].reason);
        }
    }
    return true;
}

bool model_allows(const struct model *model, const struct meaningless *options, size_t n) {
    return !model_sees_both_sides(model) || refuse_given(model, "an XLNet", options, n);
}

bool model_needs_both_sides(const struct model *model, const struct meaningless *options,
                            size_t n) {
    return model_sees_both_sides(model) || refuse_given(model, "a Transformer-XL", options, n);
}

double free_memory(void) {
    unsigned long long kib = 0;
    char line[256];
    struct rlimit limit;
    double bytes = 1e18;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            bytes = 1024 * (double)kib;
    if (file)
        fclose(file);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && (double)limit.rlim_cur < bytes)
        bytes = (double)limit.rlim_cur;
    return bytes;
}
