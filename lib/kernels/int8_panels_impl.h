/* Panels of weights in q8, q4 and q5 that also round activations to 8 bits, and so multiply
 * integers.  64 consecutive activations share a scale: the largest magnitude divided by 127.  Sums
 * of the 64 products that share scales, of 32 in q4 and q5, are exact; they are scaled and added up
 * in f32.  The minimum of a block of q4 and q5 meets the sum of its activations.
 *
 * Where the processor has no fast instruction for products of bytes, the rounded activations are
 * multiplied in f32: results are the same within the rounding of f32.
 *
 * Then it is a part of inference.c, which has pack, panel and prepare_q8; else of the file that
 * says what the processor can do: MULTIPLIES_BYTES, and MULTIPLIES_BYTES_IN_TILES.  The compiler's
 * flags do not say it: with -march=native they are the same for the kernels of every processor. */
#ifndef TXL_INT8_PANELS_IMPL_H
#define TXL_INT8_PANELS_IMPL_H

#include "vectors.h"

/* Rounds x[n], the columns of a block in LANES rows, to multiples of the rows' scales: x[j] becomes
 * the integers, and the scales are returned.  The scale of a row that is not all finite is NaN. */
static inline vec round_columns(size_t n, vec *x) {
    const vec round = splat(0x1.8p23f); /* adding it leaves the nearest integer in the low bits */
    vec most = {0}, odd = {0};
    for (size_t j = 0; j < n; j++) {
        most = larger(larger(x[j], -x[j]), most);
        odd += x[j] - x[j]; /* not zero in rows that are not all finite */
    }
    vec inverse = choose(most > splat(0x1p-100f), splat(Q8_MAX) / most, splat(0));
    for (size_t j = 0; j < n; j++)
        x[j] = __builtin_convertvector((ivec)(x[j] * inverse + round) - (ivec)round, vec);
    return most * splat(1.0f / Q8_MAX) + odd;
}

#if defined(MULTIPLIES_BYTES)

/* A packed panel has, for each block, 16 lines, each with 4 neighbouring columns of every row, in
 * bytes; after them the scales, [blocks, width], and if the weights are in tiles the sums of the
 * rounded activations of each TILE_BLOCK columns, [blocks, TILE_BLOCKS, width].  Tile instructions
 * take signed bytes.  Vector instructions take unsigned ones: 128 is added to each, and 128 times
 * the sum of the weights is subtracted from the result. */
#if defined(MULTIPLIES_BYTES_IN_TILES)
enum { BYTE_OFFSET = 0 };
#else
enum { BYTE_OFFSET = 128 };
#endif
enum { QUADS = Q8_BLOCK / 4 };

static inline float *int8_scales(const void *packed, size_t width, size_t blocks) {
    return (float *)((char *)packed + blocks * Q8_BLOCK * width);
}

static inline float *int8_sums(const void *packed, size_t width, size_t blocks) {
    return int8_scales(packed, width, blocks) + blocks * width;
}

/* Joins four columns of LANES rows into a line of bytes. */
static inline ivec join_bytes(const vec x[4]) {
    const ivec offset = (ivec){0} + BYTE_OFFSET;
    ivec line = {0};
    UNROLL for (int i = 0; i < 4; i++) line |=
        ((__builtin_convertvector(x[i], ivec) + offset) & 0xff) << (8 * i);
    return line;
}

static inline __attribute__((always_inline)) void pack_bytes(const bool with_sums, size_t m,
                                                             size_t width, size_t k, const float *x,
                                                             size_t ldx, void *out) {
    float *scale = int8_scales(out, width, q8_blocks(k));
    float *sums = int8_sums(out, width, q8_blocks(k));
    for (size_t first = 0; first < width; first += LANES) {
        size_t rows = first >= m ? 0 : m - first < LANES ? m - first : LANES;
        for (size_t d = 0; d < q8_blocks(k); d++) {
            vec column[Q8_BLOCK];
            for (size_t i = 0; i < Q8_BLOCK; i += LANES) {
                size_t at = d * Q8_BLOCK + i, left = at < k ? k - at : 0;
                transpose_part(x + first * ldx + at, ldx, left ? rows : 0,
                               left < LANES ? left : LANES, column + i);
            }
            const vec factor = round_columns(Q8_BLOCK, column);
            store_f32(scale + d * width + first, factor);
            for (size_t b = 0; with_sums && b < TILE_BLOCKS; b++) {
                vec sum = {0};
                for (size_t i = 0; i < TILE_BLOCK; i++)
                    sum += column[b * TILE_BLOCK + i];
                store_f32(sums + (d * TILE_BLOCKS + b) * width + first, sum * factor);
            }
            for (size_t g = 0; g < QUADS; g++) {
                ivec line = join_bytes(column + 4 * g);
                memcpy((char *)out + ((d * QUADS + g) * width + first) * 4, &line, sizeof line);
            }
        }
    }
}

