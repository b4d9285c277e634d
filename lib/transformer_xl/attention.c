/* The attention of a layer (section 3.3 of Dai et al. 2019).  For a query at position i and the
 * keys at the positions j that it sees
 *
 *     a_ij = (q_i + u) . k_j + (q_i + v) . (W_r R_(i - j))
 *     head_i = sum over j of softmax_j(a_ij / sqrt(d_head)) v_j
 *
 * The plain schedule is run_plain: the keys and values of all rows go into the ring; then each task
 * takes a head and a block of queries through attend_keys, which is
 *
 *     score_keys         S = (Q + u) K^T
 *     score_positions    B = (Q + v) (W_r R)^T
 *     gather_values      heads = softmax(S + B) V
 *
 * The other schedules compute the same with other tasks:
 *
 *     head_task                 one token: each task stores its head's key and value first
 *     score_task, value_task    one token whose heads do not divide evenly among the threads
 *     group_task                one token of each of several sessions: shared keys are read once
 *     attention->first          the first tokens: see positions_score_first
 *
 * What a block of queries reads may lie in several stores, since a copy of a session shares the
 * rows before it: see struct piece. */
#include "lib/network/kv_rows.h"
#include "timeline.h"

#include <string.h>

/* ---- Attention ---------------------------------------------------------------------------- */

/* attend_row for the query at position p.  s[n_key] are the scores of the keys at positions low ..
 * low + n_key - 1; b[n_distance] are the position scores, farthest first. */
static float attend_past(const struct transformer_xl_timeline *timeline, uint64_t p, uint64_t low,
                         size_t n_key, float *s, const float *b, size_t n_distance) {
    uint64_t from = first_visible(&timeline->base, p);
    const struct kernels *kernels = timeline->base.compute.kernels;
    size_t before = (size_t)(from - low), n = (size_t)(p - from) + 1;
    size_t d_head = (size_t)timeline->net->d_head;
    if (n_distance == 0)
        return attend_row(kernels, d_head, s, n_key, before, n, n, 0, NULL);
    /* Distances n - 1 .. 0; those of n_distance and more share the farthest row. */
    size_t n_far = n > n_distance ? n - n_distance : 0;
    const float *position = b + n_distance - (n - n_far);
    return attend_row(kernels, d_head, s, n_key, before, n, n_far, b[0], position);
}

/* The position before which all keys and values are zero.  They need not be read: they score zero
 * and add nothing. */
static uint64_t zeros_end(const struct transformer_xl_timeline *timeline) {
    return timeline->zero_rows ? 0 : first_position(&timeline->base);
}

/* m queries of one head, and what they see together: the keys from the first that any of them sees
 * and that is not zero, and the position rows of the nearest distances.  The queries are rows `row`
 * and on of the pass, of one timeline or one of each of several. */
struct queries {
    const struct attention *a;
    const struct transformer_xl_timeline *timeline; /* of the first query */
    bool several;                                   /* each query is of another timeline */
    size_t head, row, m;
    struct key_range seen;
    size_t n_distance;
    size_t n_common; /* leading parts of the ring that all queries read */
};

/* The timeline and the position of query t. */
static const struct transformer_xl_timeline *timeline_of(const struct queries *q, size_t t) {
    return q->several ? xl_timeline(q->a->each[q->row + t]) : q->timeline;
}

static uint64_t position_of(const struct queries *q, size_t t) {
    return timeline_of(q, t)->base.next + (q->a->each ? 0 : q->row + t);
}

/* The position of the first key that query t sees, and of the first that is read for it. */
static uint64_t first_seen(const struct queries *q, size_t t) {
    return first_visible(&timeline_of(q, t)->base, position_of(q, t));
}

static uint64_t first_read(const struct queries *q, size_t t) {
    uint64_t seen = first_seen(q, t), zeros = zeros_end(q->timeline);
    return seen > zeros ? seen : zeros;
}

