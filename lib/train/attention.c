/* Attention of a training step, one task for each stream and head.  Keys j are those of the memory,
 * then those of the segment; queries i are those of the segment (Dai et al. 2019, appendix B):
 *
 *     s[i, j] = ((q_i + u) . k_j + (q_i + v) . r_d) / sqrt(d_head),   d = memory_length + i - j
 *     a = softmax over the visible j,   out_i = sum_j a[i, j] v_j
 *
 * Learned distances (Shaw et al. 2018) have no v, and add a bias b_d to the sum of both products;
 * absolute positions have only q_i . k_j.
 * Position rows are stored farthest first, so those of a query are consecutive: the row for key j
 * is row j + length - 1 - i.  So the paper's shift is an offset. */
#include "lib/base/memory.h"
#include "training.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* One stream and head.  Keys, values and queries with their biases are copied into scratch, so that
 * their rows are consecutive; memory comes first.  d is d_head, l the number of keys. */
struct head {
    size_t d, l, width;    /* width: n_head d_head */
    const float *query;    /* [length, d] with row stride 3 width */
    float *key, *value;    /* [l, d] */
    float *qu, *qv;        /* [length, d]: q + u, q + v */
    const float *position; /* NULL: absolute positions */
    const float *bias;     /* [l], of the position rows; NULL: none */
    float *probability;    /* [length, l] */
    float *score;          /* [QUERY_PIECE, l] */
    char *left, *right;    /* room for the packed operands of a product */
    float *rest;           /* the part of the thread's scratch that is not used above */
};

struct attention {
    struct training *t;
    int l;
};

/* Bytes of the largest packed left and right operands: products are [queries, keys] or [keys,
 * d_head]. */
static size_t left_room(const struct training *t) {
    const struct packed_product *p = t->products.packed;
    size_t along = pack_size(p, QUERY_PIECE, keys_of(t));
    size_t across = pack_size(p, keys_of(t), QUERY_PIECE);
    size_t queries = pack_size(p, QUERY_PIECE, (size_t)t->net->d_head);
    return larger(larger(along, across), queries);
}

static size_t right_room(const struct training *t) {
    const struct packed_product *p = t->products.packed;
    size_t d = (size_t)t->net->d_head;
    size_t along = pack_size(p, keys_of(t), d), across = pack_size(p, d, keys_of(t));
    size_t queries = pack_size(p, d, QUERY_PIECE);
    return larger(larger(along, across), queries);
}

size_t train_attention_scratch(const struct training *t) {
    size_t d = (size_t)t->net->d_head, l = keys_of(t), length = most_length(t);
    size_t packs = t->products.packed ? (left_room(t) + right_room(t)) / sizeof(float) : 0;
    size_t forward = 2 * l * d + 2 * length * d + QUERY_PIECE * l;
    size_t backward = 3 * l * d + 2 * length * d + 2 * QUERY_PIECE * l + l;
    return packs + forward + backward;
}

/* Queries of one product.  In f32, a short segment is divided into smaller pieces, so that fewer
 * masked scores are computed.  In bf16, packing the operands again would cost more than that
 * saves. */
static size_t query_piece(const struct training *t) {
    return t->length <= QUERY_PIECE && !t->how.bf16 ? QUERY_PIECE / 2 : QUERY_PIECE;
}

/* Rows to prefetch: they are too far apart for the processor to do so. */
enum { ROWS_AHEAD = 8 };

static void fetch_row(const float *x, size_t d, int to_write) {
    for (size_t i = 0; i < d; i += 16)
        if (to_write)
            __builtin_prefetch(x + i, 1);
        else
            __builtin_prefetch(x + i, 0);
}

/* to[n, d] = from[n, d], which has row stride ld. */
static void copy_rows(size_t n, size_t d, const float *from, size_t ld, float *to) {
    for (size_t i = 0; i < n; i++) {
        if (n - i > ROWS_AHEAD)
            fetch_row(from + (i + ROWS_AHEAD) * ld, d, 0);
        memcpy(to + i * d, from + i * ld, d * sizeof *to);
    }
}

static void write_rows(size_t n, size_t d, const float *from, float *to, size_t ld) {
    for (size_t i = 0; i < n; i++) {
        if (n - i > ROWS_AHEAD)
            fetch_row(to + (i + ROWS_AHEAD) * ld, d, 1);
        memcpy(to + i * ld, from + i * d, d * sizeof *to);
    }
}

