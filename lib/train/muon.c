/* Muon: orthogonalised momentum for the layers' matrices (Jordan et al. 2024, "Muon: An optimizer
 * for hidden layers in neural networks").
 *
 * A matrix W[r, c] has a momentum m, 0 at first.  With the clipped gradient g a step is
 *     m = 0.95 m + g,  U = g + 0.95 m,  X = U / (|U| + 1e-7)
 *     five times, on the shorter side:  A = X X^T,  X = (3.4445 I - 4.775 A + 2.0315 A A) X
 *     W = W - rate sqrt(max(1, r / c)) X
 * The polynomial E of A brings X's singular values near 1 (Newton-Schulz).  Queries, keys and
 * values are matrices of their own.  A layer's matrices are multiplied together, so that threads
 * have enough to do; each sum is divided in a fixed way, so the result does not depend on their
 * number. */
#include "lib/base/memory.h"
#include "training.h"

#include <math.h>

enum { MOST_MATRICES = 7, ROUNDS = 5 };

static const float MOMENTUM = 0.95f, LINEAR_TERM = 3.4445f, CUBIC = -4.775f, QUINTIC = 2.0315f;

struct oriented {
    size_t rows, columns, side; /* side: the smaller one */
    size_t place;               /* its first weight in the training's arrays */
    float *x, *other;           /* [rows, columns]; x is the gradient at first */
    float *a, *e;               /* [side, side] */
    bool deferred;              /* see run_round */
    float *q, *next_q, *ea;     /* [side, side], if it is deferred */
    double *partial;            /* squares of U: one for each piece */
    float factor;               /* 1 / (|U| + 1e-7), then that of the update */
};

static size_t n_element(const struct oriented *m) {
    return m->rows * m->columns;
}

/* Lists the matrices of layer l, and takes their scratch.  Returns how many there are. */
static int list_matrices(const struct training *t, int l, struct arena *scratch,
                         struct oriented list[MOST_MATRICES]) {
    const struct transformer_xl *net = t->net;
    const size_t d = (size_t)net->d_model, width = head_width(net), inner = (size_t)net->d_inner;
    const struct layer *layer = &net->layer[l];
    const struct {
        const struct matrix *whole;
        size_t before, rows, columns; /* before: elements */
    } matrix[MOST_MATRICES] = {{&layer->qkv, 0, width, d},
                               {&layer->qkv, width * d, width, d},
                               {&layer->qkv, 2 * width * d, width, d},
                               {&layer->r, 0, width, d},
                               {&layer->o, 0, d, width},
                               {&layer->feed_forward_1, 0, inner, d},
                               {&layer->feed_forward_2, 0, d, inner}};
    int n = 0;
    for (int i = 0; i < MOST_MATRICES; i++) {
        size_t rows = matrix[i].rows, columns = matrix[i].columns, side = smaller(rows, columns);
        if (matrix[i].whole->n_row == 0) /* r, without sinusoid distances */
            continue;
        struct oriented *m = &list[n++];
        *m = (struct oriented){.rows = rows, .columns = columns, .side = side};
        if (t->model) { /* its weights are t->weight */
            m->place =
                (size_t)((const float *)matrix[i].whole->data - t->weight) + matrix[i].before;
            m->x = t->gradient + m->place;
        }
        m->other = arena_take(scratch, n_element(m), sizeof *m->other);
        m->a = arena_take(scratch, side * side, sizeof *m->a);
        m->e = arena_take(scratch, side * side, sizeof *m->e);
        m->deferred = !t->how.bf16 && rows != columns;
        if (m->deferred) {
            m->q = arena_take(scratch, side * side, sizeof *m->q);
            m->next_q = arena_take(scratch, side * side, sizeof *m->next_q);
            m->ea = arena_take(scratch, side * side, sizeof *m->ea);
        }
        m->partial = arena_take(scratch, pieces(n_element(m), ELEMENT_PIECE), sizeof *m->partial);
    }
    return n;
}

/* ---- Products ----------------------------------------------------------------------------- */

/* A = X X^T or X^T X, the smaller one. */
static struct product square_of(const struct oriented *m) {
    bool turned = m->rows > m->columns;
    return (struct product){.m = m->side,
                            .n = m->side,
                            .k = larger(m->rows, m->columns),
                            .a = {m->x, m->columns, turned},
                            .b = {m->x, m->columns, !turned},
                            .c = m->a,
                            .ldc = m->side,
                            .symmetric = true};
}

/* C = A B, of polynomials of the same symmetric matrix: so C is symmetric too. */
static struct product product_of(const struct oriented *m, const float *a, const float *b,
                                 float *c) {
    return (struct product){.m = m->side,
                            .n = m->side,
                            .k = m->side,
                            .a = as_is(a, m->side),
                            .b = as_is(b, m->side),
                            .c = c,
                            .ldc = m->side,
                            .symmetric = true};
}

/* E X, or X E where X has more rows than columns. */
static struct product next_of(const struct oriented *m, const float *e) {
    const struct factor left = as_is(e, m->side), factor = as_is(m->x, m->columns);
    bool turned = m->rows > m->columns;
    return (struct product){.m = m->rows,
                            .n = m->columns,
                            .k = m->side,
                            .a = turned ? factor : left,
                            .b = turned ? left : factor,
                            .c = m->other,
                            .ldc = m->columns};
}

