/* Reading ahead. */
#include "read_ahead.h"
#include "lib/base/q8.h"
#include "lib/base/threads.h"

#include <assert.h>
#include <stdatomic.h>

enum {
    FETCH_BYTES = 512,     /* at a time */
    AHEAD_BYTES = 1 << 17, /* of a thread's part of one matrix, */
    AHEAD_MATRICES = 2,    /* and of so many */
    CACHE_LINE = 64
};

/* A thread's place: in products, and in bytes of its part of that one's matrix. */
struct place {
    size_t product, bytes;
    char apart[CACHE_LINE]; /* no two in one line */
};

struct read {
    const struct matrix *w;
    size_t rows; /* of a task */
};

/* Products are counted; those with matrix read[i] are i, i + n, i + 2 n.. */
struct read_ahead {
    int threads;
    size_t n, most;
    struct read *read;   /* [n] */
    struct place *place; /* [threads] */
    size_t count;        /* products so far, with those left out */
    atomic_size_t next;  /* the one to come, or NONE */
};

static const size_t NONE = SIZE_MAX;

struct read_ahead *read_ahead_lay_out(int threads, size_t most, struct arena *arena) {
    struct read_ahead *ahead = arena_take(arena, 1, sizeof *ahead);
    struct read *read = arena_take(arena, most, sizeof *read);
    struct place *place = arena_take(arena, (uint64_t)threads, sizeof *place);
    if (!ahead)
        return NULL;
    *ahead = (struct read_ahead){.threads = threads, .most = most, .read = read, .place = place};
    atomic_init(&ahead->next, NONE);
    return ahead;
}

void read_ahead_add(struct read_ahead *ahead, const struct matrix *w, size_t rows) {
    assert(ahead->n < ahead->most);
    ahead->read[ahead->n++] = (struct read){w, rows};
}

void read_ahead_begin(struct read_ahead *ahead, const struct matrix *w) {
    size_t left_out = 0;
    if (!w)
        atomic_store_explicit(&ahead->next, NONE, memory_order_relaxed);
    while (left_out < ahead->n && ahead->read[(ahead->count + left_out) % ahead->n].w != w)
        left_out++;
    if (left_out == ahead->n)
        return;
    ahead->count += left_out + 1;
    atomic_store_explicit(&ahead->next, ahead->count, memory_order_release);
}

static void fetch(const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch((const char *)from + i, 0, 2);
}

/* A little more of the thread's part of the matrices to come. */
bool read_ahead_fetch(void *context, int thread) {
    struct read_ahead *ahead = context;
    struct place *place = &ahead->place[thread];
    size_t next = atomic_load_explicit(&ahead->next, memory_order_acquire);
    if (next == NONE)
        return false;
    if (place->product < next)
        *place = (struct place){.product = next};
    if (place->product - next >= AHEAD_MATRICES)
        return false;
    const struct read *read = &ahead->read[place->product % ahead->n];
    const struct matrix *w = read->w;
    size_t row = w->n_col * weights_type_size(w->type);
    int tasks = (int)((w->n_row + read->rows - 1) / read->rows);
    size_t first = (size_t)pool_first_task(tasks, thread, ahead->threads) * read->rows * row;
    size_t end = (size_t)pool_first_task(tasks, thread + 1, ahead->threads) * read->rows * row;
    size_t most = end - first < AHEAD_BYTES ? end - first : AHEAD_BYTES;
    if (place->bytes >= most) {
        *place = (struct place){.product = place->product + 1};
        return true;
    }
    fetch((const char *)w->data + first + place->bytes, FETCH_BYTES);
    if (w->scale)
        fetch(w->scale + (first + place->bytes) / Q8_BLOCK, 1);
    place->bytes += FETCH_BYTES;
    return true;
}
