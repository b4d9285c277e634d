/* A layer of a training step, forward and backward.  Post-norm, as in most published models:
 *
 *     sum_1 = x + drop(W_o attention(x)),                      y = norm(sum_1)
 *     sum_2 = y + drop(W_2 drop(relu(W_1 y + b_1)) + b_2),   out = norm(sum_2)
 *
 * pre_lnorm:
 *
 *     sum_1 = x + drop(W_o attention(norm(x))),                y = norm(sum_1)
 *     out = sum_1 + drop(W_2 drop(relu(W_1 y + b_1)) + b_2)
 *
 * With absolute positions, pre_lnorm leaves the input of the queries as it is.  Learned ones are
 * added to x, here too.
 *
 * The gradient of a value has its name with d_ before it.  Sums over rows are taken within pieces
 * of rows first, and then over the pieces in their order. */
#include "training.h"

#include <string.h>

/* ---- Sums over rows ----------------------------------------------------------------------- */

struct row_sums {
    struct training *t;
    size_t rows, n, ldx;
    const float *x;
    float *sum;
};

static void sum_task(void *context, int i, int thread) {
    (void)thread;
    const struct row_sums *s = context;
    const struct task_range c = task_range_of(s->n, COLUMN_PIECE, i);
    s->t->loops->sum_rows(s->rows, c.end - c.first, s->x + c.first, s->ldx, s->sum + c.first);
}

void train_sum_rows(struct training *t, size_t rows, size_t n, const float *x, size_t ldx,
                    float *sum) {
    struct row_sums s = {t, rows, n, ldx, x, sum};
    pool_run(t->pool, (int)pieces(n, COLUMN_PIECE), sum_task, &s);
}

/* ---- Norms -------------------------------------------------------------------------------- */

/* A layer norm of x[n, d_model].  weights NULL: there is none. */
struct norm {
    const struct layer_norm *weights;
    size_t n;
    const float *x;
    struct normed to;
};

/* The norm of the attention sublayer's sum; with pre_lnorm, that of the feed-forward sublayer's
 * input. */
static struct norm norm_1(const struct training *t, int l) {
    const struct layer *weights = &t->net->layer[l];
    const struct layer_norm *norm =
        t->net->pre_lnorm ? &weights->feed_forward_norm : &weights->attention_norm;
    return (struct norm){norm, t->n, t->layer[l].sum_1, t->layer[l].norm_1};
}

/* The norm of the feed-forward sublayer's sum; with pre_lnorm there is none. */
static struct norm norm_2(const struct training *t, int l) {
    const struct layer_norm *norm = t->net->pre_lnorm ? NULL : &t->net->layer[l].feed_forward_norm;
    return (struct norm){norm, t->n, t->layer[l].sum_2, t->layer[l].norm_2};
}

/* With pre_lnorm, the norms of the attention sublayer's input and of the memory. */
static struct norm input_norm(const struct training *t, int l) {
    const struct trained_layer *layer = &t->layer[l];
    return (struct norm){&t->net->layer[l].attention_norm, t->n, layer->input, layer->input_norm};
}

static struct norm memory_norm(const struct training *t, int l) {
    const struct trained_layer *layer = &t->layer[l];
    return (struct norm){&t->net->layer[l].attention_norm, t->batch * t->memory_length,
                         layer->memory, layer->memory_norm};
}

static void norm_row(const struct training *t, const struct norm *norm, size_t r) {
    size_t d = (size_t)t->net->d_model;
    t->loops->norm(d, norm->x + r * d, norm->weights->weight, norm->weights->bias,
                   (float)t->net->network.layer_norm_eps, norm->to.out + r * d, &norm->to.mean[r],
                   &norm->to.inverse[r]);
}

struct norm_rows {
    struct training *t;
    struct norm norm;
};

static void norm_task(void *context, int i, int thread) {
    (void)thread;
    const struct norm_rows *s = context;
    const struct task_range rows = task_range_of(s->norm.n, ROW_PIECE, i);
    for (size_t r = rows.first; r < rows.end; r++)
        norm_row(s->t, &s->norm, r);
}

