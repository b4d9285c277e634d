/* A text's ids, in two bytes each if the vocabulary allows. */
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct txl_ids {
    int32_t n_token;
    size_t width; /* bytes of an id */
    struct buffer buffer;
};

txl_status txl_ids_new(int32_t n_token, txl_ids **ids, txl_error *error) {
    if (n_token < 1 || n_token > MAX_N_TOKEN)
        return txl_fail(error, TXL_ARGUMENT, "a vocabulary of %d symbols", n_token);
    txl_ids *made = calloc(1, sizeof *made);
    if (!made)
        return txl_fail_memory(error, "ids", sizeof *made);
    made->n_token = n_token;
    made->width = n_token <= 1 << 16 ? sizeof(uint16_t) : sizeof(int32_t);
    *ids = made;
    return TXL_OK;
}

txl_status txl_ids_add(txl_ids *ids, const int32_t *add, size_t n, txl_error *error) {
    for (size_t i = 0; i < n; i++)
        if (add[i] < 0 || add[i] >= ids->n_token)
            return txl_fail(error, TXL_ARGUMENT, "id %d is not below %d", add[i], ids->n_token);
    if (n > SIZE_MAX / ids->width || !buffer_reserve(&ids->buffer, n * ids->width))
        return txl_fail_memory(error, "the text's ids", ids->buffer.length);
    for (size_t i = 0; i < n; i++) {
        uint16_t narrow = (uint16_t)add[i];
        const void *id = ids->width == sizeof narrow ? (const void *)&narrow : &add[i];
        memcpy(ids->buffer.data + ids->buffer.length, id, ids->width);
        ids->buffer.length += ids->width;
    }
    return TXL_OK;
}

size_t txl_ids_count(const txl_ids *ids) {
    return ids->buffer.length / ids->width;
}

void txl_ids_get(const txl_ids *ids, size_t first, size_t n, int32_t *out) {
    const char *from = ids->buffer.data + first * ids->width;
    for (size_t i = 0; i < n; i++, from += ids->width) {
        uint16_t narrow;
        if (ids->width == sizeof narrow) {
            memcpy(&narrow, from, sizeof narrow);
            out[i] = narrow;
        } else {
            memcpy(&out[i], from, sizeof out[i]);
        }
    }
}

uint64_t txl_ids_checksum(const txl_ids *ids) {
    return XXH3_64bits(ids->buffer.data, ids->buffer.length);
}

void txl_ids_free(txl_ids *ids) {
    if (!ids)
        return;
    buffer_free(&ids->buffer);
    free(ids);
}
