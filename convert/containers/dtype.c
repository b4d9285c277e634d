/* The types of elements, and what the containers call them. */
#include "dtype.h"

#include <string.h>

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
