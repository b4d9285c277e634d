/* Rounding to the types q4 and q5. */
#include "tiles.h"

#include <math.h>
#include <string.h>

/* ---- Scales ------------------------------------------------------------------------------- */

/* Sums have eight parts, of which number j takes every term i with i mod 8 = j, in order; then
 * neighbours are added.  A compiler may compute the parts in the lanes of a vector. */
enum { PARTS = 8 };

static double fold(const double part[PARTS]) {
    return ((part[0] + part[1]) + (part[2] + part[3])) +
           ((part[4] + part[5]) + (part[6] + part[7]));
}

/* The level nearest to x, halves to even. */
static inline double nearest_level(double x, double top) {
    const double round = 0x1.8p52; /* adding it leaves the nearest integer in the low bits */
    x = x < 0 ? 0 : x > top ? top : x;
    return (x + round) - round;
}

/* A block, and what its elements weigh: 1, or 0 beyond the matrix. */
struct block {
    double x[TILE_BLOCK], weight[TILE_BLOCK];
};

/* An element is scale level + low; scale > 0, low <= 0. */
struct line {
    double scale, low;
};

static void levels(const struct block *b, struct line line, double top, double q[TILE_BLOCK]) {
    for (int i = 0; i < TILE_BLOCK; i++)
        q[i] = nearest_level((b->x[i] - line.low) / line.scale, top);
}

/* The line of the least squared error for the levels q. */
static struct line regress(const struct block *b, struct line before, const double q[TILE_BLOCK]) {
    const double least = 1e-30;
    double one[PARTS] = {0}, x[PARTS] = {0}, level[PARTS] = {0}, square[PARTS] = {0},
           product[PARTS] = {0};
    for (int i = 0; i < TILE_BLOCK; i += PARTS) {
        for (int j = 0; j < PARTS; j++) {
            const double g = b->weight[i + j], z = b->x[i + j], l = q[i + j];
            one[j] += g;
            x[j] += g * z;
            level[j] += g * l;
            square[j] += g * l * l;
            product[j] += g * l * z;
        }
    }
    const double n = fold(one), sx = fold(x), sq = fold(level), sqq = fold(square),
                 sqx = fold(product);
    const double determinant = n * sqq - sq * sq;
    struct line line = before;
    if (determinant > least)
        line =
            (struct line){(n * sqx - sx * sq) / determinant, (sqq * sx - sq * sqx) / determinant};
    if (line.low > 0)
        line = (struct line){sqx / (sqq > least ? sqq : least), 0};
    line.scale = line.scale > least ? line.scale : least;
    return line;
}

static double squared_error(const struct block *b, struct line line, const double q[TILE_BLOCK]) {
    double part[PARTS] = {0};
    for (int i = 0; i < TILE_BLOCK; i += PARTS) {
        for (int j = 0; j < PARTS; j++) {
            const double error = b->x[i + j] - line.scale * q[i + j] - line.low;
            part[j] += b->weight[i + j] * (error * error);
        }
    }
    return fold(part);
}

/* Tries scales of 0.80 to 1.06 of what spans the block; each is improved by least squares. */
static struct line fit_block(const struct block *b, double top) {
    enum { TRIALS = 14 };
    double low = 0, high = 0, least = INFINITY;
    struct line best = {0, 0};
    for (int i = 0; i < TILE_BLOCK; i++) {
        low = b->x[i] < low ? b->x[i] : low;
        high = b->x[i] > high ? b->x[i] : high;
    }
    for (int i = 0; i < TRIALS; i++) {
        const double factor = i + 1 < TRIALS ? i * ((1.06 - 0.80) / (TRIALS - 1)) + 0.80 : 1.06;
        const double scale = (high - low) / top * factor;
        double q[TILE_BLOCK];
        struct line line = {scale > 1e-30 ? scale : 1e-30, low};
        levels(b, line, top, q);
        line = regress(b, line, q);
        levels(b, line, top, q);
        const double error = squared_error(b, line, q);
        if (error < least) {
            least = error;
            best = line;
        }
    }
    return best;
}

