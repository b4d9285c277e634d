/* The body of the tables of the exact arithmetic (weights-format.md, "Exact arithmetic"): every
 * table gives the same bits, for any number of rows together.  Compiled once for each kind of
 * processor, with LANES and PROCESSOR from the build. */

/* What many sessions remember comes from memory, one after another: a block of rows in 8 bits with
 * its scales is fetched ahead, and not yet into the first-level cache. */
#define AHEAD 4608
#define AHEAD_LOCALITY 2

#include "fused.h"

/* Rows of a tile of dot products: as many as the registers hold. */
#if LANES == 16 || defined(USE_NEON)
enum { DOT_ROWS = 6 };
#elif LANES == 8
enum { DOT_ROWS = 3 };
#else
enum { DOT_ROWS = 2 };
#endif

#include "elements_impl.h"
#include "integers_impl.h"
#include "multiply_i8_impl.h"
#include "multiply_impl.h"

/* ---- Sixteen sums ------------------------------------------------------------------------ */

/* Sums of many terms are sixteen sums, of which number j takes every term i with i mod 16 = j, in
 * order.  PARTS vectors hold them.  At the end sum j + 8 is added to sum j, then sum j + 4, j + 2
 * and j + 1. */
enum { SUMS = 16, PARTS = SUMS / LANES };

static inline float fold(const vec sum[PARTS]) {
#if LANES == 16
    return sum_lanes(sum[0]);
#elif LANES == 8
    return sum_lanes(sum[0] + sum[1]);
#else
    return sum_lanes((sum[0] + sum[2]) + (sum[1] + sum[3]));
#endif
}

/* LANES elements of x[n] from x[i] on, zeros beyond its end. */
static inline vec load_at(const float *x, size_t n, size_t i) {
    if (i + LANES <= n)
        return load_f32(x + i);
    return load_tail(x + i, i < n ? n - i : 0, 0);
}

static inline void store_at(float *x, size_t n, size_t i, vec y) {
    if (i + LANES <= n)
        store_f32(x + i, y);
    else if (i < n)
        store_tail(x + i, n - i, y);
}

/* y without the lanes that lie beyond the end of n elements, if lane 0 is element i. */
static inline vec keep_inside(vec y, size_t n, size_t i) {
    if (i + LANES <= n)
        return y;
    float lane[LANES] = {0};
    store_at(lane, i < n ? n - i : 0, 0, y);
    return load_f32(lane);
}

/* ---- Dot products ------------------------------------------------------------------------ */

enum { TYPE_F32, TYPE_F16, TYPE_BF16 }; /* as the index of `product` */

enum {
    DOT_COLUMNS = 4,
    CACHED_ROWS = 60 /* rows of A that meet one tile of B after another from the cache */
};

