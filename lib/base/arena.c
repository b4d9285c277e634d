/* Arenas: one mapping of the system's, in huge pages where it is large. */
#include "arena.h"
#include "error.h"

#include <assert.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 1 << 21 };

void *arena_take(struct arena *arena, uint64_t n, size_t size) {
    uint64_t bytes, used;
    if (__builtin_mul_overflow(n, size, &bytes) ||
        __builtin_add_overflow(bytes, LINE - 1, &bytes) ||
        __builtin_add_overflow(arena->used, bytes / LINE * LINE, &used)) {
        arena->used = UINT64_MAX;
        return NULL;
    }
    void *taken = arena->memory ? arena->memory + arena->used : NULL;
    arena->used = used;
    return taken;
}

txl_status arena_open(struct arena *arena, uint64_t size, const char *purpose, txl_error *error) {
    *arena = (struct arena){0};
    if (size > SIZE_MAX / 2)
        return txl_fail_memory(error, purpose, size);
    void *memory =
        mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return txl_fail_memory(error, purpose, size);
    if (size >= HUGE_PAGE)
        madvise(memory, (size_t)size, MADV_HUGEPAGE);
    *arena = (struct arena){.memory = memory, .size = size};
    return TXL_OK;
}

void arena_close(struct arena *arena) {
    assert(arena->used <= arena->size);
    if (arena->memory)
        munmap(arena->memory, (size_t)arena->size);
    *arena = (struct arena){0};
}
