/* Opens checkpoints: finds the file that a path leads to, its container, and shards. */
#include "checkpoint.h"
#include "checkpoint_internal.h"
#include "foreign.h"
#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/numbers.h"
#include "pickle.h"
#include "sorted_table.h"
#include "zip.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The types of elements, and what the containers call them ------------------------------ */

static const struct dtype {
    const char *name[N_DTYPE_NAMING]; /* NULL: has none */
    size_t size;
} dtypes[CHECKPOINT_N_DTYPE] = {
    [CHECKPOINT_F32] = {{"float32", "FloatStorage", "F32"}, 4},
    [CHECKPOINT_F16] = {{"float16", "HalfStorage", "F16"}, 2},
    [CHECKPOINT_BF16] = {{"bfloat16", "BFloat16Storage", "BF16"}, 2},
    [CHECKPOINT_F64] = {{"float64", "DoubleStorage", "F64"}, 8},
    [CHECKPOINT_I8] = {{"int8", "CharStorage", "I8"}, 1},
    [CHECKPOINT_I16] = {{"int16", "ShortStorage", "I16"}, 2},
    [CHECKPOINT_I32] = {{"int32", "IntStorage", "I32"}, 4},
    [CHECKPOINT_I64] = {{"int64", "LongStorage", "I64"}, 8},
    [CHECKPOINT_U8] = {{"uint8", "ByteStorage", "U8"}, 1},
    [CHECKPOINT_U16] = {{"uint16", NULL, "U16"}, 2},
    [CHECKPOINT_U32] = {{"uint32", NULL, "U32"}, 4},
    [CHECKPOINT_U64] = {{"uint64", NULL, "U64"}, 8},
    [CHECKPOINT_BOOL] = {{"bool", "BoolStorage", "BOOL"}, 1},
    [CHECKPOINT_F8_E4M3] = {{"float8_e4m3fn", NULL, "F8_E4M3"}, 1},
    [CHECKPOINT_F8_E5M2] = {{"float8_e5m2", NULL, "F8_E5M2"}, 1},
    [CHECKPOINT_C64] = {{"complex64", "ComplexFloatStorage", "C64"}, 8},
    [CHECKPOINT_C128] = {{"complex128", "ComplexDoubleStorage", "C128"}, 16},
    [CHECKPOINT_STRING] = {{"string", NULL, NULL}, 1}, /* which takes a byte or more */
};

int checkpoint_dtype_find(enum dtype_naming naming, const char *name) {
    for (int i = 0; i < CHECKPOINT_N_DTYPE; i++)
        if (dtypes[i].name[naming] && strcmp(dtypes[i].name[naming], name) == 0)
            return i;
    return -1;
}

const char *checkpoint_dtype_name(enum checkpoint_dtype dtype) {
    return dtypes[dtype].name[DTYPE_OF_PYTORCH];
}

size_t checkpoint_dtype_size(enum checkpoint_dtype dtype) {
    return dtypes[dtype].size;
}

/* A checkpoint's files, and its tensors by name. */

/* ---- Files -------------------------------------------------------------------------------- */

struct checkpoint_source *checkpoint_new_source(struct checkpoint *checkpoint, txl_error *error) {
    size_t room = (checkpoint->n_source + 1) * sizeof(struct checkpoint_source *);
    struct checkpoint_source **sources = realloc(checkpoint->sources, room);
    if (sources)
        checkpoint->sources = sources;
    struct checkpoint_source *source = sources ? calloc(1, sizeof *source) : NULL;
    if (!source) {
        txl_fail_memory(error, "a checkpoint", room + sizeof *source);
        return NULL;
    }
    checkpoint->sources[checkpoint->n_source++] = source;
    return source;
}

void checkpoint_empty_source(struct checkpoint_source *source) {
    free(source->nested);
    free(source->storages);
    free(source->parts);
    pickle_free(source->pickle);
    free(source->where);
}

