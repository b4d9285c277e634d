/* Attention: scores rows against the keys in the ring and the position rows, and weighs the
 * values. */
#include "lib/base/memory.h"
#include "lib/network/kv_rows.h"
#include "timeline.h"

#include <math.h>
#include <string.h>

struct xlnet_timeline *xlnet_pass_timeline(const struct xlnet_pass *p, size_t t) {
    return p->each ? xlnet_timeline(p->each[t]) : p->timeline;
}

struct xlnet_rows xlnet_pass_rows(const struct xlnet_pass *p, size_t t) {
    if (p->each)
        return (struct xlnet_rows){t, p->n_timeline, 2};
    return (struct xlnet_rows){0, 1, p->n_content + p->n_query};
}

/* ---- The ring ----------------------------------------------------------------------------- */

/* Copies one head's keys and values of a content row of the part into the ring. */
static void store_row(const struct xlnet_pass *p, const struct xlnet_timeline *timeline,
                      size_t head, size_t t) {
    const struct kernels *kernels = timeline->base.compute.kernels;
    size_t d_head = (size_t)timeline->net->d_head;
    size_t row = p->timeline->row[p->first + t].at % timeline->capacity;
    const float *k = p->kv + t * p->ldkv + head * d_head, *v = k + xlnet_width(timeline->net);
    rows_put(&timeline->keys, kernels, (size_t)p->l, row, head, k, d_head);
    rows_put(&timeline->values, kernels, (size_t)p->l, row, head, v, d_head);
}

static void store_task(void *context, int i, int thread) {
    (void)thread;
    const struct xlnet_pass *p = context;
    for (size_t t = 0; t < p->content; t++)
        store_row(p, p->timeline, (size_t)i, t);
}

void xlnet_store(struct xlnet_pass *p) {
    pool_run(p->timeline->base.compute.pool, p->timeline->net->n_head, store_task, p);
}

/* ---- What is seen ------------------------------------------------------------------------- */

static const struct xlnet_row *row_of(const struct xlnet_pass *p, struct xlnet_rows rows,
                                      size_t t) {
    return &p->timeline->row[p->first + rows.first + t * rows.step];
}

/* The positions low .. end - 1 that some rows see together, at distances `least` to `most`. */
struct visible {
    uint64_t low, end;
    int64_t least, most;
};

static struct visible find_visible(const struct xlnet_pass *p,
                                   const struct xlnet_timeline *timeline, struct xlnet_rows rows) {
    uint64_t first = UINT64_MAX, last = 0;
    struct visible s = {.low = p->segment ? row_of(p, rows, 0)->begin
                                          : xlnet_first_visible(&timeline->base)};
    for (size_t t = 0; t < rows.m; t++) {
        const struct xlnet_row *row = row_of(p, rows, t);
        s.end = row->end > s.end ? row->end : s.end;
        first = row->at < first ? row->at : first;
        last = row->at > last ? row->at : last;
    }
    s.most = distances_clamp(timeline->distances, (int64_t)(last - s.low));
    s.least = distances_clamp(timeline->distances, (int64_t)first - (int64_t)s.end + 1);
    return s;
}

void xlnet_distances_seen(const struct xlnet_pass *p, const struct xlnet_timeline *timeline,
                          struct xlnet_rows rows, int64_t *least, int64_t *most) {
    struct visible seen = find_visible(p, timeline, rows);
    *least = seen.least;
    *most = seen.most;
}

static struct key_range find_range(const struct xlnet_pass *p,
                                   const struct xlnet_timeline *timeline, size_t head,
                                   struct xlnet_rows rows) {
    struct visible s = find_visible(p, timeline, rows);
    int64_t zero = (int64_t)timeline->distances->zero;
    return attend_range(p->l, head, s.low, s.end, (size_t)(zero - s.most),
                        (size_t)(zero - s.least) + 1);
}

/* ---- One head of some rows ---------------------------------------------------------------- */