static inline size_t element_size(const int type) {
    return type == TYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

static inline vec load_element(const int type, const void *p) {
    return type == TYPE_F32 ? load_f32(p) : type == TYPE_F16 ? load_f16(p) : load_bf16(p);
}

/* One step of a tile: adds the products of elements i to i + 15 of `rows` rows of A and `columns`
 * rows of B, which are `stride` bytes from each other; those of lanes [first, end) of PARTS. */
static inline __attribute__((always_inline)) void dot_step(const int type, const int rows,
                                                           const int columns, const int first,
                                                           const int end, const float *a,
                                                           size_t lda, const char *b, size_t stride,
                                                           vec sum[DOT_ROWS][DOT_COLUMNS][PARTS]) {
    UNROLL for (int p = first; p < end; p++) {
        vec y[DOT_COLUMNS];
        UNROLL for (int j = 0; j < columns; j++) y[j] =
            load_element(type, b + (size_t)j * stride + (size_t)p * LANES * element_size(type));
        UNROLL for (int r = 0; r < rows; r++) {
            vec x = load_f32(a + (size_t)r * lda + (size_t)p * LANES);
            UNROLL for (int j = 0; j < columns; j++) sum[r][j][p] =
                add_product(x, y[j], sum[r][j][p]);
        }
    }
}

/* The last k < 16 elements, beside zeros. */
static inline __attribute__((always_inline)) void
dot_tail(const int type, const int rows, const int columns, size_t k, const float *a, size_t lda,
         const char *b, size_t stride, vec sum[DOT_ROWS][DOT_COLUMNS][PARTS]) {
    float x[DOT_ROWS * SUMS] = {0};
    uint16_t y[DOT_COLUMNS * SUMS * 2] = {0}; /* room for elements of any type */
    const size_t row = SUMS * element_size(type);
    for (int r = 0; r < rows; r++)
        memcpy(x + r * SUMS, a + (size_t)r * lda, k * sizeof *a);
    for (int j = 0; j < columns; j++)
        memcpy((char *)y + (size_t)j * row, b + (size_t)j * stride, k * element_size(type));
    dot_step(type, rows, columns, 0, PARTS, x, SUMS, (const char *)y, row, sum);
}

/* C[rows, columns] of dot products: columns of C, and rows of B, are `apart` from each other;
 * `type`, `rows` and `columns` are constants where it is inlined. */
static inline __attribute__((always_inline)) void
dot_tile(const int type, const int rows, const int columns, size_t k, const float *a, size_t lda,
         const void *b, size_t apart, float *c, size_t ldc) {
    const size_t size = element_size(type), stride = apart * k * size, whole = k / SUMS * SUMS;
    const char *bytes = b;
    vec sum[DOT_ROWS][DOT_COLUMNS][PARTS];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int j = 0; j < columns; j++)
        UNROLL for (int p = 0; p < PARTS; p++) sum[r][j][p] = splat(0);
    if (rows == 1) {
        for (size_t i = 0; i < whole; i += SUMS) {
            for (int j = 0; j < columns && type != TYPE_F32; j++)
                prefetch(bytes + (size_t)j * stride + i * size);
            dot_step(type, rows, columns, 0, PARTS, a + i, lda, bytes + i * size, stride, sum);
        }
    } else { /* a part at a time, which leaves registers for more rows */
        UNROLL for (int p = 0; p < PARTS; p++) for (size_t i = 0; i < whole; i += SUMS)
            dot_step(type, rows, columns, p, p + 1, a + i, lda, bytes + i * size, stride, sum);
    }
    if (whole < k)
        dot_tail(type, rows, columns, k - whole, a + whole, lda, bytes + whole * size, stride, sum);
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int j = 0; j < columns; j++)
        c[(size_t)r * ldc + (size_t)j * apart] = fold(sum[r][j]);
}

static inline __attribute__((always_inline)) void dot_rows(const int type, const int columns,
                                                           size_t m, size_t k, const float *a,
                                                           size_t lda, const void *b, float *c,
                                                           size_t ldc) {
    for (; m >= DOT_ROWS; m -= DOT_ROWS, a += DOT_ROWS * lda, c += DOT_ROWS * ldc)
        dot_tile(type, DOT_ROWS, columns, k, a, lda, b, 1, c, ldc);
    if (DOT_ROWS > 5 && m == 5)
        dot_tile(type, 5, columns, k, a, lda, b, 1, c, ldc);
    else if (DOT_ROWS > 4 && m == 4)
        dot_tile(type, 4, columns, k, a, lda, b, 1, c, ldc);
    else if (DOT_ROWS > 3 && m == 3)
        dot_tile(type, 3, columns, k, a, lda, b, 1, c, ldc);
    else if (DOT_ROWS > 2 && m == 2)
        dot_tile(type, 2, columns, k, a, lda, b, 1, c, ldc);
    else if (m == 1)
        dot_tile(type, 1, columns, k, a, lda, b, 1, c, ldc);
}

