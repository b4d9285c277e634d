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

/* The range of keys and distances that m queries of one head see together: keys from the first that
 * any of them sees, or the first that is not zero, and the position rows of the nearest distances.
 * The queries are rows `row` and on of the pass: of one timeline, or one of each of several. */
struct key_range {
    const struct attention *a;
    const struct transformer_xl_timeline *line; /* of the first of them */
    bool several;                               /* each is of another timeline */
    size_t head, row, m;
    uint64_t low;              /* of the first key of the first block */
    struct row_span keys;      /* and values */
    struct row_span positions; /* place 0 is the farthest */
    size_t n_key, n_place;     /* both spans' whole blocks */
    size_t n_distance, place;  /* place: where the first block of position rows begins */
    size_t n_common;           /* parts of the ring that all of them read */
};

/* The timeline of query t, and its position. */
static const struct transformer_xl_timeline *line_of(const struct key_range *v, size_t t) {
    return v->several ? xl_timeline(v->a->each[v->row + t]) : v->line;
}

static uint64_t position_of(const struct key_range *v, size_t t) {
    return line_of(v, t)->base.next + (v->a->each ? 0 : v->row + t);
}

/* The first key that query t sees, and the first that it reads. */
static uint64_t first_seen(const struct key_range *v, size_t t) {
    return first_visible(&line_of(v, t)->base, position_of(v, t));
}

static uint64_t first_read(const struct key_range *v, size_t t) {
    uint64_t seen = first_seen(v, t), zeros = zeros_end(v->line);
    return seen > zeros ? seen : zeros;
}

static struct key_range find_range(const struct attention *a, size_t head, size_t row, size_t m) {
    struct key_range v = {.a = a,
                          .line = attention_timeline(a, row),
                          .several = a->each && m > 1,
                          .head = head,
                          .row = row,
                          .m = m};
    const struct kv_ring *ring = &v.line->ring;
    uint64_t seen = first_seen(&v, 0), from = first_read(&v, 0);
    uint64_t end = position_of(&v, v.several ? 0 : m - 1) + 1;
    v.n_common = ring->n_shared + 1;
    for (size_t t = 1; v.several && t < m; t++) {
        uint64_t seen_too = first_seen(&v, t), from_too = first_read(&v, t);
        uint64_t end_too = position_of(&v, t) + 1;
        size_t common = ring_common(ring, &line_of(&v, t)->ring);
        seen = seen_too < seen ? seen_too : seen;
        from = from_too < from ? from_too : from;
        end = end_too > end ? end_too : end;
        v.n_common = smaller(v.n_common, common);
    }
    v.low = seen / ROW_BLOCK * ROW_BLOCK;
    v.keys = (struct row_span){a->l, head, (size_t)(v.low / ROW_BLOCK % ring->keys.n_block),
                               (size_t)(from - v.low), (size_t)(end - v.low)};
    v.n_key = in_blocks(v.keys.end);
    v.n_distance = smaller((size_t)(end - seen), v.line->positions->distances);
    v.n_place = in_blocks(v.n_distance);
    v.place = v.line->positions->places - v.n_place;
    v.positions = (struct row_span){a->l, head, v.place / ROW_BLOCK, v.n_place - v.n_distance,
                                    a->few ? 0 : v.n_place};
    return v;
}

/* ---- Pieces ------------------------------------------------------------------------------- */

/* A piece of a range: keys and values in one store, which all queries read, or that of one timeline
 * alone.  They come in the order of positions for each query. */
struct piece {
    const struct kv_store *store; /* NULL: there is none */
    struct row_span span;
    size_t t, m;  /* queries t .. t + m - 1 */
    size_t owner; /* whose ring it is part of, */
    size_t part;  /* and which */
};