void checkpoint_close(struct checkpoint *checkpoint) {
    if (!checkpoint)
        return;
    for (size_t i = 0; i < checkpoint->n_tensor; i++)
        free((char *)checkpoint->tensors[i].name);
    for (size_t i = 0; i < checkpoint->n_source; i++) {
        checkpoint_empty_source(checkpoint->sources[i]);
        mapped_file_close(&checkpoint->sources[i]->file);
        free(checkpoint->sources[i]);
    }
    free(checkpoint->tensors);
    free(checkpoint->sources);
    free(checkpoint->by_name);
    free(checkpoint->index_path);
    free(checkpoint);
}

char *checkpoint_sibling(const char *path, const char *name) {
    char *joined = NULL;
    const int folder = (int)beside_folder_length(path);
    return asprintf(&joined, "%.*s%s", folder, path, name) < 0 ? NULL : joined;
}

const char *checkpoint_path(const struct checkpoint *checkpoint) {
    return checkpoint->index_path ? checkpoint->index_path : checkpoint->sources[0]->file.path;
}

/* The file that names the newest of the TensorFlow checkpoints in their folder. */
static bool is_list(const struct checkpoint *checkpoint, const char *path) {
    char *list = checkpoint->is_bundle
                     ? checkpoint_sibling(checkpoint->sources[0]->file.path, "checkpoint")
                     : NULL;
    bool same = list && mapped_file_same(list, path);
    free(list);
    return same;
}

bool checkpoint_reads(const struct checkpoint *checkpoint, const char *path) {
    bool reads = is_list(checkpoint, path) ||
                 (checkpoint->index_path && mapped_file_same(checkpoint->index_path, path));
    for (size_t i = 0; i < checkpoint->n_source && !reads; i++)
        reads = mapped_file_same(checkpoint->sources[i]->file.path, path);
    return reads;
}

bool checkpoint_is_bundle(const struct checkpoint *checkpoint) {
    return checkpoint->is_bundle;
}

const struct pickle_value *checkpoint_root(const struct checkpoint *checkpoint) {
    const struct pickle *pickle = checkpoint->index_path ? NULL : checkpoint->sources[0]->pickle;
    return pickle ? pickle->root : NULL;
}

const struct pickle_value *checkpoint_attribute(const struct pickle_value *object,
                                                const char *name) {
    static const char *const parts[] = {"_parameters", "_buffers", "_modules"};
    if (!object || object->kind != PICKLE_OBJECT)
        return NULL;
    const struct pickle_value *found = pickle_get(object, name);
    for (size_t i = 0; !found && i < sizeof parts / sizeof *parts; i++)
        found = pickle_get(pickle_get(object, parts[i]), name);
    return found;
}

/* ---- Tensors ------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const struct checkpoint_tensor *const *)a)->name,
                  (*(const struct checkpoint_tensor *const *)b)->name);
}

txl_status checkpoint_index_names(struct checkpoint *checkpoint, txl_error *error) {
    size_t n_tensor = checkpoint->n_tensor;
    checkpoint->by_name = calloc(n_tensor + 1, sizeof *checkpoint->by_name);
    if (!checkpoint->by_name)
        return txl_fail_memory(error, "a list of tensors", n_tensor * sizeof *checkpoint->by_name);
    for (size_t i = 0; i < n_tensor; i++)
        checkpoint->by_name[i] = &checkpoint->tensors[i];
    qsort(checkpoint->by_name, n_tensor, sizeof *checkpoint->by_name, compare_names);
    for (size_t i = 1; i < n_tensor; i++) {
        if (compare_names(&checkpoint->by_name[i - 1], &checkpoint->by_name[i]) == 0)
            return txl_fail(error, TXL_FORMAT, "%s: two tensors are named %s",
                            checkpoint_path(checkpoint), checkpoint->by_name[i]->name);
    }
    return TXL_OK;
}

size_t checkpoint_n_tensor(const struct checkpoint *checkpoint) {
    return checkpoint->n_tensor;
}

const struct checkpoint_tensor *checkpoint_tensor_at(const struct checkpoint *checkpoint,
                                                     size_t i) {
    return i < checkpoint->n_tensor ? &checkpoint->tensors[i] : NULL;
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint,
                                                const char *name) {
    struct checkpoint_tensor wanted = {.name = name};
    const struct checkpoint_tensor *key = &wanted;
    const struct checkpoint_tensor **found =
        bsearch(&key, checkpoint->by_name, checkpoint->n_tensor, sizeof key, compare_names);
    return found ? *found : NULL;
}

#define MAX_SHARD 512 /* each keeps its file open: half of the 1,024 that a process may have */

