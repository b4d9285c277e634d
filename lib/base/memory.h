/* Memory: buffers and lists of ids that grow, arenas whose size is known before they are
 * allocated, pages straight from the system, and sizes. */
#ifndef TXL_BASE_MEMORY_H
#define TXL_BASE_MEMORY_H

#include "txl.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that grow.  A failure to grow is the caller's to report. */
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

/* A list of ids that grows.  The ids are not checked. */

/* All zero is an empty list. */
struct id_list {
    int32_t *ids; /* [n] */
    size_t n, capacity;
};

/* Adds an id at the end.  False when there is no memory; the list is then as it was. */
bool id_list_add(struct id_list *list, int32_t id);

void id_list_free(struct id_list *list);

/* Plans memory and hands it out with the same code.  Code that lays out an object runs twice: with
 * an arena that only adds up the sizes it asks for, and with an arena of that size.  So a stated
 * size cannot differ from what is allocated. */

/* All zero: an arena that only adds up sizes. */
struct arena {
    char *memory;
    uint64_t used, size; /* bytes; `used` is UINT64_MAX if the sum overflowed */
};

/* Takes room for n elements of `size` bytes each, aligned to 64 bytes.  Returns NULL from an arena
 * that only adds up. */
void *arena_take(struct arena *arena, uint64_t n, size_t size);

/* Opens an arena of `size` bytes, which are zero and not yet resident.  The message of a failure
 * names `purpose`. */
txl_status arena_open(struct arena *arena, uint64_t size, const char *purpose, txl_error *error);
void arena_close(struct arena *arena);

/* Takes the memory of an object, and returns the object; NULL from an arena that only adds up. */
typedef void *arena_layout(const void *plan, struct arena *arena);

/* Bytes that the object takes: of more than half of a huge page, all of it. */
uint64_t arena_plan(arena_layout *lay_out, const void *plan);

/* What an object with several users begins with: an arena that holds all of the object. */
struct shared_arena {
    struct arena arena;
    atomic_int users;
};

/* Makes such an object, with one user.  NULL: out of memory, of which the message names `purpose`.
 */
void *arena_new(arena_layout *lay_out, const void *plan, const char *purpose, txl_error *error);
/* Returns the object, which has one more user. */
void *arena_join(void *object);
/* Leaves the object, which may be NULL; the last user frees it. */
void arena_leave(void *object);

/* Memory straight from the system: zero, untouched, and in huge pages where it is large. */

/* NULL when out of memory.  Memory of at least a huge page is aligned to one. */
void *pages_map(size_t size);
void pages_unmap(void *memory, size_t size); /* NULL is fine */

/* The smaller and the larger of two sizes, how many pieces one has, and a multiple of both. */

static inline size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* How many pieces of at most `piece` make n. */
static inline size_t pieces(size_t n, size_t piece) {
    return (n + piece - 1) / piece;
}

/* The least common multiple of two sizes above 0. */
static inline size_t common_multiple(size_t a, size_t b) {
    size_t x = a, y = b;
    while (y > 0) {
        size_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

#endif
