/* The body of every table in kernels.h, written with the compiler's vector types and compiled once
 * for each kind of processor, with LANES and PROCESSOR from the build. */
#include "bf16_impl.h"
#include "elements_impl.h"
#if LANES >= 8
#include "f32_product_impl.h"
#define F32_PRODUCT &f32_product
#else
#define F32_PRODUCT NULL
#endif
#include "multiply_i8_impl.h"
#include "multiply_impl.h"
#include "product_impl.h"
#include "product_q8_impl.h"

#include <math.h>

/* ---- Panels ------------------------------------------------------------------------------ */

static void pack(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out) {
    for (size_t first = 0; first < width; first += LANES) {
        size_t rows = first >= m ? 0 : m - first < LANES ? m - first : LANES;
        for (size_t i = 0; i < k; i += LANES) {
            size_t columns = k - i < LANES ? k - i : LANES;
            vec part[LANES];
            /* The next square of these columns: rows far apart are not prefetched otherwise. */
            if (first + 2 * LANES <= m)
                UNROLL for (size_t j = 0; j < LANES; j++)
                    __builtin_prefetch(x + (first + LANES + j) * ldx + i, 0, 2);
            transpose_part(x + first * ldx + i, ldx, rows, columns, part);
            for (size_t j = 0; j < columns; j++)
                store_f32((float *)out + (i + j) * width + first, part[j]);
        }
    }
}

/* C = B P for the rows of B, in tiles of `rows` x `vectors`; they are the A of x, and P is its B.
 * If `fetch`, the B at `next` is prefetched. */
static inline __attribute__((always_inline)) void panel_columns(const int rows, const int vectors,
                                                                const bool fetch,
                                                                struct multiply_call x,
                                                                const float *next) {
    for (; x.m >= (size_t)rows; x = rows_from(x, (size_t)rows)) {
        multiply_tile(rows, vectors, false, x, fetch ? next : NULL);
        if (fetch)
            next += (size_t)rows * x.lda;
    }
    for (; x.m > 0; x = rows_from(x, 1))
        multiply_tile(1, vectors, false, x, NULL);
}

/* Steps of k that are processed together, so that a panel's part of them stays in the second-level
 * cache. */
enum { PANEL_STEPS = 1024 };

static inline __attribute__((always_inline)) void panel_sums(const bool fetch, size_t width,
                                                             size_t n, size_t k, const float *p,
                                                             const float *b, float *c,
                                                             const float *next) {
    for (size_t first = 0; first < k; first += PANEL_STEPS) {
        size_t depth = k - first < PANEL_STEPS ? k - first : PANEL_STEPS, v = 0;
        struct multiply_call x = {.m = n,
                                  .k = depth,
                                  .a = b,
                                  .lda = k,
                                  .b = p,
                                  .ldb = width,
                                  .add = first > 0,
                                  .c = c,
                                  .ldc = width};
#if LANES == 16
        if (width == 48)
            panel_columns(8, 3, fetch, x, next);
        else if (width == 32)
            panel_columns(12, 2, fetch, x, next);
        else if (width == 16)
            panel_columns(16, 1, fetch, x, next);
        v = width < TILE_LANES ? width : 0;
#endif
        for (; v < width; v += TILE_LANES) {
            x.b = p + v;
            x.c = c + v;
            panel_columns(TILE_ROWS, TILE_VECTORS, fetch, x, next);
        }
        p += depth * width;
        b += depth;
        if (fetch)
            next += depth;
    }
}

static void panel(const struct panel_call *call) {
    const struct panel_call x = *call;
    float c[PANEL_ROWS * PANEL_WIDTH]; /* [n, width] */
    if (x.next)
        panel_sums(true, x.width, x.n, x.k, x.packed, x.b, c, x.next);
    else
        panel_sums(false, x.width, x.n, x.k, x.packed, x.b, c, NULL);
    finish_panel(x.m, x.width, x.n, c, NULL, x.bias, x.relu, x.y, x.ldy);
}

static inline void prepare_f16(size_t n, size_t k, const void *b, const float *scale, void *out,
                               float *out_scale) {
    (void)out_scale;
    widen_f16(b, scale, n, k, out);
}

