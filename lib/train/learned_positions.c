/* Learned positions in a training step: tables of rows r_emb[max_klen, n_head d_head], and with
 * distances of biases r_bias[max_klen, n_head], of each layer. */
#include "lib/base/memory.h"
#include "training.h"

#include <string.h>

/* ---- Distances (Shaw et al. 2018, "Self-Attention with Relative Position Representations") - */

/* Distance d has row max_klen - 1 - d.  Those past the table, or past clamp_len, share its oldest
 * row. */

struct distances {
    struct training *t;
    int l;
    size_t n; /* distances of the segment, farthest first */
};

static struct distances distances_of(struct training *t, int l) {
    return (struct distances){t, l, t->memory_length + t->length};
}

/* The table's row for the k-th of the distances. */
static size_t row_of(const struct distances *s, size_t k) {
    const struct training *t = s->t;
    size_t rows = (size_t)t->net->max_klen, distance = s->n - 1 - k, farthest = rows - 1;
    if (t->how.clamp_len > 0)
        farthest = smaller(farthest, (size_t)t->how.clamp_len - 1);
    return rows - 1 - smaller(distance, farthest);
}

static void load_task(void *context, int i, int thread) {
    (void)thread;
    const struct distances *s = context;
    const struct layer *weights = &s->t->net->layer[s->l];
    const struct trained_layer *layer = &s->t->layer[s->l];
    size_t n_head = (size_t)s->t->net->n_head, width = head_width(s->t->net);
    const float *table = weights->r_emb.data;
    const struct task_range range = task_range_of(s->n, ROW_PIECE, i);
    for (size_t k = range.first; k < range.end; k++) {
        size_t row = row_of(s, k);
        memcpy(layer->positions + k * width, table + row * width, width * sizeof *table);
        for (size_t h = 0; h < n_head; h++)
            layer->position_bias[h * keys_of(s->t) + k] = weights->r_bias[row * n_head + h];
    }
}

void train_load_distances(struct training *t, int l) {
    struct distances s = distances_of(t, l);
    pool_run(t->pool, (int)pieces(s.n, ROW_PIECE), load_task, &s);
}

/* Adds up the rows of one piece of columns, the farthest distance first. */
static void rows_task(void *context, int i, int thread) {
    (void)thread;
    const struct distances *s = context;
    struct training *t = s->t;
    size_t width = head_width(t->net);
    const struct task_range columns = task_range_of(width, COLUMN_PIECE, i);
    float *table = gradient_of(t, t->net->layer[s->l].r_emb.data);
    for (size_t k = 0; k < s->n; k++)
        t->loops->add(columns.end - columns.first, t->d_position + k * width + columns.first,
                      table + row_of(s, k) * width + columns.first);
}

static void biases_task(void *context, int head, int thread) {
    (void)thread;
    const struct distances *s = context;
    struct training *t = s->t;
    size_t n_head = (size_t)t->net->n_head, h = (size_t)head;
    float *bias = gradient_of(t, t->net->layer[s->l].r_bias);
    for (size_t b = 0; b < t->batch; b++)
        for (size_t k = 0; k < s->n; k++)
            bias[row_of(s, k) * n_head + h] +=
                t->d_position_bias[(b * n_head + h) * keys_of(t) + k];
}

void train_distances_gradient(struct training *t, int l) {
    struct distances s = distances_of(t, l);
    pool_run(t->pool, (int)pieces(head_width(t->net), COLUMN_PIECE), rows_task, &s);
    pool_run(t->pool, t->net->n_head, biases_task, &s);
}

/* ---- Absolute positions (Al-Rfou et al. 2019, "Character-Level Language Modeling with Deeper
 * Self-Attention") --------------------------------------------------------------------------- */

/* The last row is that of the segment's last token. */

struct positions {
    struct training *t;
    const float *rows; /* those of the segment: [length, d_model] */
    int l;
};

static struct positions positions_of(struct training *t, int l) {
    size_t before = (size_t)t->net->max_klen - t->length;
    const float *table = t->net->layer[l].r_emb.data;
    return (struct positions){t, table + before * (size_t)t->net->d_model, l};
}

static void add_task(void *context, int i, int thread) {
    (void)thread;
    const struct positions *s = context;
    struct training *t = s->t;
    size_t d = (size_t)t->net->d_model;
    const struct task_range rows = task_range_of(t->n, ROW_PIECE, i);
    for (size_t r = rows.first; r < rows.end; r++)
        t->loops->add(d, s->rows + r % t->length * d, t->layer[s->l].input + r * d);
}

void train_add_positions(struct training *t, int l) {
    struct positions s = positions_of(t, l);
    pool_run(t->pool, (int)pieces(t->n, ROW_PIECE), add_task, &s);
}

/* Adds up the streams, in their order. */
static void sum_task(void *context, int i, int thread) {
    (void)thread;
    const struct positions *s = context;
    struct training *t = s->t;
    size_t d = (size_t)t->net->d_model;
    const struct task_range rows = task_range_of(t->length, ROW_PIECE, i);
    for (size_t b = 0; b < t->batch; b++)
        t->loops->add((rows.end - rows.first) * d, t->d_a + (b * t->length + rows.first) * d,
                      gradient_of(t, s->rows) + rows.first * d);
}

void train_positions_gradient(struct training *t, int l) {
    struct positions s = positions_of(t, l);
    pool_run(t->pool, (int)pieces(t->length, ROW_PIECE), sum_task, &s);
}
