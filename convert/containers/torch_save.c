/* The storages that a torch.save file's tensors are views of. */
#include "torch_save.h"
#include "lib/base/error.h"
#include "lib/base/numbers.h"
#include "pickle.h"
#include "zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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

/* The containers of torch.save: zip archives, the legacy sequence of pickles, a plain pickle.
 * (PyTorch's torch/serialization.py defines the first two.) */

#define LEGACY_PROTOCOL 1001

/* The number at the beginning of a legacy file, 0x1950a86a20f9469cfc6c. */
static const unsigned char legacy_magic[10] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                               0x20, 0x6a, 0xa8, 0x50, 0x19};

/* ---- Zip ---------------------------------------------------------------------------------- */

static txl_status set_where(struct checkpoint_source *source, const char *entry, txl_error *error) {
    if (asprintf(&source->where, "%s%s%s", source->file.path, *entry ? ": " : "", entry) >= 0)
        return TXL_OK;
    source->where = NULL;
    return txl_fail_memory(error, "a file name", strlen(source->file.path));
}

/* The entry "data.pkl" or "<prefix>/data.pkl", the outermost if there are several; NULL: none. */
static struct zip_entry *find_pickle(const struct zip *zip) {
    static const char wanted[] = "data.pkl";
    struct zip_entry *found = NULL;
    for (size_t i = 0; i < zip->n_entry; i++) {
        const char *slash = strrchr(zip->entries[i].name, '/');
        const char *name = slash ? slash + 1 : zip->entries[i].name;
        if (strcmp(name, wanted) == 0 &&
            (!found || strlen(zip->entries[i].name) < strlen(found->name)))
            found = &zip->entries[i];
    }
    return found;
}

/* The length of what comes before data.pkl in its name: the folder that it is in. */
static int folder_length(const struct zip_entry *pickle) {
    return (int)(strlen(pickle->name) - strlen("data.pkl"));
}

/* Finds the entry folder/file in the folder that data.pkl is in; *found is NULL without one. */
static txl_status find_beside(const struct zip *zip, const struct zip_entry *pickle,
                              const char *folder, const struct pickle_string *file,
                              struct zip_entry **found, txl_error *error) {
    char *name;
    const int prefix = folder_length(pickle);
    if (asprintf(&name, "%.*s%s%.*s", prefix, pickle->name, folder, (int)file->length,
                 file->bytes) < 0)
        return txl_fail_memory(error, "an entry's name", (uint64_t)prefix + file->length);
    *found = zip_find(zip, name);
    free(name);
    return TXL_OK;
}

static txl_status refuse_foreign_zip(const struct zip *zip, const struct zip_entry *pickle,
                                     txl_error *error) {
    if (!pickle)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: a zip archive without data.pkl, so not a torch.save file; if it "
                        "is packed, unpack it and name the checkpoint inside",
                        zip->path);
    const size_t prefix = (size_t)folder_length(pickle);
    for (size_t i = 0; i < zip->n_entry; i++) {
        const char *name = zip->entries[i].name;
        if (strncmp(name, pickle->name, prefix) == 0 &&
            (strcmp(name + prefix, "constants.pkl") == 0 ||
             strncmp(name + prefix, "code/", 5) == 0))
            return txl_fail(error, TXL_UNSUPPORTED,
                            "%s: a TorchScript archive, not a torch.save file; in Python, "
                            "torch.save(torch.jit.load(file).state_dict(), \"model.pt\") makes "
                            "one of it",
                            zip->path);
    }
    return TXL_OK;
}

static txl_status check_byte_order(const struct zip *zip, const struct zip_entry *pickle,
                                   txl_error *error) {
    struct zip_entry *entry = NULL;
    txl_status status =
        find_beside(zip, pickle, "", &(struct pickle_string){"byteorder", 9}, &entry, error);
    if (!status && entry)
        status = zip_open_entry(zip, entry, error);
    if (status || !entry)
        return status;
    if (entry->size != 6 || memcmp(entry->data, "little", 6) != 0)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: entry %s: the byte order is not little-endian; save it again on a "
                        "little-endian machine",
                        zip->path, entry->name);
    return TXL_OK;
}

