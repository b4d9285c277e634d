/* Arenas: one mapping from the system each, which is never enlarged. */
#include "arena.h"
#include "error.h"
#include "pages.h"

#include <assert.h>

enum { LINE = 64 };

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
    void *memory = size <= SIZE_MAX / 2 ? pages_map((size_t)size) : NULL;
    if (!memory)
        return txl_fail_memory(error, purpose, size);
    *arena = (struct arena){.memory = memory, .size = size};
    return TXL_OK;
}

void arena_close(struct arena *arena) {
    assert(arena->used <= arena->size);
    pages_unmap(arena->memory, (size_t)arena->size);
    *arena = (struct arena){0};
}

uint64_t arena_plan(arena_layout *lay_out, const void *plan) {
    struct arena sizes = {0};
    lay_out(plan, &sizes);
    return sizes.used;
}

void *arena_new(arena_layout *lay_out, const void *plan, const char *purpose, txl_error *error) {
    struct arena arena;
    if (arena_open(&arena, arena_plan(lay_out, plan), purpose, error))
        return NULL;
    struct shared_arena *shared = lay_out(plan, &arena);
    shared->arena = arena;
    atomic_init(&shared->users, 1);
    return shared;
}

void *arena_join(void *object) {
    struct shared_arena *shared = object;
    atomic_fetch_add(&shared->users, 1);
    return object;
}

void arena_leave(void *object) {
    struct shared_arena *shared = object;
    if (!shared || atomic_fetch_sub(&shared->users, 1) > 1)
        return;
    struct arena arena = shared->arena;
    arena_close(&arena);
}
