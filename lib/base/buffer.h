/* Bytes that grow.  A failure to grow is the caller's to report. */
#ifndef TXL_BUFFER_H
#define TXL_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* All zero is an empty buffer. */
struct buffer {
    char *data;
    size_t length;
    size_t capacity;
};

/* Makes room for `extra` bytes after the length.  False when there is no memory; the buffer is then
 * as it was. */
bool buffer_reserve(struct buffer *buffer, size_t extra);

/* Adds `length` bytes; false when there is no memory. */
bool buffer_append(struct buffer *buffer, const void *bytes, size_t length);

/* Removes the first `length` bytes. */
void buffer_drop(struct buffer *buffer, size_t length);

void buffer_free(struct buffer *buffer);

#endif
