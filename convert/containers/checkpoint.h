/* Checkpoints: model files that others wrote, and the tensors in them.  The content decides what a
 * file is, not its name.
 *
 * A checkpoint is a torch.save file (zip or legacy container); a plain pickle, whose storages are
 * torch.save files themselves; a safetensors file; the index of shards of these; the index of a
 * TensorFlow checkpoint; or a directory with one of these.  Files are mapped.  A pickle's objects
 * are all read when it is opened, elements only when asked for.  A checkpoint that was opened is
 * checked: every tensor lies within its storage, every storage within its file. */
#ifndef CONVERT_CHECKPOINT_H
#define CONVERT_CHECKPOINT_H

#include "pickle.h"

#include <stddef.h>

/* The types of a tensor's elements. */

enum checkpoint_dtype {
    CHECKPOINT_F32,
    CHECKPOINT_F16,
    CHECKPOINT_BF16,
    CHECKPOINT_F64,
    CHECKPOINT_I8,
    CHECKPOINT_I16,
    CHECKPOINT_I32,
    CHECKPOINT_I64,
    CHECKPOINT_U8,
    CHECKPOINT_U16,
    CHECKPOINT_U32,
    CHECKPOINT_U64,
    CHECKPOINT_BOOL,
    CHECKPOINT_F8_E4M3, /* this type and those below are listed, but not read */
    CHECKPOINT_F8_E5M2,
    CHECKPOINT_C64,
    CHECKPOINT_C128,
    CHECKPOINT_STRING,
    CHECKPOINT_N_DTYPE
};

enum dtype_naming {
    DTYPE_OF_PYTORCH,     /* "float32", "bfloat16", "int64" ... */
    DTYPE_OF_STORAGE,     /* PyTorch's legacy class: "FloatStorage" */
    DTYPE_OF_SAFETENSORS, /* "F32" */
    N_DTYPE_NAMING
};

/* PyTorch's name. */
const char *checkpoint_dtype_name(enum checkpoint_dtype dtype);
size_t checkpoint_dtype_size(enum checkpoint_dtype dtype);

/* The dtype of a name, or -1. */
int checkpoint_dtype_find(enum dtype_naming naming, const char *name);

#define CHECKPOINT_MAX_DIM 8 /* twice the dimensions of any part of a model */

struct checkpoint;
struct checkpoint_storage;

struct checkpoint_tensor {
    const char *name; /* keys from the root joined by '.'; a tensor that is the root is "." */
    enum checkpoint_dtype dtype;
    int n_dim;
    uint64_t shape[CHECKPOINT_MAX_DIM];
    uint64_t stride[CHECKPOINT_MAX_DIM]; /* elements from one index to the next */
    uint64_t n_element;
    uint64_t offset; /* of element (0, ..., 0) in the storage, in bytes; at any alignment */
    struct checkpoint_storage *storage;
};

/* Opens what is at `path`: a file, or a directory as a publisher lays it out. */
txl_status checkpoint_open(const char *path, struct checkpoint **checkpoint, txl_error *error);

/* Frees the checkpoint with its tensors and values; NULL is fine. */
void checkpoint_close(struct checkpoint *checkpoint);

/* The file that was opened: in a directory, the one that was chosen. */
const char *checkpoint_path(const struct checkpoint *checkpoint);

/* Whether the checkpoint is read from the file at `path`, among others. */
bool checkpoint_reads(const struct checkpoint *checkpoint, const char *path);

/* Whether it is a TensorFlow checkpoint. */
bool checkpoint_is_bundle(const struct checkpoint *checkpoint);

/* The object that torch.save wrote; NULL for safetensors and for shards. */
const struct pickle_value *checkpoint_root(const struct checkpoint *checkpoint);

/* The attribute of a pickled object as Python's `object.name` finds it: in its state, and for a
 * torch.nn.Module in _parameters, _buffers and _modules too.  NULL if there is none. */
const struct pickle_value *checkpoint_attribute(const struct pickle_value *object,
                                                const char *name);

/* ---- Tensors ------------------------------------------------------------------------------ */

size_t checkpoint_n_tensor(const struct checkpoint *checkpoint);

/* Tensor `i` in the order of the file.  The tensors of a module have the names of its
 * state_dict. */
const struct checkpoint_tensor *checkpoint_tensor_at(const struct checkpoint *checkpoint, size_t i);

/* The tensor of that name, or NULL. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint,
                                                const char *name);

/* Whether the elements lie in row-major order without gaps. */
bool checkpoint_is_contiguous(const struct checkpoint_tensor *tensor);

/* Whether both are the same view of the same storage, as tied weights are in a torch.save file. */
bool checkpoint_same_view(const struct checkpoint_tensor *a, const struct checkpoint_tensor *b);

/* Elements [first, first + count) in row-major order; the range must lie within the tensor.  The
 * first reading of a storage compares its checksum, if its container has one.  Only one thread at a
 * time may read a checkpoint. */
txl_status checkpoint_read_float(const struct checkpoint_tensor *tensor, uint64_t first,
                                 uint64_t count, float *out, txl_error *error);
txl_status checkpoint_read_double(const struct checkpoint_tensor *tensor, uint64_t first,
                                  uint64_t count, double *out, txl_error *error);

/* Whether both are of the same type and shape, and hold the same numbers: shards keep a copy of a
 * tied tensor each. */
txl_status checkpoint_same_numbers(const struct checkpoint_tensor *a,
                                   const struct checkpoint_tensor *b, bool *same, txl_error *error);

/* Lets the system take back the memory that the tensor's elements were mapped to.  They may be
 * read again. */
void checkpoint_release(const struct checkpoint_tensor *tensor);

#endif
