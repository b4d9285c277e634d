/* Memory straight from the system. */
#include "pages.h"

#include <stdint.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 1 << 21 };

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
