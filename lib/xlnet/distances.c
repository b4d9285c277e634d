/* Position rows of both signs, each computed when it is first seen. */
#include "lib/base/exact_math.h"
#include "timeline.h"

#include <math.h>

enum { DISTANCE_BLOCK = ROW_BLOCK }; /* rows computed at a time, at most */

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t signed_in_blocks(int64_t rows) {
    return (rows + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
}

/* The farthest distances that rows see: from the query after a full segment to the oldest row of
 * memory, and from the first token of a block to its last. */
static int64_t reach_left(const txl_settings *s) {
    int64_t reach = (int64_t)s->mem_len + s->tgt_len;
    return s->clamp_len > 0 ? min_i64(reach, s->clamp_len) : reach;
}

static int64_t reach_right(const txl_settings *s) {
    int64_t reach = (int64_t)s->tgt_len - 1;
    return s->clamp_len > 0 ? min_i64(reach, s->clamp_len) : reach;
}

static int64_t n_distance(const struct distances *p) {
    return p->left + 1 + p->right;
}

size_t distances_rows(const txl_settings *s) {
    return (size_t)(signed_in_blocks(reach_left(s) + 1) + signed_in_blocks(reach_right(s)));
}

/* What determines a session's distances. */
struct plan {
    const struct xlnet *net;
    const txl_settings *settings;
};

static void *lay_out(const void *planned, struct arena *arena) {
    const struct plan *plan = planned;
    const struct xlnet *net = plan->net;
    struct distances unused, *taken = arena_take(arena, 1, sizeof *taken);
    struct distances *p = taken ? taken : &unused;
    *p = (struct distances){
        .net = net, .left = reach_left(plan->settings), .right = reach_right(plan->settings)};
    p->zero = (size_t)signed_in_blocks(p->left + 1) - 1;
    p->rows =
        rows_transposed(rows_type(plan->settings->memory_type), (size_t)net->n_layer,
                        (size_t)net->n_head, (size_t)net->d_head, distances_rows(plan->settings));
    rows_lay_out(&p->rows, arena);
    p->sines =
        arena_take(arena, (uint64_t)n_distance(p) * (uint64_t)net->d_model, sizeof *p->sines);
    p->projected = arena_take(arena, DISTANCE_BLOCK * xlnet_width(net), sizeof *p->projected);
    return taken;
}

uint64_t distances_bytes(const struct xlnet *net, const txl_settings *settings) {
    const struct plan plan = {net, settings};
    return arena_plan(lay_out, &plan);
}

struct distances *distances_new(const struct xlnet *net, const txl_settings *settings,
                                txl_error *error) {
    const struct plan plan = {net, settings};
    return arena_new(lay_out, &plan, "the position rows", error);
}

/* ---- Filling in --------------------------------------------------------------------------- */

static float *sines_of(const struct distances *p, int64_t distance) {
    return p->sines + (p->left - distance) * p->net->d_model;
}

/* Distances most, most - 1, ... down to least. */
struct span {
    struct distances *distances;
    int64_t most, least;
};

/* Computes R_d for a block of the span. */
static void sines_task(void *context, int i, int thread) {
    (void)thread;
    const struct span *span = context;
    size_t half = (size_t)span->distances->net->d_model / 2;
    int64_t first = span->most - (int64_t)i * DISTANCE_BLOCK;
    int64_t last = max_i64(first - DISTANCE_BLOCK + 1, span->least);
    for (size_t k = 0; k < half; k++) {
        double frequency = pow(10000, -(double)k / (double)half);
        for (int64_t d = first; d >= last; d--) {
            float *row = sines_of(span->distances, d);
            double sine, cosine;
            exact_sin_cos((double)d * frequency, &sine, &cosine);
            row[k] = (float)sine;
            row[half + k] = (float)cosine;
        }
    }
}

static void add_sines(struct distances *p, const struct compute *compute, int64_t most,
                      int64_t least) {
    struct span span = {p, most, least};
    int64_t n = most - least + 1;
    if (n > 0)
        pool_run(compute->pool, (int)(signed_in_blocks(n) / DISTANCE_BLOCK), sines_task, &span);
}

/* Sessions that share the rows only read them, because all are known. */
void distances_need(struct distances *p, const struct compute *compute, int64_t least,
                    int64_t most) {
    if (distances_are_known(p))
        return;
    p->needed_left = max_i64(p->known_left, min_i64(signed_in_blocks(most + 1), p->left + 1));
    p->needed_right = max_i64(p->known_right, min_i64(signed_in_blocks(-least), p->right));
    add_sines(p, compute, p->needed_left - 1, p->known_left);
    add_sines(p, compute, -p->known_right - 1, -p->needed_right);
}

/* W_r R: R[n, d_model], W_r[n_head d_head, d_model] for the distances most to least, in the same
 * blocks however many distances are known: of a shorter one the products may differ by rounding. */
static void fill_span(struct distances *p, const struct compute *compute, int l,
                      const struct xlnet_layer *layer, int64_t most, int64_t least) {
    size_t d_model = (size_t)p->net->d_model, d_head = (size_t)p->net->d_head;
    size_t n;
    for (int64_t first = most; first >= least; first -= (int64_t)n) {
        int64_t block = first < 0 ? DISTANCE_BLOCK : first % DISTANCE_BLOCK + 1;
        n = (size_t)min_i64(block, first - least + 1);
        size_t row = (size_t)((int64_t)p->zero - first);
        compute_product(compute, n, sines_of(p, first), d_model, &layer->r, NULL, LINEAR,
                        p->projected, xlnet_width(p->net));
        rows_put_heads(&p->rows, compute->kernels, (size_t)l, row, n, p->projected, d_head);
    }
}

void distances_fill(struct distances *p, const struct compute *compute, int l,
                    const struct xlnet_layer *layer) {
    fill_span(p, compute, l, layer, p->needed_left - 1, p->known_left);
    fill_span(p, compute, l, layer, -p->known_right - 1, -p->needed_right);
}

void distances_finish(struct distances *p) {
    if (distances_are_known(p))
        return;
    p->known_left = p->needed_left;
    p->known_right = p->needed_right;
}
