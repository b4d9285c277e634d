/* The body of every table of training's loops, compiled once for each kind of processor, with
 * LANES and PROCESSOR from the build. */
#include "vectors.h"

/* The products of two vectors' low halves of 64-bit lanes, where an instruction makes them. */
#if LANES == 16
#define MULTIPLY_WORDS(a, b) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#elif LANES == 8
#define MULTIPLY_WORDS(a, b) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#endif

#include <math.h>

/* ---- Sums and activations ---------------------------------------------------------------- */

static void add(size_t n, const float *restrict y, float *restrict x) {
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static void bias_relu(size_t n, const float *restrict bias, float *restrict x) {
    for (size_t i = 0; i < n; i++) {
        float y = x[i] + bias[i];
        x[i] = y < 0 ? 0 : y; /* NaN stays */
    }
}

static void relu_gradient(size_t n, const float *restrict y, float scale, float *restrict dy) {
    for (size_t i = 0; i < n; i++)
        dy[i] = y[i] > 0 ? dy[i] * scale : 0;
}

static void sum_rows(size_t rows, size_t n, const float *restrict x, size_t ldx,
                     float *restrict sum) {
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        vec a = load_f32(sum + i), b = load_f32(sum + i + LANES);
        vec c = load_f32(sum + i + 2 * LANES), d = load_f32(sum + i + 3 * LANES);
        for (size_t r = 0; r < rows; r++) {
            const float *row = x + r * ldx + i;
            a += load_f32(row);
            b += load_f32(row + LANES);
            c += load_f32(row + 2 * LANES);
            d += load_f32(row + 3 * LANES);
        }
        store_f32(sum + i, a);
        store_f32(sum + i + LANES, b);
        store_f32(sum + i + 2 * LANES, c);
        store_f32(sum + i + 3 * LANES, d);
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t k = i; k < n; k++)
            sum[k] += x[r * ldx + k];
}

/* ---- Dropout ----------------------------------------------------------------------------- */

/* Counters of consecutive blocks that are computed together.  A block has four words of two draws
 * each, so they give the draws of a group of elements. */
enum { BLOCKS = 16 };

/* Words in the low halves of 64-bit lanes; the high halves are meaningless. */
typedef uint64_t words __attribute__((vector_size(LANES * 4)));

enum { WORDS = LANES / 2, VECTORS = BLOCKS / WORDS };

static inline words multiply_words(words a, words b) {
#if defined(MULTIPLY_WORDS)
    return (words)MULTIPLY_WORDS(a, b);
#else
    return (a & 0xffffffff) * (b & 0xffffffff);
#endif
}

/* word[w][b]: word w of Philox4x32-10 (see random.h) for block first + b. */
static void draw_words(const struct dropout *dropout, uint32_t first, uint32_t row, uint32_t place,
                       uint32_t word[4][BLOCKS]) {
    const words zero = {0}, factor_0 = zero + 0xD2511F53, factor_1 = zero + 0xCD9E8D57;
    for (uint32_t v = 0; v < VECTORS; v++) {
        words a = zero, b = zero + row, c = zero + place, d = zero + dropout->step;
        for (uint32_t i = 0; i < WORDS; i++)
            a[i] = first + v * WORDS + i;
        words key_0 = zero + dropout->key[0], key_1 = zero + dropout->key[1];
        for (int round = 0; round < 10; round++) {
            words p = multiply_words(factor_0, a), q = multiply_words(factor_1, c);
            a = (q >> 32) ^ b ^ key_0;
            b = q;
            c = (p >> 32) ^ d ^ key_1;
            d = p;
            key_0 += 0x9E3779B9;
            key_1 += 0xBB67AE85;
        }
        for (uint32_t i = 0; i < WORDS; i++) {
            word[0][v * WORDS + i] = (uint32_t)a[i];
            word[1][v * WORDS + i] = (uint32_t)b[i];
            word[2][v * WORDS + i] = (uint32_t)c[i];
            word[3][v * WORDS + i] = (uint32_t)d[i];
        }
    }
}