/* The first that is not empty, from that part of that query's ring on. */
static struct piece find_piece(const struct key_range *v, size_t owner, size_t part) {
    size_t n_owner = v->several ? v->m : 1;
    for (; owner < n_owner; owner++, part = v->n_common) {
        const struct kv_ring *ring = &line_of(v, owner)->ring;
        uint64_t begin = part > 0 ? ring_part(ring, part - 1).end : 0;
        for (; part <= ring->n_shared; part++) {
            const struct ring_part p = ring_part(ring, part);
            bool common = part < v->n_common;
            struct piece s = {p.store, v->keys, 0, v->m, owner, part};
            if (!common) {
                s.t = owner;
                s.m = 1;
                s.span.first = (size_t)(first_read(v, owner) - v->low);
                s.span.end = (size_t)(position_of(v, owner) + 1 - v->low);
            }
            if (begin > v->low)
                s.span.first = larger(s.span.first, (size_t)(begin - v->low));
            if (p.end < v->low + s.span.end)
                s.span.end = p.end > v->low ? (size_t)(p.end - v->low) : 0;
            begin = p.end;
            if (s.span.first < s.span.end)
                return s;
        }
    }
    return (struct piece){0};
}

static struct piece first_piece(const struct key_range *v) {
    return find_piece(v, 0, 0);
}

static struct piece next_piece(const struct key_range *v, const struct piece *s) {
    return find_piece(v, s->owner, s->part + 1);
}

/* Where a piece's keys or values begin, to be fetched; `after` if there is none. */
static const void *begin_keys(const struct piece *s, const void *after) {
    return s->store ? rows_begin(&s->store->keys, &s->span) : after;
}

static const void *begin_values(const struct piece *s, const void *after) {
    return s->store ? rows_begin(&s->store->values, &s->span) : after;
}

/* ---- One head ----------------------------------------------------------------------------- */

/* Memory of a task. */
struct work {
    float *s;   /* [m, n_key]: scores, then weights */
    float *b;   /* [m, n_place]: position scores */
    float *q;   /* [m, d_head] */
    float *out; /* [m, the values' width] */
};

static struct work divide_scratch(const struct key_range *v, float *scratch) {
    struct work w = {.s = scratch};
    w.b = w.s + v->m * v->n_key;
    w.q = w.b + v->m * v->n_place;
    w.out = w.q + v->m * (size_t)v->line->x->d_head;
    return w;
}

/* The queries plus a bias, u or v, as the rows they meet want them. */
static void make_queries(const struct key_range *v, const float *bias, const struct rows *rows,
                         float *out) {
    const struct transformer_xl *x = v->line->x;
    size_t d_head = (size_t)x->d_head, width = head_width(x), at = v->head * d_head;
    add_bias(v->m, d_head, v->a->line->qkv + v->row * 3 * width + at, 3 * width,
             bias ? bias + at : NULL, out);
    rows_round_factor(rows, v->line->base.compute.kernels, v->m, d_head, out, d_head);
}

/* S = (Q + u) K^T.  `after` is what will be read next. */
static void score_keys(const struct key_range *v, const struct work *w, const void *after) {
    const struct kernels *kernels = v->line->base.compute.kernels;
    size_t d_head = (size_t)v->line->x->d_head;
    make_queries(v, v->a->layer->u, &v->line->ring.keys, w->q);
    for (size_t t = 0; t < v->m; t++)
        memset(w->s + t * v->n_key, 0, v->keys.first * sizeof *w->s);
    for (struct piece s = first_piece(v), next; s.store; s = next) {
        next = next_piece(v, &s);
        rows_score(&s.store->keys, kernels, &s.span, s.m, w->q + s.t * d_head, d_head,
                   w->s + s.t * v->n_key, v->n_key, begin_keys(&next, after));
    }
}

