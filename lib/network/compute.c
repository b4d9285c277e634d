/* Products of activations with weights, divided among threads.  The way depends on the number of
 * rows of activations:
 *
 *     up to FEW_ROWS            the product kernels, which read the weights once
 *     64 and more, f32 weights  OpenBLAS's sgemm, one call a task
 *     up to panels->most_rows   activations are packed into panels, and all panels are multiplied
 *                               by one part of the weights after another
 *     more                      each task packs its weights (f32_product); kernels without that
 *                               product widen them for sgemm
 *
 * Where OpenBLAS runs kernels that are slower than the processor, sgemm is not used if there is
 * another way.
 *
 * The exact arithmetic has one way for any number of rows: dot products of rows of activations and
 * rows of weights, which few rows read as they are stored and many rows widened.
 *
 * What else a session computes with stands here too: reading ahead, layer norm, and OpenBLAS's
 * state. */
#include "compute.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/numbers.h"
#include "lib/base/threads.h"

#include <assert.h>
#include <cblas.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>

enum {
    BLAS_BUFFER = 1 << 27,  /* bytes that OpenBLAS maps for each thread */
    FEW_ROWS = ALIKE_ROWS,  /* rows of activations up to which the product kernels are fastest */
    STREAM_BYTES = 1 << 18, /* bytes of weights in a task, at most, if rows are few */
    LEAST_BYTES = 1 << 13,  /* the same, at least: small matrices are divided no further */
    CACHED_BYTES = 1 << 21, /* matrices of more bytes are read from memory for each token */
    STREAM_UNIT = 16,       /* rows of weights in such a task are a multiple of this */
    /* Panels prefetch weights of more bytes than this, which no cache holds, if a row has fewer
     * than a page: the processor's own prefetching ends at a page. */
    DISTANT_BYTES = 1 << 24,
    PAGE = 4096,
    BLOCK_ROWS = 512,         /* rows of weights in a block of a softmax, at most */
    BLOCK_ELEMENTS = 1 << 19, /* elements in it: about half of a second-level cache */
    SGEMM_ROWS = 64,          /* rows of activations from which sgemm multiplies f32 weights */
    SGEMM_MOST_ROWS = 512,    /* rows of activations in a call, at most */
    SGEMM_FEW = 128,          /* rows of weights in a call that are cut last */
    SGEMM_TASKS = 8,  /* calls that a product is cut into, at least, if it is large enough */
    WIDE_ROWS = 48,   /* rows of weights that a task packs: few, so that threads end together */
    INTEGER_ROWS = 64 /* the same in integers, which kernels pack by 16 or 32 */
};

/* ---- Reading ahead ------------------------------------------------------------------------ */

/* Each generated token is multiplied by the same matrices in the same order.  So a thread that
 * waits for the others fetches what it will read next into its cache, and the memory is busy
 * between the products too.  No result depends on it. */

enum {
    FETCH_BYTES = 512,     /* at a time */
    AHEAD_BYTES = 1 << 17, /* of a thread's part of one matrix */
    AHEAD_MATRICES = 2,    /* matrices ahead */
    CACHE_LINE = 64
};

/* Where a thread fetches: in which product, and where in its part of that product's matrix. */
struct cursor {
    size_t product;
    const char *at, *end;   /* the elements left; NULL: not yet begun */
    const float *scale;     /* q8's scales of the elements at `at`, or NULL */
    char apart[CACHE_LINE]; /* no two in one cache line */
};

struct ordered {
    const struct matrix *w;
    size_t rows; /* of a task */
};

/* Products are numbered; numbers i, i + n, i + 2 n, ... are those with matrix order[i]. */
struct read_ahead {
    int threads;
    size_t n, most;
    struct ordered *order; /* [n] */
    struct cursor *cursor; /* [threads] */
    size_t count;          /* products so far, skipped ones included */
    atomic_size_t next;    /* the next product, or NONE */
};

static const size_t NONE = SIZE_MAX;

/* Takes the memory for so many threads and matrices; NULL from an arena that only adds up. */
static struct read_ahead *read_ahead_lay_out(int threads, size_t most, struct arena *arena) {
    struct read_ahead *ahead = arena_take(arena, 1, sizeof *ahead);
    struct ordered *order = arena_take(arena, most, sizeof *order);
    struct cursor *cursor = arena_take(arena, (uint64_t)threads, sizeof *cursor);
    if (!ahead)
        return NULL;
    *ahead =
        (struct read_ahead){.threads = threads, .most = most, .order = order, .cursor = cursor};
    atomic_init(&ahead->next, NONE);
    return ahead;
}

