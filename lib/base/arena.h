/* Memory that is laid out before it is there: the same code first adds up the sizes of what it
 * needs, and then hands out the places, so that a size cannot differ from what is taken. */
#ifndef TXL_ARENA_H
#define TXL_ARENA_H

#include "txl.h"

/* All zero: one that only adds up. */
struct arena {
    char *memory;
    uint64_t used, size; /* bytes; used UINT64_MAX: more than can be counted */
};

/* Takes room for n elements of `size` bytes each, aligned to 64 bytes.  Returns NULL from an arena
 * that only adds up. */
void *arena_take(struct arena *arena, uint64_t n, size_t size);

/* An arena of `size` bytes, zero and untouched; `purpose` is what an error says it was for. */
txl_status arena_open(struct arena *arena, uint64_t size, const char *purpose, txl_error *error);
void arena_close(struct arena *arena);

#endif
