/* Bytes that grow.  A failure to grow is the caller's to report. */
#include "buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool buffer_reserve(struct buffer *buffer, size_t extra) {
    if (extra <= buffer->capacity - buffer->length)
        return true;
    if (extra > SIZE_MAX / 2 - buffer->length)
        return false;
    size_t needed = buffer->length + extra;
    size_t capacity = buffer->capacity < 64 ? 64 : buffer->capacity;
    while (capacity < needed)
        capacity *= 2;
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool buffer_append(struct buffer *buffer, const void *bytes, size_t length) {
    if (!buffer_reserve(buffer, length))
        return false;
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    return true;
}

void buffer_drop(struct buffer *buffer, size_t length) {
    buffer->length -= length;
    if (length > 0 && buffer->length > 0)
        memmove(buffer->data, buffer->data + length, buffer->length);
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}
