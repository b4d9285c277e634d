/* Products of keys and values in 8 bits with factors rounded to 16: see struct kernels. */
#include "loads.h"

enum {
    I8_ROWS = 4,
    I8_VECTORS = LANES == 8 ? 8 : 4, /* of a tile with one row: a block with AVX2 and AVX-512 */
    I8_MOST_VECTORS = 8,             /* values 128 wide are read in one pass with AVX-512 */
    I8_FEW_VECTORS =
        LANES == 16 ? 4 : 2, /* of one with more rows, so that sums stay in registers */
};

/* Adds to lane i the products of elements 2 i and 2 i + 1. */
static inline ivec add_pair_products(ivec sum, ivec16 a, ivec16 b) {
#if defined(USE_NEON)
    return sum + pair_products(a, b);
#else
    return add_products(sum, a, b);
#endif
}

/* C[m, n] (+)= A B: A[m, k] integers in 16 bits, each row times its a_scale; B[k, n] a part of a
 * block, if `scaled` each column times its b_scale. */
struct i8_product {
    size_t k, n;
    const int16_t *a;
    size_t lda;
    const float *a_scale;
    const int8_t *b;
    size_t ldb;
    const float *b_scale;
    float *c;
    size_t ldc;
};

/* Computes one tile of C, `rows` x `vectors` vectors from row i and column j on; these,
 * `scaled` and `add` are constants where it is inlined: otherwise some tiles would fuse the last
 * product and sum, and others not.  `fetch`: what follows B is prefetched. */
