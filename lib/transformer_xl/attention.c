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

/* Keys and values before that position are zeros, which need not be read: they score zero and add
 * nothing. */
static uint64_t zeros_end(const struct transformer_xl_timeline *line) {
    return line->zero_rows ? 0 : first_position(&line->base);
}

/* What m queries of one head see: keys from the first that the first of them sees, or the first
 * that is not zero, and the position rows of the nearest distances. */
struct sight {
    const struct transformer_xl_timeline *line;
    size_t head, m;
    uint64_t position;         /* of the first query */
    uint64_t low;              /* of the first key of the first block */
    struct row_span keys;      /* and values */
    struct row_span positions; /* place 0 is the farthest */
    size_t n_key, n_place;     /* both spans' whole blocks */
    size_t n_distance, place;  /* place: where the first block of position rows begins */
};

static struct sight find_sight(const struct attention *a,
                               const struct transformer_xl_timeline *line, size_t head,
                               size_t after, size_t m) {
    struct sight v = {.line = line, .head = head, .m = m};
    v.position = line->base.next + after;
    uint64_t visible = first_visible(&line->base, v.position);
    v.low = visible / ROW_BLOCK * ROW_BLOCK;
    uint64_t zeros = zeros_end(line), from = visible > zeros ? visible : zeros;
    v.keys = (struct row_span){a->l, head, (size_t)(v.low / ROW_BLOCK % line->keys.n_block),
                               (size_t)(from - v.low), (size_t)(v.position + m - v.low)};
    v.n_key = in_blocks(v.keys.end);
    v.n_distance = smaller((size_t)(v.position + m - visible), line->positions->distances);
    v.n_place = in_blocks(v.n_distance);
    v.place = line->positions->places - v.n_place;
    v.positions = (struct row_span){a->l, head, v.place / ROW_BLOCK, v.n_place - v.n_distance,
                                    a->few ? 0 : v.n_place};
    return v;
}

/* ---- One head ----------------------------------------------------------------------------- */

/* Memory of a task. */
struct work {
    float *s;   /* [m, n_key]: scores, then weights */
    float *b;   /* [m, n_place]: position scores */
    float *q;   /* [m, d_head] */
    float *out; /* [m, the values' width] */
};

static struct work divide_scratch(const struct sight *v, float *scratch) {
    struct work w = {.s = scratch};
    w.b = w.s + v->m * v->n_key;
    w.q = w.b + v->m * v->n_place;
    w.out = w.q + v->m * (size_t)v->line->x->d_head;
    return w;
}

/* The queries plus a bias, u or v, as the rows they meet want them. */
static void make_queries(const struct attention *a, const struct sight *v, size_t row,
                         const float *bias, const struct rows *rows, float *out) {
    const struct transformer_xl_timeline *line = v->line;
    size_t d_head = (size_t)line->x->d_head, width = head_width(line->x), at = v->head * d_head;
    add_bias(v->m, d_head, a->line->qkv + row * 3 * width + at, 3 * width, bias ? bias + at : NULL,
             out);
    rows_round_factor(rows, line->base.compute.kernels, v->m, d_head, out, d_head);
}

/* S = (Q + u) K^T.  `after` is what will be read next. */
static void score_keys(const struct attention *a, const struct sight *v, size_t row,
                       const struct work *w, const void *after) {
    const struct rows *keys = &v->line->keys;
    make_queries(a, v, row, a->layer->u, keys, w->q);
    for (size_t t = 0; t < v->m; t++)
        memset(w->s + t * v->n_key, 0, v->keys.first * sizeof *w->s);
    rows_score(keys, v->line->base.compute.kernels, &v->keys, v->m, w->q,
               (size_t)v->line->x->d_head, w->s, v->n_key, after);
}

/* B += the learned distances' biases. */
static void add_distance_biases(const struct sight *v, float *b) {
    const struct positions *p = v->line->positions;
    if (!p->bias)
        return;
    const float *bias = p->bias +
                        ((size_t)v->keys.layer * (size_t)v->line->x->n_head + v->head) * p->places +
                        v->place;
    for (size_t t = 0; t < v->m; t++)
        for (size_t j = v->n_place - v->n_distance; j < v->n_place; j++)
            b[t * v->n_place + j] += bias[j];
}