static txl_status read_zip_pickle(struct checkpoint_source *source, const struct zip *zip,
                                  struct zip_entry *entry, txl_error *error) {
    txl_status status = zip_open_entry(zip, entry, error);
    if (!status)
        status = set_where(source, entry->name, error);
    if (status)
        return status;
    if (crc32_z(crc32_z(0, NULL, 0), entry->data, (size_t)entry->size) != entry->crc32)
        return txl_fail(error, TXL_FORMAT,
                        "%s: the checksum does not match; the file is damaged, fetch it again",
                        source->where);
    return pickle_read(entry->data, entry->size, 0, source->where, &source->pickle, NULL, error);
}

static txl_status place_zip_storages(struct checkpoint_source *source, const struct zip *zip,
                                     const struct zip_entry *pickle, txl_error *error) {
    for (size_t i = 0; i < source->n_storage; i++) {
        struct checkpoint_storage *storage = &source->storages[i];
        struct zip_entry *entry = NULL;
        txl_status status = find_beside(zip, pickle, "data/", &storage->key, &entry, error);
        if (!status && !entry)
            status = txl_fail(error, TXL_FORMAT,
                              "%s: has no entry %.*sdata/%.*s, which a tensor refers to", zip->path,
                              folder_length(pickle), pickle->name, (int)storage->key.length,
                              storage->key.bytes);
        if (!status)
            status = zip_open_entry(zip, entry, error);
        if (status)
            return status;
        if (entry->size < storage->size)
            return txl_fail(error, TXL_FORMAT,
                            "%s: entry %s has %" PRIu64 " bytes, expected %" PRIu64, zip->path,
                            entry->name, entry->size, storage->size);
        storage->data = entry->data;
        storage->size = entry->size;
        storage->checksum = entry->crc32;
        storage->check = CRC32;
    }
    return TXL_OK;
}

static txl_status read_zip(struct checkpoint_source *source, txl_error *error) {
    const struct mapped_file *file = &source->file;
    struct zip zip;
    txl_status status = zip_open(file->data, file->size, file->path, &zip, error);
    struct zip_entry *pickle = status ? NULL : find_pickle(&zip);
    if (!status)
        status = refuse_foreign_zip(&zip, pickle, error);
    if (!status)
        status = check_byte_order(&zip, pickle, error);
    if (!status)
        status = read_zip_pickle(source, &zip, pickle, error);
    if (!status)
        status = torch_list_storages(source, error);
    if (!status)
        status = place_zip_storages(source, &zip, pickle, error);
    zip_close(&zip);
    return status;
}

/* ---- Legacy, and plain pickles ------------------------------------------------------------ */

/* Reads the pickle at `*at` and moves on after it. */
static txl_status read_next(const struct checkpoint_source *source, uint64_t *at,
                            struct pickle **pickle, txl_error *error) {
    return pickle_read(source->file.data, source->file.size, *at, source->where, pickle, at, error);
}

static bool is_legacy_magic(const struct pickle_value *root) {
    return root->kind == PICKLE_BIG_INT && root->string.length == sizeof legacy_magic &&
           memcmp(root->string.bytes, legacy_magic, sizeof legacy_magic) == 0;
}