static void pack_int8(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out) {
    pack_bytes(false, m, width, k, x, ldx, out);
}

#if defined(MULTIPLIES_BYTES_IN_TILES)

TILE_INSTRUCTION(dpbssd, 64);
#define INT8_INSTRUCTION &tdpbssd

/* Pads the rows to whole blocks, and their number to whole tiles. */
static void prepare_int8(size_t n, size_t k, const void *b, const float *scale, void *out,
                         float *out_scale) {
    const size_t blocks = q8_blocks(k), row = blocks * Q8_BLOCK;
    memcpy(out_scale, scale, n * blocks * sizeof *scale);
    for (size_t r = 0; r < n; r++) {
        int8_t *to = (int8_t *)out + r * row;
        memcpy(to, (const int8_t *)b + r * k, k);
        memset(to + k, 0, row - k);
    }
    size_t last = (n + LANES - 1) / LANES * LANES;
    memset((int8_t *)out + n * row, 0, (last - n) * row);
}

/* Multiplies 16 rows of weights by 16 rows of activations: c[rows, width]. */
static inline void tile_int8(size_t rows, size_t blocks, const char *p, const float *x_scale,
                             size_t width, const int8_t *b, const float *scale, float *c) {
    _Alignas(64) int32_t sum[LANES * LANES];
    vec total[LANES];
    UNROLL for (int r = 0; r < LANES; r++) total[r] = splat(0);
    float factor[LANES] = {0};
    for (size_t d = 0; d < blocks; d++) {
        _tile_zero(0);
        _tile_loadd(4, b + d * Q8_BLOCK, blocks * Q8_BLOCK);
        _tile_loadd(6, p + d * Q8_BLOCK * width, width * 4);
        _tile_dpbssd(0, 4, 6);
        _tile_stored(0, sum, TILE_BYTES);
        for (size_t r = 0; r < rows; r++)
            factor[r] = scale[r * blocks + d];
        const vec x = load_f32(x_scale + d * width);
        UNROLL for (int r = 0; r < LANES; r++) {
            ivec s;
            memcpy(&s, sum + r * LANES, sizeof s);
            total[r] += __builtin_convertvector(s, vec) * (x * splat(factor[r]));
        }
    }
    for (size_t r = 0; r < rows; r++)
        store_f32(c + r * width, total[r]);
}

static void panel_int8(const struct panel_call *call) {
    const struct panel_call x = *call;
    const size_t blocks = q8_blocks(x.k);
    const float *x_scale = int8_scales(x.packed, x.width, blocks);
    float c[PANEL_ROWS * PANEL_WIDTH]; /* [n, width] */
    tiles_begin();
    for (size_t r = 0; r < x.n; r += LANES) {
        for (size_t t = 0; t < x.width; t += LANES)
            tile_int8(x.n - r < LANES ? x.n - r : LANES, blocks, (const char *)x.packed + t * 4,
                      x_scale + t, x.width, (const int8_t *)x.b + r * blocks * Q8_BLOCK,
                      x.scale + r * blocks, c + r * x.width + t);
    }
    tiles_end();
    finish_panel(x.m, x.width, x.n, c, NULL, x.bias, x.relu, x.y, x.ldy);
}

#else

VECTOR_INSTRUCTION(vpdpbusd, 8 * LANES);
#define INT8_INSTRUCTION &vpdpbusd

/* Adds to each lane of `sum` the products of four unsigned bytes of x with four signed ones of y.
 * An intrinsic's vectors of 64-bit integers would make gcc 12 copy every sum at every step. */
static inline __attribute__((always_inline)) ivec add_bytes(ivec sum, ivec x, ivec y) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}

/* Prepared weights: four neighbouring columns of every row, then the next four; after the room of
 * PANEL_ROWS rows what each sum begins with, [blocks, width].  The scales are [blocks, width] too.
 * width is the number of rows, rounded up to LANES. */
static inline int32_t *int8_begin(const void *prepared, size_t blocks) {
    return (int32_t *)((char *)prepared + PANEL_ROWS * blocks * Q8_BLOCK);
}