/* B += the learned distances' biases. */
static void add_distance_biases(const struct key_range *v, float *b) {
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
static void score_positions(const struct key_range *v, const struct work *w, const void *after) {
    const struct rows *rows = &v->line->positions->rows;
    if (v->positions.end == 0)
        return;
    make_queries(v, v->a->layer->v, rows, w->q);
    rows_score(rows, v->line->base.compute.kernels, &v->positions, v->m, w->q,
               (size_t)v->line->x->d_head, w->b, v->n_place, after);
    add_distance_biases(v, w->b);
}

/* S becomes attention weights, up to the rows' factors. */
static void weigh(const struct key_range *v, const struct work *w, float *factor) {
    const struct positions *p = v->line->positions;
    const float *far = w->b + v->n_place - v->n_distance;
    size_t ldb = v->n_place, n_head = (size_t)v->line->x->n_head;
    if (v->a->few) {
        far = p->few_scores + (v->row * n_head + v->head + 1) * p->distances - v->n_distance;
        ldb = n_head * p->distances;
    }
    for (size_t t = 0; t < v->m; t++)
        factor[t] = attend_row(line_of(v, t), position_of(v, t), v->low, v->n_key,
                               w->s + t * v->n_key, far + t * ldb, v->n_distance);
}

/* heads = softmax(S + B) V.  `after` is what will be read next. */
static void gather_values(const struct key_range *v, const struct work *w, const void *after) {
    const struct kernels *kernels = v->line->base.compute.kernels;
    const struct rows *values = &v->line->ring.values;
    size_t d_head = (size_t)v->line->x->d_head, width = head_width(v->line->x);
    float factor[QUERY_BLOCK];
    weigh(v, w, factor);
    rows_round_factor(values, kernels, v->m, v->n_key, w->s, v->n_key);
    memset(w->out, 0, v->m * values->width * sizeof *w->out);
    for (struct piece s = first_piece(v), next; s.store; s = next) {
        next = next_piece(v, &s);
        rows_weigh(&s.store->values, kernels, &s.span, s.m, w->s + s.t * v->n_key, v->n_key,
                   w->out + s.t * values->width, begin_values(&next, after));
    }
    float *heads = v->a->line->heads + v->row * width + v->head * d_head;
    for (size_t t = 0; t < v->m; t++)
        for (size_t j = 0; j < d_head; j++)
            heads[t * width + j] = w->out[t * values->width + j] * factor[t];
}

static const void *begin_positions(const struct key_range *v) {
    return v->positions.end > 0 ? rows_begin(&v->line->positions->rows, &v->positions) : NULL;
}

/* Attention of one head for m queries, rows `row` and on of the pass. */
static void attend(const struct attention *a, size_t head, size_t row, size_t m, int thread) {
    const struct key_range v = find_range(a, head, row, m);
    const struct work w = divide_scratch(&v, a->line->base.compute.scratch[thread]);
    const struct piece first = first_piece(&v);
    const void *values = begin_values(&first, NULL), *positions = begin_positions(&v);
    score_keys(&v, &w, positions ? positions : values);
    score_positions(&v, &w, values);
    gather_values(&v, &w, NULL);
}

/* ---- Groups ------------------------------------------------------------------------------- */

enum { MOST_GROUP = 8 }; /* timelines: no product's last digits depend on so few rows */

/* Whether the timelines of these rows have position rows in common, and what they see lies near
 * enough together for the scratch of an attention task. */
static bool can_share(const struct attention *a, size_t row, size_t m) {
    const struct transformer_xl_timeline *first = attention_timeline(a, row);
    for (size_t t = 1; t < m; t++)
        if (attention_timeline(a, row + t)->positions != first->positions)
            return false;
    const struct key_range v = find_range(a, 0, row, m);
    return m * v.n_key <= smaller(QUERY_BLOCK, first->base.chunk) * first->ring.capacity;
}

/* The most rows of a group that keep all threads about as busy as single rows would. */
static size_t largest_group(const struct attention *a) {
    size_t threads = (size_t)pool_size(a->line->base.compute.pool);
    size_t n_head = (size_t)a->line->x->n_head, size = smaller(a->n, MOST_GROUP);
    size = smaller(size, smaller(QUERY_BLOCK, a->line->base.chunk));
    for (; size > 1; size = (size + 1) / 2) {
        size_t tasks = (a->n + size - 1) / size * n_head;
        size_t longest = (tasks + threads - 1) / threads * size;
        if (8 * longest * threads <= 9 * a->n * n_head)
            break;
    }
    return size;
}

void attention_group(struct attention *a) {
    size_t most = largest_group(a), *group = a->line->group;
    a->group = group;
    for (size_t row = 0; row < a->n;) {
        size_t m = 1;
        while (m < most && row + m < a->n && can_share(a, row, m + 1))
            m++;
        group[a->n_group++] = row;
        row += m;
    }
    group[a->n_group] = a->n;
}

/* ---- Tasks -------------------------------------------------------------------------------- */

/* One head for a block of queries, whose keys are all in the ring. */
static void block_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->line->x->n_head, first = (size_t)i / n_head * QUERY_BLOCK;
    attend(a, (size_t)i % n_head, first, smaller(QUERY_BLOCK, a->n - first), thread);
}

