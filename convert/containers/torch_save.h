/* The storages that a torch.save file's tensors are views of. */
#ifndef CONVERT_TORCH_SAVE_H
#define CONVERT_TORCH_SAVE_H

#include "checkpoint_internal.h"
#include "lib/base/files.h"
#include "pickle.h"

#define TORCH_MAX_KEY 256 /* of a storage; PyTorch writes numbers of up to 20 digits */

/* A tensor's reference to its storage, as torch.save writes it. */
struct torch_reference {
    struct pickle_string key;
    enum checkpoint_dtype dtype;
    uint64_t n_item;             /* of the storage */
    uint64_t view_start, view_n; /* the items that are referred to; usually all */
};

/* Reads the id of a PERSISTENT value. */
txl_status torch_read_reference(const struct checkpoint_source *source,
                                const struct pickle_value *persistent,
                                struct torch_reference *reference, txl_error *error);

/* The storage of that key, or NULL. */
struct checkpoint_storage *torch_find_storage(const struct checkpoint_source *source,
                                              const struct pickle_string *key);

/* Fills source->storages, sorted by key, with the storages that the pickle refers to. */
txl_status torch_list_storages(struct checkpoint_source *source, txl_error *error);

/* The storage in a torch.save file within a pickle. */
struct torch_nested {
    const struct pickle_string *bytes; /* of that file */
    struct checkpoint_storage storage;
    struct torch_reference reference; /* without its key */
};

/* The bytes of the file in the record `value`. */
const struct pickle_string *torch_nested_bytes(const struct pickle_value *value);

/* Orders by the address of the bytes. */
int torch_compare_nested(const void *a, const void *b);

/* The entry of source->nested for the value; NULL if it is no such record. */
struct torch_nested *torch_find_nested(const struct checkpoint_source *source,
                                       const struct pickle_value *value);

/* The object in a torch.save file, without the tensors in it. */

/* Reads the pickle in a torch.save file, or a plain pickle.  Strings may point into the file, which
 * must stay open as long as the pickle. */
txl_status torch_save_read_pickle(const struct mapped_file *file, struct pickle **pickle,
                                  txl_error *error);

#endif