static const char *const directory_names[] = {
    "model.safetensors",  "model.safetensors.index.json",
    "pytorch_model.bin",  "pytorch_model.bin.index.json",
    "model.pt",           "checkpoint_best.pt",
    "checkpoint_last.pt",
};
static const char directory_names_text[] =
    "model.safetensors, pytorch_model.bin (or the .index.json of either), model.pt, "
    "checkpoint_best.pt, checkpoint_last.pt, or the .index of a TensorFlow checkpoint";
static const char bundle_ending[] = ".index";

/* ---- Files -------------------------------------------------------------------------------- */

static txl_status read_source(struct checkpoint *checkpoint, struct checkpoint_source *source,
                              txl_error *error) {
    const struct mapped_file *file = &source->file;
    if (table_looks_like(file)) {
        checkpoint->is_bundle = !checkpoint->index_path;
        return tensor_bundle_read(checkpoint, source, error);
    }
    txl_status status = foreign_refuse(file, error);
    if (status)
        return status;
    /* A safetensors file begins with a length, whose first byte may look like another format. */
    bool has_brace = file->size > 8 && file->data[8] == '{';
    if (has_brace && read_u64(file->data) <= file->size - 8)
        return safetensors_read(checkpoint, source, error);
    if (zip_looks_like(file->data, file->size) || pickle_looks_like(file->data, file->size)) {
        status = torch_save_read(source, error);
        return status ? status : torch_collect_tensors(checkpoint, source, error);
    }
    if (has_brace)
        return safetensors_read(checkpoint, source, error);
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: neither a weights file of txl (.txl) nor a checkpoint (torch.save, "
                    "safetensors); it begins with the bytes "
                    "%02x %02x",
                    file->path, file->data[0], file->size > 1 ? file->data[1] : 0);
}

static txl_status add_file(struct checkpoint *checkpoint, const char *path, txl_error *error) {
    struct checkpoint_source *source = checkpoint_new_source(checkpoint, error);
    if (!source)
        return TXL_MEMORY;
    txl_status status = mapped_file_open(path, &source->file, error);
    return status ? status : read_source(checkpoint, source, error);
}

/* ---- Shards ------------------------------------------------------------------------------- */

static txl_status add_shard(struct checkpoint *checkpoint, const char *name, txl_error *error) {
    if (*name == '\0' || strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
        return txl_fail(error, TXL_FORMAT,
                        "%s: names the file \"%s\", expected one in the same folder",
                        checkpoint->index_path, name);
    if (checkpoint->n_source >= MAX_SHARD)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d shards", checkpoint->index_path,
                        MAX_SHARD);
    char *path = checkpoint_sibling(checkpoint->index_path, name);
    if (!path)
        return txl_fail_memory(error, "a file name", strlen(name));
    txl_status status = add_file(checkpoint, path, error);
    free(path);
    return status;
}

/* Opens every file of the map from tensors to files once, in the map's order. */
static txl_status add_shards(struct checkpoint *checkpoint, json_t *weight_map, txl_error *error) {
    json_t *opened = json_object();
    txl_status status = opened ? TXL_OK : txl_fail_memory(error, "a list of shards", 0);
    for (void *at = json_object_iter(weight_map); at && !status;
         at = json_object_iter_next(weight_map, at)) {
        const char *name = json_string_value(json_object_iter_value(at));
        if (!name)
            status = txl_fail(error, TXL_FORMAT, "%s: weight_map: tensor %s: expected a file name",
                              checkpoint->index_path, json_object_iter_key(at));
        else if (!json_object_get(opened, name)) {
            status = add_shard(checkpoint, name, error);
            if (json_object_set_new(opened, name, json_true()) != 0 && !status)
                status = txl_fail_memory(error, "a list of shards", strlen(name));
        }
    }
    json_decref(opened);
    return status;
}

