/* Memory: buffers, lists of ids, arenas and pages. */
#include "memory.h"
#include "error.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes that grow.  A failure to grow is the caller's to report. */
bool buffer_reserve(struct buffer *buffer, size_t extra) {
    if (extra <= buffer->capacity - buffer->length)
        return true;
    if (extra > SIZE_MAX / 2 - buffer->length)
        return false;
    size_t needed = buffer->length + extra;
    size_t capacity = buffer->capacity < 64 ? 64 : buffer->capacity;
    while (capacity < needed)
        capacity *= 2;
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool buffer_append(struct buffer *buffer, const void *bytes, size_t length) {
    if (!buffer_reserve(buffer, length))
        return false;
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    return true;
}

void buffer_drop(struct buffer *buffer, size_t length) {
    buffer->length -= length;
    if (length > 0 && buffer->length > 0)
        memmove(buffer->data, buffer->data + length, buffer->length);
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}

/* A list of ids that grows.  The ids are not checked. */

bool id_list_add(struct id_list *list, int32_t id) {
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        int32_t *ids = reallocarray(list->ids, capacity, sizeof *ids);
        if (!ids)
            return false;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->n++] = id;
    return true;
}

void id_list_free(struct id_list *list) {
    free(list->ids);
    *list = (struct id_list){0};
}

/* Arenas: one mapping from the system each, which is never enlarged. */

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
    const bool nearly = sizes.used > HUGE_PAGE / 2 && sizes.used < HUGE_PAGE;
    return nearly ? HUGE_PAGE : sizes.used;
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

/* Memory straight from the system. */

static const int HOW = MAP_PRIVATE | MAP_ANONYMOUS;

/* A free address for `size` bytes, aligned to huge pages, or NULL. */
static void *find_place(size_t size) {
    size_t all = size + HUGE_PAGE;
    char *place = mmap(NULL, all, PROT_NONE, HOW | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)place % HUGE_PAGE;
    munmap(place, all);
    return place + before;
}

void *pages_map(size_t size) {
    if (size > SIZE_MAX / 2)
        return NULL;
    /* The address is only a hint: if another thread takes it first, mmap chooses one that may not
     * be aligned. */
    void *place = size < HUGE_PAGE ? NULL : find_place(size);
    void *memory = mmap(place, size, PROT_READ | PROT_WRITE, HOW, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (size >= HUGE_PAGE)
        madvise(memory, size, MADV_HUGEPAGE);
    return memory;
}

void pages_unmap(void *memory, size_t size) {
    if (memory)
        munmap(memory, size);
}