/* B = (Q + v) (W_r R)^T, unless the position scores are there already. */
static void score_positions(const struct attention *a, const struct sight *v, size_t row,
                            const struct work *w, const void *after) {
    const struct rows *rows = &v->line->positions->rows;
    if (v->positions.end == 0)
        return;
    make_queries(a, v, row, a->layer->v, rows, w->q);
    rows_score(rows, v->line->base.compute.kernels, &v->positions, v->m, w->q,
               (size_t)v->line->x->d_head, w->b, v->n_place, after);
    add_distance_biases(v, w->b);
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

/* heads = softmax(S + B) V.  `after` is what will be read next. */
static void gather_values(const struct attention *a, const struct sight *v, size_t row,
                          const struct work *w, const void *after) {
    const struct rows *values = &v->line->values;
    const struct kernels *kernels = v->line->base.compute.kernels;
    size_t d_head = (size_t)v->line->x->d_head, width = head_width(v->line->x);
    float factor[QUERY_BLOCK];
    weigh(a, v, row, w, factor);
    rows_round_factor(values, kernels, v->m, v->n_key, w->s, v->n_key);
    rows_weigh(values, kernels, &v->keys, v->m, w->s, v->n_key, w->out, after);
    float *heads = a->line->heads + row * width + v->head * d_head;
    for (size_t t = 0; t < v->m; t++)
        for (size_t j = 0; j < d_head; j++)
            heads[t * width + j] = w->out[t * values->width + j] * factor[t];
}

static const void *begin_positions(const struct sight *v) {
    return v->positions.end > 0 ? rows_begin(&v->line->positions->rows, &v->positions) : NULL;
}

/* Attention of one head for m queries of a timeline, which are rows `row` and on of the pass and
 * stand `after` behind the timeline's next position. */
static void attend(const struct attention *a, const struct transformer_xl_timeline *line,
                   size_t head, size_t row, size_t after, size_t m, int thread) {
    const struct sight v = find_sight(a, line, head, after, m);
    const struct work w = divide_scratch(&v, a->line->base.compute.scratch[thread]);
    const void *values = rows_begin(&line->values, &v.keys), *positions = begin_positions(&v);
    score_keys(a, &v, row, &w, positions ? positions : values);
    score_positions(a, &v, row, &w, values);
    gather_values(a, &v, row, &w, NULL);
}

/* ---- Tasks -------------------------------------------------------------------------------- */

/* One head for a block of queries, whose keys are all in the ring. */
static void block_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->line->x->n_head, first = (size_t)i / n_head * QUERY_BLOCK;
    attend(a, a->line, (size_t)i % n_head, first, first, smaller(QUERY_BLOCK, a->n - first),
           thread);
}

/* The timeline of a row that is a pass's only one of it. */
static struct transformer_xl_timeline *row_timeline(const struct attention *a, size_t row) {
    return a->each ? xl_timeline(a->each[row]) : a->line;
}

static void store_token(const struct attention *a, size_t row, size_t head) {
    struct transformer_xl_timeline *line = row_timeline(a, row);
    size_t stride = 3 * head_width(line->x);
    struct stored_rows rows = {line, a->l, 1, line->base.next, a->line->qkv + row * stride, stride};
    timeline_store_head(&rows, head);
}

/* One head for a single token of a timeline, its key and value included. */
static void token_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->line->x->n_head, row = (size_t)i / n_head, head = (size_t)i % n_head;
    store_token(a, row, head);
    attend(a, row_timeline(a, row), head, row, 0, 1, thread);
}

/* The only token of a pass goes through its heads in two loops, since they may be too few to keep
 * all threads busy.  Its scores lie in the timeline. */
static struct work token_work(const struct sight *v, const struct attention *a, int thread) {
    const struct transformer_xl_timeline *line = a->line;
    size_t row = line->capacity + in_blocks(line->positions->distances);
    struct work w = divide_scratch(v, line->base.compute.scratch[thread]);
    w.s = line->scores + v->head * row;
    w.b = w.s + v->n_key;
    return w;
}

/* The next head's keys, or values, for the task that follows. */
static const void *begin_next(const struct sight *v, const struct rows *rows) {
    struct row_span next = v->keys;
    next.head++;
    return next.head < rows->n_head ? rows_begin(rows, &next) : NULL;
}

/* First the key, the value and the scores of the keys of each head, and its position scores. */
static void score_task(void *context, int i, int thread) {
    const struct attention *a = context;
    const struct sight v = find_sight(a, a->line, (size_t)i / 2, 0, 1);
    const struct work w = token_work(&v, a, thread);
    if (i % 2 == 0) {
        store_token(a, 0, v.head);
        score_keys(a, &v, 0, &w, begin_positions(&v));
    } else {
        score_positions(a, &v, 0, &w, begin_next(&v, &a->line->keys));
    }
}

static void value_task(void *context, int i, int thread) {
    const struct attention *a = context;
    const struct sight v = find_sight(a, a->line, (size_t)i, 0, 1);
    const struct work w = token_work(&v, a, thread);
    gather_values(a, &v, 0, &w, begin_next(&v, &a->line->values));
}

void attention_run(struct attention *a) {
    struct transformer_xl_timeline *line = a->line;
    struct pool *pool = line->base.compute.pool;
    if (a->n == 1) {
        pool_run(pool, 2 * line->x->n_head, score_task, a);
        pool_run(pool, line->x->n_head, value_task, a);
        return;
    }
    if (a->each) {
        pool_run(pool, (int)a->n * line->x->n_head, token_task, a);
        return;
    }
    struct stored_rows rows = {
        line, a->l, a->n, line->base.next, line->qkv, 3 * head_width(line->x)};
    timeline_store(&rows);
    int blocks = (int)((a->n + QUERY_BLOCK - 1) / QUERY_BLOCK);
    pool_run(pool, blocks * line->x->n_head, block_task, a);
}