static void norm_rows(struct training *t, struct norm norm) {
    struct norm_rows s = {t, norm};
    pool_run(t->pool, (int)pieces(norm.n, ROW_PIECE), norm_task, &s);
}

/* ---- Residual sums ------------------------------------------------------------------------ */

/* The bias of the output of a sublayer; the attention has none. */
static const float *bias_of(const struct training *t, int l, enum dropout_layer_place sublayer) {
    return sublayer == DROP_FEED_FORWARD ? t->net->layer[l].feed_forward_bias_2 : NULL;
}

/* sum = base + drop(t->output + bias), and its norm. */
struct residual {
    struct training *t;
    uint32_t place;
    const float *bias, *base;
    float *sum;
    struct norm norm;
};

static void residual_task(void *context, int i, int thread) {
    (void)thread;
    const struct residual *s = context;
    struct training *t = s->t;
    size_t d = (size_t)t->net->d_model;
    const struct task_range rows = task_range_of(t->n, ROW_PIECE, i);
    for (size_t r = rows.first; r < rows.end; r++) {
        float *output = t->output + r * d, *sum = s->sum + r * d;
        if (s->bias)
            t->loops->add(d, s->bias, output);
        if (t->dropout.threshold > 0)
            t->loops->drop(&t->dropout, s->place, dropout_row(t, r), 0, d, output);
        memcpy(sum, s->base + r * d, d * sizeof *sum);
        t->loops->add(d, output, sum);
        if (s->norm.weights)
            norm_row(t, &s->norm, r);
    }
}

static void add_residual(struct training *t, int l, enum dropout_layer_place sublayer,
                         const float *base, float *sum, struct norm norm) {
    struct residual s = {t, layer_place(l, sublayer), bias_of(t, l, sublayer), base, sum, norm};
    pool_run(t->pool, (int)pieces(t->n, ROW_PIECE), residual_task, &s);
}

/* The gradient: d_sum (+)= through the norm from d_out, t->d_c = drop(d_sum), and those of the
 * parameters. */
struct residual_gradient {
    struct training *t;
    struct norm norm;
    const float *d_out;
    bool add;
    float *d_sum; /* NULL: only the gradients of the norm's parameters are needed */
    bool branch;  /* whether t->d_c is computed */
    uint32_t place;
    const float *bias; /* NULL: none */
};

static void residual_gradient_task(void *context, int i, int thread) {
    (void)thread;
    const struct residual_gradient *s = context;
    struct training *t = s->t;
    const struct norm *norm = &s->norm;
    size_t d = (size_t)t->net->d_model;
    const struct task_range rows = task_range_of(norm->n, ROW_PIECE, i);
    float *d_weight = t->partial + (size_t)i * 3 * d, *d_bias = d_weight + d;
    memset(d_weight, 0, 3 * d * sizeof *d_weight);
    for (size_t r = rows.first; r < rows.end; r++) {
        float *d_sum = s->d_sum ? s->d_sum + r * d : NULL;
        if (norm->weights)
            t->loops->norm_gradient(d, norm->x + r * d, norm->to.mean[r], norm->to.inverse[r],
                                    norm->weights->weight, s->d_out + r * d, s->add, d_sum,
                                    d_weight, d_bias);
        if (s->branch && t->dropout.threshold > 0) {
            memcpy(t->d_c + r * d, d_sum, d * sizeof *d_sum);
            t->loops->drop(&t->dropout, s->place, dropout_row(t, r), 0, d, t->d_c + r * d);
        }
    }
    if (s->bias) {
        const float *branch = t->dropout.threshold > 0 ? t->d_c : s->d_sum;
        t->loops->sum_rows(rows.end - rows.first, d, branch + rows.first * d, d, d_weight + 2 * d);
    }
}