static inline __attribute__((always_inline)) void i8_tile(const int rows, const int vectors,
                                                          const bool scaled, const bool add,
                                                          bool fetch, const struct i8_product *p,
                                                          size_t i, size_t j) {
    ivec sum[I8_ROWS][I8_MOST_VECTORS] = {0};
    const int8_t *b = p->b + 2 * j;
    for (size_t l = 0; l < p->k; l += 2, b += 2 * p->ldb) {
        ivec16 y[I8_MOST_VECTORS];
        for (size_t line = 0; fetch && line < (size_t)vectors * 2 * LANES; line += 64)
            prefetch(b + line);
        UNROLL for (int v = 0; v < vectors; v++) y[v] = load_ivec16(b + v * 2 * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            float pair; /* two integers */
            memcpy(&pair, p->a + (i + (size_t)r) * p->lda + l, sizeof pair);
            ivec16 x = (ivec16)splat(pair);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                add_pair_products(sum[r][v], x, y[v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) {
            float *at = p->c + (i + (size_t)r) * p->ldc + j + v * LANES;
            vec product =
                __builtin_convertvector(sum[r][v], vec) * splat(p->a_scale[i + (size_t)r]);
            if (scaled)
                product *= load_f32(p->b_scale + j + v * LANES);
            store_f32(at, add ? load_f32(at) + product : product);
        }
    }
}

static inline __attribute__((always_inline)) void i8_rows(const int rows, const int vectors,
                                                          const bool scaled, const bool add,
                                                          bool fetch, const struct i8_product *p,
                                                          size_t i) {
    const size_t wide = (size_t)vectors * LANES, step = LANES < 16 ? 16 : LANES;
    const size_t widest = (size_t)I8_MOST_VECTORS * LANES;
    size_t j = 0;
    for (; rows == 1 && LANES == 16 && j + widest <= p->n; j += widest)
        i8_tile(rows, I8_MOST_VECTORS, scaled, add, fetch, p, i, j);
    for (; j + wide <= p->n; j += wide)
        i8_tile(rows, vectors, scaled, add, fetch, p, i, j);
    for (; j < p->n; j += step)
        for (size_t l = 0; l < step; l += LANES)
            i8_tile(rows, 1, scaled, add, fetch, p, i, j + l);
}

static inline __attribute__((always_inline)) void
i8_multiply(const bool scaled, const bool add, size_t m, const struct i8_product *p) {
    size_t i = 0;
    for (; i + 4 <= m; i += 4)
        i8_rows(4, I8_FEW_VECTORS, scaled, add, i == 0, p, i);
    for (; i + 2 <= m; i += 2)
        i8_rows(2, I8_FEW_VECTORS, scaled, add, i == 0, p, i);
    if (i < m)
        i8_rows(1, I8_VECTORS, scaled, add, i == 0, p, i);
}

/* ---- Spans ------------------------------------------------------------------------------- */

/* The rows of a block that a span has: n from `first` on. */
struct i8_part {
    const int8_t *elements; /* of the block */
    const float *scale;     /* of row `first` */
    size_t first, n;
};

static inline size_t count_i8_parts(const struct i8_span *span) {
    return (span->end + I8_BLOCK - 1) / I8_BLOCK;
}

static inline struct i8_part get_i8_part(const struct i8_span *span, size_t i) {
    const size_t left = span->end - i * I8_BLOCK, first = i == 0 ? span->first : 0;
    const char *block = span->block + i * span->apart;
    return (struct i8_part){.elements = (const int8_t *)block,
                            .scale = (const float *)(const void *)(block + span->width * I8_BLOCK) +
                                     first,
                            .first = first,
                            .n = (left < I8_BLOCK ? left : I8_BLOCK) - first};
}

static inline void fetch_lines(const char *p, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(p + at, 0, AHEAD_LOCALITY);
}

/* Prefetches the beginning of what is read after the span. */
static inline void fetch_next(const struct i8_span *span) {
    if (span->next)
        fetch_lines(span->next, AHEAD);
}

/* Rows of Q or S, and elements of a row of Q, that are rounded together. */
enum { I8_FACTORS = 48, I8_DEPTH = 2 * Q8_BLOCK };

/* score_i8 of at most I8_FACTORS rows. */
static void score_some_i8(size_t m, size_t k, const float *q, size_t ldq,
                          const struct i8_span *span, float *s, size_t lds) {
    int16_t a[I8_FACTORS * I8_DEPTH];
    float a_scale[I8_FACTORS];
    for (size_t d = 0, depth; d < k; d += depth) {
        depth = k - d < I8_DEPTH ? k - d : I8_DEPTH;
        struct i8_product p = {.k = (depth + 1) / 2 * 2,
                               .a = a,
                               .lda = q8_blocks(depth) * Q8_BLOCK,
                               .a_scale = a_scale,
                               .ldb = I8_BLOCK,
                               .ldc = lds};
        for (size_t t = 0; t < m; t++)
            round_16(depth, q + t * ldq + d, a + t * p.lda, a_scale + t);
        for (size_t i = 0; i < count_i8_parts(span); i++) {
            const struct i8_part part = get_i8_part(span, i);
            if (i + 1 == count_i8_parts(span))
                fetch_next(span);
            p.n = part.n;
            p.b = part.elements + d * I8_BLOCK + 2 * part.first;
            p.b_scale = part.scale;
            p.c = s + i * I8_BLOCK + part.first;
            if (d == 0)
                i8_multiply(true, false, m, &p);
            else
                i8_multiply(true, true, m, &p);
        }
    }
}

static void score_i8(size_t m, size_t k, const float *q, size_t ldq, const struct i8_span *span,
                     float *s, size_t lds) {
    for (size_t t = 0; t < m; t += I8_FACTORS)
        score_some_i8(m - t < I8_FACTORS ? m - t : I8_FACTORS, k, q + t * ldq, ldq, span,
                      s + t * lds, lds);
}

/* Rounds weights of part i, times the scales, to 16 bits; returns the part. */
static inline struct i8_part round_weights(size_t m, const float *s, size_t lds,
                                           const struct i8_span *span, size_t i, int16_t *out,
                                           float *out_scale) {
    const struct i8_part part = get_i8_part(span, i);
    s += i * I8_BLOCK + part.first;
    for (size_t t = 0; t < m; t++, s += lds, out += I8_BLOCK) {
        float x[I8_BLOCK];
        for (size_t j = 0; j < part.n; j += LANES)
            store_f32(x + j, load_f32(s + j) * load_f32(part.scale + j));
        if (part.n == I8_BLOCK)
            round_16(I8_BLOCK, x, out, out_scale + t); /* with loops of a known length */
        else
            round_16(part.n, x, out, out_scale + t);
    }
    return part;
}

/* Prefetches the scales of part i, which lie behind its elements. */
static inline void fetch_scales(const struct i8_span *span, size_t i) {
    if (i < count_i8_parts(span))
        fetch_lines(span->block + i * span->apart + span->width * I8_BLOCK,
                    I8_BLOCK * sizeof(float));
}

/* weigh_i8 of at most I8_FACTORS rows.  The weights of a part are rounded before those of the part
 * before are used, so that the processor does both at the same time. */
static void weigh_some_i8(size_t m, const float *s, size_t lds, const struct i8_span *span,
                          float *out) {
    int16_t a[2][I8_FACTORS * I8_BLOCK];
    float a_scale[2][I8_FACTORS];
    fetch_scales(span, 1);
    struct i8_part part = round_weights(m, s, lds, span, 0, a[0], a_scale[0]), next = part;
    for (size_t i = 0; i < count_i8_parts(span); i++, part = next) {
        fetch_scales(span, i + 2);
        if (i + 1 < count_i8_parts(span))
            next = round_weights(m, s, lds, span, i + 1, a[(i + 1) % 2], a_scale[(i + 1) % 2]);
        else
            fetch_next(span);
        const struct i8_product p = {.n = span->width,
                                     .k = part.n,
                                     .a = a[i % 2],
                                     .lda = I8_BLOCK,
                                     .a_scale = a_scale[i % 2],
                                     .b = part.elements + part.first * span->width,
                                     .ldb = span->width,
                                     .c = out,
                                     .ldc = span->width};
        i8_multiply(false, true, m, &p);
    }
}

static void weigh_i8(size_t m, const float *s, size_t lds, const struct i8_span *span, float *out) {
    for (size_t t = 0; t < m; t += I8_FACTORS)
        weigh_some_i8(m - t < I8_FACTORS ? m - t : I8_FACTORS, s + t * lds, lds, span,
                      out + t * span->width);
}
