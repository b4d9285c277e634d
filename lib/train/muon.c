/* Muon: orthogonalised momentum for the layers' matrices (Jordan et al. 2024, "Muon: An optimizer
 * for hidden layers in neural networks").
 *
 * A matrix W[r, c] has a momentum m, 0 at first.  With the clipped gradient g a step is
 *     m = 0.95 m + g,  U = g + 0.95 m,  X = U / (|U| + 1e-7)
 *     five times, on the shorter side:  A = X X^T,  X = (3.4445 I - 4.775 A + 2.0315 A A) X
 *     W = W - rate sqrt(max(1, r / c)) X
 * The polynomial brings X's singular values near 1 (Newton-Schulz).  Queries, keys and values are
 * matrices of their own.  A layer's matrices are multiplied together, so that threads have enough
 * to do; each sum is divided in a fixed way, so the result does not depend on their number. */
#include "lib/base/memory.h"
#include "training.h"

#include <math.h>

enum { MATRICES = 7, ROUNDS = 5 }; /* odd, so that the last X is not where the first one was */

static const float MOMENTUM = 0.95f, LINEAR_TERM = 3.4445f, CUBIC = -4.775f, QUINTIC = 2.0315f;

struct oriented {
    size_t rows, columns, side; /* side: the smaller one */
    size_t place;               /* its first weight in the training's arrays */
    float *other;               /* [rows, columns] */
    float *a, *d, *e;           /* [side, side] */
    double *partial;            /* squares of U: one for each piece */
    float factor;               /* 1 / (|U| + 1e-7), then that of the update */
};

static size_t n_element(const struct oriented *m) {
    return m->rows * m->columns;
}

/* Lists the matrices of layer l, and takes their scratch. */
static void list_matrices(const struct training *t, int l, struct arena *scratch,
                          struct oriented list[MATRICES]) {
    const struct transformer_xl *net = t->net;
    const size_t d = (size_t)net->d_model, width = head_width(net), inner = (size_t)net->d_inner;
    const struct layer *layer = &net->layer[l];
    const struct {
        const struct matrix *whole;
        size_t before, rows, columns; /* before: elements */
    } matrix[MATRICES] = {{&layer->qkv, 0, width, d},
                          {&layer->qkv, width * d, width, d},
                          {&layer->qkv, 2 * width * d, width, d},
                          {&layer->r, 0, width, d},
                          {&layer->o, 0, d, width},
                          {&layer->feed_forward_1, 0, inner, d},
                          {&layer->feed_forward_2, 0, d, inner}};
    for (int i = 0; i < MATRICES; i++) {
        size_t rows = matrix[i].rows, columns = matrix[i].columns, side = smaller(rows, columns);
        struct oriented *m = &list[i];
        *m = (struct oriented){.rows = rows, .columns = columns, .side = side};
        if (t->model) /* its weights are t->weight */
            m->place =
                (size_t)((const float *)matrix[i].whole->data - t->weight) + matrix[i].before;
        m->other = arena_take(scratch, n_element(m), sizeof *m->other);
        m->a = arena_take(scratch, side * side, sizeof *m->a);
        m->d = arena_take(scratch, side * side, sizeof *m->d);
        m->e = arena_take(scratch, side * side, sizeof *m->e);
        m->partial = arena_take(scratch, pieces(n_element(m), ELEMENT_PIECE), sizeof *m->partial);
    }
}

/* ---- Products ----------------------------------------------------------------------------- */

/* The smaller of X X^T and X^T X. */
static struct product square_of(const struct oriented *m, const float *x) {
    bool turned = m->rows > m->columns;
    return (struct product){.m = m->side,
                            .n = m->side,
                            .k = larger(m->rows, m->columns),
                            .a = {x, m->columns, turned},
                            .b = {x, m->columns, !turned},
                            .c = m->a,
                            .ldc = m->side};
}

static struct product polynomial_of(const struct oriented *m) {
    return (struct product){.m = m->side,
                            .n = m->side,
                            .k = m->side,
                            .a = as_is(m->a, m->side),
                            .b = as_is(m->d, m->side),
                            .c = m->e,
                            .ldc = m->side};
}

/* E X, or X E where X has more rows than columns. */
static struct product next_of(const struct oriented *m, const float *x, float *out) {
    const struct factor e = as_is(m->e, m->side), factor = as_is(x, m->columns);
    bool turned = m->rows > m->columns;
    return (struct product){.m = m->rows,
                            .n = m->columns,
                            .k = m->side,
                            .a = turned ? factor : e,
                            .b = turned ? e : factor,
                            .c = out,
                            .ldc = m->columns};
}

/* D = 2.0315 A - 4.775 I, of a finished tile of A. */
static void finish_square(void *context, size_t row, size_t rows, size_t column, size_t columns) {
    const struct oriented *m = context;
    for (size_t r = row; r < row + rows; r++) {
        const float *a = m->a + r * m->side;
        float *d = m->d + r * m->side;
        for (size_t c = column; c < column + columns; c++)
            d[c] = QUINTIC * a[c];
        if (r >= column && r < column + columns)
            d[r] += CUBIC;
    }
}

/* E = A D + 3.4445 I. */
static void finish_polynomial(void *context, size_t row, size_t rows, size_t column,
                              size_t columns) {
    const struct oriented *m = context;
    for (size_t r = larger(row, column); r < smaller(row + rows, column + columns); r++)
        m->e[r * m->side + r] += LINEAR_TERM;
}