static void store_token(const struct attention *a, size_t row, size_t head) {
    struct transformer_xl_timeline *line = attention_timeline(a, row);
    size_t stride = 3 * head_width(line->x);
    struct stored_rows rows = {line, a->l, 1, line->base.next, a->line->qkv + row * stride, stride};
    timeline_store_head(&rows, head);
}

/* One head for a single token of each timeline of a group, its key and value included. */
static void group_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->line->x->n_head, g = (size_t)i / n_head, head = (size_t)i % n_head;
    for (size_t row = a->group[g]; row < a->group[g + 1]; row++)
        store_token(a, row, head);
    attend(a, head, a->group[g], a->group[g + 1] - a->group[g], thread);
}

/* The only token of a pass goes through its heads in two loops, since they may be too few to keep
 * all threads busy.  Its scores lie in the timeline. */
static struct work token_work(const struct key_range *v, int thread) {
    const struct transformer_xl_timeline *line = v->line;
    size_t row = line->ring.capacity + in_blocks(line->positions->distances);
    struct work w = divide_scratch(v, line->base.compute.scratch[thread]);
    w.s = line->scores + v->head * row;
    w.b = w.s + v->n_key;
    return w;
}

/* The first piece of the next head, for the task that follows. */
static struct piece first_of_next(const struct key_range *v) {
    struct piece s = first_piece(v);
    s.span.head++;
    return s.span.head < (size_t)v->line->x->n_head ? s : (struct piece){0};
}

/* First the key, the value and the scores of the keys of each head, and its position scores. */
static void score_task(void *context, int i, int thread) {
    const struct attention *a = context;
    const struct key_range v = find_range(a, (size_t)i / 2, 0, 1);
    const struct work w = token_work(&v, thread);
    if (i % 2 == 0) {
        store_token(a, 0, v.head);
        score_keys(&v, &w, begin_positions(&v));
    } else {
        const struct piece next = first_of_next(&v);
        score_positions(&v, &w, begin_keys(&next, NULL));
    }
}

static void value_task(void *context, int i, int thread) {
    const struct attention *a = context;
    const struct key_range v = find_range(a, (size_t)i, 0, 1);
    const struct work w = token_work(&v, thread);
    const struct piece next = first_of_next(&v);
    gather_values(&v, &w, begin_values(&next, NULL));
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
        pool_run(pool, (int)a->n_group * line->x->n_head, group_task, a);
        return;
    }
    struct stored_rows rows = {
        line, a->l, a->n, line->base.next, line->qkv, 3 * head_width(line->x)};
    timeline_store(&rows);
    int blocks = (int)((a->n + QUERY_BLOCK - 1) / QUERY_BLOCK);
    pool_run(pool, blocks * line->x->n_head, block_task, a);
}