/* Checks that every tensor of the index is there. */
static txl_status check_index(const struct checkpoint *checkpoint, json_t *weight_map,
                              txl_error *error) {
    for (void *at = json_object_iter(weight_map); at; at = json_object_iter_next(weight_map, at)) {
        if (!checkpoint_find(checkpoint, json_object_iter_key(at)))
            return txl_fail(error, TXL_FORMAT, "%s: tensor %s is in none of the shards",
                            checkpoint->index_path, json_object_iter_key(at));
    }
    return TXL_OK;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static txl_status open_index(struct checkpoint *checkpoint, const char *path, txl_error *error) {
    json_t *index = NULL;
    checkpoint->index_path = strdup(path);
    if (!checkpoint->index_path)
        return txl_fail_memory(error, "a file name", strlen(path) + 1);
    txl_status status = foreign_read_json(path, foreign_refuse, JSON_REJECT_DUPLICATES,
                                          "not JSON: ", &index, error);
    json_t *weight_map = json_object_get(index, "weight_map");
    if (!status && json_object_size(weight_map) == 0)
        status =
            txl_fail(error, TXL_FORMAT,
                     "%s: expected the index of a checkpoint in shards, with a weight_map", path);
    if (!status)
        status = add_shards(checkpoint, weight_map, error);
    if (!status)
        status = checkpoint_index_names(checkpoint, error);
    if (!status)
        status = check_index(checkpoint, weight_map, error);
    json_decref(index);
    return status;
}

/* `*path` receives folder/name with the ending. */
static txl_status join_path(const char *folder, const char *name, const char *ending, char **path,
                            txl_error *error) {
    size_t length = strlen(folder);
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    if (asprintf(path, "%s%s%s%s", folder, slash, name, ending) >= 0)
        return TXL_OK;
    *path = NULL;
    return txl_fail_memory(error, "a file name", length);
}

static bool is_there(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && !S_ISDIR(about.st_mode);
}

/* Takes one byte of a string with C's escapes. */
static char unescaped(const char **at, const char *end) {
    char c = *(*at)++;
    if (c != '\\' || *at == end)
        return c;
    c = *(*at)++;
    if (c < '0' || c > '7')
        return c == 'n' ? '\n' : c;
    int octal = c - '0';
    for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++)
        octal = octal * 8 + *(*at)++ - '0';
    return (char)octal;
}

/* The newest checkpoint according to TensorFlow's file `checkpoint`: its name without folders,
 * which are the publisher's.  False if the file names none. */
static bool newest_name(const char *text, size_t size, char *name, size_t room) {
    static const char key[] = "model_checkpoint_path: \"";
    const char *at =
        size > strlen(key) && memcmp(text, key, strlen(key)) == 0 ? text + strlen(key) : NULL;
    size_t n = 0;
    for (const char *end = text + size; at && at < end && n + 1 < room;) {
        if (*at == '"') {
            name[n] = '\0';
            return n > 0;
        }
        char c = unescaped(&at, end);
        if (c == '\0')
            return false;
        n = c == '/' ? 0 : n;
        if (c != '/')
            name[n++] = c;
    }
    return false;
}

/* The file of that ending which the folder's file `checkpoint` names, if it is there. */
static txl_status find_newest(const char *folder, const char *ending, char **chosen,
                              txl_error *error) {
    struct mapped_file file;
    char name[NAME_MAX + 1], *list;
    txl_status status = join_path(folder, "checkpoint", "", &list, error);
    bool found = !status && is_there(list) && !mapped_file_open(list, &file, error);
    free(list);
    if (!found)
        return status;
    if (newest_name((const char *)file.data, (size_t)file.size, name, sizeof name))
        status = join_path(folder, name, ending, chosen, error);
    mapped_file_close(&file);
    if (*chosen && !is_there(*chosen)) {
        free(*chosen);
        *chosen = NULL;
    }
    return status;
}

static bool is_table(const char *path) {
    struct mapped_file file;
    txl_error ignored;
    bool table = !mapped_file_open(path, &file, &ignored) && table_looks_like(&file);
    mapped_file_close(&file);
    return table;
}

/* The TensorFlow checkpoint in the folder, if there is one: the newest, or the only one.  `old`:
 * one of the format V1, a table without an ending, or the first by name of several; its reader
 * refuses it. */
