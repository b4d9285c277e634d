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

/* An arena with several users.  It holds all of the object that this struct is a member of. */
struct shared_arena {
    struct arena arena;
    atomic_int users;
};

/* Moves `arena` into the object that was laid out in it, and counts the first user. */
void arena_share(struct shared_arena *shared, const struct arena *arena);
void arena_join(struct shared_arena *shared);
/* Leaves the object; the last user frees it. */
void arena_leave(struct shared_arena *shared);

#endif
