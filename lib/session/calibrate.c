/* Gathers, for each matrix W of a model, H = the sum of x x^T over its inputs x in the exact
 * arithmetic, and factors it.  All sums are in double, of tokens in their order.
 *
 * GPTQ rounds columns one by one, and spreads the error of column i over the later ones by row i of
 * U, where U^T U = H^-1 and U is upper triangular.  H = V V^T with V upper triangular, so U = V^-1.
 */
#include "model.h"
#include "session.h"

#include "lib/base/error.h"
#include "lib/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENS_AT_ONCE = 512,
    ROWS_OF_TASK = 16,
    FEW_COLUMNS = 128 /* of which one thread makes short work */
};
static const size_t MOST_GATHERED = (size_t)1
                                    << 30; /* bytes of all H at a time, unless one has more */

/* A matrix whose inputs are gathered. */
struct gathered {
    size_t tensor, n;
    double *h; /* [n, n], of which the upper triangle is used; NULL: taken already */
};

struct calibrator {
    const txl_model *model;
    const txl_calibration *how;
    const bool *wanted;
    int threads;
    struct gathered *gathered;
    size_t n_gathered;
    size_t *order; /* of `calibration`, as are these */
    double *upper;
    struct tile_calibration calibration;
    uint64_t done, total; /* tokens, counted for each matrix; and as many for its rounding */
};

/* ---- Gathering ---------------------------------------------------------------------------- */

struct addition {
    const struct gathered *g;
    size_t n_x, ldx;
    const float *x;
};

/* Adds the inputs' products to some rows of H.  Inputs of 0, as after a ReLU, add nothing. */
static void add_inputs(void *context, int i, int thread) {
    (void)thread;
    const struct addition *a = context;
    const size_t n = a->g->n, first = (size_t)i * ROWS_OF_TASK;
    for (size_t row = first; row < smaller(first + ROWS_OF_TASK, n); row++) {
        double *h = a->g->h + row * n;
        for (size_t t = 0; t < a->n_x; t++) {
            const float *x = a->x + t * a->ldx;
            const double y = (double)x[row];
            for (size_t j = row; j < n && y != 0; j++)
                h[j] += y * (double)x[j];
        }
    }
}

/* For struct compute. */
static void observe(void *context, const struct compute *compute, const struct matrix *w,
                    size_t n_x, const float *x, size_t ldx) {
    const struct calibrator *c = context;
    for (size_t i = 0; i < c->n_gathered; i++) {
        const struct gathered *g = &c->gathered[i];
        if (!g->h || c->model->tensors.element[g->tensor] != w->data ||
            c->model->weights->tensor[g->tensor].shape[0] != w->n_row)
            continue;
        struct addition addition = {g, n_x, ldx, x};
        pool_run(compute->pool, (int)((g->n + ROWS_OF_TASK - 1) / ROWS_OF_TASK), add_inputs,
                 &addition);
    }
}

static txl_status report(struct calibrator *c, uint64_t more, txl_error *error) {
    c->done += more;
    if (c->how->progress && !c->how->progress(c->how->context, c->done, c->total))
        return txl_fail(error, TXL_STOPPED, "stopped");
    return TXL_OK;
}

static txl_status read_text(struct calibrator *c, txl_session *session, txl_error *error) {
    float nats[TOKENS_AT_ONCE];
    txl_status status = TXL_OK;
    for (size_t first = 0; first + 1 < c->how->n && !status; first += TOKENS_AT_ONCE) {
        const size_t n = smaller(TOKENS_AT_ONCE, c->how->n - 1 - first);
        status = txl_session_score(session, c->how->ids + first, n, c->how->ids + first + 1, nats,
                                   error);
        if (!status)
            status = report(c, n * c->n_gathered, error);
    }
    return status;
}

/* Makes room for the tensors from `tensor` on, and runs the text. */
static txl_status gather(struct calibrator *c, size_t tensor, txl_error *error) {
    const struct weights *w = c->model->weights;
    size_t bytes = 0;
    c->n_gathered = 0;
    for (size_t t = tensor; t < w->n_tensor; t++) {
        if (!c->wanted[t])
            continue;
        const size_t n = (size_t)w->tensor[t].shape[1], size = n * n * sizeof(double);
        if (bytes > 0 && bytes + size > MOST_GATHERED)
            break;
        bytes += size;
        double *h = calloc(n * n, sizeof *h);
        if (!h)
            return txl_fail_memory(error, "the inputs' products", size);
        c->gathered[c->n_gathered++] = (struct gathered){t, n, h};
    }
    txl_settings settings;
    txl_session *session;
    txl_model_defaults(c->model, &settings);
    settings.threads = c->threads;
    settings.arithmetic = TXL_ARITHMETIC_EXACT;
    txl_status status = txl_session_new(c->model, &settings, &session, error);
    if (status)
        return status;
    session->timeline->compute.observe = observe;
    session->timeline->compute.observer = c;
    status = read_text(c, session, error);
    txl_session_free(session);
    return status;
}

/* ---- Factors ------------------------------------------------------------------------------ */

