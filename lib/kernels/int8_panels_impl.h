/* Panels of weights in q8 that also round activations to 8 bits, and so multiply integers.  The 64
 * consecutive activations that meet one scale of the weights share a scale too: the largest
 * magnitude divided by 127.  Sums of 64 products are exact; they are scaled and added up in f32.
 *
 * Where the processor has no fast instruction for products of bytes, the rounded activations are
 * multiplied in f32: results are the same within the rounding of f32.
 *
 * Then it is a part of kernels_impl.h, which has pack, panel and prepare_q8; else of the file that
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
 * bytes; after them the scales, [blocks, width].  Tile instructions take signed bytes.  Vector
 * instructions take unsigned ones: 128 is added to each, and 128 times the sum of the weights is
 * subtracted from the result. */
#if defined(MULTIPLIES_BYTES_IN_TILES)
enum { BYTE_OFFSET = 0 };
#else
enum { BYTE_OFFSET = 128 };
#endif
enum { QUADS = Q8_BLOCK / 4 };

static inline float *int8_scales(const void *packed, size_t width, size_t blocks) {
    return (float *)((char *)packed + blocks * Q8_BLOCK * width);
}

/* Joins four columns of LANES rows into a line of bytes. */
static inline ivec join_bytes(const vec x[4]) {
    const ivec offset = (ivec){0} + BYTE_OFFSET;
    ivec line = {0};
    UNROLL for (int i = 0; i < 4; i++) line |=
        ((__builtin_convertvector(x[i], ivec) + offset) & 0xff) << (8 * i);
    return line;
}

static void pack_int8(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out,
                      float *x_scale) {
    (void)x_scale;
    float *scale = int8_scales(out, width, q8_blocks(k));
    for (size_t first = 0; first < width; first += LANES) {
        size_t rows = first >= m ? 0 : m - first < LANES ? m - first : LANES;
        for (size_t d = 0; d < q8_blocks(k); d++) {
            vec column[Q8_BLOCK];
            for (size_t i = 0; i < Q8_BLOCK; i += LANES) {
                size_t at = d * Q8_BLOCK + i, left = at < k ? k - at : 0;
                transpose_part(x + first * ldx + at, ldx, left ? rows : 0,
                               left < LANES ? left : LANES, column + i);
            }
            store_f32(scale + d * width + first, round_columns(Q8_BLOCK, column));
            for (size_t g = 0; g < QUADS; g++) {
                ivec line = join_bytes(column + 4 * g);
                memcpy((char *)out + ((d * QUADS + g) * width + first) * 4, &line, sizeof line);
            }
        }
    }
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

static void panel_int8(size_t m, size_t width, size_t n, size_t k, const void *packed,
                       const float *x_scale, const void *b, const float *scale, const float *bias,
                       bool relu, float *y, size_t ldy, const void *next) {
    const size_t blocks = q8_blocks(k);
    float c[PANEL_ROWS * PANEL_WIDTH]; /* [n, width] */
    (void)next;
    x_scale = int8_scales(packed, width, blocks);
    tiles_begin();
    for (size_t r = 0; r < n; r += LANES) {
        for (size_t t = 0; t < width; t += LANES)
            tile_int8(n - r < LANES ? n - r : LANES, blocks, (const char *)packed + t * 4,
                      x_scale + t, width, (const int8_t *)b + r * blocks * Q8_BLOCK,
                      scale + r * blocks, c + r * width + t);
    }
    tiles_end();
    finish_panel(m, width, n, c, NULL, bias, relu, y, ldy);
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

/* Adds to c[rows, vectors LANES], or with `first` sets it to, the products of `depth` blocks.  Half
 * of the registers hold the sums of a block, half those of all. */
static inline __attribute__((always_inline)) void tile_int8(const int rows, const int vectors,
                                                            size_t depth, bool first, const char *p,
                                                            const float *x_scale, size_t width,
                                                            const char *b, const int32_t *begin,
                                                            const float *scale, float *c) {
    vec total[8][3];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) total[r][v] =
            first ? splat(0) : load_f32(c + (r * vectors + v) * LANES);
    }
    for (size_t d = 0; d < depth; d++) {
        ivec sum[8][3];
        UNROLL for (int v = 0; v < vectors; v++) {
            memcpy(&sum[0][v], begin + v * LANES, sizeof(ivec));
            UNROLL for (int r = 1; r < rows; r++) sum[r][v] = sum[0][v];
        }
        for (size_t g = 0; g < QUADS; g++, p += width * 4, b += vectors * 64) {
            ivec line[3];
            UNROLL for (int v = 0; v < vectors; v++) memcpy(&line[v], b + v * 64, sizeof(ivec));
            UNROLL for (int r = 0; r < rows; r++) {
                float four;
                memcpy(&four, p + 4 * r, sizeof four);
                const ivec x = (ivec)splat(four);
                UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                    add_bytes(sum[r][v], x, line[v]);
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            const vec x = splat(x_scale[r]);
            UNROLL for (int v = 0; v < vectors; v++) total[r][v] +=
                __builtin_convertvector(sum[r][v], vec) * (x * load_f32(scale + v * LANES));
        }
        begin += vectors * LANES;
        scale += vectors * LANES;
        x_scale += width;
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++)
            store_f32(c + (r * vectors + v) * LANES, total[r][v]);
    }
}