static inline __attribute__((always_inline)) void dot_products(const int type, size_t m, size_t n,
                                                               size_t k, const float *a, size_t lda,
                                                               const void *b, float *c,
                                                               size_t ldc) {
    const size_t row = k * element_size(type);
    const char *bytes = b;
    size_t part = n / DOT_COLUMNS;
    if (m == 1) { /* as many streams as columns, which a thread reads faster than one */
        for (size_t j = 0; j < part; j++)
            dot_tile(type, 1, DOT_COLUMNS, k, a, lda, bytes + j * row, part, c + j, ldc);
        for (size_t j = part * DOT_COLUMNS; j < n; j++)
            dot_tile(type, 1, 1, k, a, lda, bytes + j * row, 1, c + j, ldc);
        return;
    }
    for (; m > 0;) {
        size_t rows = m < CACHED_ROWS ? m : CACHED_ROWS, j = 0;
        for (; j + DOT_COLUMNS <= n; j += DOT_COLUMNS)
            dot_rows(type, DOT_COLUMNS, rows, k, a, lda, bytes + j * row, c + j, ldc);
        for (; j < n; j++)
            dot_rows(type, 1, rows, k, a, lda, bytes + j * row, c + j, ldc);
        m -= rows, a += rows * lda, c += rows * ldc;
    }
}

static void product_f32(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *b,
                        float *c, size_t ldc) {
    dot_products(TYPE_F32, m, n, k, a, lda, b, c, ldc);
}

static void product_f16(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *b,
                        float *c, size_t ldc) {
    dot_products(TYPE_F16, m, n, k, a, lda, b, c, ldc);
}

static void product_bf16(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *b,
                         float *c, size_t ldc) {
    dot_products(TYPE_BF16, m, n, k, a, lda, b, c, ldc);
}

/* ---- Dot products of integers ------------------------------------------------------------ */

/* In a block of 64 elements, sum j takes the products of elements 2 j, 2 j + 1, 2 j + 32 and
 * 2 j + 33: an integer below 2^24, which float holds exactly.  Times the block's scale it is added
 * to the sixteen sums. */
static inline __attribute__((always_inline)) void
q8_block(const int rows, const int columns, const int first, const int end, const int16_t *a,
         size_t lda, const int8_t *b, size_t stride, const float *scale, size_t scale_stride,
         vec sum[DOT_ROWS][DOT_COLUMNS][PARTS]) {
    UNROLL for (int p = first; p < end; p++) {
        const size_t low = (size_t)p * 2 * LANES, high = low + 2 * SUMS;
        UNROLL for (int j = 0; j < columns; j++) {
            const ivec16 y = load_ivec16(b + (size_t)j * stride + low);
            const ivec16 z = load_ivec16(b + (size_t)j * stride + high);
            const vec s = splat(scale[(size_t)j * scale_stride]);
            UNROLL for (int r = 0; r < rows; r++) {
                ivec16 u, v;
                memcpy(&u, a + (size_t)r * lda + low, sizeof u);
                memcpy(&v, a + (size_t)r * lda + high, sizeof v);
                ivec products = pair_products(u, y) + pair_products(v, z);
                sum[r][j][p] = add_product(__builtin_convertvector(products, vec), s, sum[r][j][p]);
            }
        }
    }
}

static inline __attribute__((always_inline)) void
q8_tile(const int rows, const int columns, size_t k, const int16_t *a, const float *a_scale,
        const int8_t *b, const float *scale, size_t apart, float *c, size_t ldc) {
    const size_t blocks = q8_blocks(k), lda = blocks * Q8_BLOCK, whole = k / Q8_BLOCK;
    vec sum[DOT_ROWS][DOT_COLUMNS][PARTS];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int j = 0; j < columns; j++)
        UNROLL for (int p = 0; p < PARTS; p++) sum[r][j][p] = splat(0);
    if (rows == 1) {
        for (size_t i = 0; i < whole; i++) {
            for (int j = 0; j < columns; j++)
                prefetch(b + (size_t)j * apart * k + i * Q8_BLOCK);
            q8_block(rows, columns, 0, PARTS, a + i * Q8_BLOCK, lda, b + i * Q8_BLOCK, apart * k,
                     scale + i, apart * blocks, sum);
        }
    } else {
        UNROLL for (int p = 0; p < PARTS; p++) for (size_t i = 0; i < whole; i++)
            q8_block(rows, columns, p, p + 1, a + i * Q8_BLOCK, lda, b + i * Q8_BLOCK, apart * k,
                     scale + i, apart * blocks, sum);
    }
    if (whole < blocks) {
        const size_t done = whole * Q8_BLOCK;
        int8_t rest[DOT_COLUMNS * Q8_BLOCK] = {0};
        for (int j = 0; j < columns; j++)
            memcpy(rest + j * Q8_BLOCK, b + (size_t)j * apart * k + done, k - done);
        q8_block(rows, columns, 0, PARTS, a + done, lda, rest, Q8_BLOCK, scale + whole,
                 apart * blocks, sum);
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int j = 0; j < columns; j++)
        c[(size_t)r * ldc + (size_t)j * apart] = a_scale[r] * fold(sum[r][j]);
}

