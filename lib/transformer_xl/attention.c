/* Attention: queries meet the keys in the ring and the position rows, and gather values. */
#include "attention.h"

#include <math.h>
#include <string.h>

/* ---- Attention ---------------------------------------------------------------------------- */

static const void *ring_block(const struct rows *rows, int layer, size_t head, size_t block) {
    return rows_block(rows, (size_t)layer, block % rows->n_block, head);
}

/* S = Q K^T for `blocks` blocks of keys or position rows, from `block` on, round the ring:
 * Q[m, d_head] of rows_round_factor, S[m, 64 blocks] with row stride lds.  `after` is what will be
 * read next. */
static void score_blocks(const struct transformer_xl_timeline *line, const struct rows *rows,
                         int layer, size_t head, size_t block, size_t blocks, size_t m,
                         const float *q, float *s, size_t lds, const void *after) {
    const void *keys = blocks > 0 ? ring_block(rows, layer, head, block) : NULL;
    for (size_t k = 0; k < blocks; k++) {
        bool last = k + 1 == blocks;
        const void *next = last ? after : ring_block(rows, layer, head, block + k + 1);
        rows_multiply(rows, line->base.compute.kernels, m, q, (size_t)line->x->d_head, 0, keys,
                      false, s + k * ROW_BLOCK, lds, next);
        keys = next;
    }
}

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

/* Attention of one head for m queries of a timeline, which are rows `row` and on of the pass and
 * stand `after` behind the timeline's next position. */
static void attend(const struct attention *a, const struct transformer_xl_timeline *line,
                   size_t head, size_t row, size_t after, size_t m, int thread) {
    const struct transformer_xl *x = line->x;
    const struct layer *layer = a->layer;
    const struct positions *positions = line->positions;
    size_t n_head = (size_t)x->n_head, d_head = (size_t)x->d_head, width = head_width(x);
    size_t value_row = line->values.width;
    const struct kernels *kernels = line->base.compute.kernels;

    /* Whole blocks of keys, from the first one that the first query sees. */
    uint64_t position = line->base.next + after, visible = first_visible(&line->base, position);
    uint64_t low = visible / ROW_BLOCK * ROW_BLOCK;
    size_t n_key = in_blocks((size_t)(position + m - low));
    size_t block = (size_t)(low / ROW_BLOCK % line->keys.n_block), blocks = n_key / ROW_BLOCK;
    size_t n_distance = smaller((size_t)(position + m - visible), positions->distances);
    size_t n_place = in_blocks(n_distance), place = positions->places - n_place;

    float *s = a->line->base.compute.scratch[thread];      /* [m, n_key] */
    float *b = s + m * n_key;                              /* [m, n_place] */
    float *q_u = b + m * n_place, *q_v = q_u + m * d_head; /* [m, d_head] */
    float *out = q_v + m * d_head;                         /* [m, value_row] */
    const float *q = a->line->qkv + row * 3 * width + head * d_head;
    add_bias(m, d_head, q, 3 * width, layer->u ? layer->u + head * d_head : NULL, q_u);
    add_bias(m, d_head, q, 3 * width, layer->v ? layer->v + head * d_head : NULL, q_v);
    rows_round_factor(&line->keys, kernels, m, d_head, q_u, d_head);
    rows_round_factor(&positions->rows, kernels, m, d_head, q_v, d_head);

    /* (Q + u) K^T */
    const void *values = ring_block(&line->values, a->l, head, block), *then = values;
    if (!a->few && n_place > 0)
        then = ring_block(&positions->rows, a->l, head, place / ROW_BLOCK);
    score_blocks(line, &line->keys, a->l, head, block, blocks, m, q_u, s, n_key, then);
    /* (Q + v) (W_r R)^T */
    const float *far = b + n_place - n_distance;
    size_t ldb = n_place;
    if (a->few) {
        ldb = n_head * positions->distances;
        far = positions->few_scores + (row * n_head + head + 1) * positions->distances - n_distance;
    } else {
        score_blocks(line, &positions->rows, a->l, head, place / ROW_BLOCK, n_place / ROW_BLOCK, m,
                     q_v, b, n_place, values);
    }
    if (positions->bias) {
        const float *bias =
            positions->bias + ((size_t)a->l * n_head + head) * positions->places + place;
        for (size_t t = 0; t < m; t++)
            for (size_t j = 0; j < n_place; j++)
                b[t * n_place + j] += bias[j];
    }

    float factor[QUERY_BLOCK];
    for (size_t t = 0; t < m; t++)
        factor[t] =
            attend_row(line, position + t, low, n_key, s + t * n_key, far + t * ldb, n_distance);
    rows_round_factor(&line->values, kernels, m, n_key, s, n_key);
    for (size_t k = 0; k < blocks; k++) { /* softmax(score) V */
        bool last = k + 1 == blocks;
        const void *next = last ? NULL : ring_block(&line->values, a->l, head, block + k + 1);
        rows_multiply(&line->values, kernels, m, s, n_key, k * ROW_BLOCK, values, k > 0, out,
                      value_row, next);
        values = next;
    }
    for (size_t t = 0; t < m; t++) {
        for (size_t j = 0; j < d_head; j++)
            a->line->heads[(row + t) * width + head * d_head + j] =
                out[t * value_row + j] * factor[t];
    }
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