static txl_status find_bundle(const char *folder, bool old, char **chosen, txl_error *error) {
    const char *ending = old ? "" : bundle_ending;
    txl_status status = find_newest(folder, ending, chosen, error);
    DIR *directory = status || *chosen ? NULL : opendir(folder);
    size_t n = 0;
    for (struct dirent *entry; directory && !status && (entry = readdir(directory));) {
        char *path;
        status = join_path(folder, entry->d_name, "", &path, error);
        const bool counts = !status && (old ? is_table(path) : ends_with(path, ending));
        n += counts;
        if (counts && (!*chosen || strcmp(path, *chosen) < 0)) {
            free(*chosen);
            *chosen = path;
        } else {
            free(path);
        }
    }
    if (directory)
        closedir(directory);
    if (!status && n > 1 && !old)
        status = txl_fail(error, TXL_ARGUMENT,
                          "%s: has %zu TensorFlow checkpoints, and its file checkpoint names none "
                          "of them; name the .index file of one",
                          folder, n);
    return status;
}

/* Chooses the checkpoint in the directory `path`: in it, or in model/ beside data/, as the authors'
 * download lays it out. */
static txl_status choose(const char *path, char **chosen, txl_error *error) {
    for (size_t i = 0; i < sizeof directory_names / sizeof *directory_names; i++) {
        txl_status status = join_path(path, directory_names[i], "", chosen, error);
        struct stat about;
        if (status || stat(*chosen, &about) == 0)
            return status;
        free(*chosen);
        *chosen = NULL;
    }
    char *model;
    txl_status status = join_path(path, "model", "", &model, error);
    const char *const folders[] = {path, model};
    for (size_t i = 0; i < 4 && !status && !*chosen; i++)
        status = find_bundle(folders[i % 2], i >= 2, chosen, error);
    if (!status && !*chosen)
        status = foreign_refuse_directory(path, model, directory_names_text, error);
    free(model);
    return status;
}

/* Whether the path of nothing that is there looks like an address, or like OWNER/NAME of a hub. */
static bool is_elsewhere(const char *path) {
    const char *slash = strchr(path, '/');
    char owner[NAME_MAX + 1];
    if (strstr(path, "://"))
        return true;
    if (!slash || strchr(slash + 1, '/') || strchr("./~", *path) || slash - path > NAME_MAX)
        return false;
    snprintf(owner, sizeof owner, "%.*s", (int)(slash - path), path);
    struct stat about;
    return stat(owner, &about) != 0;
}

/* The file to open for `path`: `*chosen`, or if that stays NULL `path` itself. */
static txl_status find_file(const char *path, char **chosen, txl_error *error) {
    struct stat about;
    if (stat(path, &about) == 0)
        return S_ISDIR(about.st_mode) ? choose(path, chosen, error) : TXL_OK;
    int failure = errno;
    if (asprintf(chosen, "%s%s", path, bundle_ending) < 0)
        return txl_fail_memory(error, "a file name", strlen(path));
    if (is_there(*chosen)) /* no file has a TensorFlow checkpoint's own name */
        return TXL_OK;
    if (failure == ENOENT && is_elsewhere(path))
        return txl_fail(error, TXL_IO,
                        "%s: not on this machine, and txl downloads nothing; fetch the model and "
                        "name its folder",
                        path);
    return txl_fail(error, TXL_IO, "%s: %s", path, strerror(failure));
}

txl_status checkpoint_open(const char *path, struct checkpoint **checkpoint, txl_error *error) {
    *checkpoint = NULL;
    char *chosen = NULL;
    txl_status status = find_file(path, &chosen, error);
    if (status) {
        free(chosen);
        return status;
    }
    path = chosen ? chosen : path;
    *checkpoint = calloc(1, sizeof **checkpoint);
    if (!*checkpoint)
        status = txl_fail_memory(error, "a checkpoint", sizeof **checkpoint);
    else if (ends_with(path, ".index.json"))
        status = open_index(*checkpoint, path, error);
    else {
        status = add_file(*checkpoint, path, error);
        if (!status)
            status = checkpoint_index_names(*checkpoint, error);
    }
    free(chosen);
    if (status) {
        checkpoint_close(*checkpoint);
        *checkpoint = NULL;
    }
    return status;
}