static inline __attribute__((always_inline)) void q8_rows(const int columns, size_t m, size_t k,
                                                          const int16_t *a, const float *a_scale,
                                                          const int8_t *b, const float *scale,
                                                          float *c, size_t ldc) {
    const size_t lda = q8_blocks(k) * Q8_BLOCK;
    for (; m >= DOT_ROWS; m -= DOT_ROWS) {
        q8_tile(DOT_ROWS, columns, k, a, a_scale, b, scale, 1, c, ldc);
        a += DOT_ROWS * lda, a_scale += DOT_ROWS, c += DOT_ROWS * ldc;
    }
    if (DOT_ROWS > 5 && m == 5)
        q8_tile(5, columns, k, a, a_scale, b, scale, 1, c, ldc);
    else if (DOT_ROWS > 4 && m == 4)
        q8_tile(4, columns, k, a, a_scale, b, scale, 1, c, ldc);
    else if (DOT_ROWS > 3 && m == 3)
        q8_tile(3, columns, k, a, a_scale, b, scale, 1, c, ldc);
    else if (DOT_ROWS > 2 && m == 2)
        q8_tile(2, columns, k, a, a_scale, b, scale, 1, c, ldc);
    else if (m == 1)
        q8_tile(1, columns, k, a, a_scale, b, scale, 1, c, ldc);
}

static void product_q8(size_t m, size_t n, size_t k, const int16_t *a, const float *a_scale,
                       const int8_t *b, const float *scale, float *c, size_t ldc) {
    const size_t blocks = q8_blocks(k), lda = blocks * Q8_BLOCK, part = n / DOT_COLUMNS;
    if (m == 1) {
        for (size_t j = 0; j < part; j++)
            q8_tile(1, DOT_COLUMNS, k, a, a_scale, b + j * k, scale + j * blocks, part, c + j, ldc);
        for (size_t j = part * DOT_COLUMNS; j < n; j++)
            q8_tile(1, 1, k, a, a_scale, b + j * k, scale + j * blocks, 1, c + j, ldc);
        return;
    }
    for (; m > 0;) {
        size_t rows = m < CACHED_ROWS ? m : CACHED_ROWS, j = 0;
        for (; j + DOT_COLUMNS <= n; j += DOT_COLUMNS)
            q8_rows(DOT_COLUMNS, rows, k, a, a_scale, b + j * k, scale + j * blocks, c + j, ldc);
        for (; j < n; j++)
            q8_rows(1, rows, k, a, a_scale, b + j * k, scale + j * blocks, c + j, ldc);
        m -= rows, a += rows * lda, a_scale += rows, c += rows * ldc;
    }
}

/* ---- Softmax and layer norm -------------------------------------------------------------- */

/* exp(x[i] - max), element i at lane i of the result. */
static inline vec exp_at(const float *x, size_t n, size_t i, float max) {
    return keep_inside(exp_lanes(load_at(x, n, i) - splat(max)), n, i);
}

