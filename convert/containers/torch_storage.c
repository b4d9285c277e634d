/* The storages that a torch.save file's tensors are views of. */
#include "torch_storage.h"

#include "lib/base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int storage_dtype(const char *class_name) {
    static const char *const modules[] = {"torch.", "torch.cuda.", "torch.storage."};
    const char *name = strrchr(class_name, '.') + 1; /* a GLOBAL's name has a dot */
    size_t length = (size_t)(name - class_name);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strlen(modules[i]) == length && memcmp(modules[i], class_name, length) == 0)
            return strcmp(name, "UntypedStorage") == 0 /* counts bytes */
                       ? CHECKPOINT_U8
                       : checkpoint_dtype_find(DTYPE_OF_STORAGE, name);
    return -1;
}

/* Reads the sixth part of a legacy id: None, or (key, first item, items) of a view of the saved
 * storage. */
static bool read_view(const struct pickle_value *view, struct torch_reference *reference) {
    reference->view_start = 0;
    reference->view_n = reference->n_item;
    if (!view || view->kind == PICKLE_NONE)
        return true;
    return pickle_unsigned(pickle_item(view, 1), &reference->view_start) &&
           pickle_unsigned(pickle_item(view, 2), &reference->view_n) &&
           reference->view_start <= reference->n_item &&
           reference->view_n <= reference->n_item - reference->view_start;
}

/* An id is ("storage", class, key, device, items) or the same and a view. */
txl_status torch_read_reference(const struct checkpoint_source *source,
                                const struct pickle_value *persistent,
                                struct torch_reference *reference, txl_error *error) {
    const struct pickle_value *id = persistent->id;
    const struct pickle_value *class = pickle_item(id, 1), *key = pickle_item(id, 2);
    if (!pickle_is_string(pickle_item(id, 0), "storage") || !class ||
        class->kind != PICKLE_GLOBAL || !key || key->kind != PICKLE_STRING ||
        key->string.length > TORCH_MAX_KEY || memchr(key->string.bytes, 0, key->string.length) ||
        !pickle_unsigned(pickle_item(id, 4), &reference->n_item) ||
        !read_view(pickle_item(id, 5), reference))
        return txl_fail(error, TXL_FORMAT,
                        "%s: refers to a storage in a way that torch.save does not", source->where);
    int dtype = storage_dtype(class->name);
    if (dtype < 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: has a storage of type %s, which is not known",
                        source->where, class->name);
    reference->dtype = (enum checkpoint_dtype)dtype;
    reference->key = key->string;
    return TXL_OK;
}

static int compare_strings(const struct pickle_string *a, const struct pickle_string *b) {
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_storages(const void *a, const void *b) {
    return compare_strings(&((const struct checkpoint_storage *)a)->key,
                           &((const struct checkpoint_storage *)b)->key);
}

struct checkpoint_storage *torch_find_storage(const struct checkpoint_source *source,
                                              const struct pickle_string *key) {
    struct checkpoint_storage wanted = {.key = *key};
    return bsearch(&wanted, source->storages, source->n_storage, sizeof wanted, compare_storages);
}

txl_status torch_list_storages(struct checkpoint_source *source, txl_error *error) {
    size_t n_reference = source->pickle->persistent.count;
    struct checkpoint_storage *storages = calloc(n_reference + 1, sizeof *storages);
    if (!storages)
        return txl_fail_memory(error, "a list of storages", n_reference * sizeof *storages);
    source->storages = storages;
    for (size_t i = 0; i < n_reference; i++) {
        struct torch_reference reference;
        txl_status status =
            torch_read_reference(source, source->pickle->persistent.at[i], &reference, error);
        if (status)
            return status;
        size_t size = checkpoint_dtype_size(reference.dtype);
        if (reference.n_item > source->file.size / size)
            return txl_fail(error, TXL_FORMAT,
                            "%s: storage %.*s should have %" PRIu64
                            " elements, more than the file has room for",
                            source->where, (int)reference.key.length, reference.key.bytes,
                            reference.n_item);
        storages[i] = (struct checkpoint_storage){.file = source->whole,
                                                  .size = reference.n_item * size,
                                                  .key = reference.key,
                                                  .element_size = size};
    }
    qsort(storages, n_reference, sizeof *storages, compare_storages);
    for (size_t i = 0; i < n_reference; i++) {
        struct checkpoint_storage *last =
            source->n_storage ? &storages[source->n_storage - 1] : NULL;
        if (!last || compare_storages(last, &storages[i]) != 0)
            storages[source->n_storage++] = storages[i];
        else if (last->size != storages[i].size)
            return txl_fail(error, TXL_FORMAT, "%s: storage %.*s has two sizes", source->where,
                            (int)last->key.length, last->key.bytes);
    }
    return TXL_OK;
}

/* ---- Files within a pickle ---------------------------------------------------------------- */

const struct pickle_string *torch_nested_bytes(const struct pickle_value *value) {
    return &pickle_item(value->object->args, 0)->string;
}

int torch_compare_nested(const void *a, const void *b) {
    const struct pickle_string *x = ((const struct torch_nested *)a)->bytes;
    const struct pickle_string *y = ((const struct torch_nested *)b)->bytes;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

struct torch_nested *torch_find_nested(const struct checkpoint_source *source,
                                       const struct pickle_value *value) {
    if (!pickle_is_object(value, "torch.storage._load_from_bytes"))
        return NULL;
    struct torch_nested wanted = {.bytes = torch_nested_bytes(value)};
    return bsearch(&wanted, source->nested, source->n_nested, sizeof wanted, torch_compare_nested);
}