static struct queries find_queries(const struct attention *a, size_t head, size_t row, size_t m) {
    struct queries q = {.a = a,
                        .timeline = attention_timeline(a, row),
                        .several = a->each && m > 1,
                        .head = head,
                        .row = row,
                        .m = m};
    const struct kv_ring *ring = &q.timeline->ring;
    uint64_t seen = first_seen(&q, 0), from = first_read(&q, 0);
    uint64_t end = position_of(&q, q.several ? 0 : m - 1) + 1;
    q.n_common = ring->n_shared + 1;
    for (size_t t = 1; q.several && t < m; t++) {
        uint64_t seen_too = first_seen(&q, t), from_too = first_read(&q, t);
        uint64_t end_too = position_of(&q, t) + 1;
        size_t common = ring_common(ring, &timeline_of(&q, t)->ring);
        seen = seen_too < seen ? seen_too : seen;
        from = from_too < from ? from_too : from;
        end = end_too > end ? end_too : end;
        q.n_common = smaller(q.n_common, common);
    }
    q.n_distance = smaller((size_t)(end - seen), q.timeline->positions->distances);
    size_t n_row = q.timeline->positions->n_row;
    q.seen = attend_range(a->l, head, seen, end, n_row - q.n_distance, n_row);
    q.seen.keys.block = ring_block(ring, q.seen.low);
    q.seen.keys.first = (size_t)(from - q.seen.low);
    if (a->first)
        q.seen.positions.end = 0;
    return q;
}

/* ---- Pieces ------------------------------------------------------------------------------- */

/* A piece of a range: keys and values in one store.  All queries read it if their rings share the
 * store; else the query of one timeline does.  Each query's pieces come in the order of
 * positions.  A whole block of queries has a piece for each block of keys, which only those queries
 * read that see some of it. */
struct piece {
    const struct kv_store *store; /* NULL: there is no such piece */
    struct row_span span;
    size_t t, m;  /* queries t .. t + m - 1 */
    size_t owner; /* the query whose ring the piece belongs to */
    size_t part;  /* its part of that ring */
};

static bool in_single_blocks(const struct queries *q) {
    return q->m == QUERY_BLOCK && !q->several;
}

/* Cuts a piece after its first block, and drops the queries that see none of it. */
static void keep_block(const struct queries *q, struct piece *s) {
    size_t begin = s->span.first / ROW_BLOCK * ROW_BLOCK;
    uint64_t first = q->seen.low + begin, position = position_of(q, 0);
    s->span.end = smaller(s->span.end, begin + ROW_BLOCK);
    s->t = first > position ? (size_t)(first - position) : 0;
    size_t end = q->m;
    while (end > s->t && first_seen(q, end - 1) >= first + ROW_BLOCK)
        end--;
    s->m = end - s->t;
}

/* Finds the first piece that is not empty, from part `part` of query `owner`'s ring on, that begins
 * with row `from` of the range or later. */
static struct piece find_piece(const struct queries *q, size_t owner, size_t part, size_t from) {
    size_t n_owner = q->several ? q->m : 1;
    for (; owner < n_owner; owner++, part = q->n_common) {
        const struct kv_ring *ring = &timeline_of(q, owner)->ring;
        uint64_t begin = part > 0 ? ring_part(ring, part - 1).end : 0;
        for (; part <= ring->n_shared; part++) {
            const struct ring_part p = ring_part(ring, part);
            bool common = part < q->n_common;
            struct piece s = {p.store, q->seen.keys, 0, q->m, owner, part};
            if (!common) {
                s.t = owner;
                s.m = 1;
                s.span.first = (size_t)(first_read(q, owner) - q->seen.low);
                s.span.end = (size_t)(position_of(q, owner) + 1 - q->seen.low);
            }
            s.span.first = larger(s.span.first, from);
            if (begin > q->seen.low)
                s.span.first = larger(s.span.first, (size_t)(begin - q->seen.low));
            if (p.end < q->seen.low + s.span.end)
                s.span.end = p.end > q->seen.low ? (size_t)(p.end - q->seen.low) : 0;
            begin = p.end;
            if (s.span.first < s.span.end) {
                if (in_single_blocks(q))
                    keep_block(q, &s);
                return s;
            }
        }
    }
    return (struct piece){0};
}

static struct piece first_piece(const struct queries *q) {
    return find_piece(q, 0, 0, 0);
}

static struct piece next_piece(const struct queries *q, const struct piece *s) {
    return in_single_blocks(q) ? find_piece(q, s->owner, s->part, s->span.end)
                               : find_piece(q, s->owner, s->part + 1, 0);
}

/* The address where a piece's keys or values begin, for prefetching; `after` if there is no
 * piece. */
static const void *begin_keys(const struct piece *s, const void *after) {
    return s->store ? rows_begin(&s->store->keys, &s->span) : after;
}

static const void *begin_values(const struct piece *s, const void *after) {
    return s->store ? rows_begin(&s->store->values, &s->span) : after;
}

