/* A checkpoint's files, and its tensors by name. */
#include "checkpoint_internal.h"

#include "lib/base/error.h"
#include "lib/base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
