/* Shared by the readers of all containers: a checkpoint that is being built. */
#ifndef CONVERT_CHECKPOINT_INTERNAL_H
#define CONVERT_CHECKPOINT_INTERNAL_H

#include "checkpoint.h"
#include "lib/base/mapped_file.h"

/* A storage: bytes of which tensors are views. */
struct checkpoint_storage {
    const struct mapped_file *file;
    const unsigned char *data; /* NULL: not found in the file yet */
    uint64_t size;
    struct pickle_string key; /* torch.save's name for it; safetensors: empty */
    size_t element_size;      /* of the type that torch.save gave it; safetensors: 0 */
    bool has_crc32;           /* there is a checksum, not compared yet */
    uint32_t crc32;
};

/* One file; a checkpoint in shards has several.  Within a plain pickle each storage is a torch.save
 * file of its own: the `file` of such a source is these bytes, which it must not unmap. */
struct checkpoint_source {
    struct mapped_file file;
    const struct mapped_file *whole; /* the file that is mapped: `file`, or the one around it */
    char *where;                     /* names the pickle in messages */
    struct pickle *pickle;           /* NULL: safetensors */
    struct checkpoint_storage *storages;
    size_t n_storage;
    struct torch_nested *nested; /* by the address of their bytes */
    size_t n_nested;
};

struct checkpoint {
    struct checkpoint_source **sources;
    size_t n_source;
    char *index_path; /* NULL: not in shards */
    struct checkpoint_tensor *tensors;
    size_t n_tensor, capacity;
    const struct checkpoint_tensor **by_name;
};

/* A tensor as its container describes it, not yet checked. */
struct tensor_claim {
    const char *name;
    enum checkpoint_dtype dtype;
    int n_dim;
    uint64_t shape[CHECKPOINT_MAX_DIM];
    uint64_t stride[CHECKPOINT_MAX_DIM];
    struct checkpoint_storage *storage;
    uint64_t start;  /* first byte within the storage that the view may use */
    uint64_t n_item; /* elements that it may use */
    uint64_t offset; /* of element (0, ..., 0), in elements from `start` */
};

/* Checks the claim and adds the tensor. */
txl_status checkpoint_add(struct checkpoint *checkpoint, const struct tensor_claim *claim,
                          txl_error *error);

/* The dtype of a name, or -1: "FloatStorage" or "float32" in PyTorch, "F32" in safetensors. */
int checkpoint_dtype_of_storage(const char *name);
int checkpoint_dtype_of_name(const char *name);
int checkpoint_dtype_of_safetensors(const char *name);

/* Product of the shape, false if it exceeds 64 bits. */
bool checkpoint_n_element(int n_dim, const uint64_t *shape, uint64_t *n_element);

/* Frees what torch_save_read has filled in, except the file; a zeroed source is fine. */
void torch_save_free(struct checkpoint_source *source);

/* Adds every tensor that can be reached in the source's pickle. */
txl_status torch_collect_tensors(struct checkpoint *checkpoint,
                                 const struct checkpoint_source *source, txl_error *error);

/* Read one file's content into the checkpoint; source->file is open. */
txl_status torch_save_read(struct checkpoint *checkpoint, struct checkpoint_source *source,
                           txl_error *error);
txl_status safetensors_read(struct checkpoint *checkpoint, struct checkpoint_source *source,
                            txl_error *error);

#endif