static float attend(float *s, size_t n, size_t n_far, float far, const float *position,
                    float scale) {
    const vec least = splat(0x1p-80f); /* see attend in inference.c */
    float max = add_position(s, n_far, NULL, far, scale, -INFINITY);
    max = add_position(s + n_far, n - n_far, position, 0, scale, max);
    vec sum[PARTS] = {{0}};
    for (size_t i = 0; i < n; i += SUMS) {
        UNROLL for (size_t p = 0; p < PARTS; p++) {
            vec e = exp_at(s, n, i + p * LANES, max);
            store_at(s, n, i + p * LANES, choose(e < least, splat(0), e));
            sum[p] += e;
        }
    }
    return fold(sum);
}

static float largest(size_t n, const float *x) {
    vec best = splat(-INFINITY);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        best = larger(load_f32(x + i), best);
    if (i < n)
        best = larger(load_tail(x + i, n - i, -INFINITY), best);
    return max_lanes(best);
}

static double exponentials(size_t n, const float *x, float max, float *e) {
    enum { GROUP = 512 };
    double total = 0;
    for (size_t first = 0; first < n; first += GROUP) {
        size_t end = first + GROUP < n ? first + GROUP : n;
        vec sum[PARTS] = {{0}};
        for (size_t i = first; i < end; i += SUMS) {
            UNROLL for (size_t p = 0; p < PARTS; p++) {
                vec y = exp_at(x, end, i + p * LANES, max);
                if (e)
                    store_at(e, end, i + p * LANES, y);
                sum[p] += y;
            }
        }
        total += (double)fold(sum);
    }
    return total;
}

static void layer_norm(size_t n, const float *x, const float *y, const float *weight,
                       const float *bias, float epsilon, float *out) {
    vec sum[PARTS] = {{0}}, squares[PARTS] = {{0}};
    for (size_t i = 0; i < n; i += SUMS) {
        UNROLL for (size_t p = 0, at = i; p < PARTS; p++, at += LANES) {
            vec z = load_at(x, n, at);
            if (y)
                z += load_at(y, n, at);
            store_at(out, n, at, z);
            sum[p] += z;
        }
    }
    float mean = fold(sum) / (float)n;
    for (size_t i = 0; i < n; i += SUMS) {
        UNROLL for (size_t p = 0, at = i; p < PARTS; p++, at += LANES) {
            vec z = keep_inside(load_at(out, n, at) - splat(mean), n, at);
            squares[p] = add_product(z, z, squares[p]);
        }
    }
    /* A square root is rounded correctly by every processor, unlike other functions. */
    float inverse = 1 / __builtin_sqrtf(fold(squares) / (float)n + epsilon);
    for (size_t i = 0; i < n; i += LANES) {
        vec z = (load_at(out, n, i) - splat(mean)) * splat(inverse);
        store_at(out, n, i, add_product(z, load_at(weight, n, i), load_at(bias, n, i)));
    }
}

/* The networks that this arithmetic covers have no other activation. */
static void activate(enum activation activation, size_t n, float *x) {
    for (size_t i = 0; i < n && activation == RELU; i += LANES) {
        vec y = load_at(x, n, i);
        store_at(x, n, i, choose(y < splat(0), splat(0), y)); /* NaN stays */
    }
}

#define EXACT_FUNCTIONS                                                                            \
    .name = KERNELS_NAME, .is_exact = true, .product = {product_f32, product_f16, product_bf16},   \
    .round = round_rows, .product_q8 = product_q8,                                                 \
    .widen = {widen_f32, widen_f16, widen_bf16, widen_q8}, .tiles = &TABLE(tiles),                 \
    .multiply = {multiply_f32, multiply_f16}, .narrow_f16 = narrow_f16, .attend = attend,          \
    .largest = largest, .exponentials = exponentials, .layer_norm = layer_norm,                    \
    .activate = activate, .find_above = find_above

#if !defined(__AVX512VNNI__) /* whose instructions have integers alone */
const struct kernels TABLE(exact) = {EXACT_FUNCTIONS};
#endif
const struct kernels TABLE(integers) = {EXACT_FUNCTIONS, .integers = &integer_products,
                                        .score_i8 = score_i8, .weigh_i8 = weigh_i8,
                                        .narrow_i8 = narrow_i8};
