/* Cuts the products of training into tiles, packs their operands, and multiplies. */
#include "products.h"
#include "lib/base/memory.h"

#include <assert.h>
#include <cblas.h>

enum {
    TILE_ROWS = 256,
    TILE_COLUMNS = 640,
    TILE_UNIT = 128,          /* tile columns are a multiple of this */
    TILE_ROW_UNIT = 16,       /* tile rows likewise */
    TILE_WORK = 80 * 1000000, /* operations of a tile: less than a millisecond, so that threads end
                                 at about the same time */
    TASK_ROWS = 64,           /* rows of an operand that a task packs */
    STRIPS = 8,               /* rows of tiles of a symmetric product, at least: 9 / 16 of it are
                                 computed */
    MIRRORED = 16             /* side of a square that is mirrored at once: a cache line */
};

/* A product cut into `rows` by `columns` tiles. */
struct cut {
    const struct product *product;
    size_t tile_rows, tile_columns, rows, columns;
};

/* An operand of a product. */
struct packed {
    struct packed_operand operand;
    size_t rows; /* rows to pack; 0: the operand needs no pack, or does not exist */
    bool right;
};

enum { PACKS = 4 }; /* operands of a product: left and right of both pairs */

struct batch {
    const struct products *products;
    int n;
    struct cut cut[MAX_PRODUCTS];
    struct packed packed[MAX_PRODUCTS][PACKS]; /* rows as in struct packed */
};

static size_t in_units(size_t n, size_t parts, size_t unit) {
    return pieces(pieces(n, parts), unit) * unit;
}

/* Shortens the sides of a tile until its work is at most TILE_WORK, or it cannot be cut further. */
static struct cut cut_product(const struct product *p) {
    struct cut cut = {.product = p};
    size_t k = p->k + p->more, rows = pieces(p->m, TILE_ROWS);
    if (p->symmetric)
        rows = larger(rows, STRIPS);
    size_t columns = pieces(p->n, TILE_COLUMNS);
    for (;;) {
        cut.tile_rows = in_units(p->m, rows, TILE_ROW_UNIT);
        cut.tile_columns = in_units(p->n, columns, TILE_UNIT);
        if (2.0 * (double)cut.tile_rows * (double)cut.tile_columns * (double)k <= TILE_WORK)
            break;
        if (cut.tile_columns > TILE_UNIT && cut.tile_columns >= cut.tile_rows)
            columns = pieces(p->n, cut.tile_columns - TILE_UNIT);
        else if (cut.tile_rows > 4 * TILE_ROW_UNIT)
            rows *= 2;
        else
            break;
    }
    cut.rows = pieces(p->m, cut.tile_rows);
    cut.columns = pieces(p->n, cut.tile_columns);
    return cut;
}

/* C[m, n] (+)= A B by OpenBLAS. */
static void multiply_unpacked(size_t m, size_t n, size_t k, struct factor a, struct factor b,
                              bool add, float *c, size_t ldc) {
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                b.transposed ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1, a.x, (int)a.ld,
                b.x, (int)b.ld, add ? 1 : 0, c, (int)ldc);
}

void multiply_here(const struct packed_product *packed, char *left, char *right,
                   const struct product *p) {
    const struct factor a = p->a, b = p->b;
    const size_t k = p->k;
    if (!packed) {
        multiply_unpacked(p->m, p->n, k, a, b, p->add, p->c, p->ldc);
        return;
    }
    struct packed_operand operand = {.source = {a.x, a.ld, a.transposed}};
    if (left_needs_pack(packed, a.transposed)) {
        operand.pack = (struct pack){left, k};
        packed->pack_left(&operand.source, 0, p->m, &operand.pack);
    }
    /* Packed rows are columns of B. */
    const struct packed_source from_b = {b.x, b.ld, !b.transposed};
    const struct pack pack_b = {right, k};
    packed->pack_right(&from_b, 0, p->n, &pack_b);
    multiply_left(
        packed, &operand, &pack_b,
        &(struct product_part){
            .k = k, .i_end = p->m, .j_end = p->n, .add = p->add, .c = p->c, .ldc = p->ldc});
}

/* ---- Packed operands ---------------------------------------------------------------------- */

static void take_pack(struct arena *room, const struct packed_product *packed, size_t rows,
                      size_t k) {
    arena_take(room, pieces(rows, PACK_ROWS), pack_size(packed, PACK_ROWS, k));
}

void products_take_room(struct arena *room, const struct packed_product *packed, size_t m, size_t n,
                        size_t k) {
    take_pack(room, packed, m, k);
    take_pack(room, packed, n, k);
}

/* Adds operand `which` of a product.  packed_source has rows along k, so the rows of a right
 * operand are the columns of B. */
static void add_pack(struct batch *batch, int product, int which, const struct factor *factor,
                     size_t rows, size_t k, size_t *used) {
    const struct products *products = batch->products;
    bool right = which % 2 == 1;
    struct packed *packed = &batch->packed[product][which];
    if (k == 0)
        return;
    packed->operand.source =
        (struct packed_source){factor->x, factor->ld, factor->transposed != right};
    packed->right = right;
    if (!right && !left_needs_pack(products->packed, factor->transposed))
        return;
    packed->operand.pack = (struct pack){products->room + *used, k};
    packed->rows = rows;
    *used += pack_size(products->packed, rows, k);
    assert(*used <= products->room_size);
}

