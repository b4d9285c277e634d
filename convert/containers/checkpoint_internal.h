/* Shared by the readers of all containers: a checkpoint that is being built. */
#ifndef CONVERT_CHECKPOINT_INTERNAL_H
#define CONVERT_CHECKPOINT_INTERNAL_H

#include "checkpoint.h"
#include "lib/base/files.h"

/* A box of a tensor in parts, with a storage of its own. */
struct checkpoint_part {
    uint64_t start[CHECKPOINT_MAX_DIM], length[CHECKPOINT_MAX_DIM];
    struct checkpoint_storage *storage;
};

/* A storage: bytes, and tensors are views of them. */
struct checkpoint_storage {
    const struct mapped_file *file;
    const unsigned char *data; /* NULL: not found in the file yet, or in parts */
    uint64_t size;
    struct pickle_string key; /* torch.save's name for it; other containers: empty */
    size_t element_size;      /* of the type that torch.save gave it; other containers: 0 */
    enum { CHECKED, CRC32, CRC32C } check; /* a checksum, if it is not compared yet */
    uint32_t checksum;
    bool big_endian;
    /* Of a partitioned tensor: its shape and its parts, which cover it once. */
    struct checkpoint_part *parts;
    size_t n_part, last_part; /* where the last element was found */
    int n_dim;
    uint64_t shape[CHECKPOINT_MAX_DIM];
};

/* One file; a checkpoint in shards has several.  Within a plain pickle each storage is a torch.save
 * file of its own: `file` is then these bytes, which the outer file has mapped. */
struct checkpoint_source {
    struct mapped_file file;
    const struct mapped_file *whole; /* the file that is mapped: `file`, or the one around it */
    char *where;                     /* names the pickle in messages */
    struct pickle *pickle;           /* NULL: another container */
    struct checkpoint_storage *storages;
    size_t n_storage;
    struct checkpoint_part *parts; /* of all storages */
    struct torch_nested *nested;   /* by the address of their bytes */
    size_t n_nested;
};

struct checkpoint {
    struct checkpoint_source **sources;
    size_t n_source;
    char *index_path; /* NULL: not in shards */
    bool is_bundle;   /* TensorFlow's */
    struct checkpoint_tensor *tensors;
    size_t n_tensor, capacity;
    const struct checkpoint_tensor **by_name;
};

/* Checks a tensor as its container describes it, and adds it.  It may use claim->n_element elements
 * of its storage from claim->offset on, and `first` of them precede its element (0, ..., 0). */
txl_status checkpoint_add(struct checkpoint *checkpoint, const struct checkpoint_tensor *claim,
                          uint64_t first, txl_error *error);

/* The number of dimensions that a tensor may not have. */
txl_status checkpoint_refuse_dimensions(const char *path, const char *name, txl_error *error);

/* The strides of a tensor in row-major order without gaps.  Overflow wraps modulo 2^64. */
void checkpoint_row_major(struct checkpoint_tensor *claim);

/* Product of the shape, false if it exceeds 64 bits. */
bool checkpoint_n_element(int n_dim, const uint64_t *shape, uint64_t *n_element);

/* Read one file's content into the source or the checkpoint; source->file is open. */
txl_status torch_save_read(struct checkpoint_source *source, txl_error *error);
txl_status safetensors_read(struct checkpoint *checkpoint, struct checkpoint_source *source,
                            txl_error *error);
/* The source is the index; the files of the data become sources of their own. */
txl_status tensor_bundle_read(struct checkpoint *checkpoint, struct checkpoint_source *source,
                              txl_error *error);

/* Adds every tensor that can be reached in the pickle of a source that torch_save_read has read. */
txl_status torch_collect_tensors(struct checkpoint *checkpoint,
                                 const struct checkpoint_source *source, txl_error *error);

/* Adds a source that is all zero; NULL when out of memory. */
struct checkpoint_source *checkpoint_new_source(struct checkpoint *checkpoint, txl_error *error);

/* Frees what a reader has filled in, except the file; a zeroed source is fine. */
void checkpoint_empty_source(struct checkpoint_source *source);

/* `name` in the folder that `path` is in; NULL: out of memory. */
char *checkpoint_sibling(const char *path, const char *name);

/* Makes the tensors known to checkpoint_find; refuses two of one name. */
txl_status checkpoint_index_names(struct checkpoint *checkpoint, txl_error *error);

#endif