/* ---- One head ----------------------------------------------------------------------------- */

/* Scratch of a task. */
struct work {
    float *s;   /* [m, n_key]: scores, then weights */
    float *b;   /* [m, n_position]: position scores */
    float *q;   /* [m, d_head] */
    float *out; /* [m, the values' width] */
};

static struct work divide_scratch(const struct queries *q, float *scratch) {
    struct work w = {.s = scratch};
    w.b = w.s + q->m * q->seen.n_key;
    w.q = w.b + q->m * q->seen.n_position;
    w.out = w.q + q->m * (size_t)q->timeline->net->d_head;
    return w;
}

/* out[m, d_head] = the queries plus a bias (u, v or NULL), in the form that products with `rows`
 * take. */
static void make_queries(const struct queries *q, const float *bias, const struct rows *rows,
                         float *out) {
    const struct transformer_xl *net = q->timeline->net;
    size_t d_head = (size_t)net->d_head, width = head_width(net), at = q->head * d_head;
    attend_queries(rows, q->timeline->base.compute.kernels, q->m, d_head,
                   q->a->timeline->qkv + q->row * 3 * width + at, 3 * width,
                   bias ? bias + at : NULL, out);
}

/* S = (Q + u) K^T.  `after` is the address that will be read next, to be prefetched. */
static void score_keys(const struct queries *q, const struct work *w, const void *after) {
    const struct kernels *kernels = q->timeline->base.compute.kernels;
    size_t d_head = (size_t)q->timeline->net->d_head;
    make_queries(q, q->a->layer->u, &q->timeline->ring.keys, w->q);
    for (size_t t = 0; t < q->m; t++)
        memset(w->s + t * q->seen.n_key, 0, q->seen.keys.first * sizeof *w->s);
    for (struct piece s = first_piece(q), next; s.store; s = next) {
        next = next_piece(q, &s);
        rows_score(&s.store->keys, kernels, &s.span, s.m, w->q + s.t * d_head, d_head,
                   w->s + s.t * q->seen.n_key, q->seen.n_key, begin_keys(&next, after));
    }
}

/* B += the learned biases of the distances, if there are any. */
static void add_distance_biases(const struct queries *q, float *b) {
    const struct positions *p = q->timeline->positions;
    if (!p->bias)
        return;
    const float *bias =
        p->bias +
        ((size_t)q->seen.keys.layer * (size_t)q->timeline->net->n_head + q->head) * p->n_row +
        q->seen.low_row;
    for (size_t t = 0; t < q->m; t++)
        for (size_t j = q->seen.n_position - q->n_distance; j < q->seen.n_position; j++)
            b[t * q->seen.n_position + j] += bias[j];
}

/* B = (Q + v) (W_r R)^T, unless the position scores were computed before.  `after` as above. */
static void score_positions(const struct queries *q, const struct work *w, const void *after) {
    const struct rows *rows = &q->timeline->positions->rows;
    if (q->seen.positions.end == 0)
        return;
    make_queries(q, q->a->layer->v, rows, w->q);
    rows_score(rows, q->timeline->base.compute.kernels, &q->seen.positions, q->m, w->q,
               (size_t)q->timeline->net->d_head, w->b, q->seen.n_position, after);
    add_distance_biases(q, w->b);
}

/* Turns S into attention weights, in the form that products with values take; row t is still to be
 * multiplied by factor[t]. */
static void weigh_scores(const struct queries *q, const struct work *w, float *factor) {
    const struct positions *p = q->timeline->positions;
    const float *far = w->b + q->seen.n_position - q->n_distance;
    size_t ldb = q->seen.n_position, n_head = (size_t)q->timeline->net->n_head;
    if (q->a->first) {
        far = p->first_scores + (q->row * n_head + q->head + 1) * p->distances - q->n_distance;
        ldb = n_head * p->distances;
    }
    for (size_t t = 0; t < q->m; t++) {
        float *row = w->s + t * q->seen.n_key;
        factor[t] = attend_past(timeline_of(q, t), position_of(q, t), q->seen.low, q->seen.n_key,
                                row, far + t * ldb, q->n_distance);
        /* While the row is in the first-level cache. */
        rows_round_factor(&q->timeline->ring.values, q->timeline->base.compute.kernels, 1,
                          q->seen.n_key, row, q->seen.n_key);
    }
}

