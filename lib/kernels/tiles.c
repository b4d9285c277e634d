/* The body of the tables of products with weights in tiles: see struct tile_kernels.  Compiled once
 * for each kind of processor, with LANES and PROCESSOR from the build. */
#include "fused.h"

enum { PARTS = TILE_HEIGHT / LANES, MOST_ROWS = 4, X_MAX = 127 * 256 + 127 };

/* ---- Four columns of LANES rows ------------------------------------------------------------ */

/* A `line` has four levels for each row, and x four signed bytes that they are multiplied by.  A
 * partial sum is in 32 bits if SUMS_WIDELY, else in 16: then it holds a block's sixteen products of
 * q4 and eight of q5, of a pair of columns: 8 x 2 x 15 x 128 = 30,720, 4 x 2 x 31 x 128 = 31,744.
 */

static inline ivec splat_integer(int32_t x) {
    return (ivec)splat(float_of_bits((uint32_t)x));
}

#if defined(__AVX512VNNI__)
#define SUMS_WIDELY true
typedef ivec partial;

/* An intrinsic's vectors of 64-bit integers would make gcc 12 copy every sum at every step. */
static inline __attribute__((always_inline)) partial add_line(partial sum, ivec line, ivec x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(line), "v"(x));
    return sum;
}

static inline ivec widen_partial(partial sum) {
    return sum;
}

#elif LANES == 16
#define SUMS_WIDELY false
typedef ivec partial;

static inline partial add_line(partial sum, ivec line, ivec x) {
    return (ivec)_mm512_add_epi16((__m512i)sum, _mm512_maddubs_epi16((__m512i)line, (__m512i)x));
}

static inline ivec widen_partial(partial sum) {
    return (ivec)_mm512_madd_epi16((__m512i)sum, _mm512_set1_epi16(1));
}

#elif LANES == 8
#define SUMS_WIDELY false
typedef ivec partial;

static inline partial add_line(partial sum, ivec line, ivec x) {
    return (ivec)_mm256_add_epi16((__m256i)sum, _mm256_maddubs_epi16((__m256i)line, (__m256i)x));
}

static inline ivec widen_partial(partial sum) {
    return (ivec)_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1));
}

#elif defined(USE_NEON)
#define SUMS_WIDELY false
typedef struct {
    int16x8_t low, high; /* one product a lane: no pairs */
} partial;

static inline partial add_line(partial sum, ivec line, ivec x) {
    const int8x16_t q = vreinterpretq_s8_s32((int32x4_t)line);
    const int8x16_t y = vreinterpretq_s8_s32((int32x4_t)x);
    sum.low = vmlal_s8(sum.low, vget_low_s8(q), vget_low_s8(y));
    sum.high = vmlal_high_s8(sum.high, q, y);
    return sum;
}

static inline ivec widen_partial(partial sum) {
    return (ivec)vpaddq_s32(vpaddlq_s16(sum.low), vpaddlq_s16(sum.high));
}

#else
#define SUMS_WIDELY true
typedef ivec partial;

/* The bytes of each lane in 16 bits, the first and the third, and the second and the fourth. */
static inline partial add_line(partial sum, ivec line, ivec x) {
    typedef int16_t pairs __attribute__((vector_size(LANES * 4)));
    const ivec even = line & 0x00ff00ff, odd = (ivec)((uvec)line >> 8) & 0x00ff00ff;
    const pairs x_even = (pairs)(x << 8) >> 8, x_odd = (pairs)x >> 8;
    return sum + pair_products((pairs)even, x_even) + pair_products((pairs)odd, x_odd);
}

static inline ivec widen_partial(partial sum) {
    return sum;
}

#endif

/* ---- Rounding ----------------------------------------------------------------------------- */

/* Writes LANES integers as upper and lower bytes. */
static inline void store_halves(ivec x, uint8_t *upper, uint8_t *lower) {
    typedef uint8_t bytes __attribute__((vector_size(LANES)));
    const bytes high = __builtin_convertvector((x + 128) >> 8 & 255, bytes);
    const bytes low = __builtin_convertvector(x & 255, bytes);
    memcpy(upper, &high, sizeof high);
    memcpy(lower, &low, sizeof low);
}

