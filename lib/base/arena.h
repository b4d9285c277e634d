/* Plans memory and hands it out with the same code.  Code that lays out an object runs twice: with
 * an arena that only adds up the sizes it asks for, and with an arena of that size.  So a stated
 * size cannot differ from what is allocated. */
#ifndef TXL_ARENA_H
#define TXL_ARENA_H

#include "txl.h"

#include <stdatomic.h>

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

/* Bytes that the object takes. */
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

#endif