/* heads = softmax(S + B) V.  `after` as above. */
static void gather_values(const struct queries *q, const struct work *w, const void *after) {
    const struct kernels *kernels = q->timeline->base.compute.kernels;
    const struct rows *values = &q->timeline->ring.values;
    size_t d_head = (size_t)q->timeline->net->d_head, width = head_width(q->timeline->net);
    float factor[QUERY_BLOCK];
    weigh_scores(q, w, factor);
    memset(w->out, 0, q->m * values->width * sizeof *w->out);
    for (struct piece s = first_piece(q), next; s.store; s = next) {
        next = next_piece(q, &s);
        rows_weigh(&s.store->values, kernels, &s.span, s.m, w->s + s.t * q->seen.n_key,
                   q->seen.n_key, w->out + s.t * values->width, begin_values(&next, after));
    }
    attend_heads(q->m, d_head, w->out, values->width, factor,
                 q->a->timeline->heads + q->row * width + q->head * d_head, width);
}

static const void *begin_positions(const struct queries *q) {
    return q->seen.positions.end > 0 ? rows_begin(&q->timeline->positions->rows, &q->seen.positions)
                                     : NULL;
}

/* Computes one head for the queries.  `after` as above. */
static void attend_keys(const struct queries *q, int thread, const void *after) {
    const struct work w = divide_scratch(q, q->timeline->base.compute.scratch[thread]);
    const struct piece first = first_piece(q);
    const void *values = begin_values(&first, NULL), *positions = begin_positions(q);
    score_keys(q, &w, positions ? positions : values);
    score_positions(q, &w, values);
    gather_values(q, &w, after);
}

/* ---- The plain schedule ------------------------------------------------------------------- */

/* Computes one head for a block of queries, whose keys are all in the ring. */
static void block_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->timeline->net->n_head, first = (size_t)i / n_head * QUERY_BLOCK;
    const struct queries q =
        find_queries(a, (size_t)i % n_head, first, smaller(QUERY_BLOCK, a->n - first));
    attend_keys(&q, thread, NULL);
}

static void run_plain(struct attention *a) {
    const struct transformer_xl_timeline *timeline = a->timeline;
    struct stored_rows rows = {a->timeline,         a->l,          a->n,
                               timeline->base.next, timeline->qkv, 3 * head_width(timeline->net)};
    timeline_store(&rows);
    int blocks = (int)((a->n + QUERY_BLOCK - 1) / QUERY_BLOCK);
    pool_run(timeline->base.compute.pool, blocks * timeline->net->n_head, block_task, a);
}

/* ---- Groups ------------------------------------------------------------------------------- */

enum { MOST_GROUP = ALIKE_ROWS }; /* timelines of a group */

/* Whether the timelines of these m rows use the same position rows, and their visible keys are near
 * enough for all scores to fit into the scratch of a task. */
static bool can_share(const struct attention *a, size_t row, size_t m) {
    const struct transformer_xl_timeline *first = attention_timeline(a, row);
    for (size_t t = 1; t < m; t++)
        if (attention_timeline(a, row + t)->positions != first->positions)
            return false;
    const struct queries q = find_queries(a, 0, row, m);
    return m * q.seen.n_key <= smaller(QUERY_BLOCK, first->base.chunk) * first->ring.capacity;
}

/* The most rows of a group such that the busiest thread does at most 9/8 of an even share of the
 * work. */
static size_t largest_group(const struct attention *a) {
    size_t threads = (size_t)pool_size(a->timeline->base.compute.pool);
    size_t n_head = (size_t)a->timeline->net->n_head, size = smaller(a->n, MOST_GROUP);
    size = smaller(size, smaller(QUERY_BLOCK, a->timeline->base.chunk));
    for (; size > 1; size = (size + 1) / 2) {
        size_t tasks = (a->n + size - 1) / size * n_head;
        size_t longest = (tasks + threads - 1) / threads * size;
        if (8 * longest * threads <= 9 * a->n * n_head)
            break;
    }
    return size;
}

