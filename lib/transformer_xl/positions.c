/* Computes position rows, each once.  The scores of the first tokens may do without them. */
#include "positions.h"
#include "lib/base/exact_math.h"
#include "lib/base/memory.h"
#include "lib/network/kv_rows.h"

#include <string.h>

static size_t projected_width(const struct position_plan *plan) {
    return plan->n_head * plan->d_head;
}

/* Only a first memory of zeros is seen as a whole from the first token on.  The exact arithmetic
 * does without, because these scores have other roundings. */
static bool has_few(const struct position_plan *plan) {
    return plan->kind == POSITIONS_SINUSOID && plan->zero_memory && !plan->exact &&
           plan->d_model % 16 == 0;
}

size_t positions_scratch(const struct position_plan *plan) {
    if (!has_few(plan))
        return 0;
    struct matrix sines = {.type = WEIGHTS_F32, .n_row = plan->distances, .n_col = plan->d_model};
    size_t product = compute_scratch(&sines, FIRST_TOKENS * plan->n_head);
    size_t queries = (FIRST_TOKENS + plan->d_model) * plan->d_head;
    return product > queries ? product : queries;
}

bool positions_reach_sgemm(const struct position_plan *plan, const struct kernels *kernels) {
    struct matrix sines = {.type = WEIGHTS_F32, .n_row = plan->distances, .n_col = plan->d_model};
    return has_few(plan) && compute_uses_sgemm(kernels, FIRST_TOKENS * plan->n_head, &sines);
}

static void *lay_out(const void *planned, struct arena *arena) {
    const struct position_plan *plan = planned;
    struct positions unused, *taken = arena_take(arena, 1, sizeof *taken);
    struct positions *p = taken ? taken : &unused;
    size_t d_model = plan->d_model, n_head = plan->n_head;
    *p = (struct positions){.plan = *plan, .distances = plan->distances};
    p->n_row = in_blocks(p->distances);
    p->rows = rows_transposed(plan->type, plan->n_layer, n_head, plan->d_head, p->n_row);
    rows_lay_out(&p->rows, arena);
    p->projected = arena_take(arena, POSITION_BLOCK * projected_width(plan), sizeof *p->projected);
    if (plan->kind == POSITIONS_SINUSOID)
        p->sines = arena_take(arena, p->distances * d_model, sizeof *p->sines);
    if (plan->kind == POSITIONS_LEARNED)
        p->bias = arena_take(arena, plan->n_layer * n_head * p->n_row, sizeof *p->bias);
    if (has_few(plan)) {
        p->first_queries = arena_take(arena, FIRST_TOKENS * n_head * d_model, sizeof(float));
        p->first_scores = arena_take(arena, FIRST_TOKENS * n_head * p->distances, sizeof(float));
    }
    return taken;
}

uint64_t positions_bytes(const struct position_plan *plan) {
    return arena_plan(lay_out, plan);
}

struct positions *positions_new(const struct position_plan *plan, txl_error *error) {
    return arena_new(lay_out, plan, "the position rows", error);
}

void position_sines(const float *inv_freq, size_t d_model, int clamp_len, size_t first, int step,
                    size_t n, float *out) {
    size_t half = d_model / 2;
    for (size_t t = 0; t < n; t++) {
        double p = (double)first + (double)step * (double)t;
        if (clamp_len > 0 && p > clamp_len)
            p = clamp_len;
        for (size_t i = 0; i < half; i++) {
            double s, c;
            exact_sin_cos(p * (double)inv_freq[i], &s, &c);
            out[t * d_model + i] = (float)s;
            out[t * d_model + half + i] = (float)c;
        }
    }
}

struct sines {
    struct positions *positions;
    size_t count;
};

/* Computes a block of the sines for distances n_sines to count - 1. */
static void sines_task(void *context, int i, int thread) {
    (void)thread;
    const struct sines *s = context;
    struct positions *p = s->positions;
    size_t first = p->n_sines + (size_t)i * POSITION_BLOCK;
    size_t n = smaller(POSITION_BLOCK, s->count - first);
    position_sines(p->plan.inv_freq, p->plan.d_model, p->plan.clamp_len, first + n - 1, -1, n,
                   p->sines + (p->distances - first - n) * p->plan.d_model);
}

static void need_sines(struct positions *p, const struct compute *compute, size_t count) {
    struct sines s = {p, count};
    if (p->n_sines >= count)
        return;
    pool_run(compute->pool, (int)(in_blocks(count - p->n_sines) / POSITION_BLOCK), sines_task, &s);
    p->n_sines = count;
}

/* ---- Rows of all distances ---------------------------------------------------------------- */

