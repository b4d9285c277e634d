/* Attention: queries meet the keys in the ring and the position rows, and gather values. */
#include "attention.h"

#include <math.h>
#include <string.h>

/* ---- Attention ---------------------------------------------------------------------------- */

/* One row of scores becomes attention weights, up to the factor that is returned.  s[n_key] are
 * keys at positions low .. low + n_key - 1, also some that the query does not see; b[n_distance]
 * the position scores, farthest first. */
static float attend_row(const struct transformer_xl_timeline *line, uint64_t p, uint64_t low,
                        size_t n_key, float *s, const float *b, size_t n_distance) {
    uint64_t from = first_visible(&line->base, p);
    size_t before = (size_t)(from - low), n = (size_t)(p - from) + 1;
    float scale = 1 / sqrtf((float)line->x->d_head), sum;
    if (n_distance == 0) {
        sum = line->base.compute.kernels->attend(s + before, n, n, 0, NULL, scale);
    } else {
        /* Distances n - 1 .. 0; those from n_distance on share the farthest row. */
        size_t n_far = n > n_distance ? n - n_distance : 0;
        const float *position = b + n_distance - (n - n_far);
        sum = line->base.compute.kernels->attend(s + before, n, n_far, b[0], position, scale);
    }
    memset(s, 0, before * sizeof *s);
    memset(s + before + n, 0, (n_key - before - n) * sizeof *s);
    return 1 / sum;
}

/* out[m, d_head] = q[m, d_head] + bias[d_head], which may be NULL. */
static void add_bias(size_t m, size_t d_head, const float *q, size_t ldq, const float *bias,
                     float *out) {
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < d_head; j++)
            out[t * d_head + j] = q[t * ldq + j] + (bias ? bias[j] : 0);
}

/* What m queries of one head see: whole blocks of keys, from the first that the first of them sees,
 * and whole blocks of position rows, of which the nearest n_distance are theirs. */
struct sight {
    const struct transformer_xl_timeline *line;
    size_t layer, head, m;
    uint64_t position;                 /* of the first query */
    uint64_t low;                      /* of the first key, */
    size_t block, blocks, n_key;       /* which lies in that block of the ring */
    size_t n_distance, n_place, place; /* place: the first position row */
};

static struct sight find_sight(const struct attention *a,
                               const struct transformer_xl_timeline *line, size_t head,
                               size_t after, size_t m) {
    struct sight v = {.line = line, .layer = (size_t)a->l, .head = head, .m = m};
    v.position = line->base.next + after;
    uint64_t visible = first_visible(&line->base, v.position);
    v.low = visible / ROW_BLOCK * ROW_BLOCK;
    v.n_key = in_blocks((size_t)(v.position + m - v.low));
    v.block = (size_t)(v.low / ROW_BLOCK % line->keys.n_block);
    v.blocks = v.n_key / ROW_BLOCK;
    v.n_distance = smaller((size_t)(v.position + m - visible), line->positions->distances);
    v.n_place = in_blocks(v.n_distance);
    v.place = line->positions->places - v.n_place;
    return v;
}

/* A task's part of the thread's scratch. */
struct work {
    float *s;         /* [m, n_key]: scores, then weights */
    float *b;         /* [m, n_place]: position scores */
    float *q_u, *q_v; /* [m, d_head] */
    float *out;       /* [m, the values' width] */
};

static struct work divide_scratch(const struct sight *v, float *scratch) {
    size_t d_head = (size_t)v->line->x->d_head;
    struct work w = {.s = scratch};
    w.b = w.s + v->m * v->n_key;
    w.q_u = w.b + v->m * v->n_place;
    w.q_v = w.q_u + v->m * d_head;
    w.out = w.q_v + v->m * d_head;
    return w;
}

/* Q + u and Q + v, as the rows they meet want them. */
static void make_queries(const struct attention *a, const struct sight *v, size_t row,
                         const struct work *w) {
    const struct transformer_xl_timeline *line = v->line;
    const struct kernels *kernels = line->base.compute.kernels;
    const struct layer *layer = a->layer;
    size_t d_head = (size_t)line->x->d_head, width = head_width(line->x), at = v->head * d_head;
    const float *q = a->line->qkv + row * 3 * width + at;
    add_bias(v->m, d_head, q, 3 * width, layer->u ? layer->u + at : NULL, w->q_u);
    add_bias(v->m, d_head, q, 3 * width, layer->v ? layer->v + at : NULL, w->q_v);
    rows_round_factor(&line->keys, kernels, v->m, d_head, w->q_u, d_head);
    rows_round_factor(&line->positions->rows, kernels, v->m, d_head, w->q_v, d_head);
}

