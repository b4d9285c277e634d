/* The types of elements, what f32 becomes in them, and how many bytes tensors of them have. */
#include "lib/base/error.h"
#include "lib/base/numbers.h"
#include "weights.h"

#include <string.h>

static const char *const type_names[] = {"f32", "f16", "bf16", "q8", "q4", "q5"};

const char *weights_type_name(uint32_t type) {
    return type < sizeof type_names / sizeof *type_names ? type_names[type] : NULL;
}

int weights_type_of_name(const char *name) {
    for (int i = 0; weights_type_name((uint32_t)i); i++)
        if (strcmp(name, type_names[i]) == 0)
            return i;
    return -1;
}

txl_status weights_types_read(const char *name, struct weights_types *types, txl_error *error) {
    const char *colon = strchr(name, ':');
    const size_t length = colon ? (size_t)(colon - name) : strlen(name);
    int found[2] = {-1, colon ? weights_type_of_name(colon + 1) : 0};
    for (int i = 0; weights_type_name((uint32_t)i); i++)
        if (strlen(type_names[i]) == length && memcmp(name, type_names[i], length) == 0)
            found[0] = i;
    if (found[0] < 0 || found[1] < 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "unknown type of weights \"%s\"; there are f32, f16, bf16, q8, q5 and q4",
                        name);
    *types = (struct weights_types){(enum weights_type)found[0],
                                    (enum weights_type)found[colon ? 1 : 0]};
    if (colon && (!weights_in_tiles(types->matrices) || weights_is_float(types->embeddings)))
        return txl_fail(
            error, TXL_ARGUMENT,
            "the type of weights \"%s\": embeddings in q8, q5 or q4 go with matrices in q5 "
            "or q4",
            name);
    return TXL_OK;
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
    if (weights_is_float(type))
        return n * weights_type_size(type);
    if (n_dim != 2)
        return 0;
    if (type == WEIGHTS_Q8)
        return weights_scales_offset(n) + shape[0] * q8_blocks(shape[1]) * sizeof(float);
    /* Padding makes a narrow matrix up to 64 times as large. */
    const uint64_t tiles = (shape[0] / TILE_HEIGHT + 1) * (shape[1] / TILE_WIDTH + 1);
    return tiles < most / tile_bytes(Q5_TOP)
               ? tiles_bytes(weights_top(type), shape[0], shape[1]) + shape[0] * 2 * sizeof(float)
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