/* E = 3.4445 I - 4.775 A + 2.0315 A A, of a finished tile of A A. */
static void finish_polynomial(void *context, size_t row, size_t rows, size_t column,
                              size_t columns) {
    const struct oriented *m = context;
    for (size_t r = row; r < row + rows; r++) {
        const float *restrict a = m->a + r * m->side;
        float *restrict e = m->e + r * m->side;
        for (size_t c = column; c < column + columns; c++)
            e[c] = QUINTIC * e[c] + CUBIC * a[c];
        if (r >= column && r < column + columns)
            e[r] += LINEAR_TERM;
    }
}

static void swap(float **x, float **y) {
    float *z = *x;
    *x = *y;
    *y = z;
}

/* One round: X = E X.  A deferred matrix, in f32 one that is not square, multiplies X only at the
 * end of the second and of the last round, by the product Q of the E since then.  In between, A
 * goes on without X, to E A E, for E and A commute.  That multiplies the rounding of A by up
 * to 3.4445^2 a round: over five rounds the losses of a training move. */
static void run_round(const struct training *t, struct oriented *list, int matrices, int round) {
    const bool starts = round == 0 || round == 2, ends = round == 1 || round == ROUNDS - 1;
    struct product product[2 * MOST_MATRICES];
    int n = 0;
    for (int i = 0; i < matrices; i++)
        if (!list[i].deferred || starts)
            product[n++] = square_of(&list[i]);
    products_run(&t->products, product, n);
    n = 0;
    for (int i = 0; i < matrices; i++) {
        struct oriented *m = &list[i];
        product[n] = product_of(m, m->a, m->a, m->e);
        product[n].finish = finish_polynomial;
        product[n++].context = m;
    }
    products_run(&t->products, product, n);
    n = 0;
    for (int i = 0; i < matrices; i++) {
        const struct oriented *m = &list[i];
        if (!m->deferred)
            product[n++] = next_of(m, m->e);
        if (m->deferred && !ends)
            product[n++] = product_of(m, m->e, m->a, m->ea);
        if (m->deferred && !starts)
            product[n++] = product_of(m, m->e, m->q, m->next_q);
    }
    products_run(&t->products, product, n);
    n = 0;
    for (int i = 0; i < matrices; i++) {
        struct oriented *m = &list[i];
        if (m->deferred && !ends)
            product[n++] = product_of(m, m->ea, m->e, m->a);
        if (m->deferred)
            swap(&m->q, starts ? &m->e : &m->next_q);
        if (m->deferred && ends)
            product[n++] = next_of(m, m->q);
        if (!m->deferred || ends)
            swap(&m->x, &m->other);
    }
    products_run(&t->products, product, n);
}

/* ---- Elements ----------------------------------------------------------------------------- */

struct muon {
    struct training *t;
    struct oriented list[MOST_MATRICES];
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
    for (size_t k = range.first; k < range.end; k++)
        m->x[k] *= m->factor;
}

static void move_task(void *context, int i, int thread) {
    (void)thread;
    struct muon *muon = context;
    struct task_range range;
    size_t piece;
    const struct oriented *m = part_of(muon, i, &range, &piece);
    float *restrict weight = muon->t->weight + m->place;
    for (size_t k = range.first; k < range.end; k++)
        weight[k] -= m->factor * m->x[k];
}

/* ---- A step ------------------------------------------------------------------------------- */

void muon_step(struct training *t, double rate, float clip) {
    const uint64_t size = muon_scratch(t);
    for (int l = 0; l < t->net->n_layer; l++) {
        struct muon muon = {.t = t, .clip = clip};
        struct arena scratch = {.memory = t->muon, .size = size};
        size_t n = 0;
        const int matrices = list_matrices(t, l, &scratch, muon.list);
        for (int i = 0; i < matrices; i++)
            n += pieces(n_element(&muon.list[i]), ELEMENT_PIECE);
        pool_run(t->pool, (int)n, momentum_task, &muon);
        for (int i = 0; i < matrices; i++) {
            struct oriented *m = &muon.list[i];
            double squares = 0;
            for (size_t k = 0; k < pieces(n_element(m), ELEMENT_PIECE); k++)
                squares += m->partial[k];
            m->factor = (float)(1 / (sqrt(squares) + 1e-7));
        }
        pool_run(t->pool, (int)n, scale_task, &muon);
        for (int round = 0; round < ROUNDS; round++)
            run_round(t, muon.list, matrices, round);
        for (int i = 0; i < matrices; i++) {
            struct oriented *m = &muon.list[i];
            m->factor = (float)(rate * sqrt(fmax(1, (double)m->rows / (double)m->columns)));
        }
        pool_run(t->pool, (int)n, move_task, &muon);
    }
}

uint64_t muon_scratch(const struct training *t) {
    struct arena scratch = {0};
    struct oriented list[MOST_MATRICES];
    list_matrices(t, 0, &scratch, list);
    return scratch.used;
}

uint64_t muon_room(const struct training *t) {
    const struct packed_product *packed = t->products.packed;
    struct arena unused = {0}, room[4] = {{0}}; /* of a round's products, and of the last ones */
    uint64_t most = 0;
    struct oriented list[MOST_MATRICES];
    const int matrices = list_matrices(t, 0, &unused, list);
    for (int i = 0; i < matrices; i++) {
        const struct oriented *m = &list[i];
        products_take_room(&room[0], packed, m->side, m->side, larger(m->rows, m->columns));
        products_take_room(&room[1], packed, m->side, m->side, m->side);
        products_take_room(&room[m->deferred ? 3 : 2], packed, m->rows, m->columns, m->side);
        for (int k = 0; m->deferred && k < 2; k++)
            products_take_room(&room[2], packed, m->side, m->side, m->side);
    }
    for (int i = 0; i < 4; i++)
        most = larger(most, room[i].used);
    return most;
}