/* s[position - low] = value for the open gaps before `end`. */
static void set_gaps(const struct xlnet_timeline *timeline, uint64_t low, uint64_t end, float value,
                     float *s) {
    for (size_t i = 0; i < timeline->n_gap && timeline->gap[i] < end; i++)
        s[timeline->gap[i] - low] = value;
}

/* attend_row for a row that sees both sides.  s[n_key] are the scores of whole blocks of keys, some
 * of which the row may not see; b[n_position] are the position scores, the farthest to the left
 * first; `spread` has room for n_key. */
static float attend_both_sides(const struct xlnet_timeline *timeline, const struct xlnet_row *row,
                               const struct key_range *range, float *s, const float *b,
                               float *spread) {
    const struct distances *distances = timeline->distances;
    size_t before = range->keys.first;
    uint64_t low = range->low + before;
    size_t n = (size_t)(row->end - low);
    float *seen = s + before;
    /* The keys are at distances `most` down to `least`.  Beyond the clamp, n_left keys on the left
     * share a position row, and n_right on the right. */
    int64_t most = (int64_t)(row->at - low);
    int64_t least = (int64_t)row->at - (int64_t)row->end + 1;
    const float *zero = b + ((int64_t)distances->zero - (int64_t)range->low_row);
    const float *position = zero - distances_clamp(distances, most);
    size_t n_left = most > distances->left ? smaller((size_t)(most - distances->left), n) : 0;
    if (least < -distances->right) {
        size_t n_right = smaller((size_t)(-distances->right - least), n - n_left);
        size_t middle = n - n_left - n_right;
        memcpy(spread, position, middle * sizeof *spread);
        for (size_t j = middle; j < middle + n_right; j++)
            spread[j] = zero[distances->right];
        position = spread;
    }
    set_gaps(timeline, low, row->end, -INFINITY, seen);
    float factor =
        attend_row(timeline->base.compute.kernels, (size_t)timeline->net->d_head, s, range->n_key,
                   before, n, n_left, n_left > 0 ? zero[-distances->left] : 0, position);
    set_gaps(timeline, low, row->end, 0, seen);
    return factor;
}

/* Adds the term of segments to a row's scores s of the keys from row->begin on: (q + s) .
 * segment[0] for those of its own segment, (q + s) . segment[1] for others.  What all keys have
 * drops out of the softmax, so the difference is added to the others. */
static void add_segments(const struct xlnet_pass *p, const struct xlnet_row *row, const float *q,
                         size_t at, float *s) {
    const struct xlnet *net = p->timeline->net;
    const float *bias = p->layer->s + at, *same = p->layer->segment + at,
                *other = same + xlnet_width(net);
    float difference = 0;
    for (size_t k = 0; k < (size_t)net->d_head; k++)
        difference += (q[k] + bias[k]) * (other[k] - same[k]);
    for (uint64_t j = row->begin; j < row->end; j++)
        s[j - row->begin] += p->segment[j] == p->segment[row->at] ? 0 : difference;
}

