/* Functions of a table that convert or compare elements, without sums: they give the same bits for
 * any number of lanes. */
#include "loads.h"

/* ---- Narrowing --------------------------------------------------------------------------- */

static void round_rows(size_t m, size_t k, const float *x, size_t ldx, int16_t *out, float *scale) {
    for (size_t r = 0; r < m; r++)
        round_16(k, x + r * ldx, out + r * q8_blocks(k) * Q8_BLOCK, scale + r);
}

static void narrow_f16(const float *in, size_t n, uint16_t *out) {
    const float most = 65504;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec x = load_f32(in + i);
        store_f16(out + i, choose(x > splat(most), splat(most), larger(x, splat(-most))));
    }
    for (; i < n; i++)
        out[i] = f16_of_float(in[i] > most ? most : in[i] < -most ? -most : in[i]);
}

/* in[n] as integers of at most that magnitude; returns their scale. */
static inline float narrow_to(float most_integer, const float *in, size_t n, int8_t *out) {
    const float round = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    vec best = {0}, odd = {0};     /* not zero if an element is not finite */
    for (size_t i = 0; i < n; i += LANES) {
        vec x = load_some(in + i, n - i < LANES ? n - i : LANES);
        best = larger(larger(x, -x), best);
        odd += x - x;
    }
    float most = max_lanes(best), scale = most > 0x1p-100f ? most / most_integer : 0;
    scale += sum_lanes(odd);
    if (!(scale > 0)) {
        memset(out, 0, n);
        return scale;
    }
    typedef int8_t byte_ivec __attribute__((vector_size(LANES)));
    for (size_t i = 0; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        /* Divided, because a product would be fused with the sum on some processors. */
        vec y = load_some(in + i, left) / splat(scale) + splat(round);
        byte_ivec q = __builtin_convertvector((ivec)y - (ivec)splat(round), byte_ivec);
        if (left == LANES)
            memcpy(out + i, &q, sizeof q);
        else
            memcpy(out + i, &q, left);
    }
    return scale;
}

static float narrow_i8(const float *in, size_t n, int8_t *out) {
    return narrow_to(Q8_MAX, in, n, out);
}

/* ---- Widening ---------------------------------------------------------------------------- */

static void widen_f32(const void *in, const float *scale, size_t n_row, size_t n_col, float *out) {
    (void)scale;
    memcpy(out, in, n_row * n_col * sizeof *out);
}

static void widen_f16(const void *in, const float *scale, size_t n_row, size_t n_col, float *out) {
    (void)scale;
    const uint16_t *half = in;
    size_t i = 0, n = n_row * n_col;
    for (; i + LANES <= n; i += LANES)
        store_f32(out + i, load_f16(half + i));
    for (; i < n; i++)
        out[i] = float_of_f16(half[i]);
}

static void widen_bf16(const void *in, const float *scale, size_t n_row, size_t n_col, float *out) {
    (void)scale;
    const uint16_t *half = in;
    size_t i = 0, n = n_row * n_col;
    for (; i + LANES <= n; i += LANES)
        store_f32(out + i, load_bf16(half + i));
    for (; i < n; i++)
        out[i] = float_of_bf16(half[i]);
}

static void widen_q8(const void *in, const float *scale, size_t n_row, size_t n_col, float *out) {
    const int8_t *q = in;
    for (size_t row = 0; row < n_row; row++) {
        for (size_t first = 0; first < n_col; first += Q8_BLOCK) {
            size_t left = n_col - first, n = left < Q8_BLOCK ? left : Q8_BLOCK, i = 0;
            float s = *scale++;
            for (; i + LANES <= n; i += LANES)
                store_f32(out + i, load_i8(q + i) * splat(s));
            for (; i < n; i++)
                out[i] = (float)q[i] * s;
            q += n;
            out += n;
        }
    }
}

/* ---- Scores ------------------------------------------------------------------------------ */

/* s[i] = scale (s[i] + position[i]), or with `far` for every position if that is NULL; returns the
 * largest of max and s. */
static inline float add_position(float *s, size_t n, const float *position, float far, float scale,
                                 float max) {
    enum { TOGETHER = 4 }; /* maxima that do not wait for each other */
    vec best[TOGETHER];
    for (int v = 0; v < TOGETHER; v++)
        best[v] = splat(max);
    size_t i = 0;
    for (; i + TOGETHER * LANES <= n; i += TOGETHER * LANES) {
        UNROLL for (int v = 0; v < TOGETHER; v++) {
            size_t at = i + (size_t)v * LANES;
            vec x = splat(scale) *
                    (load_f32(s + at) + (position ? load_f32(position + at) : splat(far)));
            store_f32(s + at, x);
            best[v] = larger(x, best[v]);
        }
    }
    for (; i + LANES <= n; i += LANES) {
        vec x = splat(scale) * (load_f32(s + i) + (position ? load_f32(position + i) : splat(far)));
        store_f32(s + i, x);
        best[0] = larger(x, best[0]);
    }
    max = max_lanes(larger(larger(best[0], best[1]), larger(best[2], best[3])));
    for (; i < n; i++) {
        s[i] = scale * (s[i] + (position ? position[i] : far));
        max = s[i] > max ? s[i] : max;
    }
    return max;
}

/* Tests eight vectors together, because few contain a larger element. */
static size_t find_above(size_t first, size_t n, const float *x, float bound) {
    enum { TOGETHER = 8 * LANES };
    size_t i = first;
    for (; i + TOGETHER <= n; i += TOGETHER) {
        vec best = load_f32(x + i);
        UNROLL for (size_t v = LANES; v < TOGETHER; v += LANES) best =
            larger(load_f32(x + i + v), best);
        if (max_lanes(best) > bound)
            break;
    }
    while (i < n && !(x[i] > bound))
        i++;
    return i;
}