static void sort_columns(const double *h, size_t n, size_t *order) {
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && h[order[at - 1] * (n + 1)] < h[i * (n + 1)]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* One step of V V^T = H: what column `j`, in `column`, takes from the rows before it. */
struct step {
    double *v;
    const double *column;
    size_t n, j;
};

static void subtract_column(void *context, int i, int thread) {
    (void)thread;
    const struct step *s = context;
    const size_t first = (size_t)i * FEW_COLUMNS;
    for (size_t row = first; row < smaller(first + FEW_COLUMNS, s->j); row++) {
        const double x = s->column[row];
        for (size_t k = row; k < s->j; k++)
            s->v[row * s->n + k] -= x * s->column[k];
    }
}

/* Turns the upper triangle of H into V; false if H is not positive definite. */
static bool factor(double *v, size_t n, double *column, struct pool *pool) {
    for (size_t j = n; j-- > 0;) {
        const double diagonal = v[j * n + j];
        if (!(diagonal > 0) || !isfinite(diagonal))
            return false;
        const double root = sqrt(diagonal);
        v[j * n + j] = root;
        for (size_t i = 0; i < j; i++)
            column[i] = v[i * n + j] = v[i * n + j] / root;
        struct step step = {v, column, n, j};
        pool_run(pool, (int)((j + FEW_COLUMNS - 1) / FEW_COLUMNS), subtract_column, &step);
    }
    return true;
}

struct inversion {
    const double *v;
    double *u;
    size_t n;
};

/* Some columns of U = V^-1. */
static void invert_columns(void *context, int i, int thread) {
    (void)thread;
    const struct inversion *x = context;
    const size_t n = x->n, first = (size_t)i * FEW_COLUMNS, end = smaller(first + FEW_COLUMNS, n);
    for (size_t row = end; row-- > 0;) {
        double *u = x->u + row * n;
        for (size_t k = first; k < end; k++)
            u[k] = k == row;
        for (size_t l = row + 1; l < end; l++) {
            const double y = x->v[row * n + l], *from = x->u + l * n;
            for (size_t k = larger(first, l); k < end; k++)
                u[k] -= y * from[k];
        }
        for (size_t k = first; k < end; k++)
            u[k] /= x->v[row * n + row];
    }
}

/* H in the order of rounding, with a hundredth of its mean diagonal added to it. */
static void permute(const double *h, size_t n, const size_t *order, double *out) {
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += h[i * (n + 1)];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i; j < n; j++) {
            const size_t a = smaller(order[i], order[j]), b = larger(order[i], order[j]);
            out[i * n + j] = h[a * n + b] + (i == j ? 0.01 * mean : 0);
        }
    }
}

static txl_status find_factors(struct calibrator *c, const struct gathered *g, txl_error *error) {
    const size_t n = g->n;
    double *v = calloc(n * n + n, sizeof *v);
    c->order = calloc(n, sizeof *c->order);
    c->upper = calloc(n * n, sizeof *c->upper);
    struct pool *pool = pool_new(c->threads);
    txl_status status = TXL_OK;
    if (!v || !c->order || !c->upper || !pool)
        status = txl_fail_memory(error, "a matrix's calibration", 2 * n * n * sizeof *v);
    if (!status) {
        sort_columns(g->h, n, c->order);
        permute(g->h, n, c->order, v);
        if (!factor(v, n, v + n * n, pool))
            status = txl_fail(error, TXL_FORMAT, "%s: tensor %s: its inputs are not finite",
                              c->model->weights->name, c->model->weights->tensor[g->tensor].name);
    }
    if (!status) {
        struct inversion x = {v, c->upper, n};
        pool_run(pool, (int)((n + FEW_COLUMNS - 1) / FEW_COLUMNS), invert_columns, &x);
        c->calibration = (struct tile_calibration){.n = n, .order = c->order, .upper = c->upper};
    }
    pool_free(pool);
    free(v);
    return status;
}

/* ---- The whole ---------------------------------------------------------------------------- */

static void free_calibration(struct calibrator *c) {
    free(c->order);
    free(c->upper);
    c->order = NULL;
    c->upper = NULL;
}

txl_status calibrator_new(const txl_model *model, const txl_calibration *how, const bool *wanted,
                          int threads, struct calibrator **calibrator, txl_error *error) {
    const struct weights *w = model->weights;
    struct calibrator *c = calloc(1, sizeof *c);
    if (c)
        c->gathered = calloc(w->n_tensor, sizeof *c->gathered);
    if (!c || !c->gathered) {
        free(c);
        return txl_fail_memory(error, "a calibration", w->n_tensor * sizeof *c->gathered);
    }
    c->model = model;
    c->how = how;
    c->wanted = wanted;
    c->threads = threads;
    for (size_t t = 0; t < w->n_tensor; t++)
        c->total += wanted[t] ? 2 * (uint64_t)(how->n - 1) : 0;
    *calibrator = c;
    return TXL_OK;
}

void calibrator_free(struct calibrator *c) {
    if (!c)
        return;
    for (size_t i = 0; i < c->n_gathered; i++)
        free(c->gathered[i].h);
    free_calibration(c);
    free(c->gathered);
    free(c);
}

txl_status calibrator_get(struct calibrator *c, size_t tensor,
                          const struct tile_calibration **calibration, txl_error *error) {
    struct gathered *g = NULL;
    *calibration = NULL;
    free_calibration(c);
    if (!c->wanted[tensor])
        return TXL_OK;
    for (int attempt = 0; attempt < 2 && !g; attempt++) {
        for (size_t i = 0; i < c->n_gathered && !g; i++)
            if (c->gathered[i].tensor == tensor)
                g = &c->gathered[i];
        txl_status status = g || attempt == 1 ? TXL_OK : gather(c, tensor, error);
        if (status)
            return status;
    }
    double most = 0;
    for (size_t i = 0; i < g->n; i++)
        most = g->h[i * (g->n + 1)] > most ? g->h[i * (g->n + 1)] : most;
    txl_status status = most > 0 ? find_factors(c, g, error) : TXL_OK;
    if (!status && most > 0)
        *calibration = &c->calibration;
    free(g->h);
    g->h = NULL;
    return status ? status : report(c, c->how->n - 1, error);
}
