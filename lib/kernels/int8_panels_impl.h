/* Panels of weights in q8 that also round activations to 8 bits, and so multiply integers.  The 64
 * consecutive activations that meet one scale of the weights share a scale too: the largest
 * magnitude divided by 127.  Sums of 64 products are exact; they are scaled and added up in f32.
 *
 * Where the processor has no fast instruction for products of bytes, the rounded activations are
 * multiplied in f32: results are the same within the rounding of f32.
 *
 * Part of kernels_impl.h, which has pack, panel and prepare_q8.  The including file says what the
 * processor can do (loads_avx512.h, tiles_amx.h).  The compiler's flags do not: with -march=native
 * they are the same for the kernels of every processor. */
#ifndef TXL_INT8_PANELS_IMPL_H
#define TXL_INT8_PANELS_IMPL_H

#include "finish_panel.h"
#include "instruction.h"
#include "lanes.h"
#include "lib/base/q8.h"

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
 * bytes; behind them the scales, [blocks, width].  Tile instructions take signed bytes.  Vector
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

/* The place of the numbers to subtract from the sums, [rows, blocks]: behind the weights of
 * PANEL_ROWS rows, padded to whole blocks. */
static inline int32_t *int8_excess(const void *weights, size_t blocks) {
    return (int32_t *)((char *)weights + PANEL_ROWS * blocks * Q8_BLOCK);
}

static int32_t sum_of_bytes(const int8_t *x) {
    return _mm512_reduce_add_epi32(
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), _mm512_loadu_si512(x)));
}

static void prepare_int8(size_t n, size_t k, const void *b, const float *scale, void *out,
                         float *out_scale) {
    const size_t blocks = q8_blocks(k), row = blocks * Q8_BLOCK;
    int32_t *excess = int8_excess(out, blocks);
    memcpy(out_scale, scale, n * blocks * sizeof *scale);
    for (size_t r = 0; r < n; r++) {
        int8_t *to = (int8_t *)out + r * row;
        memcpy(to, (const int8_t *)b + r * k, k);
        memset(to + k, 0, row - k);
        for (size_t d = 0; d < blocks && BYTE_OFFSET > 0; d++)
            excess[r * blocks + d] = BYTE_OFFSET * sum_of_bytes(to + d * Q8_BLOCK);
    }
    size_t last = (n + LANES - 1) / LANES * LANES; /* tiles are processed whole */
    memset((int8_t *)out + n * row, 0, (last - n) * row);
}

#if defined(MULTIPLIES_BYTES_IN_TILES)

TILE_INSTRUCTION(dpbssd, 64);
#define INT8_INSTRUCTION &tdpbssd

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

static void multiply_int8(size_t width, size_t n, size_t blocks, const void *packed, const void *b,
                          const float *scale, float *c, size_t m, float *y, size_t ldy) {
    const float *x_scale = int8_scales(packed, width, blocks);
    (void)m, (void)y, (void)ldy;
    tiles_begin();
    for (size_t r = 0; r < n; r += LANES) {
        for (size_t t = 0; t < width; t += LANES)
            tile_int8(n - r < LANES ? n - r : LANES, blocks, (const char *)packed + t * 4,
                      x_scale + t, width, (const int8_t *)b + r * blocks * Q8_BLOCK,
                      scale + r * blocks, c + r * width + t);
    }
    tiles_end();
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

/* Adds to c[rows, vectors LANES], or with `begin` sets it to, the products of `depth` of the
 * panel's and the rows' `blocks`.  Half of the registers hold the sums of a block, half those of
 * all. */
static inline __attribute__((always_inline)) void tile_int8(const int rows, const int vectors,
                                                            size_t depth, size_t blocks, bool begin,
                                                            const char *p, const float *x_scale,
                                                            const int8_t *b, const int32_t *excess,
                                                            const float *scale, float *c) {
    vec total[16][4];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) total[r][v] =
            begin ? splat(0) : load_f32(c + (r * vectors + v) * LANES);
    }
    for (size_t d = 0; d < depth; d++, x_scale += (size_t)vectors * LANES) {
        ivec sum[16][4];
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                (ivec){0} - excess[(size_t)r * blocks + d];
        }
        for (size_t g = 0; g < QUADS; g++, p += (size_t)vectors * 64, b += 4) {
            ivec line[4];
            UNROLL for (int v = 0; v < vectors; v++) memcpy(&line[v], p + v * 64, sizeof(ivec));
            UNROLL for (int r = 0; r < rows; r++) {
                float four;
                memcpy(&four, b + (size_t)r * blocks * Q8_BLOCK, sizeof four);
                const ivec x = (ivec)splat(four);
                UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                    add_bytes(sum[r][v], line[v], x);
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            const vec s = splat(scale[(size_t)r * blocks + d]);
            UNROLL for (int v = 0; v < vectors; v++) total[r][v] +=
                __builtin_convertvector(sum[r][v], vec) * (load_f32(x_scale + v * LANES) * s);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++)
            store_f32(c + (r * vectors + v) * LANES, total[r][v]);
    }
}