static void run_gradient(struct residual_gradient *s) {
    struct training *t = s->t;
    const struct layer_norm *weights = s->norm.weights;
    size_t d = (size_t)t->net->d_model, n = pieces(s->norm.n, ROW_PIECE);
    pool_run(t->pool, (int)n, residual_gradient_task, s);
    if (weights) {
        t->loops->sum_rows(n, d, t->partial, 3 * d, gradient_of(t, weights->weight));
        t->loops->sum_rows(n, d, t->partial + d, 3 * d, gradient_of(t, weights->bias));
    }
    if (s->bias)
        t->loops->sum_rows(n, d, t->partial + 2 * d, 3 * d, gradient_of(t, s->bias));
}

/* Returns the gradient of the sublayer's output: t->d_c, or d_sum itself without dropout. */
static const float *residual_gradient(struct training *t, int l, enum dropout_layer_place sublayer,
                                      struct norm norm, const float *d_out, bool add,
                                      float *d_sum) {
    struct residual_gradient s = {
        t, norm, d_out, add, d_sum, true, layer_place(l, sublayer), bias_of(t, l, sublayer)};
    run_gradient(&s);
    return t->dropout.threshold > 0 ? t->d_c : d_sum;
}

/* Adds the gradient of the norm's input to d_x, unless it is NULL. */
static void norm_gradient(struct training *t, struct norm norm, const float *d_out, float *d_x) {
    struct residual_gradient s = {.t = t, .norm = norm, .d_out = d_out, .add = true, .d_sum = d_x};
    run_gradient(&s);
}

/* ---- Forward ------------------------------------------------------------------------------ */

struct inner {
    struct training *t;
    int l;
};

/* Computes drop(relu(W_1 y + b_1)) for a tile. */
static void finish_inner(void *context, size_t row, size_t rows, size_t column, size_t columns) {
    const struct inner *s = context;
    struct training *t = s->t;
    size_t d_inner = (size_t)t->net->d_inner;
    for (size_t r = row; r < row + rows; r++) {
        float *x = t->layer[s->l].inner + r * d_inner + column;
        t->loops->bias_relu(columns, t->net->layer[s->l].feed_forward_bias_1 + column, x);
        if (t->dropout.threshold > 0)
            t->loops->drop(&t->dropout, layer_place(s->l, DROP_RELU), dropout_row(t, r), column,
                           columns, x);
    }
}

static bool is_relative(const struct training *t) {
    return t->net->attn_type == ATTENTION_RELATIVE;
}

/* Whether queries are projected from the layer's input where keys and values are from its norm. */
static bool has_raw_queries(const struct training *t) {
    return t->net->pre_lnorm && !attention_is_relative(t->net->attn_type);
}

static const float *sines_of(const struct training *t) {
    size_t beyond = keys_of(t) - t->memory_length - t->length;
    const float *sines = t->dropout.threshold > 0 ? t->dropped_sines : t->sines;
    return sines + beyond * (size_t)t->net->d_model;
}

/* The part of W_qkv that gives keys and values. */
static struct matrix kv_of(const struct layer *weights, size_t width) {
    return matrix_rows(&weights->qkv, width, 2 * width);
}

/* The rows that are projected to layer l's keys and values of the memory. */
static const float *memory_rows(struct training *t, int l) {
    struct trained_layer *layer = &t->layer[l];
    if (!t->net->pre_lnorm)
        return layer->memory;
    norm_rows(t, memory_norm(t, l));
    return layer->memory_norm.out;
}

static struct product project_memory(const struct training *t, int l, const float *rows) {
    const struct matrix kv = kv_of(&t->net->layer[l], head_width(t->net));
    return linear(t->batch * t->memory_length, rows, &kv, t->layer[l].memory_kv);
}

void train_project_memory(struct training *t, int l) {
    const struct product product = project_memory(t, l, memory_rows(t, l));
    products_run(&t->products, &product, 1);
}