/* Checks the second and third pickle: the container's version, and the machine's byte order. */
static txl_status check_legacy_facts(const struct checkpoint_source *source, uint64_t *at,
                                     txl_error *error) {
    struct pickle *version = NULL, *sys_info = NULL;
    txl_status status = read_next(source, at, &version, error);
    if (!status && (version->root->kind != PICKLE_INT || version->root->integer != LEGACY_PROTOCOL))
        status = txl_fail(error, TXL_UNSUPPORTED,
                          "%s: offset %" PRIu64 ": expected version %d of the legacy container",
                          source->where, *at, LEGACY_PROTOCOL);
    if (!status)
        status = read_next(source, at, &sys_info, error);
    if (!status) {
        const struct pickle_value *little = pickle_get(sys_info->root, "little_endian");
        if (little && (little->kind != PICKLE_BOOL || !little->boolean))
            status = txl_fail(error, TXL_UNSUPPORTED,
                              "%s: offset %" PRIu64 ": the byte order is not little-endian; save "
                              "it again on a little-endian machine",
                              source->where, *at);
    }
    pickle_free(version);
    pickle_free(sys_info);
    return status;
}

/* Reads a storage: the number of elements, then the elements. */
static txl_status place_legacy_storage(const struct checkpoint_source *source,
                                       const struct pickle_value *key, uint64_t *at,
                                       txl_error *error) {
    struct checkpoint_storage *storage =
        key->kind == PICKLE_STRING ? torch_find_storage(source, &key->string) : NULL;
    if (!storage || storage->data)
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset %" PRIu64 ": the list of storages names one that no tensor "
                        "refers to, or one twice",
                        source->where, *at);
    uint64_t left = source->file.size - *at;
    if (left < 8 || left - 8 < storage->size)
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset %" PRIu64 ": the file is cut short: storage %.*s has %" PRIu64
                        " bytes, %" PRIu64 " are left",
                        source->where, *at, (int)storage->key.length, storage->key.bytes,
                        storage->size, left);
    uint64_t n_item = read_u64(source->file.data + *at);
    if (n_item != storage->size / storage->element_size)
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset %" PRIu64 ": storage %.*s has %" PRIu64
                        " elements, expected %" PRIu64,
                        source->where, *at, (int)storage->key.length, storage->key.bytes, n_item,
                        storage->size / storage->element_size);
    storage->data = source->file.data + *at + 8;
    *at += 8 + storage->size;
    return TXL_OK;
}

/* The fifth pickle is the list of keys; the storages follow in its order. */
static txl_status place_legacy_storages(const struct checkpoint_source *source, uint64_t at,
                                        txl_error *error) {
    struct pickle *keys = NULL;
    txl_status status = read_next(source, &at, &keys, error);
    if (status)
        return status;
    const struct pickle_value *list = keys->root;
    if (list->kind != PICKLE_LIST)
        status = txl_fail(error, TXL_FORMAT,
                          "%s: offset %" PRIu64 ": expected a list of storages before it, not %s",
                          source->where, at, pickle_kind_name(list));
    for (size_t i = 0; !status && i < list->items.count; i++)
        status = place_legacy_storage(source, list->items.at[i], &at, error);
    pickle_free(keys);
    return status;
}

static txl_status read_legacy(struct checkpoint_source *source, uint64_t at, txl_error *error) {
    txl_status status = check_legacy_facts(source, &at, error);
    if (!status)
        status = read_next(source, &at, &source->pickle, error);
    if (!status)
        status = torch_list_storages(source, error);
    if (!status)
        status = place_legacy_storages(source, at, error);
    return status;
}

static txl_status read_pickles(struct checkpoint_source *source, txl_error *error) {
    uint64_t at = 0;
    struct pickle *first = NULL;
    txl_status status = set_where(source, "", error);
    if (!status)
        status = read_next(source, &at, &first, error);
    if (status)
        return status;
    if (is_legacy_magic(first->root)) {
        pickle_free(first);
        return read_legacy(source, at, error);
    }
    source->pickle = first;
    return torch_list_storages(source, error);
}

static txl_status check_placed(const struct checkpoint_source *source, txl_error *error) {
    for (size_t i = 0; i < source->n_storage; i++) {
        const struct checkpoint_storage *storage = &source->storages[i];
        if (!storage->data)
            return txl_fail(error, TXL_FORMAT, "%s: storage %.*s is not in the file", source->where,
                            (int)storage->key.length, storage->key.bytes);
    }
    return TXL_OK;
}