static struct head open_head(const struct attention *a, size_t b, size_t h, int thread) {
    struct training *t = a->t;
    const struct trained_layer *layer = &t->layer[a->l];
    const struct layer *weights = &t->net->layer[a->l];
    size_t d = (size_t)t->net->d_head, width = head_width(t->net), m = t->memory_length;
    struct head head = {.d = d, .l = m + t->length, .width = width};
    head.query = layer->qkv + b * t->length * 3 * width + h * d;
    head.key = t->scratch[thread];
    if (t->products.packed) {
        head.left = (char *)t->scratch[thread];
        head.right = head.left + left_room(t);
        head.key += (left_room(t) + right_room(t)) / sizeof(float);
    }
    head.value = head.key + keys_of(t) * d;
    head.qu = head.value + keys_of(t) * d;
    head.qv = head.qu + most_length(t) * d;
    head.score = head.qv + most_length(t) * d;
    head.rest = head.score + QUERY_PIECE * keys_of(t);
    head.position = layer->positions ? layer->positions + h * d : NULL;
    head.bias = layer->position_bias ? layer->position_bias + h * keys_of(t) : NULL;
    head.probability =
        layer->probability + (b * (size_t)t->net->n_head + h) * most_length(t) * keys_of(t);
    const float *memory = layer->memory_kv + b * m * 2 * width + h * d;
    copy_rows(m, d, memory, 2 * width, head.key);
    copy_rows(m, d, memory + width, 2 * width, head.value);
    copy_rows(t->length, d, head.query + width, 3 * width, head.key + m * d);
    copy_rows(t->length, d, head.query + 2 * width, 3 * width, head.value + m * d);
    copy_rows(t->length, d, head.query, 3 * width, head.qu);
    memcpy(head.qv, head.qu, t->length * d * sizeof *head.qv);
    for (size_t i = 0; i < t->length; i++) {
        if (weights->u)
            t->loops->add(d, weights->u + h * d, head.qu + i * d);
        if (weights->v)
            t->loops->add(d, weights->v + h * d, head.qv + i * d);
    }
    return head;
}

/* The keys that query i sees: [*first, *end). */
static void visible_keys(const struct training *t, size_t i, size_t *first, size_t *end) {
    size_t mem_len = (size_t)t->how.mem_len;
    size_t reach = mem_len + (size_t)t->net->network.same_length_more;
    *end = t->memory_length + i + 1;
    *first = t->how.same_length && mem_len > 0 && *end > reach ? *end - reach : 0;
}

/* C[m, n] = A[m, k] B[k, n]. */
static struct product product_of(size_t m, size_t n, size_t k, struct factor a, struct factor b,
                                 float *c, size_t ldc) {
    return (struct product){.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .ldc = ldc};
}

/* `add`: the product is added to C. */
static void multiply_in_head(const struct training *t, const struct head *head, bool add,
                             struct product product) {
    const struct packed_product *packed = t->products.packed;
    assert(!packed || (pack_size(packed, product.m, product.k) <= left_room(t) &&
                       pack_size(packed, product.n, product.k) <= right_room(t)));
    product.add = add;
    multiply_here(packed, head->left, head->right, &product);
}

/* Applies dropout to x[n, keys], row stride ld: the probabilities of n queries from i on. */
static void drop_probabilities(const struct attention *a, size_t b, size_t h, size_t i, size_t n,
                               size_t keys, float *x, size_t ld) {
    const struct training *t = a->t;
    size_t stream = t->first_stream + b;
    size_t row = (stream * (size_t)t->net->n_head + h) * most_length(t) + i;
    for (size_t r = 0; r < n; r++)
        t->loops->drop(&t->dropatt, layer_place(a->l, DROP_PROBABILITY), (uint32_t)(row + r), 0,
                       keys, x + r * ld);
}

/* ---- Forward ------------------------------------------------------------------------------ */