void attention_group(struct attention *a) {
    size_t most = largest_group(a), *group = a->timeline->group;
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

/* Bytes that a cache may be expected to keep until they are read. */
enum { MOST_LATER = 1 << 23 };

void attention_read_later(struct attention *a) {
    struct transformer_xl_timeline *timeline = a->timeline;
    const int layer = a->l + 1 < timeline->net->n_layer ? a->l + 1 : 0;
    const bool reads = a->each && timeline->base.compute.kernels->integers;
    size_t n = 0, bytes = 0;
    for (size_t t = 0; reads && t < a->n && bytes < MOST_LATER; t++) {
        const struct queries q = find_queries(a, 0, t, 1);
        const struct kv_store *own = q.timeline->ring.own;
        struct row_span span = q.seen.keys;
        span.layer = layer;
        bytes += 2 * head_width(timeline->net) * q.seen.n_key;
        for (; span.head < (size_t)timeline->net->n_head; span.head++) {
            n += rows_parts(&own->keys, &span, timeline->later + n, timeline->most_later - n);
            n += rows_parts(&own->values, &span, timeline->later + n, timeline->most_later - n);
        }
    }
    compute_read_later(&timeline->base.compute, timeline->later, n);
}

/* ---- The other schedules ------------------------------------------------------------------ */

static void store_token(const struct attention *a, size_t row, size_t head) {
    struct transformer_xl_timeline *timeline = attention_timeline(a, row);
    size_t stride = 3 * head_width(timeline->net);
    struct stored_rows rows = {
        timeline, a->l, 1, timeline->base.next, a->timeline->qkv + row * stride, stride};
    timeline_store_head(&rows, head);
}

/* Stores the key and value of one head for each timeline of a group, and computes the head for its
 * single token. */
static void group_task(void *context, int i, int thread) {
    const struct attention *a = context;
    size_t n_head = (size_t)a->timeline->net->n_head, g = (size_t)i / n_head,
           head = (size_t)i % n_head;
    for (size_t row = a->group[g]; row < a->group[g + 1]; row++)
        store_token(a, row, head);
    const struct queries q = find_queries(a, head, a->group[g], a->group[g + 1] - a->group[g]);
    attend_keys(&q, thread, NULL);
}

/* Scratch of a single token whose heads cannot be divided evenly among the threads.  Two loops of
 * tasks compute them: scores, then values.  The timeline keeps the scores between the two. */
static struct work token_work(const struct queries *q, int thread) {
    const struct transformer_xl_timeline *timeline = q->timeline;
    size_t row = timeline->ring.capacity + in_blocks(timeline->positions->distances);
    struct work w = divide_scratch(q, timeline->base.compute.scratch[thread]);
    w.s = timeline->scores + q->head * row;
    w.b = w.s + q->seen.n_key;
    return w;
}

/* The first piece of the next head, which the next task reads; for prefetching. */
static struct piece first_of_next(const struct queries *q) {
    struct piece s = first_piece(q);
    s.span.head++;
    return s.span.head < (size_t)q->timeline->net->n_head ? s : (struct piece){0};
}

/* Stores the key and value of one head for a single token, and computes the head. */
static void head_task(void *context, int i, int thread) {
    const struct attention *a = context;
    const struct queries q = find_queries(a, (size_t)i, 0, 1);
    const struct piece next = first_of_next(&q);
    store_token(a, 0, q.head);
    attend_keys(&q, thread, begin_keys(&next, NULL));
}

/* The first loop of two.  Task 2 h stores the key and value of head h and computes its scores with
 * the keys; task 2 h + 1 computes its position scores. */
static void score_task(void *context, int i, int thread) {
    const struct attention *a = context;
    const struct queries q = find_queries(a, (size_t)i / 2, 0, 1);
    const struct work w = token_work(&q, thread);
    if (i % 2 == 0) {
        store_token(a, 0, q.head);
        score_keys(&q, &w, begin_positions(&q));
    } else {
        const struct piece next = first_of_next(&q);
        score_positions(&q, &w, begin_keys(&next, NULL));
    }
}

static void value_task(void *context, int i, int thread) {
    const struct attention *a = context;
    const struct queries q = find_queries(a, (size_t)i, 0, 1);
    const struct work w = token_work(&q, thread);
    const struct piece next = first_of_next(&q);
    gather_values(&q, &w, begin_values(&next, NULL));
}

void attention_run(struct attention *a) {
    struct transformer_xl_timeline *timeline = a->timeline;
    struct pool *pool = timeline->base.compute.pool;
    if (a->n == 1 && timeline->net->n_head % pool_size(pool) == 0) {
        pool_run(pool, timeline->net->n_head, head_task, a);
        return;
    }
    if (a->n == 1) {
        pool_run(pool, 2 * timeline->net->n_head, score_task, a);
        pool_run(pool, timeline->net->n_head, value_task, a);
        return;
    }
    if (a->each) {
        pool_run(pool, (int)a->n_group * timeline->net->n_head, group_task, a);
        return;
    }
    run_plain(a);
}