/* The learned row of distance d is the d-th from the end of the table. */
static void load_learned_distances(struct positions *p, const struct compute *compute, int l,
                                   const struct position_weights *weights, size_t first, size_t n) {
    size_t n_head = p->plan.n_head, learned = weights->r->n_row - first - n;
    compute_widen(compute, weights->r, learned, n, p->projected);
    for (size_t t = 0; t < n; t++) {
        size_t row = p->n_row - first - n + t;
        for (size_t h = 0; h < n_head; h++)
            p->bias[((size_t)l * n_head + h) * p->n_row + row] =
                weights->bias[(learned + t) * n_head + h];
    }
}

/* Sessions that share the rows only read them, because all are known. */
void positions_need(struct positions *p, const struct compute *compute, size_t count) {
    if (p->known == p->distances)
        return;
    size_t most = smaller(in_blocks(count), p->distances);
    p->needed = most > p->known ? most : p->known;
    if (p->plan.kind == POSITIONS_SINUSOID)
        need_sines(p, compute, p->needed);
}

/* Rows are computed in the order in which they are stored, the farthest first: row t of the n rows
 * from distance `first` on belongs to distance first + n - 1 - t. */
void positions_fill(struct positions *p, const struct compute *compute, int l,
                    const struct position_weights *weights) {
    size_t d_model = p->plan.d_model;
    for (size_t first = p->known, n; first < p->needed; first += n) {
        n = smaller(POSITION_BLOCK, p->needed - first);
        if (p->plan.kind == POSITIONS_LEARNED)
            load_learned_distances(p, compute, l, weights, first, n);
        else /* W_r R: R[n, d_model], W_r[n_head d_head, d_model] */
            compute_product(compute, n, p->sines + (p->distances - first - n) * d_model, d_model,
                            weights->r, NULL, LINEAR, p->projected, projected_width(&p->plan));
        rows_put_heads(&p->rows, compute->kernels, (size_t)l, p->n_row - first - n, n, p->projected,
                       p->plan.d_head);
    }
}

void positions_finish(struct positions *p) {
    if (p->known < p->needed)
        p->known = p->needed;
}

/* ---- The first tokens --------------------------------------------------------------------- */

bool positions_may_be_first(const struct positions *p) {
    return p->first_queries && p->known < p->distances;
}

bool positions_are_first(const struct positions *p, uint64_t before, size_t n) {
    return positions_may_be_first(p) && before + n <= FIRST_TOKENS;
}

struct first_queries {
    struct positions *positions;
    const struct compute *compute;
    const struct position_weights *weights;
    size_t n, ldq;
    const float *q;
};

/* (Q + v) W_r of one head: Q[n, d_head], W_r[d_head, d_model] */
static void first_queries_task(void *context, int i, int thread) {
    const struct first_queries *f = context;
    struct positions *p = f->positions;
    const struct position_weights *weights = f->weights;
    size_t head = (size_t)i, d_head = p->plan.d_head, d_model = p->plan.d_model;
    float *q_v = f->compute->scratch[thread];  /* [n, d_head] */
    float *wide = q_v + FIRST_TOKENS * d_head; /* [d_head, d_model] */
    attend_add_bias(f->n, d_head, f->q + head * d_head, f->ldq,
                    weights->v ? weights->v + head * d_head : NULL, q_v);
    const float *r = wide;
    if (weights->r->type == WEIGHTS_F32)
        r = (const float *)weights->r->data + head * d_head * d_model;
    else
        compute_widen(f->compute, weights->r, head * d_head, d_head, wide);
    f->compute->kernels->multiply[WEIGHTS_F32](
        &(struct multiply_call){.m = f->n,
                                .n = d_model,
                                .k = d_head,
                                .a = q_v,
                                .lda = d_head,
                                .b = r,
                                .ldb = d_model,
                                .c = p->first_queries + head * d_model,
                                .ldc = p->plan.n_head * d_model});
}

void positions_score_first(struct positions *p, const struct compute *compute,
                           const struct position_weights *weights, size_t n, const float *q,
                           size_t ldq) {
    size_t d_model = p->plan.d_model, n_head = p->plan.n_head;
    struct matrix sines = {
        .type = WEIGHTS_F32, .data = p->sines, .n_row = p->distances, .n_col = d_model};
    need_sines(p, compute, p->distances);
    struct first_queries first = {p, compute, weights, n, ldq, q};
    pool_run(compute->pool, (int)n_head, first_queries_task, &first);
    compute_product(compute, n * n_head, p->first_queries, d_model, &sines, NULL, LINEAR,
                    p->first_scores, p->distances);
}