static void drop_group(uint32_t word[4][BLOCKS], uint32_t threshold, float scale,
                       float *restrict x) {
    for (int w = 0; w < 4; w++) {
        for (int b = 0; b < BLOCKS; b++) {
            float *low = x + 2 * w * BLOCKS + b, *high = low + BLOCKS;
            *low = (word[w][b] & 0xffff) >= threshold ? *low * scale : 0;
            *high = word[w][b] >> 16 >= threshold ? *high * scale : 0;
        }
    }
}

static void drop(const struct dropout *dropout, uint32_t place, uint32_t row, size_t first,
                 size_t n, float *x) {
    uint32_t word[4][BLOCKS];
    for (size_t i = 0; i < n; i += DROPOUT_GROUP) {
        draw_words(dropout, (uint32_t)((first + i) / DROPOUT_GROUP * BLOCKS), row, place, word);
        if (n - i >= DROPOUT_GROUP) {
            drop_group(word, dropout->threshold, dropout->scale, x + i);
        } else {
            float rest[DROPOUT_GROUP] = {0};
            memcpy(rest, x + i, (n - i) * sizeof *x);
            drop_group(word, dropout->threshold, dropout->scale, rest);
            memcpy(x + i, rest, (n - i) * sizeof *x);
        }
    }
}

/* ---- Softmax ----------------------------------------------------------------------------- */

static inline void divide(size_t n, float sum, float *restrict x) {
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

static void softmax(size_t n, const float *position, float scale, float *s) {
    vec best = splat(-INFINITY);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec x = splat(scale) * (load_f32(s + i) + load_f32(position + i));
        store_f32(s + i, x);
        best = larger(x, best);
    }
    float max = max_lanes(best);
    for (; i < n; i++) {
        s[i] = scale * (s[i] + position[i]);
        max = s[i] > max ? s[i] : max;
    }
    divide(n, exp_in_place(n, s, max, 0), s);
}

/* Divides the mean of da by the sum of a, which rounding makes differ a little from 1: where one
 * weight is nearly 1, its gradient is a difference of nearly equal numbers. */
static void softmax_gradient(size_t n, const float *restrict a, float scale, float *restrict da) {
    vec sum = {0}, all = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec weight = load_f32(a + i);
        sum += weight * load_f32(da + i);
        all += weight;
    }
    float total = sum_lanes(sum), whole = sum_lanes(all);
    for (; i < n; i++) {
        total += a[i] * da[i];
        whole += a[i];
    }
    float mean = total / whole;
    for (i = 0; i < n; i++)
        da[i] = scale * a[i] * (da[i] - mean);
}

static float cross_entropy(size_t n, size_t target, float scale, float *x) {
    vec best = splat(-INFINITY);
    float wanted = x[target];
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        best = larger(load_f32(x + i), best);
    float max = max_lanes(best);
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    float sum = exp_in_place(n, x, max, 0);
    divide(n, sum / scale, x);
    x[target] -= scale;
    return logf(sum) + (max - wanted);
}

/* ---- Layer norm -------------------------------------------------------------------------- */

static inline float sum_of(size_t n, const float *x) {
    vec sum = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum += load_f32(x + i);
    float total = sum_lanes(sum);
    for (; i < n; i++)
        total += x[i];
    return total;
}

static inline float squared_distance(size_t n, const float *x, float mean) {
    vec sum = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec z = load_f32(x + i) - splat(mean);
        sum += z * z;
    }
    float total = sum_lanes(sum);
    for (; i < n; i++)
        total += (x[i] - mean) * (x[i] - mean);
    return total;
}

static void norm(size_t n, const float *x, const float *weight, const float *bias, float epsilon,
                 float *restrict out, float *mean, float *inverse) {
    float m = sum_of(n, x) / (float)n;
    float d = 1 / sqrtf(squared_distance(n, x, m) / (float)n + epsilon);
    for (size_t i = 0; i < n; i++)
        out[i] = (x[i] - m) * d * weight[i] + bias[i];
    *mean = m;
    *inverse = d;
}

/* With z = (x - mean) inverse and g = weight dy:
 * dx = inverse (g - mean of g - z times the mean of g z). */