static void prepare_int8(size_t n, size_t k, const void *b, const float *scale, void *out,
                         float *out_scale) {
    const size_t blocks = q8_blocks(k), width = (n + LANES - 1) / LANES * LANES;
    int32_t *begin = int8_begin(out, blocks);
    interleave_rows(n, k, b, out);
    for (size_t d = 0; d < blocks; d++) {
        for (size_t first = 0; first < width; first += LANES) {
            const ivec ones = (ivec){0} + 0x01010101;
            ivec sum = {0};
            for (size_t g = d * QUADS; g < (d + 1) * QUADS; g++) {
                ivec line;
                memcpy(&line, (const char *)out + (g * width + first) * 4, sizeof line);
                sum = add_bytes(sum, ones, line);
            }
            sum *= -BYTE_OFFSET;
            memcpy(begin + d * width + first, &sum, sizeof sum);
        }
        for (size_t r = 0; r < width; r++)
            out_scale[d * width + r] = r < n ? scale[r * blocks + d] : 0;
    }
}

/* Prepared weights in tiles: the same for each of a block's TILE_BLOCKS; after what their sums
 * begin with lie the scales and the minima, [blocks, TILE_BLOCKS, width] each. */
static inline float *int8_tile_scales(const void *prepared, size_t blocks, size_t width) {
    return (float *)int8_begin(prepared, blocks) + blocks * TILE_BLOCKS * width;
}

/* Rows `skip` to 15 of a tile, and then rows of the one below. */
static void join_tiles(int top, size_t skip, const uint8_t *tile, const uint8_t *below,
                       uint8_t *out) {
    for (size_t at = 0, size; at < tile_bytes(top); at += TILE_HEIGHT * size) {
        size = at < TILE_LINES ? 1 : TILE_LINE / TILE_HEIGHT; /* bytes of a row */
        memcpy(out + at, tile + at + skip * size, (TILE_HEIGHT - skip) * size);
        memcpy(out + at + (TILE_HEIGHT - skip) * size, below + at, skip * size);
    }
}

/* Writes the levels of block `b` of a tile, of which `to` is the first line, `begin` and `scale`
 * the first of 16 rows, and the minima are `apart` floats after the scales. */
static inline __attribute__((always_inline)) void
prepare_block(const int top, const uint8_t *tile, size_t b, vec d, vec e, size_t width, char *to,
              int32_t *begin, float *scale, size_t apart) {
    const uint8_t *code = tile + 2 * b * TILE_HEIGHT;
    const ivec ones = (ivec){0} + 0x01010101;
    ivec sum = {0};
    UNROLL for (int l = 0; l < TILE_BLOCK_LINES; l++) {
        ivec level[2];
        load_levels(top, tile, b, 0, l, level);
        UNROLL for (int i = 0; i < 2; i++) {
            sum = add_bytes(sum, ones, level[i]);
            memcpy(to + (size_t)(TILE_BLOCK_LINES * i + l) * width * 4, &level[i], sizeof *level);
        }
    }
    sum *= -BYTE_OFFSET;
    memcpy(begin, &sum, sizeof sum);
    store_f32(scale, load_bytes(code) * d);
    store_f32(scale + apart, load_bytes(code + TILE_HEIGHT) * e);
}

static void prepare_tiles_int8(int top, const struct tile_rows *b, void *out) {
    const size_t blocks = tiles_across(b->n_col), width = (b->n_row + LANES - 1) / LANES * LANES;
    const size_t apart = blocks * TILE_BLOCKS * width, row = blocks * tile_bytes(top);
    float *scales = int8_tile_scales(out, blocks, width);
    for (size_t first = 0; first < b->n_row; first += LANES) {
        const uint8_t *tile = b->tile + first / TILE_HEIGHT * row;
        const float *factors = b->factors + 2 * (b->skip + first);
        float d[LANES] = {0}, e[LANES] = {0};
        for (size_t r = 0; r < LANES && first + r < b->n_row; r++) {
            d[r] = factors[2 * r];
            e[r] = factors[2 * r + 1];
        }
        for (size_t t = 0; t < blocks; t++, tile += tile_bytes(top)) {
            uint8_t joined[TILE_FIFTH + TILE_BLOCKS * TILE_LINE];
            const uint8_t *from = tile;
            if (b->skip > 0) {
                bool ends = first + TILE_HEIGHT - b->skip >= b->n_row; /* in this row of tiles */
                join_tiles(top, b->skip, tile, ends ? tile : tile + row, joined);
                from = joined;
            }
            for (size_t h = 0; h < TILE_BLOCKS; h++) {
                const size_t at = (t * TILE_BLOCKS + h) * width + first;
                char *to = (char *)out + ((t * QUADS + h * TILE_BLOCK / 4) * width + first) * 4;
                int32_t *begin = int8_begin(out, blocks) + at;
                if (top == Q4_TOP)
                    prepare_block(Q4_TOP, from, h, load_f32(d), load_f32(e), width, to, begin,
                                  scales + at, apart);
                else
                    prepare_block(Q5_TOP, from, h, load_f32(d), load_f32(e), width, to, begin,
                                  scales + at, apart);
            }
        }
    }
}