static void project(struct training *t, int l) {
    const struct layer *weights = &t->net->layer[l];
    struct trained_layer *layer = &t->layer[l];
    if (t->net->pre_lnorm)
        norm_rows(t, input_norm(t, l));
    const float *x = t->net->pre_lnorm ? layer->input_norm.out : layer->input;
    struct product product[3] = {
        linear(t->n, x, &weights->qkv, layer->qkv),
        project_memory(t, l, memory_rows(t, l)),
    };
    if (is_relative(t))
        product[2] =
            linear(t->memory_length + t->length, sines_of(t), &weights->r, layer->positions);
    else if (t->net->attn_type == ATTENTION_LEARNED_DISTANCE)
        train_load_distances(t, l);
    products_run(&t->products, product, is_relative(t) ? 3 : 2);
    if (has_raw_queries(t)) {
        const struct matrix q = matrix_rows(&weights->qkv, 0, head_width(t->net));
        struct product queries = linear(t->n, layer->input, &q, layer->qkv);
        queries.ldc = weights->qkv.n_row;
        products_run(&t->products, &queries, 1);
    }
}

void train_layer(struct training *t, int l) {
    const struct layer *weights = &t->net->layer[l];
    struct trained_layer *layer = &t->layer[l];
    if (t->net->attn_type == ATTENTION_LEARNED_POSITION)
        train_add_positions(t, l);
    project(t, l);
    train_attention(t, l);
    const struct product o = linear(t->n, layer->attended, &weights->o, t->output);
    products_run(&t->products, &o, 1);
    add_residual(t, l, DROP_ATTENTION, layer->input, layer->sum_1, norm_1(t, l));
    struct inner inner = {t, l};
    struct product first = linear(t->n, layer->norm_1.out, &weights->feed_forward_1, layer->inner);
    first.finish = finish_inner;
    first.context = &inner;
    products_run(&t->products, &first, 1);
    const struct product second = linear(t->n, layer->inner, &weights->feed_forward_2, t->output);
    products_run(&t->products, &second, 1);
    add_residual(t, l, DROP_FEED_FORWARD, t->net->pre_lnorm ? layer->sum_1 : layer->norm_1.out,
                 layer->sum_2, norm_2(t, l));
}

/* ---- Backward ----------------------------------------------------------------------------- */

static void finish_inner_gradient(void *context, size_t row, size_t rows, size_t column,
                                  size_t columns) {
    const struct inner *s = context;
    struct training *t = s->t;
    size_t d_inner = (size_t)t->net->d_inner;
    float scale = t->dropout.threshold > 0 ? t->dropout.scale : 1;
    for (size_t r = row; r < row + rows; r++)
        t->loops->relu_gradient(columns, t->layer[s->l].inner + r * d_inner + column, scale,
                                t->d_inner + r * d_inner + column);
}

/* The gradient of the feed-forward sublayer: d_branch[n, d_model] is that of W_2's output; that of
 * the sublayer's input is written to `to`, or added to it. */
static void feed_forward_gradient(struct training *t, int l, const float *d_branch, bool add,
                                  float *to) {
    const struct layer *weights = &t->net->layer[l];
    struct trained_layer *layer = &t->layer[l];
    size_t d = (size_t)t->net->d_model, d_inner = (size_t)t->net->d_inner;
    struct inner inner = {t, l};
    struct product second[] = {
        input_gradient(t->n, d_branch, &weights->feed_forward_2, t->d_inner),
        weight_gradient(t, t->n, d_branch, d, layer->inner, &weights->feed_forward_2),
    };
    second[0].finish = finish_inner_gradient;
    second[0].context = &inner;
    products_run(&t->products, second, 2);
    train_sum_rows(t, t->n, d_inner, t->d_inner, d_inner,
                   gradient_of(t, weights->feed_forward_bias_1));
    struct product first[] = {
        input_gradient(t->n, t->d_inner, &weights->feed_forward_1, to),
        weight_gradient(t, t->n, t->d_inner, d_inner, layer->norm_1.out, &weights->feed_forward_1),
    };
    first[0].add = add;
    products_run(&t->products, first, 2);
}

