/* txl info: describes a weights file or a checkpoint. */
#include "cli/io/clean.h"
#include "cli/io/confine.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/settings.h"
#include "commands.h"
#include "convert/converter.h"

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

/* False also if the file cannot be read: opening it again says why. */
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
    json_t *sizes = json_array();
    int failed = 0;
    for (int i = 0; i < n_dim; i++)
        failed |= json_array_append_new(sizes, json_integer((json_int_t)shape[i]));
    json_t *object = json_pack("{s:o, s:s, s:o}", "name", output_json_string(name), "dtype", dtype,
                               "shape", sizes);
    return output_json_if(!failed, object);
}

/* PyTorch's name of the type. */
static const char *dtype_of(const char *type) {
    return strcmp(type, "f16") == 0    ? "float16"
           : strcmp(type, "bf16") == 0 ? "bfloat16"
           : strcmp(type, "q8") == 0   ? "int8"
           : strcmp(type, "q4") == 0   ? "uint4"
           : strcmp(type, "q5") == 0   ? "uint5"
                                       : "float32";
}

static json_t *weights_tensors(const txl_model *model) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < txl_model_n_tensor(model) && tensors; i++) {
        txl_tensor tensor;
        txl_model_tensor(model, i, &tensor);
        json_t *object =
            tensor_object(tensor.name, dtype_of(tensor.type), tensor.n_dim, tensor.shape);
        int failed =
            !output_json_append(object, json_pack("{s:s, s:I, s:I}", "type", tensor.type,
                                                  "bytes_stored", (json_int_t)tensor.stored,
                                                  "bytes_expanded", (json_int_t)tensor.expanded));
        failed |= json_array_append_new(tensors, object);
        tensors = output_json_if(!failed, tensors);
    }
    return tensors;
}

/* Memory of the open weights and a session with these settings together. */
static uint64_t resident(const txl_model *model, const txl_settings *settings) {
    uint64_t stored, expanded;
    txl_model_bytes(model, &stored, &expanded);
    return (expanded > 0 ? expanded : stored) + txl_session_bytes(model, settings);
}

/* The same with --low-memory and the published settings. */
static txl_status resident_low_memory(const char *path, uint64_t *bytes, txl_error *error) {
    struct model model;
    txl_settings settings;
    txl_status status = model_open_file(&model, path, 0, true, error);
    if (!status) {
        txl_model_defaults(model.handle, &settings);
        *bytes = resident(model.handle, &settings);
        model_close(&model);
    }
    return status;
}

/* Adds the memory of a session with the published settings, and the most that the whole process
 * takes with it. */
static int set_memory(json_t *object, const txl_model *model, uint64_t low_memory) {
    txl_settings settings;
    txl_model_defaults(model, &settings);
    uint64_t session = txl_session_bytes(model, &settings), all = resident(model, &settings);
    settings.memory_type = TXL_MEMORY_F16;
    uint64_t narrow = txl_session_bytes(model, &settings);
    return !output_json_append(
        object, json_pack("{s:I, s:I, s:I, s:I}", "bytes_session", (json_int_t)session,
                          "bytes_session_f16", (json_int_t)narrow, "bytes_resident",
                          (json_int_t)all, "bytes_resident_low_memory", (json_int_t)low_memory));
}

static json_t *fail_memory(json_t *object, txl_error *error) {
    *error = (txl_error){TXL_MEMORY, "out of memory"};
    return output_json_if(false, object);
}

