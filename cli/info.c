/* txl info: what a weights file or a checkpoint says of itself. */
#include "cli/system/clean.h"
#include "cli/system/confine.h"
#include "cli/system/output.h"
#include "cli/system/signals.h"
#include "cli/system/terminal.h"
#include "commands.h"
#include "convert/convert.h"
#include "txl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct info_options {
    struct common_options common;
    bool json, tensors;
};

/* The first bytes of a weights file (weights-format.md). */
static const char magic[] = {'\x93', 'T', 'X', 'L'};

/* False also for what cannot be read: whoever opens it next says why. */
static bool is_weights_file(const char *path) {
    char start[sizeof magic];
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0)
        return false;
    bool is = read(handle, start, sizeof start) == (ssize_t)sizeof start &&
              memcmp(start, magic, sizeof magic) == 0;
    close(handle);
    return is;
}

/* ---- Gathering ---------------------------------------------------------------------------- */

/* {"name", "dtype", "shape"} */
static json_t *tensor_object(const char *name, const char *dtype, int n_dim,
                             const uint64_t *shape) {
    json_t *object = json_object(), *sizes = json_array();
    int failed = 0;
    for (int i = 0; i < n_dim; i++)
        failed |= json_array_append_new(sizes, json_integer((json_int_t)shape[i]));
    failed |= json_object_set_new(object, "name", output_json_string(name));
    failed |= json_object_set_new(object, "dtype", json_string(dtype));
    failed |= json_object_set_new(object, "shape", sizes);
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* What PyTorch calls the type. */
static const char *dtype_of(const char *type) {
    return strcmp(type, "f16") == 0    ? "float16"
           : strcmp(type, "bf16") == 0 ? "bfloat16"
           : strcmp(type, "q8") == 0   ? "int8"
                                       : "float32";
}

static json_t *weights_tensors(const txl_model *model) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < txl_model_n_tensor(model); i++) {
        txl_tensor tensor;
        txl_model_tensor(model, i, &tensor);
        json_t *object =
            tensor_object(tensor.name, dtype_of(tensor.type), tensor.n_dim, tensor.shape);
        int failed = json_object_set_new(object, "type", json_string(tensor.type));
        failed |=
            json_object_set_new(object, "bytes_stored", json_integer((json_int_t)tensor.stored));
        failed |= json_object_set_new(object, "bytes_expanded",
                                      json_integer((json_int_t)tensor.expanded));
        failed |= json_array_append_new(tensors, object);
        if (failed) {
            json_decref(tensors);
            return NULL;
        }
    }
    return tensors;
}

/* What the weights, as they are open, and a session with these settings take together. */
static uint64_t resident(const txl_model *model, const txl_settings *settings) {
    uint64_t stored, expanded;
    txl_model_bytes(model, &stored, &expanded);
    return (expanded > 0 ? expanded : stored) + txl_session_bytes(model, settings);
}

/* The same with --low-memory and the published settings. */
static txl_status resident_low_memory(const char *path, int threads, uint64_t *bytes,
                                      txl_error *error) {
    txl_model *model;
    txl_settings settings;
    txl_status status = txl_model_open_compressed(path, threads, &model, error);
    if (status == TXL_OK) {
        txl_model_defaults(model, &settings);
        *bytes = resident(model, &settings);
        txl_model_close(model);
    }
    return status;
}

/* What a session with the published settings takes, and with it the whole process at most. */
static int set_memory(json_t *object, const txl_model *model, uint64_t low_memory) {
    txl_settings settings;
    txl_model_defaults(model, &settings);
    uint64_t session = txl_session_bytes(model, &settings), all = resident(model, &settings);
    settings.memory_type = TXL_MEMORY_F16;
    uint64_t narrow = txl_session_bytes(model, &settings);
    int failed = json_object_set_new(object, "bytes_session", json_integer((json_int_t)session));
    failed |= json_object_set_new(object, "bytes_session_f16", json_integer((json_int_t)narrow));
    failed |= json_object_set_new(object, "bytes_resident", json_integer((json_int_t)all));
    failed |= json_object_set_new(object, "bytes_resident_low_memory",
                                  json_integer((json_int_t)low_memory));
    return failed;
}

