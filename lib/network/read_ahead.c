/* Fetches weights into a waiting thread's cache; results never depend on it. */
#include "read_ahead.h"
#include "lib/base/numbers.h"
#include "lib/base/threads.h"

#include <assert.h>
#include <stdatomic.h>

enum {
    FETCH_BYTES = 512,     /* at a time */
    AHEAD_BYTES = 1 << 17, /* of a thread's part of one matrix */
    AHEAD_MATRICES = 2,    /* matrices ahead */
    CACHE_LINE = 64
};

/* Where a thread fetches: in which product, and where in its part of that product's matrix. */
struct place {
    size_t product;
    const char *at, *end;   /* the elements left; NULL: not yet begun */
    const float *scale;     /* scales of the elements at `at`, or NULL */
    char apart[CACHE_LINE]; /* no two in one cache line */
};

struct read {
    const struct matrix *w;
    size_t rows; /* of a task */
};

/* Products are numbered; numbers i, i + n, i + 2 n, ... are those with matrix read[i]. */
struct read_ahead {
    int threads;
    size_t n, most;
    struct read *read;   /* [n] */
    struct place *place; /* [threads] */
    size_t count;        /* products so far, skipped ones included */
    atomic_size_t next;  /* the next product, or NONE */
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

static void begin_part(struct read_ahead *ahead, struct place *place, int thread) {
    const struct read *read = &ahead->read[place->product % ahead->n];
    const struct matrix *w = read->w;
    int tasks = (int)((w->n_row + read->rows - 1) / read->rows);
    size_t first = (size_t)pool_first_task(tasks, thread, ahead->threads) * read->rows;
    size_t end = (size_t)pool_first_task(tasks, thread + 1, ahead->threads) * read->rows;
    size_t row = w->n_col * weights_type_size(w->type), bytes = (end - first) * row;
    place->at = (const char *)w->data + first * row;
    place->end = place->at + (bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES);
    place->scale = w->scale ? w->scale + first * q8_blocks(w->n_col) : NULL;
}

/* Fetches a little more of the thread's part of the next matrices. */
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
    if (!place->at)
        begin_part(ahead, place, thread);
    for (size_t i = 0; i < FETCH_BYTES; i += CACHE_LINE)
        __builtin_prefetch(place->at + i, 0, 2);
    if (place->scale) {
        __builtin_prefetch(place->scale, 0, 2);
        place->scale += FETCH_BYTES / Q8_BLOCK;
    }
    place->at += FETCH_BYTES;
    if (place->at >= place->end)
        *place = (struct place){.product = place->product + 1};
    return true;
}