/* S = (Q + u) K^T and B = (Q + v) (W_r R)^T, unless the position scores are there already. */
static void score(const struct attention *a, const struct sight *v, const struct work *w,
                  const void *values) {
    const struct rows *positions = &v->line->positions->rows;
    const struct kernels *kernels = v->line->base.compute.kernels;
    size_t first = v->place / ROW_BLOCK, blocks = a->few ? 0 : v->n_place / ROW_BLOCK;
    size_t d_head = (size_t)v->line->x->d_head;
    const void *then = blocks > 0 ? rows_ring_block(positions, a->l, v->head, first) : values;
    rows_score(&v->line->keys, kernels, a->l, v->head, v->block, v->blocks, v->m, w->q_u, d_head,
               w->s, v->n_key, then);
    rows_score(positions, kernels, a->l, v->head, first, blocks, v->m, w->q_v, d_head, w->b,
               v->n_place, values);
}

/* B += the learned distances' biases. */
static void add_distance_biases(const struct sight *v, float *b) {
    const struct positions *p = v->line->positions;
    if (!p->bias)
        return;
    const float *bias =
        p->bias + (v->layer * (size_t)v->line->x->n_head + v->head) * p->places + v->place;
    for (size_t t = 0; t < v->m; t++)
        for (size_t j = 0; j < v->n_place; j++)
            b[t * v->n_place + j] += bias[j];
}

/* S becomes attention weights, up to the rows' factors. */
static void weigh(const struct attention *a, const struct sight *v, size_t row,
                  const struct work *w, float *factor) {
    const struct positions *p = v->line->positions;
    const float *far = w->b + v->n_place - v->n_distance;
    size_t ldb = v->n_place, n_head = (size_t)v->line->x->n_head;
    if (a->few) {
        far = p->few_scores + (row * n_head + v->head + 1) * p->distances - v->n_distance;
        ldb = n_head * p->distances;
    }
    for (size_t t = 0; t < v->m; t++)
        factor[t] = attend_row(v->line, v->position + t, v->low, v->n_key, w->s + t * v->n_key,
                               far + t * ldb, v->n_distance);
}

/* heads = weights V, by the rows' factors. */
static void gather_values(const struct attention *a, const struct sight *v, size_t row,
                          const struct work *w, const float *factor) {
    const struct rows *rows = &v->line->values;
    const struct kernels *kernels = v->line->base.compute.kernels;
    size_t d_head = (size_t)v->line->x->d_head, width = head_width(v->line->x);
    rows_round_factor(rows, kernels, v->m, v->n_key, w->s, v->n_key);
    rows_weigh(rows, kernels, a->l, v->head, v->block, v->blocks, v->m, w->s, w->out);
    float *heads = a->line->heads + row * width + v->head * d_head;
    for (size_t t = 0; t < v->m; t++)
        for (size_t j = 0; j < d_head; j++)
            heads[t * width + j] = w->out[t * rows->width + j] * factor[t];
}

/* Attention of one head for m queries of a timeline, which are rows `row` and on of the pass and
 * stand `after` behind the timeline's next position. */
static void attend(const struct attention *a, const struct transformer_xl_timeline *line,
                   size_t head, size_t row, size_t after, size_t m, int thread) {
    const struct sight v = find_sight(a, line, head, after, m);
    const struct work w = divide_scratch(&v, a->line->base.compute.scratch[thread]);
    const void *values = rows_ring_block(&line->values, a->l, head, v.block);
    float factor[QUERY_BLOCK];
    make_queries(a, &v, row, &w);
    score(a, &v, &w, values);
    add_distance_biases(&v, w.b);
    weigh(a, &v, row, &w, factor);
    gather_values(a, &v, row, &w, factor);
}

/* One head for a block of queries, whose keys are all in the ring. */
static void block_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->line->x->n_head, first = (size_t)i / n_head * QUERY_BLOCK;
    attend(a, a->line, (size_t)i % n_head, first, first, smaller(QUERY_BLOCK, a->n - first),
           thread);
}

/* One head for a single token of a timeline, its key and value included. */
static void token_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->line->x->n_head, row = (size_t)i / n_head, head = (size_t)i % n_head;
    struct transformer_xl_timeline *line = a->each ? xl_timeline(a->each[row]) : a->line;
    size_t stride = 3 * head_width(line->x);
    struct stored_rows rows = {line, a->l, 1, line->base.next, a->line->qkv + row * stride, stride};
    timeline_store_head(&rows, head);
    attend(a, line, head, row, 0, 1, thread);
}

void attention_run(struct attention *a) {
    struct transformer_xl_timeline *line = a->line;
    if (a->each || a->n == 1) {
        pool_run(line->base.compute.pool, (int)a->n * line->x->n_head, token_task, a);
        return;
    }
    struct stored_rows rows = {
        line, a->l, a->n, line->base.next, line->qkv, 3 * head_width(line->x)};
    timeline_store(&rows);
    int blocks = (int)((a->n + QUERY_BLOCK - 1) / QUERY_BLOCK);
    pool_run(line->base.compute.pool, blocks * line->x->n_head, block_task, a);
}