/* Adds the matrix that is read after those added before, in tasks of `rows` rows (see pool_run).
 * Its elements must not move. */
static void read_ahead_add(struct read_ahead *ahead, const struct matrix *w, size_t rows) {
    assert(ahead->n < ahead->most);
    ahead->order[ahead->n++] = (struct ordered){w, rows};
}

/* Tells that a product with this matrix begins.  NULL: during this product nothing is fetched. */
static void read_ahead_begin(struct read_ahead *ahead, const struct matrix *w) {
    size_t left_out = 0;
    if (!w)
        atomic_store_explicit(&ahead->next, NONE, memory_order_relaxed);
    while (left_out < ahead->n && ahead->order[(ahead->count + left_out) % ahead->n].w != w)
        left_out++;
    if (left_out == ahead->n)
        return;
    ahead->count += left_out + 1;
    atomic_store_explicit(&ahead->next, ahead->count, memory_order_release);
}

static void begin_part(struct read_ahead *ahead, struct cursor *cursor, int thread) {
    const struct ordered *order = &ahead->order[cursor->product % ahead->n];
    const struct matrix *w = order->w;
    int tasks = (int)((w->n_row + order->rows - 1) / order->rows);
    size_t first = (size_t)pool_first_task(tasks, thread, ahead->threads) * order->rows;
    size_t end = (size_t)pool_first_task(tasks, thread + 1, ahead->threads) * order->rows;
    size_t row = matrix_row_bytes(w), bytes = (end - first) * row;
    cursor->at = (const char *)w->data + first * row;
    cursor->end = cursor->at + (bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES);
    cursor->scale = w->type == WEIGHTS_Q8 ? w->scale + first * q8_blocks(w->n_col) : NULL;
}

/* Fetches a little more of the thread's part of the next matrices.  For pool_new_with: `context` is
 * a struct read_ahead. */
static bool read_ahead_fetch(void *context, int thread) {
    struct read_ahead *ahead = context;
    struct cursor *cursor = &ahead->cursor[thread];
    size_t next = atomic_load_explicit(&ahead->next, memory_order_acquire);
    if (next == NONE)
        return false;
    if (cursor->product < next)
        *cursor = (struct cursor){.product = next};
    if (cursor->product - next >= AHEAD_MATRICES)
        return false;
    if (!cursor->at)
        begin_part(ahead, cursor, thread);
    for (size_t i = 0; i < FETCH_BYTES; i += CACHE_LINE)
        __builtin_prefetch(cursor->at + i, 0, 2);
    if (cursor->scale) {
        __builtin_prefetch(cursor->scale, 0, 2);
        cursor->scale += FETCH_BYTES / Q8_BLOCK;
    }
    cursor->at += FETCH_BYTES;
    if (cursor->at >= cursor->end)
        *cursor = (struct cursor){.product = cursor->product + 1};
    return true;
}

void compute_read_later(struct compute *compute, const struct fetch_part *part, size_t n) {
    const int threads = pool_size(compute->pool);
    for (int i = 0; i < threads; i++) {
        const size_t first = n * (size_t)i / (size_t)threads,
                     end = n * (size_t)(i + 1) / (size_t)threads;
        compute->fetch[i] = (struct fetch){.part = part + first, .n = end - first};
    }
}

/* ---- Memory and threads ------------------------------------------------------------------- */

/* OpenBLAS maps a buffer for each thread that calls it, and retries for ever if it cannot.  So the
 * same size is tried here first. */
static txl_status check_blas_memory(int n_thread, txl_error *error) {
    size_t size = (size_t)n_thread * ((size_t)BLAS_BUFFER + 4096);
    void *trial = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (trial == MAP_FAILED)
        return txl_fail(error, TXL_MEMORY,
                        "out of memory: OpenBLAS needs %zu bytes of addresses for %d threads; use "
                        "fewer threads, or raise the limit (ulimit -v)",
                        size, n_thread);
    munmap(trial, size);
    return TXL_OK;
}

void compute_lay_out(struct compute *compute, int threads, size_t scratch_size, size_t packed_size,
                     size_t most_order, struct arena *arena) {
    *compute = (struct compute){.scratch_size = scratch_size};
    /* First, like all that a member of a group writes: its scratch is never touched. */
    compute->ahead = read_ahead_lay_out(threads, most_order, arena);
    compute->fetch = arena_take(arena, (uint64_t)threads, sizeof *compute->fetch);
    compute->scratch = arena_take(arena, (uint64_t)threads, sizeof *compute->scratch);
    for (int i = 0; i < threads; i++) {
        float *scratch = arena_take(arena, scratch_size, sizeof *scratch);
        if (compute->scratch)
            compute->scratch[i] = scratch;
    }
    compute->packed = arena_take(arena, packed_size, sizeof *compute->packed);
}