/* The settings as the file has them, and the tensors. */
static json_t *weights_object(const struct model *model, uint64_t low_memory, bool tensors) {
    const txl_model *handle = model->handle;
    uint64_t stored, expanded;
    txl_model_bytes(handle, &stored, &expanded);
    json_t *object = json_pack("{s:o}", "file", output_json_string(model->name));
    int failed = !output_json_append(object, json_loads(txl_model_settings_json(handle), 0, NULL));
    failed |= !settings_of_model(object, model);
    if (txl_model_head(handle) != TXL_HEAD_NONE)
        failed |= json_object_set_new(object, "language_model",
                                      json_boolean(txl_model_is_language_model(handle)));
    failed |= !output_json_append(
        object,
        json_pack("{s:I, s:s, s:I, s:I, s:I}", "parameters", (json_int_t)model_parameters(handle),
                  "checksum", model_checksum(model).text, "n_tensor",
                  (json_int_t)txl_model_n_tensor(handle), "bytes_stored", (json_int_t)stored,
                  "bytes_expanded", (json_int_t)expanded));
    failed |= set_memory(object, handle, low_memory);
    if (tensors)
        failed |= json_object_set_new(object, "tensors", weights_tensors(handle));
    return output_json_if(!failed, object);
}

static json_t *describe_weights(const char *path, const struct info_options *options,
                                txl_error *error) {
    struct model model;
    uint64_t low_memory;
    if (resident_low_memory(path, &low_memory, error) ||
        model_open_file(&model, path, 0, false, error))
        return NULL;
    json_t *object = weights_object(&model, low_memory, options->tensors);
    model_close(&model);
    return object ? object : fail_memory(NULL, error);
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

/* The options of convert that would state what is missing, as a list. */
static json_t *missing_list(const char *missing) {
    json_t *list = json_array();
    for (const char *option = strstr(missing, "--"); list && option;) {
        const char *next = strstr(option + 2, " --");
        size_t length = next ? (size_t)(next - option) : strlen(option);
        list = output_json_if(json_array_append_new(list, json_stringn(option, length)) == 0, list);
        option = next ? next + 1 : NULL;
    }
    return list;
}

/* Adds what convert recognises, or why it does not recognise the checkpoint. */
static int set_recognised(json_t *object, const char *path, txl_error *error) {
    struct convert_description d;
    txl_status status = convert_describe(path, &d, error);
    int failed = json_object_set_new(object, "recognised", json_boolean(!status));
    if (!status) {
        failed |= !output_json_append(object, json_loads(d.settings, 0, NULL));
        failed |= !output_json_append(
            object, json_pack("{s:o, s:o}", "vocabulary",
                              d.vocabulary ? output_json_string(d.vocabulary) : json_null(),
                              "missing", missing_list(d.missing)));
    } else if (status == TXL_MEMORY) {
        failed = 1;
    } else {
        failed |= json_object_set_new(object, "reason", output_json_string(error->message));
    }
    convert_description_free(&d);
    return failed;
}

static json_t *describe_checkpoint(const char *path, const struct info_options *options,
                                   txl_error *error) {
    struct listing listing = {.tensors = json_array()};
    signals_set_mapped(path);
    txl_status status = convert_list_tensors(path, add_tensor, &listing, error);
    if (status)
        return output_json_if(false, listing.tensors);
    json_t *object = json_pack("{s:o, s:I}", "file", output_json_string(path), "n_tensor",
                               (json_int_t)json_array_size(listing.tensors));
    listing.failed |= set_recognised(object, path, error);
    signals_set_mapped(NULL);
    if (options->tensors)
        listing.failed |= json_object_set(object, "tensors", listing.tensors);
    json_decref(listing.tensors);
    return listing.failed ? fail_memory(object, error) : object;
}

/* ---- Printing ----------------------------------------------------------------------------- */

/* Prints a string from a stranger's file, made harmless. */
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

/* Confines the process: checkpoints are read with the files beside them, weights files alone. False
 * with the error printed. */
static bool confine_to(char **files, int n) {
    const char **sources = calloc((size_t)n + 1, sizeof *sources);
    const char **alone = calloc((size_t)n + 1, sizeof *alone);
    struct confinement confinement = {.sources = sources, .alone = alone};
    bool good = sources && alone;
    for (int i = 0; good && i < n; i++)
        if (model_is_built_in(files[i]))
            continue;
        else if (is_weights_file(files[i]))
            alone[confinement.n_alone++] = files[i];
        else
            sources[confinement.n_source++] = files[i];
    if (good)
        confine(&confinement);
    else
        terminal_error("out of memory");
    free(sources);
    free(alone);
    return good;
}

/* `path` as for model_open_file.  `after`: another file was printed before.  False with
 * the error printed. */
static bool print_file(const char *path, const struct info_options *options, bool after) {
    txl_error error;
    json_t *object = model_is_built_in(path) || is_weights_file(path)
                         ? describe_weights(path, options, &error)
                         : describe_checkpoint(path, options, &error);
    if (!object) {
        terminal_error("%s%s", error.message,
                       strstr(error.message, "TXL_MODEL") ? "" : model_origin(path));
        if (options->json)
            output_json_failure(path ? path : BUILT_IN);
        return false;
    }
    if (options->json) {
        output_json(object);
    } else {
        fputs(after ? "\n" : "", stdout);
        print_text(object);
        json_decref(object);
    }
    return true;
}

static int print_files(const struct info_options *options, char **files, int n) {
    if (!confine_to(files, n))
        return STATUS_FAILURE;
    int printed = 0, i = 0;
    for (; i < n && !signals_stopped() && !output_closed(); i++)
        printed += print_file(files[i], options, printed > 0);
    return printed == i ? STATUS_OK : STATUS_FAILURE;
}

static int print_model(const struct info_options *options) {
    const char *path = options->common.model ? options->common.model : model_environment();
    confine(&(struct confinement){.alone = &path, .n_alone = !model_is_built_in(path)});
    return print_file(path, options, false) ? STATUS_OK : STATUS_FAILURE;
}

static int run(const struct command *command, void *values, struct operands *files) {
    const struct info_options *options = values;
    int status;
    if (options->common.model && files->n > 0)
        status = options_wrong(command, "--model cannot be combined with FILE");
    else
        status = files->n > 0 ? print_files(options, files->items, files->n) : print_model(options);
    return output_finish(signals_stopped() ? signals_status() : status);
}

/* ---- The table ---------------------------------------------------------------------------- */

#define PLACE(member) offsetof(struct info_options, member)

static const struct option_row options[] = {
    {"json", OPTION_FLAG, PLACE(json), "print an object for each file", .section = "Output"},
    {"tensors", OPTION_FLAG, PLACE(tensors),
     "list the tensors too: name, dtype, shape, and the bytes of those in a weights file"},
    FILES_FROM_ROW("Input"),
    MODEL_ROW,
    PLAIN_ROWS_IN("General"),
    {0}};

static const struct operand_row operands[] = {
    {.name = "FILE",
     .help = "weights file, or a checkpoint that convert reads, a file or a folder; " BUILT_IN
             ": the model within the program. Without FILE info describes the model that the "
             "other commands would use",
     .optional = true,
     .model = true,
     .repeats = true},
    {0}};

static const struct example examples[] = {
    {"txl info", "the model that is used by default"},
    {"txl info wt103.txl", "shape, dialect, tokenizer, the settings it runs with"},
    {"txl info --tensors --json pytorch_model.bin", "every tensor of any torch.save file"},
    {0}};

const struct command info_command = {
    .name = "info",
    .summary = "print what a weights file or checkpoint holds",
    .description =
        "Describes each FILE.\n\n"
        "Of a weights file info prints all that it states about its model, under the names "
        "of weights-format.md, the number of parameters, and the checksum that identifies "
        "the model.\n\n"
        "Of a checkpoint it prints what txl convert recognises: the same facts, the "
        "vocabulary that convert would take, and as missing the options that it would need; "
        "or why convert would refuse it.\n\n"
        "A FILE that cannot be read is reported and skipped; the exit status is then 1.\n\n"
        "bytes_expanded is the memory of the expanded weights; raw weights are used in the "
        "file's pages, which processes share. bytes_session is the memory of a session with "
        "the published settings: keys, values, position rows and activations. "
        "bytes_session_f16 is the same with --memory-type f16. bytes_resident is weights and "
        "session together, the most that generating and scoring hold; "
        "bytes_resident_low_memory is the same with --low-memory.",
    .options = options,
    .operands = operands,
    .examples = examples,
    .size = sizeof(struct info_options),
    .run = run,
};