/* One round: from x, the gradients' array or `other`, to the other one. */
static void run_round(struct training *t, struct oriented list[MATRICES], bool from_other) {
    struct product product[MATRICES];
    for (int i = 0; i < MATRICES; i++) {
        product[i] = square_of(&list[i], from_other ? list[i].other : t->gradient + list[i].place);
        product[i].finish = finish_square;
        product[i].context = &list[i];
    }
    products_run(&t->products, product, MATRICES);
    for (int i = 0; i < MATRICES; i++) {
        product[i] = polynomial_of(&list[i]);
        product[i].finish = finish_polynomial;
        product[i].context = &list[i];
    }
    products_run(&t->products, product, MATRICES);
    for (int i = 0; i < MATRICES; i++) {
        float *gradient = t->gradient + list[i].place;
        product[i] = next_of(&list[i], from_other ? list[i].other : gradient,
                             from_other ? gradient : list[i].other);
    }
    products_run(&t->products, product, MATRICES);
}

/* ---- Elements ----------------------------------------------------------------------------- */

struct muon {
    struct training *t;
    struct oriented list[MATRICES];
    float clip;
};

/* The matrix of a task, and the task's part of it. */
static struct oriented *part_of(struct muon *muon, int task, struct task_range *range,
                                size_t *piece) {
    struct oriented *m = muon->list;
    *piece = (size_t)task;
    for (; *piece >= pieces(n_element(m), ELEMENT_PIECE); m++)
        *piece -= pieces(n_element(m), ELEMENT_PIECE);
    *range = task_range_of(n_element(m), ELEMENT_PIECE, (int)*piece);
    return m;
}

/* Moves the momentum, and puts U in the gradient's place. */
static void momentum_task(void *context, int i, int thread) {
    (void)thread;
    struct muon *muon = context;
    struct task_range range;
    size_t piece;
    struct oriented *m = part_of(muon, i, &range, &piece);
    const size_t first = m->place + range.first, n = range.end - range.first;
    float *restrict momentum = muon->t->extra[MOMENT_1] + first;
    float *restrict g = muon->t->gradient + first;
    for (size_t k = 0; k < n; k++) {
        const float clipped = muon->clip * g[k];
        momentum[k] = MOMENTUM * momentum[k] + clipped;
        g[k] = clipped + MOMENTUM * momentum[k];
    }
    m->partial[piece] = muon->t->loops->squares(n, g);
}

static void scale_task(void *context, int i, int thread) {
    (void)thread;
    struct muon *muon = context;
    struct task_range range;
    size_t piece;
    const struct oriented *m = part_of(muon, i, &range, &piece);
    float *g = muon->t->gradient + m->place;
    for (size_t k = range.first; k < range.end; k++)
        g[k] *= m->factor;
}

static void move_task(void *context, int i, int thread) {
    (void)thread;
    struct muon *muon = context;
    struct task_range range;
    size_t piece;
    const struct oriented *m = part_of(muon, i, &range, &piece);
    float *restrict weight = muon->t->weight + m->place;
    for (size_t k = range.first; k < range.end; k++)
        weight[k] -= m->factor * m->other[k];
}

/* ---- A step ------------------------------------------------------------------------------- */

void muon_step(struct training *t, double rate, float clip) {
    const uint64_t size = muon_scratch(t);
    for (int l = 0; l < t->net->n_layer; l++) {
        struct muon muon = {.t = t, .clip = clip};
        struct arena scratch = {.memory = t->muon, .size = size};
        size_t n = 0;
        list_matrices(t, l, &scratch, muon.list);
        for (int i = 0; i < MATRICES; i++)
            n += pieces(n_element(&muon.list[i]), ELEMENT_PIECE);
        pool_run(t->pool, (int)n, momentum_task, &muon);
        for (int i = 0; i < MATRICES; i++) {
            struct oriented *m = &muon.list[i];
            double squares = 0;
            for (size_t k = 0; k < pieces(n_element(m), ELEMENT_PIECE); k++)
                squares += m->partial[k];
            m->factor = (float)(1 / (sqrt(squares) + 1e-7));
        }
        pool_run(t->pool, (int)n, scale_task, &muon);
        for (int round = 0; round < ROUNDS; round++)
            run_round(t, muon.list, round % 2 == 1);
        for (int i = 0; i < MATRICES; i++) {
            struct oriented *m = &muon.list[i];
            m->factor = (float)(rate * sqrt(fmax(1, (double)m->rows / (double)m->columns)));
        }
        pool_run(t->pool, (int)n, move_task, &muon);
    }
}

uint64_t muon_scratch(const struct training *t) {
    struct arena scratch = {0};
    struct oriented list[MATRICES];
    list_matrices(t, 0, &scratch, list);
    return scratch.used;
}

uint64_t muon_room(const struct training *t) {
    const struct packed_product *packed = t->products.packed;
    struct arena unused = {0}, square = {0}, polynomial = {0}, next = {0};
    struct oriented list[MATRICES];
    list_matrices(t, 0, &unused, list);
    for (int i = 0; i < MATRICES; i++) {
        const struct oriented *m = &list[i];
        size_t length = larger(m->rows, m->columns);
        products_take_room(&square, packed, m->side, m->side, length);
        products_take_room(&polynomial, packed, m->side, m->side, m->side);
        products_take_room(&next, packed, m->rows, m->columns, m->side);
    }
    return square.used > next.used ? square.used : larger(next.used, polynomial.used);
}