/* Rows of weights in a task, if rows of activations are few: enough to be read at full speed, and
 * few enough that every thread has several tasks. */
static size_t stream_rows(const struct matrix *w) {
    size_t row = matrix_row_bytes(w);
    size_t most = STREAM_BYTES / row / STREAM_UNIT * STREAM_UNIT;
    size_t least = (LEAST_BYTES / row + STREAM_UNIT) / STREAM_UNIT * STREAM_UNIT;
    size_t tasks = w->n_row * row > CACHED_BYTES ? 16 : 32;
    size_t rows = w->n_row / tasks / STREAM_UNIT * STREAM_UNIT;
    rows = rows < most ? rows : most;
    return rows > least ? rows : least;
}

void compute_order(struct compute *compute, const struct matrix *w) {
    if (!w->data)
        return;
    if (w->type == WEIGHTS_Q8) {
        compute->n_to_pack++;
        compute->bytes_to_pack += packed_integers(w->n_row, w->n_col);
    }
    if (compute->ahead)
        read_ahead_add(compute->ahead, w, stream_rows(w));
}

txl_status compute_open(struct compute *compute, const struct kernels *kernels, int threads,
                        bool reaches_sgemm, txl_error *error) {
    compute->kernels = kernels;
    compute->pool = pool_new_with(threads, read_ahead_fetch, compute->ahead);
    if (!compute->pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    return reaches_sgemm ? check_blas_memory(threads, error) : TXL_OK;
}

void compute_close(struct compute *compute) {
    arena_leave(compute->weights);
    pool_free(compute->pool);
}

/* ---- Packed weights ----------------------------------------------------------------------- */

struct packed_matrix {
    const struct matrix *w;
    char *packed;
};

/* Of a model's sessions that are copies of each other. */
struct packed_weights {
    struct shared_arena shared;
    const struct kernels *kernels;
    size_t n;
    struct packed_matrix *matrix; /* [n] */
};

static void *lay_out_weights(const void *plan, struct arena *arena) {
    const struct compute *compute = plan;
    struct packed_weights *weights = arena_take(arena, 1, sizeof *weights);
    struct packed_matrix *matrix = arena_take(arena, compute->n_to_pack, sizeof *matrix);
    char *next = arena_take(arena, compute->bytes_to_pack, 1);
    if (!weights)
        return NULL;
    weights->kernels = compute->kernels;
    weights->matrix = matrix;
    for (size_t i = 0; i < compute->ahead->n; i++) {
        const struct matrix *w = compute->ahead->order[i].w;
        if (w->type != WEIGHTS_Q8)
            continue;
        matrix[weights->n++] = (struct packed_matrix){w, next};
        next += packed_integers(w->n_row, w->n_col);
    }
    return weights;
}

uint64_t compute_weights_bytes(const struct compute *compute) {
    return compute->n_to_pack > 0 ? arena_plan(lay_out_weights, compute) : 0;
}

static void pack_weights_task(void *context, int i, int thread) {
    (void)thread;
    const struct packed_weights *weights = context;
    const struct matrix *w = weights->matrix[i].w;
    weights->kernels->integers->pack_q8(w->n_row, w->n_col, w->data, w->scale,
                                        weights->matrix[i].packed);
}

txl_status compute_pack_weights(struct compute *compute, const struct compute *like,
                                txl_error *error) {
    if (compute->n_to_pack == 0)
        return TXL_OK;
    if (like) {
        compute->weights = arena_join(like->weights);
        return TXL_OK;
    }
    compute->weights = arena_new(lay_out_weights, compute, "packed weights", error);
    if (!compute->weights)
        return TXL_MEMORY;
    pool_run(compute->pool, (int)compute->weights->n, pack_weights_task, compute->weights);
    return TXL_OK;
}

/* Rows `first` and on of W as products in integers take them, or NULL. */
static const void *find_packed(const struct packed_weights *weights, const struct matrix *w,
                               size_t first) {
    for (size_t i = 0; weights && first % INTEGER_PANEL == 0 && i < weights->n; i++)
        if (weights->matrix[i].w == w)
            return weights->matrix[i].packed + packed_integers(first, w->n_col);
    return NULL;
}

/* ---- Sizes -------------------------------------------------------------------------------- */

static size_t panel_depth(size_t k) {
    return (k + PANEL_DEPTH - 1) / PANEL_DEPTH * PANEL_DEPTH;
}

size_t compute_block_rows(const struct matrix *w) {
    size_t rows = BLOCK_ELEMENTS / w->n_col / 16 * 16;
    return rows < 16 ? 16 : rows > BLOCK_ROWS ? BLOCK_ROWS : rows;
}

/* Rows of weights that are packed together. */
static size_t packed_rows(const struct matrix *w) {
    size_t rows = compute_block_rows(w);
    return rows < WIDE_ROWS ? rows : WIDE_ROWS;
}

size_t compute_scratch(const struct matrix *w, size_t n_x) {
    size_t rows = compute_block_rows(w), most = rows > PANEL_ROWS ? rows : PANEL_ROWS;
    size_t row = panel_depth(w->n_col) + q8_blocks(w->n_col); /* with its scales */
    bool as_they_are = w->type == WEIGHTS_F32 || (n_x <= FEW_ROWS && weights_is_float(w->type));
    size_t prepared = as_they_are ? 0 : most * row;
    if (w->type == WEIGHTS_F32 && n_x >= SGEMM_ROWS)
        prepared = rows * w->n_col; /* transposed for sgemm */
    return prepared + (n_x > FEW_ROWS ? packed_rows(w) * w->n_col : 0) + n_x * rows;
}

static struct tile_rows tile_rows(const struct matrix *w) {
    return (struct tile_rows){w->data, w->scale, w->skip, w->n_row, w->n_col};
}

/* Which of the kernels for types in tiles. */
static size_t tile_type(const struct matrix *w) {
    return (size_t)w->type - WEIGHTS_Q4;
}

void matrix_widen(const struct kernels *kernels, const struct matrix *w, size_t first, size_t n,
                  float *out) {
    const struct matrix rows = matrix_rows(w, first, n);
    if (weights_in_tiles(w->type)) {
        const struct tile_rows tiles = tile_rows(&rows);
        kernels->tiles->widen[tile_type(w)](&tiles, out);
    } else {
        kernels->widen[w->type](rows.data, rows.scale, n, w->n_col, out);
    }
}

void compute_widen(const struct compute *compute, const struct matrix *w, size_t first, size_t n,
                   float *out) {
    matrix_widen(compute->kernels, w, first, n, out);
}

/* ---- Panels ------------------------------------------------------------------------------- */

/* Weights in tiles are widened and meet the panels of f32, unless these round activations too. */
static const struct panels *panels_of(const struct kernels *kernels, const struct matrix *w) {
    if (weights_in_tiles(w->type) && kernels->tile_panels)
        return kernels->tile_panels;
    return kernels->panels[weights_in_tiles(w->type) ? WEIGHTS_F32 : w->type];
}

static size_t n_panel(size_t n_x) {
    return (n_x + PANEL_WIDTH - 1) / PANEL_WIDTH;
}

/* The first row of panel i.  Panels are as equal as their unit allows. */
static size_t panel_start(const struct panels *panels, size_t n_x, size_t i) {
    size_t units = (n_x + panels->unit - 1) / panels->unit;
    size_t start = units * i / n_panel(n_x) * panels->unit;
    return start < n_x ? start : n_x;
}

struct panel {
    size_t start, n, width; /* the panel's rows of X; width: n rounded up to the unit */
    void *numbers;
};

/* Floats of one row in a panel. */
static size_t panel_column(const struct panels *panels, size_t k) {
    return panel_depth(k) * panels->element / sizeof(float);
}

static struct panel get_panel(const struct operand *x, size_t i) {
    const struct panels *panels = x->panels;
    struct panel panel = {.start = panel_start(panels, x->n, i)};
    panel.n = panel_start(panels, x->n, i + 1) - panel.start;
    panel.width = (panel.n + panels->unit - 1) / panels->unit * panels->unit;
    panel.numbers = x->packed + panel.start * panel_column(panels, x->k);
    return panel;
}

_Static_assert(sizeof(struct integer_block) <= TILE_INPUT, "a row in integers takes no more");

/* Floats that one row in 16 bits takes; weights in tiles take the longer form. */
static size_t rounded_row(size_t k) {
    return tiles_across(k) * TILE_INPUT / sizeof(float);
}

size_t compute_packed(const struct kernels *kernels, size_t n_x, size_t k) {
    size_t most = 0;
    if (kernels->is_exact)
        return n_x * (rounded_row(k) + 1);
    for (size_t type = 0; type < KERNEL_TYPES; type++) {
        const struct panels *panels = kernels->panels[type];
        size_t rows = n_x < panels->most_rows ? n_x : panels->most_rows;
        rows = (rows + panels->unit - 1) / panels->unit * panels->unit;
        size_t size = rows * panel_column(panels, k);
        most = size > most ? size : most;
    }
    size_t few = FEW_ROWS * (rounded_row(k) + 1);
    return few > most ? few : most;
}

static void pack_task(void *context, int i, int thread) {
    (void)thread;
    const struct operand *x = context;
    struct panel panel = get_panel(x, (size_t)i);
    x->panels->pack(panel.n, panel.width, x->k, x->x + panel.start * x->ld, x->ld, panel.numbers);
}

static void round_task(void *context, int i, int thread) {
    (void)thread;
    const struct operand *x = context;
    size_t first = (size_t)i * FEW_ROWS, left = x->n - first;
    x->kernels->round(left < FEW_ROWS ? left : FEW_ROWS, x->k, x->x + first * x->ld, x->ld,
                      x->round + first * q8_blocks(x->k) * Q8_BLOCK, x->scale + first);
}

static void round_tiled_task(void *context, int i, int thread) {
    (void)thread;
    const struct operand *x = context;
    size_t first = (size_t)i * FEW_ROWS, left = x->n - first;
    x->kernels->tiles->round(left < FEW_ROWS ? left : FEW_ROWS, x->k, x->x + first * x->ld, x->ld,
                             x->tiled + first * tiles_across(x->k) * TILE_INPUT, x->scale + first);
}

static void round_integers_task(void *context, int i, int thread) {
    (void)thread;
    const struct operand *x = context;
    size_t first = (size_t)i * FEW_ROWS;
    x->kernels->integers->round(smaller(FEW_ROWS, x->n - first), x->k, x->x + first * x->ld, x->ld,
                                x->integers + first * q8_blocks(x->k));
}

/* Rounds all rows to 16 bits, or to integers of 8, if the weights take that. */
static void round_operand(const struct compute *compute, struct operand *x,
                          enum weights_type type) {
    const int tasks = (int)((x->n + FEW_ROWS - 1) / FEW_ROWS);
    if (weights_is_float(type))
        return;
    if (x->kernels->integers) {
        x->integers = (struct integer_block *)(void *)compute->packed;
        pool_run(compute->pool, tasks, round_integers_task, x);
        return;
    }
    if (weights_in_tiles(type))
        x->tiled = (uint8_t *)compute->packed;
    else
        x->round = (int16_t *)compute->packed;
    x->scale = compute->packed + x->n * rounded_row(x->k);
    pool_run(compute->pool, tasks, x->tiled ? round_tiled_task : round_task, x);
}

bool compute_uses_sgemm(const struct kernels *kernels, size_t n_x, const struct matrix *w) {
    if (kernels->is_exact || n_x < SGEMM_ROWS)
        return false;
    return (w->type == WEIGHTS_F32 && !blas_better_core()) ||
           (!kernels->f32_product && n_x > panels_of(kernels, w)->most_rows);
}

struct operand compute_prepare(const struct compute *compute, size_t n_x, const float *x,
                               size_t ldx, const struct matrix *w) {
    struct operand operand = {
        .kernels = compute->kernels, .n = n_x, .k = w->n_col, .ld = ldx, .x = x};
    if (compute->kernels->is_exact) {
        round_operand(compute, &operand, w->type);
        return operand;
    }
    operand.panels = panels_of(compute->kernels, w);
    if (n_x > FEW_ROWS && n_x <= operand.panels->most_rows &&
        !compute_uses_sgemm(compute->kernels, n_x, w)) {
        operand.packed = compute->packed;
        pool_run(compute->pool, (int)n_panel(n_x), pack_task, &operand);
    } else if (n_x <= FEW_ROWS) {
        round_operand(compute, &operand, w->type);
    }
    return operand;
}

/* ---- Products ----------------------------------------------------------------------------- */

static void activate_block(const struct compute *compute, size_t n_x,
                           const struct product_block *block) {
    for (size_t t = 0; block->activation != LINEAR && t < n_x; t++)
        compute->kernels->activate(block->activation, block->n, block->y + t * block->ldy);
}

static void finish_block(const struct compute *compute, size_t n_x,
                         const struct product_block *block) {
    const float *bias = block->bias ? block->bias + block->first : NULL;
    for (size_t t = 0; bias && t < n_x; t++)
        for (size_t i = 0; i < block->n; i++)
            block->y[t * block->ldy + i] += bias[i];
    activate_block(compute, n_x, block);
}

/* The part of a block from its row `done` on, of at most n rows. */
static struct product_block part_of(const struct product_block *block, size_t done, size_t n) {
    struct product_block part = *block;
    part.first += done;
    part.n = smaller(n, block->n - done);
    part.y += done;
    return part;
}

/* Rows of W as f32: those of W itself, or a copy in the thread's scratch. */
static const float *wide_rows(const struct compute *compute, int thread, const struct matrix *w,
                              size_t first, size_t n) {
    if (w->type == WEIGHTS_F32)
        return (const float *)w->data + first * w->n_col;
    compute_widen(compute, w, first, n, compute->scratch[thread]);
    return compute->scratch[thread];
}

static bool prefetches(const struct matrix *w) {
    size_t row = matrix_row_bytes(w);
    return row < PAGE && w->n_row * row > DISTANT_BYTES;
}

/* A block of at most PANEL_ROWS rows of W. */
static void product_panels(const struct compute *compute, int thread, const struct operand *x,
                           const struct product_block *block) {
    const struct matrix *w = block->w;
    const size_t first = block->first, n = block->n;
    const float *bias = block->bias ? block->bias + first : NULL;
    struct matrix rows = matrix_rows(w, first, n);
    const void *b = rows.data, *next = NULL;
    const float *scale = rows.scale;
    if (x->panels->prepare_tiles) {
        const struct tile_rows tiles = tile_rows(&rows);
        x->panels->prepare_tiles(weights_top(w->type), &tiles, compute->scratch[thread]);
        b = compute->scratch[thread];
    } else if (weights_in_tiles(w->type)) {
        compute_widen(compute, w, first, n, compute->scratch[thread]);
        b = compute->scratch[thread];
    } else if (x->panels->prepare) {
        float *prepared = compute->scratch[thread];
        float *prepared_scale = prepared + PANEL_ROWS * panel_depth(w->n_col);
        x->panels->prepare(n, w->n_col, b, scale, prepared, prepared_scale);
        b = prepared;
        scale = prepared_scale;
    } else if (prefetches(w) && first + 2 * n <= w->n_row) {
        next = matrix_rows(w, first + n, 1).data;
    }
    for (size_t i = 0; i < n_panel(x->n); i++) {
        struct panel panel = get_panel(x, i);
        x->panels->panel(&(struct panel_call){.m = panel.n,
                                              .width = panel.width,
                                              .n = n,
                                              .k = x->k,
                                              .packed = panel.numbers,
                                              .b = b,
                                              .scale = scale,
                                              .bias = bias,
                                              .relu = block->activation == RELU,
                                              .y = block->y + panel.start * block->ldy,
                                              .ldy = block->ldy,
                                              .next = i == 0 ? next : NULL});
    }
    if (block->activation != RELU)
        activate_block(compute, x->n, block);
}

/* Scratch for a task's packed weights.  It follows the scratch for widened weights. */
static void *pack_room(const struct compute *compute, int thread, const struct matrix *w) {
    size_t rows = w->type == WEIGHTS_F32 ? 0 : packed_rows(w);
    return compute->scratch[thread] + rows * w->n_col;
}

/* A block of at most packed_rows() rows of W, neither bias nor activation. */
static void product_packed(const struct compute *compute, int thread, const struct operand *x,
                           const struct product_block *block) {
    const struct packed_product *product = compute->kernels->f32_product;
    const struct matrix *w = block->w;
    const size_t n = block->n;
    const struct packed_source rows = {wide_rows(compute, thread, w, block->first, n), w->n_col,
                                       false};
    const struct pack right = {pack_room(compute, thread, w), w->n_col};
    product->pack_right(&rows, 0, n, &right);
    const struct product_part part = {
        .k = w->n_col, .i_end = x->n, .j_end = n, .c = block->y, .ldc = block->ldy};
    product->multiply_rows(x->x, x->ld, &right, &part);
}

/* sgemm packs weights as they lie in memory number by number, from 16 rows that are often a power
 * of two apart.  On an Intel Ice Lake that was faster than a transposed copy, on an AMD Zen 4
 * slower. */
static bool transposes_for_sgemm(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return !__builtin_cpu_is("intel");
#else
    return true;
#endif
}

/* A block of at most compute_block_rows() rows of W.  Rows that were widened are in the cache. */
static void product_sgemm(const struct compute *compute, int thread, const struct operand *x,
                          const struct product_block *block) {
    const struct matrix *w = block->w;
    const float *b = wide_rows(compute, thread, w, block->first, block->n);
    size_t n = block->n, k = w->n_col, width = (n + 15) / 16 * 16;
    bool transposed = w->type == WEIGHTS_F32 && transposes_for_sgemm();
    if (transposed) {
        compute->kernels->panels[WEIGHTS_F32]->pack(n, width, k, b, k, compute->scratch[thread]);
        b = compute->scratch[thread];
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasNoTrans : CblasTrans, (int)x->n,
                (int)n, (int)k, 1, x->x, (int)x->ld, b, (int)(transposed ? width : k), 0, block->y,
                (int)block->ldy);
    finish_block(compute, x->n, block);
}

/* A block of rows in q8, packed in scratch if it was not before. */
static void product_integers(const struct compute *compute, int thread, const struct operand *x,
                             const struct product_block *block) {
    const struct integer_products *integers = compute->kernels->integers;
    const size_t n = block->n, k = block->w->n_col;
    const void *packed = find_packed(compute->weights, block->w, block->first);
    if (!packed) {
        const struct matrix rows = matrix_rows(block->w, block->first, n);
        integers->pack_q8(n, k, rows.data, rows.scale, compute->scratch[thread]);
        packed = compute->scratch[thread];
    }
    integers->q8(x->n, x->integers, n, k, packed, &compute->fetch[thread], block->y, block->ldy);
}

void compute_product_block(const struct compute *compute, int thread, const struct operand *x,
                           const struct product_block *block) {
    const struct kernels *kernels = compute->kernels;
    const struct matrix *w = block->w;
    const size_t n = block->n, ldy = block->ldy;
    float *y = block->y;
    if (compute_uses_sgemm(kernels, x->n, w)) {
        product_sgemm(compute, thread, x, block);
        return;
    }
    if (x->packed && x->panels == panels_of(kernels, w)) {
        for (size_t done = 0; done < n; done += PANEL_ROWS) {
            const struct product_block part = part_of(block, done, PANEL_ROWS);
            product_panels(compute, thread, x, &part);
        }
        return;
    }
    struct matrix rows = matrix_rows(w, block->first, n);
    if (x->integers && w->type == WEIGHTS_Q8) {
        product_integers(compute, thread, x, block);
    } else if (x->integers && w->type == WEIGHTS_Q4) {
        const struct tile_rows tiles = tile_rows(&rows);
        kernels->integers->q4(x->n, x->integers, &tiles, &compute->fetch[thread], y, ldy);
    } else if (x->round && w->type == WEIGHTS_Q8) {
        kernels->product_q8(x->n, n, w->n_col, x->round, x->scale, rows.data, rows.scale, y, ldy);
    } else if (x->tiled && weights_in_tiles(w->type)) {
        const struct tile_rows tiles = tile_rows(&rows);
        kernels->tiles->product[tile_type(w)](x->n, x->tiled, x->scale, &tiles, y, ldy);
    } else if (x->n <= FEW_ROWS && weights_is_float(w->type)) {
        kernels->product[w->type](x->n, n, w->n_col, x->x, x->ld, rows.data, y, ldy);
    } else if (x->n <= FEW_ROWS || kernels->is_exact) {
        /* Of few rows: those that were prepared for weights of another type. */
        kernels->product[WEIGHTS_F32](x->n, n, w->n_col, x->x, x->ld,
                                      wide_rows(compute, thread, w, block->first, n), y, ldy);
    } else {
        for (size_t done = 0; done < n; done += packed_rows(w)) {
            const struct product_block part = part_of(block, done, packed_rows(w));
            product_packed(compute, thread, x, &part);
        }
    }
    finish_block(compute, x->n, block);
}

/* Parts of at most `size` that n makes. */
static size_t blocks(size_t n, size_t size) {
    return (n + size - 1) / size;
}

/* ---- Whole products ----------------------------------------------------------------------- */

struct product {
    const struct compute *compute;
    struct operand x;
    struct product_block whole;
    size_t block, rows; /* rows of W in a task; by sgemm, rows of X too */
};

static void product_task(void *context, int i, int thread) {
    const struct product *p = context;
    const struct product_block block = part_of(&p->whole, (size_t)i * p->block, p->block);
    compute_product_block(p->compute, thread, &p->x, &block);
}

/* Task i of a product by sgemm: a block of rows of W, for a block of rows of X. */
static void sgemm_task(void *context, int i, int thread) {
    const struct product *p = context;
    size_t across = blocks(p->whole.n, p->block), row = (size_t)i / across * p->rows;
    struct product_block block = part_of(&p->whole, (size_t)i % across * p->block, p->block);
    struct operand x = p->x;
    x.n = smaller(p->rows, x.n - row);
    x.x += row * x.ld;
    block.y += row * block.ldy;
    product_sgemm(p->compute, thread, &x, &block);
}

/* Each call of sgemm packs its rows of W and of X, so calls are as large as gives every thread of a
 * few one; rows of W are cut first, because a call reads them from memory.  The sizes depend on the
 * shapes alone, so that the result is the same for any number of threads. */
static void multiply_by_sgemm(struct product *p) {
    size_t n_w = p->whole.n, n_x = p->x.n;
    p->block = smaller(n_w, compute_block_rows(p->whole.w));
    p->rows = smaller(n_x, SGEMM_MOST_ROWS);
    while (blocks(n_w, p->block) * blocks(n_x, p->rows) < SGEMM_TASKS &&
           larger(p->block, p->rows) >= 2 * SGEMM_ROWS)
        if (p->block > SGEMM_FEW || p->block >= p->rows)
            p->block = blocks(p->block, 32) * 16;
        else
            p->rows = blocks(p->rows, 2);
    pool_run(p->compute->pool, (int)(blocks(n_w, p->block) * blocks(n_x, p->rows)), sgemm_task, p);
}

void compute_product(const struct compute *compute, size_t n_x, const float *x, size_t ldx,
                     const struct matrix *w, const float *bias, enum activation activation,
                     float *y, size_t ldy) {
    if (compute->observe)
        compute->observe(compute->observer, compute, w, n_x, x, ldx);
    /* Products in integers prefetch what was packed themselves. */
    read_ahead_begin(compute->ahead, n_x <= FEW_ROWS && !compute->weights ? w : NULL);
    struct operand operand = compute_prepare(compute, n_x, x, ldx, w);
    struct product p = {compute, operand, {w, 0, w->n_row, bias, activation, y, ldy}, 0, 0};
    if (compute_uses_sgemm(compute->kernels, n_x, w)) {
        multiply_by_sgemm(&p);
        return;
    }
    p.block = operand.integers  ? INTEGER_ROWS
              : n_x <= FEW_ROWS ? stream_rows(w)
              : operand.packed  ? PANEL_ROWS
                                : packed_rows(w);
    pool_run(compute->pool, (int)blocks(w->n_row, p.block), product_task, &p);
}

/* ---- Layer norm --------------------------------------------------------------------------- */

enum { NORM_BLOCK = 16 }; /* rows of a task */

struct norm_run {
    const struct compute *compute;
    const struct layer_norm *norm;
    size_t d_model;
    float epsilon;
    size_t n;
    const float *x, *y;
    float *out;
};

static void norm_task(void *context, int i, int thread) {
    (void)thread;
    const struct norm_run *z = context;
    size_t d_model = z->d_model, first = (size_t)i * NORM_BLOCK;
    for (size_t t = first; t < smaller(first + NORM_BLOCK, z->n); t++)
        z->compute->kernels->layer_norm(d_model, z->x + t * d_model,
                                        z->y ? z->y + t * d_model : NULL, z->norm->weight,
                                        z->norm->bias, z->epsilon, z->out + t * d_model);
}

void compute_norm(const struct compute *compute, const struct layer_norm *norm, size_t d_model,
                  double epsilon, size_t n, const float *x, const float *y, float *out) {
    struct norm_run z = {compute, norm, d_model, (float)epsilon, n, x, y, out};
    pool_run(compute->pool, (int)((n + NORM_BLOCK - 1) / NORM_BLOCK), norm_task, &z);
}

/* ---- OpenBLAS ----------------------------------------------------------------------------- */

/* OpenBLAS's number of threads and its kernels, which are the process's.
 *
 * So the number of holders and the number to restore belong to the process too.  They are the only
 * variables in lib/ that outlive a call and belong to no object; a lock guards them. */

extern int openblas_get_num_threads(void);
extern void openblas_set_num_threads(int n);
extern char *openblas_get_corename(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t holders;
static int before;

void blas_threads_hold(void) {
    pthread_mutex_lock(&lock);
    if (holders++ == 0)
        before = openblas_get_num_threads();
    if (openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
    pthread_mutex_unlock(&lock);
}

void blas_threads_release(void) {
    pthread_mutex_lock(&lock);
    if (--holders == 0 && before != 1 && openblas_get_num_threads() == 1)
        openblas_set_num_threads(before);
    pthread_mutex_unlock(&lock);
}

/* The kernels for the widest vectors of the processor, and others that are as good. */
struct core {
    const char *name;
    const char *equals[8];
};

static const struct core *best_core(void) {
#if defined(__x86_64__)
    static const struct core avx512 = {"SkylakeX", {"SkylakeX", "Cooperlake", "SapphireRapids"}};
    static const struct core avx2 = {
        "Haswell", {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"}};
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return &avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &avx2;
#endif
    return NULL;
}

const char *blas_better_core(void) {
    const struct core *best = best_core();
    if (!best)
        return NULL;
    for (int i = 0; i < 8 && best->equals[i]; i++)
        if (strcasecmp(openblas_get_corename(), best->equals[i]) == 0)
            return NULL;
    return best->name;
}