/* The settings as the file has them, and the tensors. */
static json_t *describe_weights(const char *path, const struct info_options *options,
                                txl_error *error) {
    txl_model *model;
    int threads = (int)options->common.threads;
    uint64_t low_memory;
    confine(NULL, path, NULL);
    signals_set_mapped(path);
    if (resident_low_memory(path, threads, &low_memory, error) != TXL_OK ||
        txl_model_open(path, threads, &model, error) != TXL_OK)
        return NULL;
    uint64_t stored, expanded;
    txl_model_bytes(model, &stored, &expanded);
    json_t *object = json_object(), *settings = json_loads(txl_model_settings_json(model), 0, NULL);
    int failed = json_object_set_new(object, "file", output_json_string(path));
    failed |= json_object_update(object, settings);
    failed |= json_object_set_new(object, "n_tensor",
                                  json_integer((json_int_t)txl_model_n_tensor(model)));
    failed |= json_object_set_new(object, "bytes_stored", json_integer((json_int_t)stored));
    failed |= json_object_set_new(object, "bytes_expanded", json_integer((json_int_t)expanded));
    failed |= set_memory(object, model, low_memory);
    if (options->tensors)
        failed |= json_object_set_new(object, "tensors", weights_tensors(model));
    json_decref(settings);
    txl_model_close(model);
    signals_set_mapped(NULL);
    if (failed) {
        json_decref(object);
        *error = (txl_error){TXL_MEMORY, "out of memory"};
        return NULL;
    }
    return object;
}

struct listing {
    json_t *tensors;
    int failed;
};

static void add_tensor(void *context, const struct convert_tensor *tensor) {
    struct listing *listing = context;
    listing->failed |= json_array_append_new(
        listing->tensors, tensor_object(tensor->name, tensor->dtype, tensor->n_dim, tensor->shape));
}

static json_t *describe_checkpoint(const char *path, const struct info_options *options,
                                   txl_error *error) {
    struct listing listing = {.tensors = json_array()};
    confine(path, NULL, NULL);
    signals_set_mapped(path);
    txl_status status = convert_list_tensors(path, add_tensor, &listing, error);
    signals_set_mapped(NULL);
    if (status != TXL_OK) {
        json_decref(listing.tensors);
        return NULL;
    }
    json_t *object = json_object();
    listing.failed |= json_object_set_new(object, "file", output_json_string(path));
    listing.failed |= json_object_set_new(
        object, "n_tensor", json_integer((json_int_t)json_array_size(listing.tensors)));
    if (options->tensors)
        listing.failed |= json_object_set(object, "tensors", listing.tensors);
    json_decref(listing.tensors);
    if (listing.failed) {
        json_decref(object);
        *error = (txl_error){TXL_MEMORY, "out of memory"};
        return NULL;
    }
    return object;
}

/* ---- Printing ----------------------------------------------------------------------------- */

/* A string of a stranger's file, made harmless. */
static void print_string(const char *text, size_t width) {
    char *line = strdup(text);
    if (!line) {
        output_lacks_memory();
        return;
    }
    clean_line(line);
    printf("%-*s", (int)width, line);
    free(line);
}

static void print_value(const json_t *value) {
    size_t i;
    const json_t *item;
    switch (json_typeof(value)) {
    case JSON_STRING:
        print_string(json_string_value(value), 0);
        break;
    case JSON_INTEGER:
        printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        printf("%g", json_real_value(value));
        break;
    case JSON_ARRAY:
        fputs(json_array_size(value) == 0 ? "none" : "", stdout);
        json_array_foreach(value, i, item) {
            fputs(i > 0 ? " " : "", stdout);
            if (!json_is_array(item))
                print_value(item);
        }
        break;
    case JSON_OBJECT:
        fputs("(an object)", stdout);
        break;
    default:
        fputs(json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "none", stdout);
    }
}