static void pack_task(void *context, int i, int thread) {
    (void)thread;
    const struct batch *batch = context;
    size_t task = (size_t)i;
    const struct packed *packed = batch->packed[0];
    while (task >= pieces(packed->rows, TASK_ROWS)) {
        task -= pieces(packed->rows, TASK_ROWS);
        packed++;
    }
    size_t first = task * TASK_ROWS, end = first + TASK_ROWS;
    const struct packed_product *product = batch->products->packed;
    end = end < packed->rows ? end : packed->rows;
    if (packed->right)
        product->pack_right(&packed->operand.source, first, end, &packed->operand.pack);
    else
        product->pack_left(&packed->operand.source, first, end, &packed->operand.pack);
}

static void pack_operands(struct batch *batch) {
    size_t used = 0, tasks = 0;
    for (int i = 0; i < batch->n; i++) {
        const struct product *p = batch->cut[i].product;
        add_pack(batch, i, 0, &p->a, p->m, p->k, &used);
        add_pack(batch, i, 1, &p->b, p->n, p->k, &used);
        add_pack(batch, i, 2, &p->more_a, p->m, p->more, &used);
        add_pack(batch, i, 3, &p->more_b, p->n, p->more, &used);
        for (int k = 0; k < PACKS; k++)
            tasks += pieces(batch->packed[i][k].rows, TASK_ROWS);
    }
    pool_run(batch->products->pool, (int)tasks, pack_task, batch);
}

/* ---- Tiles -------------------------------------------------------------------------------- */

struct tile {
    size_t row, rows, column, columns;
};

/* The factors of a tile, which begins at that row of A or column of B. */
static struct factor rows_from(struct factor a, size_t row) {
    a.x += a.transposed ? row : row * a.ld;
    return a;
}

static struct factor columns_from(struct factor b, size_t column) {
    b.x += b.transposed ? column * b.ld : column;
    return b;
}

/* C (+)= A B for a tile, A and B being one of the pairs of factors: operand[0] and operand[1]. */
static void multiply_pair(const struct packed_product *packed, const struct product *p,
                          const struct packed *operand, const struct factor *a,
                          const struct factor *b, size_t k, const struct tile *tile, bool add) {
    if (packed)
        multiply_left(packed, &operand[0].operand, &operand[1].operand.pack,
                      &(struct product_part){.k = k,
                                             .i_first = tile->row,
                                             .i_end = tile->row + tile->rows,
                                             .j_first = tile->column,
                                             .j_end = tile->column + tile->columns,
                                             .add = add,
                                             .c = p->c,
                                             .ldc = p->ldc});
    else
        multiply_unpacked(tile->rows, tile->columns, k, rows_from(*a, tile->row),
                          columns_from(*b, tile->column), add,
                          p->c + tile->row * p->ldc + tile->column, p->ldc);
}

/* Copies what lies right of the diagonal's square to its place under the diagonal, where no tile
 * is computed: the columns of a tile begin at its first row or right of it. */
static void mirror(const struct product *p, const struct tile *tile) {
    const size_t end = tile->row + tile->rows, last = tile->column + tile->columns;
    for (size_t column = larger(tile->column, end); column < last; column += MIRRORED) {
        for (size_t row = tile->row; row < end; row += MIRRORED) {
            for (size_t c = column; c < smaller(column + MIRRORED, last); c++)
                for (size_t r = row; r < smaller(row + MIRRORED, end); r++)
                    p->c[c * p->ldc + r] = p->c[r * p->ldc + c];
        }
    }
}

static void tile_task(void *context, int i, int thread) {
    (void)thread;
    const struct batch *batch = context;
    size_t number = (size_t)i;
    int k = 0;
    for (; number >= batch->cut[k].rows * batch->cut[k].columns; k++)
        number -= batch->cut[k].rows * batch->cut[k].columns;
    const struct cut *cut = &batch->cut[k];
    const struct product *p = cut->product;
    struct tile tile = {.row = number / cut->columns * cut->tile_rows,
                        .column = number % cut->columns * cut->tile_columns};
    size_t rows = p->m - tile.row, columns = p->n - tile.column;
    tile.rows = rows < cut->tile_rows ? rows : cut->tile_rows;
    tile.columns = columns < cut->tile_columns ? columns : cut->tile_columns;
    if (p->symmetric && tile.column < tile.row) {
        size_t end = tile.column + tile.columns;
        if (end <= tile.row)
            return;
        tile.column = tile.row, tile.columns = end - tile.row;
    }
    const struct packed_product *packed = batch->products->packed;
    if (p->k > 0)
        multiply_pair(packed, p, &batch->packed[k][0], &p->a, &p->b, p->k, &tile, p->add);
    if (p->more > 0)
        multiply_pair(packed, p, &batch->packed[k][2], &p->more_a, &p->more_b, p->more, &tile,
                      p->add || p->k > 0);
    if (p->finish)
        p->finish(p->context, tile.row, tile.rows, tile.column, tile.columns);
    if (p->symmetric)
        mirror(p, &tile);
}

void products_run(const struct products *products, const struct product *product, int n) {
    struct batch batch = {.products = products};
    size_t tiles = 0;
    for (int i = 0; i < n; i++) {
        const struct product *p = &product[i];
        if (p->m == 0 || p->n == 0 || p->k + p->more == 0)
            continue;
        struct cut cut = cut_product(p);
        batch.cut[batch.n++] = cut;
        tiles += cut.rows * cut.columns;
    }
    if (products->packed)
        pack_operands(&batch);
    pool_run(products->pool, (int)tiles, tile_task, &batch);
}