static inline void prepare_bf16(size_t n, size_t k, const void *b, const float *scale, void *out,
                                float *out_scale) {
    (void)out_scale;
    widen_bf16(b, scale, n, k, out);
}

static inline void prepare_q8(size_t n, size_t k, const void *b, const float *scale, void *out,
                              float *out_scale) {
    (void)out_scale;
    widen_q8(b, scale, n, k, out);
}

#define WIDE_PANELS(PREPARE)                                                                       \
    (&(const struct panels){.element = sizeof(float),                                              \
                            .unit = 16,                                                            \
                            .most_rows = 256,                                                      \
                            .pack = pack,                                                          \
                            .prepare = PREPARE,                                                    \
                            .panel = panel})

/* ---- Softmax and layer norm -------------------------------------------------------------- */

static float attend(float *s, size_t n, size_t n_far, float far, const float *position,
                    float scale) {
    float max = add_position(s, n_far, NULL, far, scale, -INFINITY);
    max = add_position(s + n_far, n - n_far, position, 0, scale, max);
    /* Smaller weights cannot change a sum, and their products with values would be subnormal, which
     * processors take a hundred times as long to compute. */
    const float least = 0x1p-80f;
    return exp_in_place(n, s, max, least);
}

static void layer_norm(size_t n, const float *x, const float *y, const float *weight,
                       const float *bias, float epsilon, float *out) {
    vec sum = {0};
    float total = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec z = load_f32(x + i);
        if (y)
            z += load_f32(y + i);
        store_f32(out + i, z);
        sum += z;
    }
    for (; i < n; i++) {
        out[i] = y ? x[i] + y[i] : x[i];
        total += out[i];
    }
    float mean = (total + sum_lanes(sum)) / (float)n;
    vec squares = {0};
    total = 0;
    for (i = 0; i + LANES <= n; i += LANES) {
        vec z = load_f32(out + i) - splat(mean);
        squares += z * z;
    }
    for (; i < n; i++)
        total += (out[i] - mean) * (out[i] - mean);
    float inverse = 1 / sqrtf((total + sum_lanes(squares)) / (float)n + epsilon);
    for (i = 0; i + LANES <= n; i += LANES) {
        vec z = (load_f32(out + i) - splat(mean)) * splat(inverse);
        store_f32(out + i, z * load_f32(weight + i) + load_f32(bias + i));
    }
    for (; i < n; i++)
        out[i] = (out[i] - mean) * inverse * weight[i] + bias[i];
}

/* x / (1 + exp(-y)); NaN stays NaN. Where exp would overflow, the quotient is nearly zero. */
static inline vec gate(vec x, vec y) {
    const vec highest = splat(88.0f);
    return x / (splat(1) + exp_lanes(choose(-y > highest, highest, -y)));
}

/* 1 - erf(x) for x >= 0, within 1.5e-7: Abramowitz & Stegun 1964, 7.1.26. */
static inline vec erfc_lanes(vec x) {
    vec t = splat(1) / (splat(1) + splat(0.3275911f) * x);
    vec p = splat(1.061405429f);
    p = p * t + splat(-1.453152027f);
    p = p * t + splat(1.421413741f);
    p = p * t + splat(-0.284496736f);
    p = p * t + splat(0.254829592f);
    return p * t * exp_lanes(-x * x);
}

static inline vec activate_lanes(enum activation activation, vec x) {
    if (activation == RELU)
        return choose(x < splat(0), splat(0), x); /* NaN stays */
    if (activation == SWISH)
        return gate(x, x);
    if (activation ==
        GELU_TANH) /* (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)), 2 sqrt(2 / pi) = 1.59.. */
        return gate(x, x * (splat(1.5957691216f) + splat(0.0713548163f) * x * x));
    if (activation == GELU_ERF) {
        vec size = larger(x, -x) * splat(0.70710678119f), half = splat(0.5f) * erfc_lanes(size);
        return x * choose(x < splat(0), half, splat(1) - half);
    }
    return x;
}