static void round_row(size_t k, const float *x, uint8_t *out, float *scale) {
    const vec round = splat(0x1.8p23f); /* adding it leaves the nearest integer in the low bits */
    vec best = {0}, odd = {0};          /* not zero if an element is not finite */
    for (size_t i = 0; i < k; i += LANES) {
        vec y = i + LANES <= k ? load_f32(x + i) : load_tail(x + i, k - i, 0);
        best = larger(larger(y, -y), best);
        odd += y - y;
    }
    const float most = max_lanes(best);
    const vec factor = splat(most > 0x1p-100f ? X_MAX / most : 0);
    *scale = most / X_MAX + sum_lanes(odd);
    for (size_t i = 0; i < tiles_across(k) * TILE_WIDTH; i += TILE_BLOCK) {
        uint8_t *tile = out + i / TILE_WIDTH * TILE_INPUT, *upper = tile + i % TILE_WIDTH;
        uvec sums = {0}; /* unsigned, because those of a row that is not finite may overflow */
        UNROLL for (size_t j = 0; j < TILE_BLOCK; j += LANES) {
            const size_t at = i + j, left = at < k ? k - at : 0;
            const vec y = left >= LANES ? load_f32(x + at) : load_tail(x + at, left, 0);
            const ivec z = (ivec)(y * factor + round) - (ivec)round;
            store_halves(z, upper + j, upper + TILE_WIDTH + j);
            sums += (uvec)z;
        }
        uint32_t lane[LANES], sum = 0;
        memcpy(lane, &sums, sizeof sums);
        for (size_t j = 0; j < LANES; j++)
            sum += lane[j];
        const float as_float = (float)(int32_t)sum;
        memcpy(tile + 2 * TILE_WIDTH + i % TILE_WIDTH / TILE_BLOCK * sizeof(float), &as_float,
               sizeof as_float);
    }
}

static void round_rows(size_t m, size_t k, const float *x, size_t ldx, uint8_t *out,
                       float *x_scale) {
    for (size_t r = 0; r < m; r++)
        round_row(k, x + r * ldx, out + r * tiles_across(k) * TILE_INPUT, x_scale + r);
}

/* ---- Products ----------------------------------------------------------------------------- */

static inline ivec load_four(const uint8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return splat_integer(four);
}

