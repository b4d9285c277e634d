/* The types of elements, what f32 becomes in them, and how many bytes tensors of them have. */
#include "lib/base/numbers.h"
#include "weights.h"

#include <string.h>

static const char *const type_names[] = {"f32", "f16", "bf16", "q8"};

const char *weights_type_name(uint32_t type) {
    return type < sizeof type_names / sizeof *type_names ? type_names[type] : NULL;
}

int weights_type_of_name(const char *name) {
    for (int i = 0; weights_type_name((uint32_t)i); i++)
        if (strcmp(name, type_names[i]) == 0)
            return i;
    return -1;
}

size_t weights_type_size(enum weights_type type) {
    return type == WEIGHTS_F32 ? 4 : type == WEIGHTS_Q8 ? 1 : 2;
}

uint64_t weights_expanded_size(enum weights_type type, int n_dim,
                               const uint64_t shape[WEIGHTS_MAX_DIM]) {
    const uint64_t most = (uint64_t)INT64_MAX / 16; /* elements: no size of them can overflow */
    uint64_t n = 1;
    for (int d = 0; d < WEIGHTS_MAX_DIM; d++) {
        if (shape[d] == 0 || n > most / shape[d])
            return 0;
        n *= shape[d];
    }
    if (type != WEIGHTS_Q8)
        return n * weights_type_size(type);
    return n_dim == 2 ? weights_scales_offset(n) + shape[0] * q8_blocks(shape[1]) * sizeof(float)
                      : 0;
}

void weights_narrow(enum weights_type type, const float *in, size_t n, void *out) {
    uint16_t *half = out;
    if (type == WEIGHTS_F32)
        memcpy(out, in, n * sizeof *in);
    for (size_t i = 0; type == WEIGHTS_F16 && i < n; i++)
        half[i] = f16_of_float(in[i]);
    for (size_t i = 0; type == WEIGHTS_BF16 && i < n; i++)
        half[i] = bf16_of_float(in[i]);
}