static void norm_gradient(size_t n, const float *x, float mean, float inverse, const float *weight,
                          const float *dy, bool keep, float *dx, float *restrict dweight,
                          float *restrict dbias) {
    vec sum = {0}, product = {0};
    float sum_rest = 0, product_rest = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec y = load_f32(dy + i), z = (load_f32(x + i) - splat(mean)) * splat(inverse);
        store_f32(dweight + i, load_f32(dweight + i) + y * z);
        store_f32(dbias + i, load_f32(dbias + i) + y);
        vec g = y * load_f32(weight + i);
        sum += g;
        product += g * z;
    }
    for (; i < n; i++) {
        float z = (x[i] - mean) * inverse, g = dy[i] * weight[i];
        dweight[i] += dy[i] * z;
        dbias[i] += dy[i];
        sum_rest += g;
        product_rest += g * z;
    }
    if (!dx)
        return;
    float a = (sum_lanes(sum) + sum_rest) / (float)n;
    float b = (sum_lanes(product) + product_rest) / (float)n;
    for (i = 0; i + LANES <= n; i += LANES) {
        vec z = (load_f32(x + i) - splat(mean)) * splat(inverse);
        vec g = load_f32(dy + i) * load_f32(weight + i);
        vec d = splat(inverse) * (g - splat(a) - z * splat(b));
        store_f32(dx + i, keep ? load_f32(dx + i) + d : d);
    }
    for (; i < n; i++) {
        float z = (x[i] - mean) * inverse;
        float d = inverse * (dy[i] * weight[i] - a - z * b);
        dx[i] = keep ? dx[i] + d : d;
    }
}

/* ---- The optimiser ----------------------------------------------------------------------- */

static double squares(size_t n, const float *x) {
    const size_t piece = 4096; /* elements whose sum in f32 is accurate enough */
    double total = 0;
    for (size_t first = 0; first < n; first += piece)
        total += (double)squared_distance(n - first < piece ? n - first : piece, x + first, 0);
    return total;
}

static void add_squares(size_t n, const float *restrict x, float *restrict sum) {
    for (size_t i = 0; i < n; i++)
        sum[i] += x[i] * x[i];
}

static void descend(size_t n, float rate, const float *restrict g, float *restrict w) {
    for (size_t i = 0; i < n; i++)
        w[i] -= rate * g[i];
}

static void rms(const struct rms *rms, size_t n, const float *restrict g,
                const float *restrict first, const float *restrict s, float *restrict w) {
    const float rate = rms->rate, decay = rms->decay, epsilon = rms->epsilon;
    for (size_t i = 0; i < n; i++) {
        float root = sqrtf(s[i]), back = decay * root;
        back = back < 1 ? back : 1;
        w[i] -= rate * g[i] / (root + epsilon) + back * (w[i] - first[i]);
    }
}

static void adam(const struct adam *adam, size_t n, const float *restrict g, float *restrict w,
                 float *restrict m, float *restrict v) {
    const float beta_1 = adam->beta_1, beta_2 = adam->beta_2, clip = adam->clip;
    const float gain_1 = adam->gain_1, gain_2 = adam->gain_2;
    const float rate = adam->rate, correction = adam->correction, epsilon = adam->epsilon;
    for (size_t i = 0; i < n; i++) {
        float d = clip * g[i];
        m[i] = beta_1 * m[i] + gain_1 * d;
        v[i] = beta_2 * v[i] + gain_2 * d * d;
        w[i] -= rate * m[i] / (sqrtf(v[i]) * correction + epsilon);
    }
}

const struct loops TABLE(loops) = {
    .name = KERNELS_NAME,
    .add = add,
    .bias_relu = bias_relu,
    .relu_gradient = relu_gradient,
    .sum_rows = sum_rows,
    .drop = drop,
    .softmax = softmax,
    .softmax_gradient = softmax_gradient,
    .cross_entropy = cross_entropy,
    .norm = norm,
    .norm_gradient = norm_gradient,
    .squares = squares,
    .add_squares = add_squares,
    .descend = descend,
    .rms = rms,
    .adam = adam,
};