/* The same for the attention sublayer; with pre_lnorm t->d_memory receives the gradient of the
 * normalised memory, and t->d_a that of queries which are projected without a norm. */
static void attention_gradient(struct training *t, int l, const float *d_branch, bool add,
                               float *to) {
    const struct layer *weights = &t->net->layer[l];
    struct trained_layer *layer = &t->layer[l];
    size_t d = (size_t)t->net->d_model, width = head_width(t->net);
    size_t m = t->batch * t->memory_length, rows = t->memory_length + t->length;
    const float *x = t->net->pre_lnorm ? layer->input_norm.out : layer->input;
    const float *memory = t->net->pre_lnorm ? layer->memory_norm.out : layer->memory;
    const struct matrix q = matrix_rows(&weights->qkv, 0, width), kv = kv_of(weights, width);
    const struct product out[] = {
        input_gradient(t->n, d_branch, &weights->o, t->d_attended),
        weight_gradient(t, t->n, d_branch, d, layer->attended, &weights->o),
    };
    products_run(&t->products, out, 2);
    train_attention_gradient(t, l);
    struct product in[5] = {
        input_gradient(t->n, t->d_qkv, &weights->qkv, to),
        input_gradient(t->net->pre_lnorm ? m : 0, t->d_memory_kv, &kv, t->d_memory),
        weight_gradient(t, t->n, t->d_qkv, 3 * width, x, &q),
        weight_gradient(t, t->n, t->d_qkv + width, 3 * width, x, &kv),
    };
    if (is_relative(t))
        in[4] = weight_gradient(t, rows, t->d_position, width, sines_of(t), &weights->r);
    else if (t->net->attn_type == ATTENTION_LEARNED_DISTANCE)
        train_distances_gradient(t, l);
    struct product queries = input_gradient(t->n, t->d_qkv, &q, t->d_a);
    if (has_raw_queries(t)) {
        in[0] = input_gradient(t->n, t->d_qkv + width, &kv, to);
        in[0].a.ld = queries.a.ld = 3 * width;
        in[2] = weight_gradient(t, t->n, t->d_qkv, 3 * width, layer->input, &q);
        queries.add = true;
        products_run(&t->products, &queries, 1);
    }
    in[0].add = add;
    in[3].more = m;
    in[3].more_a = across(t->d_memory_kv, 2 * width);
    in[3].more_b = as_is(memory, d);
    products_run(&t->products, in, is_relative(t) ? 5 : 4);
}

static void post_norm_gradient(struct training *t, int l) {
    const float *d_branch =
        residual_gradient(t, l, DROP_FEED_FORWARD, norm_2(t, l), t->d_a, false, t->d_b);
    feed_forward_gradient(t, l, d_branch, true, t->d_b);
    d_branch = residual_gradient(t, l, DROP_ATTENTION, norm_1(t, l), t->d_b, false, t->d_a);
    attention_gradient(t, l, d_branch, true, t->d_a);
}

static void pre_norm_gradient(struct training *t, int l) {
    const float *d_branch =
        residual_gradient(t, l, DROP_FEED_FORWARD, norm_2(t, l), NULL, false, t->d_a);
    feed_forward_gradient(t, l, d_branch, false, t->d_b);
    d_branch = residual_gradient(t, l, DROP_ATTENTION, norm_1(t, l), t->d_b, true, t->d_a);
    attention_gradient(t, l, d_branch, false, t->d_b);
    norm_gradient(t, input_norm(t, l), t->d_b, t->d_a);
    norm_gradient(t, memory_norm(t, l), t->d_memory, NULL);
}

void train_layer_gradient(struct training *t, int l) {
    if (t->net->pre_lnorm)
        pre_norm_gradient(t, l);
    else
        post_norm_gradient(t, l);
    if (t->net->attn_type == ATTENTION_LEARNED_POSITION)
        train_positions_gradient(t, l);
}