static void forward_task(void *context, int task, int thread) {
    const struct attention *a = context;
    struct training *t = a->t;
    size_t b = (size_t)task / (size_t)t->net->n_head, h = (size_t)task % (size_t)t->net->n_head;
    struct head head = open_head(a, b, h, thread);
    size_t d = head.d, l = head.l, piece = query_piece(t);
    const float scale = (float)(1 / sqrt((double)d));
    float *out = t->layer[a->l].attended + b * t->length * head.width + h * d;
    for (size_t i = 0, n; i < t->length; i += n) {
        n = t->length - i < piece ? t->length - i : piece;
        size_t keys = t->memory_length + i + n; /* keys that any of these queries sees */
        size_t far = t->length - i - n; /* position rows that are too far for these queries */
        float *p = head.probability + i * l;
        multiply_in_head(
            t, &head, false,
            product_of(n, keys, d, as_is(head.qu + i * d, d), across(head.key, d), p, l));
        if (head.position)
            multiply_in_head(t, &head, false,
                             product_of(n, keys, d, as_is(head.qv + i * d, d),
                                        across(head.position + far * head.width, head.width),
                                        head.score, l));
        else
            memset(head.score, 0, n * l * sizeof *head.score);
        for (size_t r = 0; r < n; r++) {
            size_t first, end;
            visible_keys(t, i + r, &first, &end);
            if (head.bias)
                t->loops->add(keys, head.bias + far, head.score + r * l);
            memset(p + r * l, 0, first * sizeof *p);
            memset(p + r * l + end, 0, (keys - end) * sizeof *p);
            t->loops->softmax(end - first, head.score + r * l + first + n - 1 - r, scale,
                              p + r * l + first);
        }
        if (t->dropatt.threshold > 0) {
            for (size_t r = 0; r < n; r++)
                memcpy(head.score + r * l, p + r * l, keys * sizeof *p);
            p = head.score;
            drop_probabilities(a, b, h, i, n, keys, p, l);
        }
        multiply_in_head(t, &head, false,
                         product_of(n, d, keys, as_is(p, l), as_is(head.value, d),
                                    out + i * head.width, head.width));
    }
}

void train_attention(struct training *t, int l) {
    struct attention a = {t, l};
    pool_run(t->pool, (int)t->batch * t->net->n_head, forward_task, &a);
}

/* ---- Backward ----------------------------------------------------------------------------- */

/* Gradients of one stream and head, summed over all pieces of queries.  `score` and `shifted` are
 * of one piece. */
struct head_gradient {
    float *key, *value, *position; /* [l, d] */
    float *qu, *qv;                /* [length, d] */
    float *score, *shifted;        /* [QUERY_PIECE, l] */
    float *bias;                   /* [l] */
};

static struct head_gradient open_gradient(const struct training *t, const struct head *head) {
    size_t rows = keys_of(t) * head->d, queries = most_length(t) * head->d;
    struct head_gradient g = {.key = head->rest};
    g.value = g.key + rows;
    g.position = g.value + rows;
    g.qu = g.position + rows;
    g.qv = g.qu + queries;
    g.score = g.qv + queries;
    g.shifted = g.score + QUERY_PIECE * keys_of(t);
    g.bias = g.shifted + QUERY_PIECE * keys_of(t);
    memset(g.key, 0, 3 * rows * sizeof *g.key);
    memset(g.bias, 0, keys_of(t) * sizeof *g.bias);
    return g;
}

/* Adds what g->shifted, of queries [i, i + n), gives their position scores. */
static void position_gradient(const struct training *t, const struct head *head,
                              const struct head_gradient *g, size_t i, size_t n) {
    size_t d = head->d, l = head->l, keys = t->memory_length + i + n, far = t->length - i - n;
    const float *position = head->position + far * head->width;
    if (head->bias)
        t->loops->sum_rows(n, keys, g->shifted, l, g->bias + far);
    multiply_in_head(t, head, false,
                     product_of(n, d, keys, as_is(g->shifted, l), as_is(position, head->width),
                                g->qv + i * d, d));
    multiply_in_head(t, head, true,
                     product_of(keys, d, n, across(g->shifted, l), as_is(head->qv + i * d, d),
                                g->position + far * d, d));
}

/* Adds the gradients of queries [i, i + n), given d_out[n, d], the gradient of their outputs, with
 * row stride width. */
