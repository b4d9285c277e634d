/* Whether a text ends in another. */
#ifndef TXL_ENDS_WITH_H
#define TXL_ENDS_WITH_H

#include <stdbool.h>
#include <string.h>

static inline bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && memcmp(text + length - tail, end, tail) == 0;
}

#endif