/* The operands of a tile, from its first block on. */
struct int8_operands {
    const char *p; /* a panel's lines, scales and sums, from the tile's first row on */
    const float *x_scale, *x_sum;
    const char *b;
    const int32_t *begin;
    const float *scale, *minimum; /* minimum and x_sum: of weights in tiles */
};

/* Adds to c[rows, vectors LANES], or with `first` sets it to, the products of `depth` blocks, whose
 * weights have `parts` scales each; those of two have minima.  Half of the registers hold the sums
 * of a part, half those of all. */
static inline __attribute__((always_inline)) void tile_int8(const int rows, const int vectors,
                                                            const size_t parts, size_t depth,
                                                            bool first, size_t width,
                                                            struct int8_operands o, float *c) {
    vec total[8][3];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) total[r][v] =
            first ? splat(0) : load_f32(c + (r * vectors + v) * LANES);
    }
    for (size_t d = 0; d < depth; d++, o.x_scale += width) {
        for (size_t part = 0; part < parts; part++) {
            ivec sum[8][3];
            UNROLL for (int v = 0; v < vectors; v++) {
                memcpy(&sum[0][v], o.begin + v * LANES, sizeof(ivec));
                UNROLL for (int r = 1; r < rows; r++) sum[r][v] = sum[0][v];
            }
            for (size_t g = 0; g < QUADS / parts; g++, o.p += width * 4, o.b += vectors * 64) {
                ivec line[3];
                UNROLL for (int v = 0; v < vectors; v++)
                    memcpy(&line[v], o.b + v * 64, sizeof(ivec));
                UNROLL for (int r = 0; r < rows; r++) {
                    float four;
                    memcpy(&four, o.p + 4 * r, sizeof four);
                    const ivec x = (ivec)splat(four);
                    UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                        add_bytes(sum[r][v], x, line[v]);
                }
            }
            UNROLL for (int r = 0; r < rows; r++) {
                const vec x = splat(o.x_scale[r]);
                UNROLL for (int v = 0; v < vectors; v++) total[r][v] +=
                    __builtin_convertvector(sum[r][v], vec) * (x * load_f32(o.scale + v * LANES));
                if (parts == 1)
                    continue;
                const vec y = splat(o.x_sum[r]);
                UNROLL for (int v = 0; v < vectors; v++) total[r][v] -=
                    y * load_f32(o.minimum + v * LANES);
            }
            o.begin += vectors * LANES;
            o.scale += vectors * LANES;
            if (parts > 1) {
                o.minimum += vectors * LANES;
                o.x_sum += width;
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++)
            store_f32(c + (r * vectors + v) * LANES, total[r][v]);
    }
}

/* Each shape is a function of its own, whose registers hold nothing but its sums. */
typedef void tile_int8_function(size_t depth, bool first, size_t width,
                                const struct int8_operands *o, float *c);
#define TILE_INT8(ROWS, VECTORS, PARTS)                                                            \
    static __attribute__((noinline)) void tile_int8_##ROWS##x##VECTORS##_##PARTS(                  \
        size_t depth, bool first, size_t width, const struct int8_operands *o, float *c) {         \
        tile_int8(ROWS, VECTORS, PARTS, depth, first, width, *o, c);                               \
    }
TILE_INT8(4, 3, 1)
TILE_INT8(4, 2, 1)
TILE_INT8(8, 1, 1)
TILE_INT8(4, 3, 2)
TILE_INT8(4, 2, 2)
TILE_INT8(8, 1, 2)

/* Blocks of the weights that meet all rows of the panel before the next ones, and stay in the
 * nearest cache. */
enum { INT8_CHUNK = 4 };