static void print_shape(const json_t *shape) {
    size_t i;
    const json_t *size;
    json_array_foreach(shape, i, size) {
        printf("%s%" JSON_INTEGER_FORMAT, i > 0 ? " x " : "", json_integer_value(size));
    }
}

/* "word_emb.weight  float32  1573 x 64", and of a weights file the bytes stored. */
static void print_tensors(const json_t *tensors) {
    size_t i, width = 0;
    const json_t *tensor;
    json_array_foreach(tensors, i, tensor) {
        size_t length = json_string_length(json_object_get(tensor, "name"));
        width = length > width && length < 60 ? length : width;
    }
    json_array_foreach(tensors, i, tensor) {
        print_string(json_string_value(json_object_get(tensor, "name")), width);
        printf("  %-8s  ", json_string_value(json_object_get(tensor, "dtype")));
        print_shape(json_object_get(tensor, "shape"));
        const json_t *stored = json_object_get(tensor, "bytes_stored");
        if (stored) {
            printf("  %" JSON_INTEGER_FORMAT " bytes, stored in %" JSON_INTEGER_FORMAT,
                   json_integer_value(json_object_get(tensor, "bytes_expanded")),
                   json_integer_value(stored));
        }
        putchar('\n');
    }
}

static void print_text(json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (strcmp(key, "tensors") != 0) {
            print_string(key, 27);
            print_value(value);
            putchar('\n');
        }
    }
    const json_t *tensors = json_object_get(object, "tensors");
    if (tensors) {
        putchar('\n');
        print_tensors(tensors);
    }
}

static int run(const struct command *command, int argc, char **argv) {
    struct info_options options = {0};
    struct operands operands;
    int status = options_parse(command, argc, argv, &options, &operands);
    if (status != OPTIONS_RUN)
        return status;
    const char *path = operands.items[0];
    txl_error error;
    json_t *object = is_weights_file(path) ? describe_weights(path, &options, &error)
                                           : describe_checkpoint(path, &options, &error);
    if (!object) {
        terminal_error("%s", error.message);
        return STATUS_FAILURE;
    }
    if (options.json) {
        output_json(object);
    } else {
        print_text(object);
        json_decref(object);
    }
    return output_finish(STATUS_OK);
}

/* ---- The table ---------------------------------------------------------------------------- */

static const struct option_row options[] = {
    {.section = "Output",
     .name = "json",
     .kind = OPTION_FLAG,
     .help = "print one object",
     .offset = offsetof(struct info_options, json)},
    {.name = "tensors",
     .kind = OPTION_FLAG,
     .help = "list the tensors too: name, dtype, shape, and of a weights file the bytes",
     .offset = offsetof(struct info_options, tensors)},
    COMMON_ROWS,
    {0}};

static const struct operand_row operands[] = {
    {.name = "FILE",
     .help = "a weights file, or a checkpoint that convert reads: a file or a directory"},
    {0}};

static const struct example examples[] = {
    {"txl info wt103.txl", "shape, dialect, tokenizer, the settings it runs with"},
    {"txl info --tensors --json pytorch_model.bin", "every tensor of any torch.save file"},
    {0}};

const struct command info_command = {
    .name = "info",
    .summary = "print what a weights file or checkpoint holds",
    .description =
        "Prints every fact that a weights file states of its model, under the names "
        "that weights-format.md gives them. Of a checkpoint it tells the tensors.\n\n"
        "bytes_expanded is what compressed weights take of the process's memory; those "
        "stored raw are used in the file's pages, which processes share. bytes_session is "
        "what a session with the published settings comes to take, for keys, values, "
        "position rows and activations, bytes_session_f16 the same with --memory-type "
        "f16. bytes_resident is weights and session together: the most that generating "
        "and scoring come to hold; bytes_resident_low_memory is the same with --low-memory.",
    .options = options,
    .operands = operands,
    .examples = examples,
    .run = run,
};