/* The sums of a block for LANES rows of weights and `rows` rows of activations: level times X. */
static inline __attribute__((always_inline)) void block_sums(const int top, const int rows,
                                                             const uint8_t *tile, size_t block,
                                                             size_t p, const uint8_t *a, size_t lda,
                                                             ivec sum[MOST_ROWS]) {
    partial high[MOST_ROWS], low[MOST_ROWS];
    ivec wide_high[MOST_ROWS], wide_low[MOST_ROWS];
    const bool twice = top == Q5_TOP && !SUMS_WIDELY;
    UNROLL for (int half = 0; half < 2; half++) {
        UNROLL for (int r = 0; r < rows; r++) if (half == 0 || twice) high[r] = low[r] =
            (partial){0};
        UNROLL for (int l = 2 * half; l < 2 * half + 2; l++) {
            ivec level[2];
            load_levels(top, tile, block, p, l, level);
            UNROLL for (int r = 0; r < rows; r++) {
                const uint8_t *x = a + (size_t)r * lda + block * TILE_BLOCK + 4 * l;
                high[r] = add_line(high[r], level[0], load_four(x));
                low[r] = add_line(low[r], level[0], load_four(x + TILE_WIDTH));
                high[r] = add_line(high[r], level[1], load_four(x + 16));
                low[r] = add_line(low[r], level[1], load_four(x + TILE_WIDTH + 16));
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            if (half == 0 && twice) {
                wide_high[r] = widen_partial(high[r]);
                wide_low[r] = widen_partial(low[r]);
            } else if (half == 1) {
                ivec upper = widen_partial(high[r]), lower = widen_partial(low[r]);
                sum[r] = twice ? ((upper + wide_high[r]) << 8) + (lower + wide_low[r])
                               : (upper << 8) + lower;
            }
        }
    }
}

/* Adds to `scaled` and `minimum` what the tiles of 16 rows give for `rows` rows of activations. */
static inline __attribute__((always_inline)) void
add_tiles(const int top, const int rows, size_t across, const uint8_t *a, size_t lda,
          const uint8_t *tile, vec scaled[MOST_ROWS][PARTS], vec minimum[MOST_ROWS][PARTS]) {
    for (; across > 0; across--, a += TILE_INPUT, tile += tile_bytes(top)) {
        for (size_t i = 0; i < tile_bytes(top); i += TILE_LINE)
            prefetch(tile + i);
        UNROLL for (size_t block = 0; block < TILE_BLOCKS; block++) {
            UNROLL for (size_t p = 0; p < PARTS; p++) {
                ivec sum[MOST_ROWS];
                block_sums(top, rows, tile, block, p, a, lda, sum);
                const uint8_t *code = tile + 2 * block * TILE_HEIGHT + p * LANES;
                const vec c = load_bytes(code), n = load_bytes(code + TILE_HEIGHT);
                UNROLL for (int r = 0; r < rows; r++) {
                    float x;
                    memcpy(&x, a + (size_t)r * lda + 2 * TILE_WIDTH + block * sizeof x, sizeof x);
                    scaled[r][p] =
                        add_product(__builtin_convertvector(sum[r], vec), c, scaled[r][p]);
                    minimum[r][p] = add_product(splat(x), n, minimum[r][p]);
                }
            }
        }
    }
}

/* Some rows of a product, those of B that lie in one row of tiles. */
struct part {
    size_t first, end; /* of B's rows: which of the sixteen */
    const float *factors;
    float *c; /* of row `first` */
    size_t ldc;
};

static inline __attribute__((always_inline)) void
multiply_tiles(const int top, const int rows, size_t across, const uint8_t *a, const float *a_scale,
               const uint8_t *tile, const struct part *part) {
    const size_t lda = across * TILE_INPUT;
    vec scaled[MOST_ROWS][PARTS], minimum[MOST_ROWS][PARTS];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (size_t p = 0; p < PARTS; p++) scaled[r][p] =
        minimum[r][p] = splat(0);
    add_tiles(top, rows, across, a, lda, tile, scaled, minimum);
    float d[TILE_HEIGHT] = {0}, e[TILE_HEIGHT] = {0}, y[TILE_HEIGHT];
    for (size_t j = part->first; j < part->end; j++) {
        d[j] = part->factors[2 * j];
        e[j] = part->factors[2 * j + 1];
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (size_t p = 0; p < PARTS; p++) {
            const vec z = scaled[r][p] * load_f32(d + p * LANES);
            store_f32(y + p * LANES,
                      add_product(-minimum[r][p], load_f32(e + p * LANES), z) * splat(a_scale[r]));
        }
        memcpy(part->c + (size_t)r * part->ldc, y + part->first,
               (part->end - part->first) * sizeof *y);
    }
}

static inline __attribute__((always_inline)) void product(const int top, size_t m, const uint8_t *a,
                                                          const float *a_scale,
                                                          const struct tile_rows *b, float *c,
                                                          size_t ldc) {
    const size_t across = tiles_across(b->n_col), lda = across * TILE_INPUT;
    const uint8_t *tile = b->tile;
    struct part part = {.first = b->skip, .factors = b->factors, .ldc = ldc};
    for (size_t done = 0, n; done < b->n_row; done += n, part.first = 0) {
        n = TILE_HEIGHT - part.first < b->n_row - done ? TILE_HEIGHT - part.first : b->n_row - done;
        part.end = part.first + n;
        size_t r = 0;
        for (; r + MOST_ROWS <= m; r += MOST_ROWS) {
            part.c = c + r * ldc + done;
            multiply_tiles(top, MOST_ROWS, across, a + r * lda, a_scale + r, tile, &part);
        }
        part.c = c + r * ldc + done;
        if (m - r == 3)
            multiply_tiles(top, 3, across, a + r * lda, a_scale + r, tile, &part);
        else if (m - r == 2)
            multiply_tiles(top, 2, across, a + r * lda, a_scale + r, tile, &part);
        else if (m - r == 1)
            multiply_tiles(top, 1, across, a + r * lda, a_scale + r, tile, &part);
        tile += across * tile_bytes(top);
        part.factors += 2 * TILE_HEIGHT;
    }
}

static void product_q4(size_t m, const uint8_t *a, const float *a_scale, const struct tile_rows *b,
                       float *c, size_t ldc) {
    product(Q4_TOP, m, a, a_scale, b, c, ldc);
}

static void product_q5(size_t m, const uint8_t *a, const float *a_scale, const struct tile_rows *b,
                       float *c, size_t ldc) {
    product(Q5_TOP, m, a, a_scale, b, c, ldc);
}

/* ---- Widening ------------------------------------------------------------------------------ */

typedef uint32_t four_words __attribute__((vector_size(16)));

/* The levels of row `row` in a block: 16 bytes of columns 0 to 15, and of 16 to 31. */
static inline void row_levels(const int top, const uint8_t *tile, size_t block, size_t row,
                              four_words level[2]) {
    const uint8_t *lines = tile + TILE_LINES + block * TILE_BLOCK_LINES * TILE_LINE + 4 * row;
    uint32_t word[4], fifth;
    for (size_t l = 0; l < 4; l++)
        memcpy(&word[l], lines + l * TILE_LINE, sizeof *word);
    const four_words both = {word[0], word[1], word[2], word[3]};
    level[0] = both & 0x0f0f0f0f;
    level[1] = both >> 4 & 0x0f0f0f0f;
    if (top == Q5_TOP) {
        memcpy(&fifth, tile + TILE_FIFTH + block * TILE_LINE + 4 * row, sizeof fifth);
        const four_words bits = {fifth, fifth, fifth, fifth}, line = {0, 1, 2, 3};
        level[0] |= (bits >> line & 0x01010101) << 4;
        level[1] |= (bits >> (line + 4) & 0x01010101) << 4;
    }
}

/* Bytes LANES i and those after it. */
static inline vec part_of_levels(four_words level, size_t i) {
#if LANES == 16
    (void)i;
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32((__m128i)level));
#elif LANES == 8
    const __m128i bytes = i == 0 ? (__m128i)level : _mm_srli_si128((__m128i)level, 8);
    return (vec)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
#else
    uint8_t bytes[4];
    const uint32_t word = level[i];
    memcpy(bytes, &word, sizeof bytes);
    return load_bytes(bytes);
#endif
}

