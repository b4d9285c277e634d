/* jansson when memory is short: reading fails without a message, and json_dumps leaves out what it
 * has no room for.  These functions tell such a failure from others. */
#ifndef TXL_JSON_MEMORY_H
#define TXL_JSON_MEMORY_H

#include "txl.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Whether reading failed for lack of memory; where->text is then a message that says so. */
static inline bool json_lacked_memory(json_error_t *where) {
    bool lacked = !where->text[0] || json_error_code(where) == json_error_out_of_memory;
    if (lacked)
        strcpy(where->text, "out of memory");
    return lacked;
}

/* A shallow copy of an object; NULL when out of memory.  json_copy would leave members out. */
static inline json_t *json_copy_object(json_t *object) {
    json_t *copy = json_object();
    if (copy && json_object_update(copy, object) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

/* The value as a string, to be freed; NULL: out of memory. */
static inline char *json_text(const json_t *value, size_t flags) {
    size_t size = json_dumpb(value, NULL, 0, flags);
    char *text = size > 0 ? malloc(size + 1) : NULL;
    if (text && json_dumpb(value, text, size, flags) == size) {
        text[size] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

#endif
