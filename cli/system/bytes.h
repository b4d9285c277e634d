/* A growing string of bytes. */
#ifndef CLI_BYTES_H
#define CLI_BYTES_H

#include <stdbool.h>
#include <stddef.h>

struct bytes {
    char *data;
    size_t length, capacity;
};

/* False when memory is short. */
bool bytes_append(struct bytes *bytes, const char *data, size_t length);

/* Takes the first `length` bytes away. */
void bytes_drop(struct bytes *bytes, size_t length);

void bytes_free(struct bytes *bytes);

#endif