/* Widens the first `columns` of row `row` of a tile. */
static inline __attribute__((always_inline)) void widen_tile(const int top, const uint8_t *tile,
                                                             size_t row, const float *factors,
                                                             size_t columns, float *out) {
    UNROLL for (size_t block = 0; block < TILE_BLOCKS; block++) {
        const uint8_t *code = tile + 2 * block * TILE_HEIGHT + row;
        const vec scale = splat((float)code[0] * factors[0]);
        const vec minimum = splat((float)code[TILE_HEIGHT] * factors[1]);
        four_words level[2];
        row_levels(top, tile, block, row, level);
        UNROLL for (size_t i = 0; i < TILE_BLOCK; i += LANES) {
            const size_t at = block * TILE_BLOCK + i;
            const vec x = scale * part_of_levels(level[i / 16], i % 16 / LANES) - minimum;
            if (at + LANES <= columns)
                store_f32(out + at, x);
            else if (at < columns)
                store_tail(out + at, columns - at, x);
        }
    }
}

static inline __attribute__((always_inline)) void widen(const int top, const struct tile_rows *b,
                                                        float *out) {
    const size_t across = tiles_across(b->n_col), end = b->skip + b->n_row;
    for (size_t first = 0; first < end; first += TILE_HEIGHT) {
        const uint8_t *tile = b->tile + first / TILE_HEIGHT * across * tile_bytes(top);
        const size_t from = first < b->skip ? b->skip : first;
        const size_t to = end - first < TILE_HEIGHT ? end : first + TILE_HEIGHT;
        for (size_t t = 0; t < across; t++, tile += tile_bytes(top)) {
            const size_t left = b->n_col - t * TILE_WIDTH;
            for (size_t row = from; row < to; row++)
                widen_tile(top, tile, row - first, b->factors + 2 * row,
                           left < TILE_WIDTH ? left : TILE_WIDTH,
                           out + (row - b->skip) * b->n_col + t * TILE_WIDTH);
        }
    }
}

static void widen_q4(const struct tile_rows *b, float *out) {
    widen(Q4_TOP, b, out);
}

static void widen_q5(const struct tile_rows *b, float *out) {
    widen(Q5_TOP, b, out);
}

const struct tile_kernels TABLE(tiles) = {.name = KERNELS_NAME,
                                          .round = round_rows,
                                          .product = {product_q4, product_q5},
                                          .widen = {widen_q4, widen_q5}};
