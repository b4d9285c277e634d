/* The types of a tensor's elements. */
#ifndef CONVERT_DTYPE_H
#define CONVERT_DTYPE_H

#include <stddef.h>

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

#endif