/* Each shape is a function of its own, whose registers hold nothing but its sums. */
typedef void tile_int8_function(size_t depth, size_t blocks, bool begin, const char *p,
                                const float *x_scale, const int8_t *b, const int32_t *excess,
                                const float *scale, float *c);
#define TILE_INT8(ROWS, VECTORS)                                                                   \
    static __attribute__((noinline)) void tile_int8_##ROWS##x##VECTORS(                            \
        size_t depth, size_t blocks, bool begin, const char *p, const float *x_scale,              \
        const int8_t *b, const int32_t *excess, const float *scale, float *c) {                    \
        tile_int8(ROWS, VECTORS, depth, blocks, begin, p, x_scale, b, excess, scale, c);           \
    }
TILE_INT8(3, 4)
TILE_INT8(4, 3)
TILE_INT8(6, 2)
TILE_INT8(12, 1)
TILE_INT8(1, 4)
TILE_INT8(1, 3)
TILE_INT8(1, 2)
TILE_INT8(1, 1)

/* Blocks of the panel that meet all rows before the next ones, and stay in the nearest cache. */
enum { INT8_CHUNK = 8 };

/* Multiplies n rows of weights by a panel as wide as the vectors: c[n, width]. */
static inline __attribute__((always_inline)) void
columns_int8(const int rows, const int vectors, tile_int8_function *many, tile_int8_function *one,
             size_t n, size_t blocks, const void *packed, const int8_t *b, const float *scale,
             float *c, size_t m, float *y, size_t ldy) {
    const size_t width = (size_t)vectors * LANES, row = blocks * Q8_BLOCK;
    const float *x_scale = int8_scales(packed, width, blocks);
    const int32_t *excess = int8_excess(b, blocks);
    const char *p = packed;
    for (size_t d = 0; d < blocks; d += INT8_CHUNK) {
        size_t depth = blocks - d < INT8_CHUNK ? blocks - d : INT8_CHUNK;
        for (size_t r = 0, some; r < n; r += some) {
            bool whole = n - r >= (size_t)rows;
            some = whole ? (size_t)rows : 1;
            (whole ? many : one)(depth, blocks, d == 0, p, x_scale, b + r * row + d * Q8_BLOCK,
                                 excess + r * blocks + d, scale + r * blocks + d, c + r * width);
        }
        for (size_t i = d; i < d + depth; i++)
            fetch_part(i, blocks, m, n, y, ldy);
        p += depth * QUADS * width * 4;
        x_scale += depth * width;
    }
}

/* C[n, width] = B P; meanwhile Y[m, n], where C will go, is prefetched. */
static void multiply_int8(size_t width, size_t n, size_t blocks, const void *packed, const void *b,
                          const float *scale, float *c, size_t m, float *y, size_t ldy) {
    if (width == 64)
        columns_int8(3, 4, tile_int8_3x4, tile_int8_1x4, n, blocks, packed, b, scale, c, m, y, ldy);
    else if (width == 48)
        columns_int8(4, 3, tile_int8_4x3, tile_int8_1x3, n, blocks, packed, b, scale, c, m, y, ldy);
    else if (width == 32)
        columns_int8(6, 2, tile_int8_6x2, tile_int8_1x2, n, blocks, packed, b, scale, c, m, y, ldy);
    else
        columns_int8(12, 1, tile_int8_12x1, tile_int8_1x1, n, blocks, packed, b, scale, c, m, y,
                     ldy);
}

#endif

static void panel_int8(size_t m, size_t width, size_t n, size_t k, const void *packed,
                       const float *x_scale, const void *b, const float *scale, const float *bias,
                       bool relu, float *y, size_t ldy, const void *next) {
    (void)x_scale;
    (void)next;
    float c[PANEL_ROWS * PANEL_WIDTH]; /* [n, width] */
    multiply_int8(width, n, q8_blocks(k), packed, b, scale, c, m, y, ldy);
    finish_panel(m, width, n, c, NULL, bias, relu, y, ldy);
}

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
