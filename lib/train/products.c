/* Products in tiles. */
#include "products.h"

#include <cblas.h>

enum {
    TILE_ROWS = 256,
    TILE_COLUMNS = 640,
    TILE_UNIT = 128,         /* of columns, and */
    TILE_ROW_UNIT = 16,      /* of rows */
    TILE_WORK = 80 * 1000000 /* operations: a tile takes less than a millisecond, so that threads
                                end at about the same time */
};

/* A product cut into rows * columns tiles. */
struct cut {
    const struct product *product;
    size_t tile_rows, tile_columns, rows, columns;
};

struct batch {
    int n;
    struct cut cut[MAX_PRODUCTS];
};

static size_t in_units(size_t n, size_t parts, size_t unit) {
    size_t each = (n + parts - 1) / parts;
    return (each + unit - 1) / unit * unit;
}

static size_t parts_of(size_t n, size_t each) {
    return (n + each - 1) / each;
}

/* Halves the longer side until a tile is small enough, or cannot be cut. */
static struct cut cut_product(const struct product *p) {
    struct cut cut = {.product = p};
    size_t k = p->k + p->more, rows = parts_of(p->m, TILE_ROWS);
    size_t columns = parts_of(p->n, TILE_COLUMNS);
    for (;;) {
        cut.tile_rows = in_units(p->m, rows, TILE_ROW_UNIT);
        cut.tile_columns = in_units(p->n, columns, TILE_UNIT);
        if (2.0 * (double)cut.tile_rows * (double)cut.tile_columns * (double)k <= TILE_WORK)
            break;
        if (cut.tile_columns > TILE_UNIT && cut.tile_columns >= cut.tile_rows)
            columns = parts_of(p->n, cut.tile_columns - TILE_UNIT);
        else if (cut.tile_rows > 4 * TILE_ROW_UNIT)
            rows *= 2;
        else
            break;
    }
    cut.rows = parts_of(p->m, cut.tile_rows);
    cut.columns = parts_of(p->n, cut.tile_columns);
    return cut;
}

static void multiply(const struct factor *a, const struct factor *b, size_t row, size_t rows,
                     size_t column, size_t columns, size_t k, bool add, float *c, size_t ldc) {
    const float *from_a = a->x + (a->transposed ? row : row * a->ld);
    const float *from_b = b->x + (b->transposed ? column * b->ld : column);
    cblas_sgemm(CblasRowMajor, a->transposed ? CblasTrans : CblasNoTrans,
                b->transposed ? CblasTrans : CblasNoTrans, (int)rows, (int)columns, (int)k, 1,
                from_a, (int)a->ld, from_b, (int)b->ld, add ? 1 : 0, c, (int)ldc);
}

static void tile_task(void *context, int i, int thread) {
    (void)thread;
    const struct batch *batch = context;
    const struct cut *cut = batch->cut;
    size_t tile = (size_t)i;
    while (tile >= cut->rows * cut->columns) {
        tile -= cut->rows * cut->columns;
        cut++;
    }
    const struct product *p = cut->product;
    size_t row = tile / cut->columns * cut->tile_rows;
    size_t column = tile % cut->columns * cut->tile_columns;
    size_t rows = p->m - row < cut->tile_rows ? p->m - row : cut->tile_rows;
    size_t columns = p->n - column < cut->tile_columns ? p->n - column : cut->tile_columns;
    float *c = p->c + row * p->ldc + column;
    bool add = p->add;
    if (p->k > 0) {
        multiply(&p->a, &p->b, row, rows, column, columns, p->k, add, c, p->ldc);
        add = true;
    }
    if (p->more > 0)
        multiply(&p->more_a, &p->more_b, row, rows, column, columns, p->more, add, c, p->ldc);
    if (p->finish)
        p->finish(p->context, row, rows, column, columns);
}

void products_run(struct pool *pool, const struct product *product, int n) {
    struct batch batch = {0};
    size_t tiles = 0;
    for (int i = 0; i < n; i++) {
        const struct product *p = &product[i];
        if (p->m == 0 || p->n == 0 || p->k + p->more == 0)
            continue;
        struct cut cut = cut_product(p);
        batch.cut[batch.n++] = cut;
        tiles += cut.rows * cut.columns;
    }
    pool_run(pool, (int)tiles, tile_task, &batch);
}