/* Each shape is a function of its own, whose registers hold nothing but its sums. */
typedef void tile_int8_function(size_t depth, bool first, const char *p, const float *x_scale,
                                size_t width, const char *b, const int32_t *begin,
                                const float *scale, float *c);
#define TILE_INT8(ROWS, VECTORS)                                                                   \
    static __attribute__((noinline)) void tile_int8_##ROWS##x##VECTORS(                            \
        size_t depth, bool first, const char *p, const float *x_scale, size_t width,               \
        const char *b, const int32_t *begin, const float *scale, float *c) {                       \
        tile_int8(ROWS, VECTORS, depth, first, p, x_scale, width, b, begin, scale, c);             \
    }
TILE_INT8(4, 3)
TILE_INT8(4, 2)
TILE_INT8(8, 1)

/* Blocks of the weights that meet all rows of the panel before the next ones, and stay in the
 * nearest cache. */
enum { INT8_CHUNK = 4 };

static inline __attribute__((always_inline)) void
rows_int8(const size_t rows, const size_t vectors, tile_int8_function *tile, size_t m, size_t width,
          size_t n, size_t blocks, const void *packed, const void *b, const float *scale,
          const float *bias, bool relu, float *y, size_t ldy) {
    const size_t columns = vectors * LANES;
    float c[PANEL_WIDTH * PANEL_ROWS]; /* [m, columns] */
    for (size_t d = 0; d < blocks; d += INT8_CHUNK) {
        size_t depth = blocks - d < INT8_CHUNK ? blocks - d : INT8_CHUNK;
        bool last = d + depth == blocks;
        for (size_t r = 0; r < m; r += rows) {
            if (last)
                fetch_tile(rows, y + r * ldy, r, m, n, ldy);
            tile(depth, d == 0, (const char *)packed + (d * QUADS * width + r) * 4,
                 int8_scales(packed, width, blocks) + d * width + r, width,
                 (const char *)b + d * Q8_BLOCK * columns, int8_begin(b, blocks) + d * columns,
                 scale + d * columns, c + r * columns);
            if (last)
                finish_rows(m - r < rows ? m - r : rows, n, c + r * columns, columns, bias, relu,
                            y + r * ldy, ldy);
        }
    }
}

static void panel_int8(size_t m, size_t width, size_t n, size_t k, const void *packed,
                       const float *x_scale, const void *b, const float *scale, const float *bias,
                       bool relu, float *y, size_t ldy, const void *next) {
    const size_t blocks = q8_blocks(k);
    (void)x_scale;
    (void)next;
    if (n > 2 * LANES)
        rows_int8(4, 3, tile_int8_4x3, m, width, n, blocks, packed, b, scale, bias, relu, y, ldy);
    else if (n > LANES)
        rows_int8(4, 2, tile_int8_4x2, m, width, n, blocks, packed, b, scale, bias, relu, y, ldy);
    else
        rows_int8(8, 1, tile_int8_8x1, m, width, n, blocks, packed, b, scale, bias, relu, y, ldy);
}

#endif

#else

static void pack_int8(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out,
                      float *x_scale) {
    pack(m, width, k, x, ldx, out, x_scale);
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
