/* A growing string of bytes. */
#include "bytes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool bytes_append(struct bytes *bytes, const char *data, size_t length) {
    if (length > SIZE_MAX / 2 - bytes->length)
        return false;
    size_t needed = bytes->length + length;
    if (needed > bytes->capacity) {
        size_t capacity = 2 * needed;
        char *grown = realloc(bytes->data, capacity);
        if (!grown)
            return false;
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    if (length > 0) {
        memcpy(bytes->data + bytes->length, data, length);
        bytes->length = needed;
    }
    return true;
}

void bytes_drop(struct bytes *bytes, size_t length) {
    bytes->length -= length;
    if (length > 0 && bytes->length > 0)
        memmove(bytes->data, bytes->data + length, bytes->length);
}

void bytes_free(struct bytes *bytes) {
    free(bytes->data);
    *bytes = (struct bytes){0};
}