/* The bytes of z[n] >= 0, and the factor that they are multiplied by: the largest is 255. */
static float code_row(const double *z, size_t n, uint8_t *code) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = z[i] > most ? z[i] : most;
    const float factor = (float)(most / 255);
    for (size_t i = 0; i < n; i++)
        code[i] = factor > 0 ? (uint8_t)nearest_level(z[i] / (double)factor, 255) : 0;
    return factor;
}

/* ---- A row of tiles ----------------------------------------------------------------------- */

/* Of a row: the scale and the minimum of each block, as a reader computes them. */
struct row {
    double *scale, *minimum; /* [blocks] */
};

size_t tiles_scratch(size_t n_col, const struct tile_calibration *calibration) {
    return 3 * tile_blocks(n_col) + (calibration ? n_col : 0);
}

/* Finds the scales of row `r`, writes their bytes to the tiles, and the factors. */
static void fit_row(int top, size_t r, size_t n_col, const float *x, struct row *row, uint8_t *code,
                    uint8_t *tiles, float *factors) {
    const size_t n = tile_blocks(n_col);
    for (size_t i = 0; i < n; i++) {
        struct block block = {{0}, {0}};
        for (size_t k = 0; k < TILE_BLOCK && i * TILE_BLOCK + k < n_col; k++) {
            block.x[k] = (double)x[i * TILE_BLOCK + k];
            block.weight[k] = 1;
        }
        const struct line line = fit_block(&block, top);
        row->scale[i] = line.scale;
        row->minimum[i] = -line.low;
    }
    for (int which = 0; which < 2; which++) {
        double *z = which == 0 ? row->scale : row->minimum;
        factors[which] = code_row(z, n, code);
        for (size_t i = 0; i < n; i++) {
            uint8_t *tile = tiles + i / TILE_BLOCKS * tile_bytes(top);
            tile_scales(tile, i % TILE_BLOCKS, which)[r] = code[i];
            z[i] = (double)((float)code[i] * factors[which]);
        }
    }
}

static void set_level(int top, uint8_t *tiles, size_t r, size_t column, double level) {
    tile_set_level(tiles + column / TILE_WIDTH * tile_bytes(top), top, r, column % TILE_WIDTH,
                   (int)level);
}

static double level_of(const struct row *row, size_t column, double x, int top) {
    const double scale = row->scale[column / TILE_BLOCK];
    return scale > 0 ? nearest_level((x + row->minimum[column / TILE_BLOCK]) / scale, top) : 0;
}

/* Frantar et al. 2023, "GPTQ": the error of a column is spread over the columns that are rounded
 * later. */
static void round_calibrated(int top, size_t r, size_t n_col, const float *x, const struct row *row,
                             const struct tile_calibration *c, double *v, uint8_t *tiles) {
    for (size_t i = 0; i < n_col; i++)
        v[i] = (double)x[c->order[i]];
    for (size_t i = 0; i < n_col; i++) {
        const size_t column = c->order[i], b = column / TILE_BLOCK;
        const double *upper = c->upper + i * n_col;
        const double level = level_of(row, column, v[i], top);
        const double error = (v[i] - (row->scale[b] * level - row->minimum[b])) / upper[i];
        set_level(top, tiles, r, column, level);
        for (size_t k = i + 1; k < n_col; k++)
            v[k] -= error * upper[k];
    }
}

bool tiles_round(int top, size_t n_row, size_t n_col, const float *x,
                 const struct tile_calibration *calibration, double *scratch, uint8_t *tiles,
                 float *factors) {
    const size_t n = tile_blocks(n_col);
    struct row row = {scratch, scratch + n};
    uint8_t *code = (uint8_t *)(scratch + 2 * n);
    memset(tiles, 0, tile_row_bytes(top, n_col));
    for (size_t r = 0; r < n_row; r++, x += n_col, factors += 2) {
        fit_row(top, r, n_col, x, &row, code, tiles, factors);
        /* A scale is a small part of what the numbers span; a minimum may exceed them. */
        if (!isfinite(255 * factors[1]))
            return false;
        if (calibration)
            round_calibrated(top, r, n_col, x, &row, calibration, scratch + 3 * n, tiles);
        for (size_t i = 0; !calibration && i < n_col; i++)
            set_level(top, tiles, r, i, level_of(&row, i, (double)x[i], top));
    }
    return true;
}