static txl_status read_container(struct checkpoint_source *source, txl_error *error) {
    txl_status status = zip_looks_like(source->file.data, source->file.size)
                            ? read_zip(source, error)
                            : read_pickles(source, error);
    return status ? status : check_placed(source, error);
}

txl_status torch_save_read_pickle(const struct mapped_file *file, struct pickle **pickle,
                                  txl_error *error) {
    struct checkpoint_source source = {.file = *file, .whole = file};
    txl_status status = read_container(&source, error);
    *pickle = status ? NULL : source.pickle;
    source.pickle = status ? source.pickle : NULL;
    checkpoint_empty_source(&source);
    return status;
}

/* ---- Files within a pickle ---------------------------------------------------------------- */

/* Python's pickle, where torch.save was not used, writes each storage as a call of
 * torch.storage._load_from_bytes with a whole torch.save file of that storage alone, in the legacy
 * container.  (PyTorch's torch/storage.py, __reduce__.) */

/* Takes the storage that the inner file must be.  A third level of files is refused: PyTorch never
 * writes one, and its objects would not outlive this call. */
static txl_status take_storage(const struct checkpoint_source *inner, struct torch_nested *nested,
                               txl_error *error) {
    const struct pickle_value *root = inner->pickle->root;
    if (root->kind != PICKLE_PERSISTENT)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: holds %s, expected a storage alone",
                        inner->where, pickle_kind_name(root));
    txl_status status = torch_read_reference(inner, root, &nested->reference, error);
    if (status)
        return status;
    nested->storage = *torch_find_storage(inner, &nested->reference.key);
    nested->storage.key = nested->reference.key = (struct pickle_string){"", 0};
    return TXL_OK;
}

static txl_status read_nested_file(const struct checkpoint_source *source,
                                   struct torch_nested *nested, txl_error *error) {
    struct checkpoint_source inner = {
        .file = {.fd = -1,
                 .data = (const unsigned char *)nested->bytes->bytes,
                 .size = nested->bytes->length},
        .whole = source->whole,
    };
    if (asprintf(&inner.file.path, "%s: a torch.save file in it", source->where) < 0)
        return txl_fail_memory(error, "a file name", strlen(source->where));
    txl_status status = inner.file.size == 0
                            ? txl_fail(error, TXL_FORMAT, "%s: is empty", inner.file.path)
                            : read_container(&inner, error);
    if (!status)
        status = take_storage(&inner, nested, error);
    checkpoint_empty_source(&inner);
    free(inner.file.path);
    return status;
}

/* Several records may share their bytes; each file is read once. */
static txl_status read_nested(struct checkpoint_source *source, txl_error *error) {
    size_t n_record = source->pickle->nested.count;
    struct torch_nested *nested = calloc(n_record + 1, sizeof *nested);
    if (!nested)
        return txl_fail_memory(error, "a list of storages", n_record * sizeof *nested);
    source->nested = nested;
    for (size_t i = 0; i < n_record; i++)
        nested[i].bytes = torch_nested_bytes(source->pickle->nested.at[i]);
    qsort(nested, n_record, sizeof *nested, torch_compare_nested);
    txl_status status = TXL_OK;
    for (size_t i = 0; i < n_record && !status; i++) {
        if (i > 0 && torch_compare_nested(&nested[source->n_nested - 1], &nested[i]) == 0)
            continue;
        nested[source->n_nested] = nested[i];
        status = read_nested_file(source, &nested[source->n_nested++], error);
    }
    return status;
}

txl_status torch_save_read(struct checkpoint_source *source, txl_error *error) {
    source->whole = &source->file;
    txl_status status = read_container(source, error);
    return status ? status : read_nested(source, error);
}