/* x.scale and `minimum` belong to the weights' blocks, `parts` of each of which have their own. */
static inline __attribute__((always_inline)) void
rows_int8(const size_t rows, const size_t vectors, const size_t parts, tile_int8_function *tile,
          const struct panel_call x, const float *minimum) {
    const size_t columns = vectors * LANES, blocks = q8_blocks(x.k);
    float c[PANEL_WIDTH * PANEL_ROWS]; /* [m, columns] */
    for (size_t d = 0; d < blocks; d += INT8_CHUNK) {
        size_t depth = blocks - d < INT8_CHUNK ? blocks - d : INT8_CHUNK;
        bool last = d + depth == blocks;
        for (size_t r = 0; r < x.m; r += rows) {
            const struct int8_operands o = {
                .p = (const char *)x.packed + (d * QUADS * x.width + r) * 4,
                .x_scale = int8_scales(x.packed, x.width, blocks) + d * x.width + r,
                .x_sum = int8_sums(x.packed, x.width, blocks) + d * parts * x.width + r,
                .b = (const char *)x.b + d * Q8_BLOCK * columns,
                .begin = int8_begin(x.b, blocks) + d * parts * columns,
                .scale = x.scale + d * parts * columns,
                .minimum = minimum ? minimum + d * parts * columns : NULL};
            if (last)
                fetch_tile(rows, x.y + r * x.ldy, r, x.m, x.n, x.ldy);
            tile(depth, d == 0, x.width, &o, c + r * columns);
            if (last)
                finish_rows(x.m - r < rows ? x.m - r : rows, x.n, c + r * columns, columns, x.bias,
                            x.relu, x.y + r * x.ldy, x.ldy);
        }
    }
}

/* By the shape that has as many columns as the panel. */
static inline __attribute__((always_inline)) void
columns_int8(const size_t parts, const struct panel_call x, const float *minimum) {
    if (x.n > 2 * LANES)
        rows_int8(4, 3, parts, parts == 1 ? tile_int8_4x3_1 : tile_int8_4x3_2, x, minimum);
    else if (x.n > LANES)
        rows_int8(4, 2, parts, parts == 1 ? tile_int8_4x2_1 : tile_int8_4x2_2, x, minimum);
    else
        rows_int8(8, 1, parts, parts == 1 ? tile_int8_8x1_1 : tile_int8_8x1_2, x, minimum);
}

static void panel_int8(const struct panel_call *call) {
    columns_int8(1, *call, NULL);
}

static void pack_tiles_int8(size_t m, size_t width, size_t k, const float *x, size_t ldx,
                            void *out) {
    pack_bytes(true, m, width, k, x, ldx, out);
}

static void panel_tiles_int8(const struct panel_call *call) {
    struct panel_call x = *call;
    const size_t blocks = q8_blocks(x.k), columns = (x.n + LANES - 1) / LANES * LANES;
    x.scale = int8_tile_scales(x.b, blocks, columns);
    columns_int8(TILE_BLOCKS, x, x.scale + blocks * TILE_BLOCKS * columns);
}

static const struct panels tile_panels = {
    .element = sizeof(float),
    .unit = 16,
    .most_rows = SIZE_MAX,
    .instruction = INT8_INSTRUCTION,
    .pack = pack_tiles_int8,
    .prepare_tiles = prepare_tiles_int8,
    .panel = panel_tiles_int8,
};

#endif

#else

static void pack_int8(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out) {
    pack(m, width, k, x, ldx, out);
    for (size_t first = 0; first < width; first += LANES) {
        for (size_t i = 0; i < k; i += Q8_BLOCK) {
            size_t n = k - i < Q8_BLOCK ? k - i : Q8_BLOCK;
            float *lines = (float *)out + i * width + first;
            vec column[Q8_BLOCK];
            for (size_t j = 0; j < n; j++)
                column[j] = load_f32(lines + j * width);
            vec scale = round_columns(n, column);
            for (size_t j = 0; j < n; j++)
                store_f32(lines + j * width, column[j] * scale);
        }
    }
}

#define INT8_INSTRUCTION NULL
#define prepare_int8 prepare_q8
#define panel_int8 panel

static const struct panels rounded_tile_panels = {
    .element = sizeof(float),
    .unit = 16,
    .most_rows = SIZE_MAX,
    .pack = pack_int8,
    .panel = panel,
};

#endif

/* A packed row with its scales takes no more bytes than one in f32. */
static const struct panels int8_panels = {
    .element = sizeof(float),
    .unit = 16,
    .most_rows = SIZE_MAX,
    .instruction = INT8_INSTRUCTION,
    .pack = pack_int8,
    .prepare = prepare_int8,
    .panel = panel_int8,
};

#endif