static void attend_head(const struct xlnet_pass *p, const struct xlnet_timeline *timeline,
                        size_t head, struct xlnet_rows rows, int thread) {
    const struct kernels *kernels = timeline->base.compute.kernels;
    size_t d_head = (size_t)timeline->net->d_head, width = xlnet_width(timeline->net), m = rows.m;
    size_t at = head * d_head; /* in a row of queries or results */
    struct key_range range = find_range(p, timeline, head, rows);
    float *s = p->timeline->base.compute.scratch[thread]; /* [m, n_key] */
    float *b = s + m * range.n_key;                       /* [m, n_position] */
    float *q_u = b + m * range.n_position;                /* [m, d_head] */
    float *q_v = q_u + m * d_head;                        /* [m, d_head] */
    float *out = q_v + m * d_head;                        /* [m, value_row] */
    float *spread = out + m * timeline->values.width;     /* [n_key] */
    const float *q = p->q + rows.first * p->ldq + at;
    attend_queries(&timeline->keys, kernels, m, d_head, q, rows.step * p->ldq, p->layer->u + at,
                   q_u);
    attend_queries(&timeline->distances->rows, kernels, m, d_head, q, rows.step * p->ldq,
                   p->layer->v + at, q_v);

    /* (Q + u) K^T, and (Q + v) (W_r R)^T for all distances at once */
    const struct rows *far = &timeline->distances->rows;
    rows_score(&timeline->keys, kernels, &range.keys, m, q_u, d_head, s, range.n_key,
               rows_begin(far, &range.positions));
    rows_score(far, kernels, &range.positions, m, q_v, d_head, b, range.n_position,
               rows_begin(&timeline->values, &range.keys));

    float factor[XLNET_BLOCK];
    for (size_t t = 0; t < m; t++) {
        const struct xlnet_row *row = row_of(p, rows, t);
        float *scores = s + t * range.n_key;
        if (p->segment)
            add_segments(p, row, q + t * p->ldq, at, scores + range.keys.first);
        factor[t] =
            attend_both_sides(timeline, row, &range, scores, b + t * range.n_position, spread);
    }
    rows_round_factor(&timeline->values, kernels, m, range.n_key, s, range.n_key);
    memset(out, 0, m * timeline->values.width * sizeof *out);
    rows_weigh(&timeline->values, kernels, &range.keys, m, s, range.n_key, out, NULL);
    attend_heads(m, d_head, out, timeline->values.width, factor,
                 p->timeline->heads + rows.first * width + at, rows.step * width);
}

/* ---- Tasks -------------------------------------------------------------------------------- */

/* The block of rows from row `first` of the part on: of one kind, of one input, at neighbouring
 * positions. */
static struct xlnet_rows block_from(const struct xlnet_pass *p, size_t first) {
    const struct xlnet_row *row = &p->timeline->row[p->first + first];
    const size_t end = first < p->content ? p->content : p->n;
    size_t m = smaller(XLNET_BLOCK, end - first);
    if (p->segment)
        for (size_t t = 1; t < m; t++)
            m = row[t].begin == row->begin ? m : t;
    return (struct xlnet_rows){first, 1, m};
}

static size_t count_blocks(const struct xlnet_pass *p) {
    size_t n = 0;
    for (size_t first = 0; first < p->n; n++)
        first += block_from(p, first).m;
    return n;
}

/* Computes one head for a block of rows. */
static void block_task(void *context, int i, int thread) {
    const struct xlnet_pass *p = context;
    size_t n_head = (size_t)p->timeline->net->n_head;
    struct xlnet_rows rows = block_from(p, 0);
    for (size_t block = (size_t)i / n_head; block > 0; block--)
        rows = block_from(p, rows.first + rows.m);
    attend_head(p, p->timeline, (size_t)i % n_head, rows, thread);
}

void xlnet_attend(struct xlnet_pass *p) {
    pool_run(p->timeline->base.compute.pool, (int)count_blocks(p) * p->timeline->net->n_head,
             block_task, p);
}

/* Computes one head for all rows of a timeline, and stores the keys and values of its content
 * rows. */
static void head_task(void *context, int i, int thread) {
    const struct xlnet_pass *p = context;
    size_t n_head = (size_t)p->timeline->net->n_head, t = (size_t)i / n_head,
           head = (size_t)i % n_head;
    const struct xlnet_timeline *timeline = xlnet_pass_timeline(p, t);
    for (size_t row = p->each ? t : 0; row < (p->each ? t + 1 : p->content); row++)
        store_row(p, timeline, head, row);
    attend_head(p, timeline, head, xlnet_pass_rows(p, t), thread);
}

void xlnet_store_and_attend(struct xlnet_pass *p) {
    pool_run(p->timeline->base.compute.pool, (int)p->n_timeline * p->timeline->net->n_head,
             head_task, p);
}