static void backward_piece(const struct attention *a, size_t b, size_t h, const struct head *head,
                           const struct head_gradient *g, size_t i, size_t n, const float *d_out) {
    struct training *t = a->t;
    size_t d = head->d, l = head->l, width = head->width;
    size_t keys = t->memory_length + i + n;
    const float scale = (float)(1 / sqrt((double)d));
    const float *p = head->probability + i * l;
    multiply_in_head(
        t, head, false,
        product_of(n, keys, d, as_is(d_out, width), across(head->value, d), g->score, l));
    const float *used = p; /* the probabilities after dropout */
    if (t->dropatt.threshold > 0) {
        for (size_t r = 0; r < n; r++)
            memcpy(head->score + r * l, p + r * l, keys * sizeof *p);
        drop_probabilities(a, b, h, i, n, keys, head->score, l);
        drop_probabilities(a, b, h, i, n, keys, g->score, l);
        used = head->score;
    }
    multiply_in_head(t, head, true,
                     product_of(keys, d, n, across(used, l), as_is(d_out, width), g->value, d));
    for (size_t r = 0; r < n; r++) {
        size_t first, end, shift = n - 1 - r;
        float *ds = g->score + r * l, *shifted = g->shifted + r * l;
        visible_keys(t, i + r, &first, &end);
        memset(ds, 0, first * sizeof *ds);
        memset(ds + end, 0, (keys - end) * sizeof *ds);
        t->loops->softmax_gradient(end - first, p + r * l + first, scale, ds + first);
        memset(shifted, 0, shift * sizeof *shifted);
        memcpy(shifted + shift, ds, end * sizeof *shifted);
    }
    multiply_in_head(
        t, head, false,
        product_of(n, d, keys, as_is(g->score, l), as_is(head->key, d), g->qu + i * d, d));
    multiply_in_head(
        t, head, true,
        product_of(keys, d, n, across(g->score, l), as_is(head->qu + i * d, d), g->key, d));
    if (head->position)
        position_gradient(t, head, g, i, n);
}

static void backward_task(void *context, int task, int thread) {
    const struct attention *a = context;
    struct training *t = a->t;
    size_t b = (size_t)task / (size_t)t->net->n_head, h = (size_t)task % (size_t)t->net->n_head;
    struct head head = open_head(a, b, h, thread);
    struct head_gradient g = open_gradient(t, &head);
    size_t d = head.d, width = head.width, m = t->memory_length, piece = query_piece(t);
    const float *d_out = t->d_attended + b * t->length * width + h * d;
    for (size_t i = 0, n; i < t->length; i += n) {
        n = t->length - i < piece ? t->length - i : piece;
        backward_piece(a, b, h, &head, &g, i, n, d_out + i * width);
    }
    float *d_u = t->d_uv + b * 2 * width + h * d, *d_v = d_u + width;
    memset(d_u, 0, d * sizeof *d_u);
    memset(d_v, 0, d * sizeof *d_v);
    t->loops->sum_rows(t->length, d, g.qu, d, d_u);
    if (head.position) {
        t->loops->sum_rows(t->length, d, g.qv, d, d_v);
        t->loops->add(t->length * d, g.qv, g.qu);
    }
    float *d_query = t->d_qkv + b * t->length * 3 * width + h * d;
    float *d_memory = t->d_memory_kv + b * m * 2 * width + h * d;
    write_rows(t->length, d, g.qu, d_query, 3 * width);
    write_rows(t->length, d, g.key + m * d, d_query + width, 3 * width);
    write_rows(t->length, d, g.value + m * d, d_query + 2 * width, 3 * width);
    write_rows(m, d, g.key, d_memory, 2 * width);
    write_rows(m, d, g.value, d_memory + width, 2 * width);
    if (head.position)
        write_rows(head.l, d, g.position, t->d_positions + b * head.l * width + h * d, width);
    if (head.bias)
        memcpy(t->d_position_bias + (size_t)task * keys_of(t), g.bias, head.l * sizeof *g.bias);
}

/* Sums the streams' gradients of the position rows, in the order of the streams. */
static void position_task(void *context, int piece, int thread) {
    (void)thread;
    struct training *t = context;
    size_t width = head_width(t->net), rows = t->memory_length + t->length;
    const struct task_range range = task_range_of(rows, ROW_PIECE, piece);
    size_t row = range.first, n = (range.end - range.first) * width;
    float *sum = t->d_position + row * width;
    memcpy(sum, t->d_positions + row * width, n * sizeof *sum);
    for (size_t b = 1; b < t->batch; b++)
        t->loops->add(n, t->d_positions + (b * rows + row) * width, sum);
}

void train_attention_gradient(struct training *t, int l) {
    struct attention a = {t, l};
    const struct layer *weights = &t->net->layer[l];
    size_t width = head_width(t->net);
    pool_run(t->pool, (int)t->batch * t->net->n_head, backward_task, &a);
    if (!weights->u) /* absolute positions */
        return;
    pool_run(t->pool, (int)pieces(t->memory_length + t->length, ROW_PIECE), position_task, t);
    t->loops->sum_rows(t->batch, width, t->d_uv, 2 * width, gradient_of(t, weights->u));
    if (weights->v)
        t->loops->sum_rows(t->batch, width, t->d_uv + width, 2 * width, gradient_of(t, weights->v));
}