static inline __attribute__((always_inline)) void activate_all(enum activation activation, size_t n,
                                                               float *x) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store_f32(x + i, activate_lanes(activation, load_f32(x + i)));
    if (i < n)
        store_tail(x + i, n - i, activate_lanes(activation, load_tail(x + i, n - i, 0)));
}

static void activate(enum activation activation, size_t n, float *x) {
    if (activation == RELU)
        activate_all(RELU, n, x);
    else if (activation == GELU_TANH)
        activate_all(GELU_TANH, n, x);
    else if (activation == GELU_ERF)
        activate_all(GELU_ERF, n, x);
    else if (activation == SWISH)
        activate_all(SWISH, n, x);
}

static void sum_exp(size_t n, const float *x, float *max, float *sum) {
    float top = -INFINITY;
    size_t i = 0;
    if (n >= LANES) {
        vec best = load_f32(x);
        for (i = LANES; i + LANES <= n; i += LANES)
            best = larger(load_f32(x + i), best);
        top = max_lanes(best);
    }
    for (; i < n; i++)
        top = x[i] > top ? x[i] : top;
    vec total = {0}, shift = splat(top);
    for (i = 0; i + LANES <= n; i += LANES)
        total += exp_lanes(load_f32(x + i) - shift);
    if (i < n) /* each padding lane adds about e^-87 */
        total += exp_lanes(load_tail(x + i, n - i, -INFINITY) - shift);
    *max = top;
    *sum = sum_lanes(total);
}

/* Reads from the beginning and from the middle at the same time, which prefetchers handle best. */
static void read_only(const void *data, size_t n) {
    typedef uint64_t cache_line __attribute__((vector_size(64)));
    const cache_line *line = data;
    const size_t half = n / sizeof *line / 2;
    cache_line a = {0}, b = {0};
    for (size_t k = 0; k < half; k++) {
        a ^= line[k];
        b ^= line[half + k];
    }
    a ^= b;
    __asm__ volatile("" : : "m"(a)); /* keeps the compiler from dropping the reads */
}

/* Where no fast instruction multiplies bf16, activations rounded to it are multiplied in f32:
 * results are the same within the rounding of f32. */
static void pack_rounded(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out) {
    float *numbers = out;
    pack(m, width, k, x, ldx, out);
    for (size_t i = 0; i < k * width; i += LANES)
        store_f32(numbers + i, (vec)(round_bf16(load_f32(numbers + i)) & 0xffff0000));
}

static const struct panels rounded_panels = {
    .element = sizeof(float),
    .unit = 16,
    .most_rows = SIZE_MAX,
    .pack = pack_rounded,
    .prepare = prepare_bf16,
    .panel = panel,
};

#include "int8_panels_impl.h"

const struct kernels TABLE(kernels) = {
    .name = KERNELS_NAME,
    .product = {product_f32, product_f16, product_bf16},
    .round = round_rows,
    .product_q8 = product_q8,
    .widen = {widen_f32, widen_f16, widen_bf16, widen_q8},
    .tiles = &TABLE(tiles),
    .multiply = {multiply_f32, multiply_f16},
    .score_i8 = score_i8,
    .weigh_i8 = weigh_i8,
    .multiply_bf16 = multiply_bf16,
    .panels = {WIDE_PANELS(NULL), WIDE_PANELS(prepare_f16), WIDE_PANELS(prepare_bf16),
               WIDE_PANELS(prepare_q8)},
    .rounding = {NULL, NULL, &rounded_panels, &int8_panels},
    .rounding_tiles = &rounded_tile_panels,
    .f32_product = F32_PRODUCT,
    .bf16_product = &bf16_product,
    .narrow_f16 = narrow_f16,
    .narrow_bf16 = narrow_bf16,
    .narrow_i8 = narrow_i8,
    .attend = attend,
    .layer_norm = layer_norm,
    .activate = activate,
    .sum_exp = sum_exp,
    .find_above = find_above,
    .exact = &TABLE(exact),
    .in_integers = &TABLE(integers),
    .loops = &TABLE(loops),
    .read = read_only,
};
