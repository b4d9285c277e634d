/* Every table of kernels that this processor can run against plain double arithmetic, on odd
 * sizes. */
#include "lib/base/numbers.h"
#include "tests/kernels_at.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 600 };

static const size_t sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 41, 64, 100, 130, 257};
enum { N_SIZE = sizeof sizes / sizeof *sizes };

static uint64_t random_state = 7;

static float number(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) * 0x1p-31f;
}

static void fill(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = number();
}

/* A matrix [n_row, n_col] in q8, and what it stands for. */
static void fill_q8(int8_t *narrow, float *scale, float *wide, size_t n_row, size_t n_col) {
    for (size_t row = 0; row < n_row; row++) {
        for (size_t first = 0; first < n_col; first += Q8_BLOCK) {
            size_t left = n_col - first, n = left < Q8_BLOCK ? left : Q8_BLOCK;
            *scale = q8_scale(wide, n);
            for (size_t i = 0; i < n; i++) {
                narrow[i] = q8_of_float(wide[i], *scale);
                wide[i] = narrow[i] * *scale;
            }
            scale++;
            narrow += n;
            wide += n;
        }
    }
}

/* A matrix [n_row, n_col] in the type, and what it stands for. */
static void fill_narrow(int type, void *narrow, float *scale, float *wide, size_t n_row,
                        size_t n_col) {
    size_t n = n_row * n_col;
    fill(wide, n);
    if (type == 3)
        fill_q8(narrow, scale, wide, n_row, n_col);
    for (size_t i = 0; i < n && type < 3; i++) {
        uint16_t half = type == 1 ? f16_of_float(wide[i]) : bf16_of_float(wide[i]);
        if (type == 0) {
            memcpy((float *)narrow + i, wide + i, sizeof *wide);
        } else {
            memcpy((uint16_t *)narrow + i, &half, sizeof half);
            wide[i] = type == 1 ? float_of_f16(half) : float_of_bf16(half);
        }
    }
}

/* C = A B^T, by way of 16 bits if the weights are q8. */
static void multiply_narrow(const struct kernels *kernels, int type, size_t m, size_t n, size_t k,
                            const float *a, size_t lda, const void *narrow, const float *scale,
                            float *c, size_t ldc) {
    static int16_t rounded[9 * (MAX + Q8_BLOCK)];
    float a_scale[9];
    if (type < FLOAT_TYPES) {
        kernels->product[type](m, n, k, a, lda, narrow, c, ldc);
        return;
    }
    kernels->round(m, k, a, lda, rounded, a_scale);
    kernels->product_q8(m, n, k, rounded, a_scale, narrow, scale, c, ldc);
}

TEST(rounding) {
    static float x[3 * MAX];
    static int16_t rounded[3 * (MAX + Q8_BLOCK)];
    for (size_t v = 0; kernels_at(v); v++) {
        const struct kernels *kernels = kernels_at(v);
        for (size_t s = 0; s < N_SIZE; s++) {
            size_t k = sizes[s], ldx = k + s % 3, row = q8_blocks(k) * Q8_BLOCK;
            float scale[3], most = 0;
            fill(x, 3 * ldx);
            memset(x + ldx, 0, k * sizeof *x);
            memset(rounded, 0x7f, sizeof rounded);
            kernels->round(3, k, x, ldx, rounded, scale);
            assert_true(scale[1] == 0);
            for (size_t i = 0; i < 3; i++) {
                for (size_t j = 0; j < row; j++) {
                    float exact = j < k ? x[i * ldx + j] : 0;
                    most = fabsf(exact) > most ? fabsf(exact) : most;
                    assert_true(fabsf(rounded[i * row + j] * scale[i] - exact) <=
                                scale[i] * 0.502f);
                }
            }
            assert_true(fmaxf(scale[0], scale[2]) <= most / 32767 * 1.00001f);
            assert_int_equal(rounded[3 * row], 0x7f7f);
            const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
            x[s % k] = odd[s % 4];
            kernels->round(3, k, x, ldx, rounded, scale);
            assert_true(isnan(scale[0]) && !isnan(scale[2]));
            x[s % k] = 1e-42f; /* its inverse is too large for a float */
            kernels->round(1, 1, x + s % k, ldx, rounded, scale);
            assert_true(rounded[0] * scale[0] < 1e-41f);
        }
    }
}

TEST(products) {
    static float a[9 * MAX], b[40 * MAX], narrow[40 * MAX], scale[40 * MAX], c[9 * 64];
    for (size_t v = 0; kernels_at(v); v++) {
        for (int type = 0; type < KERNEL_TYPES; type++) {
            for (size_t s = 0; s < N_SIZE; s++) {
                size_t k = sizes[s], m = s % 9 + 1, n = (s * 5) % 39 + 1, lda = k + s % 3,
                       ldc = n + 2;
                fill(a, m * lda);
                fill_narrow(type, narrow, scale, b, n, k);
                memset(c, 0x7f, sizeof c);
                multiply_narrow(kernels_at(v), type, m, n, k, a, lda, narrow, scale, c, ldc);
                for (size_t i = 0; i < m; i++) {
                    for (size_t j = 0; j < n; j++) {
                        double sum = 0;
                        for (size_t l = 0; l < k; l++)
                            sum += (double)a[i * lda + l] * b[j * k + l];
                        assert_true(fabs(sum - c[i * ldc + j]) < (type == 3 ? 5e-4 : 1e-4));
                    }
                    uint32_t beyond;
                    memcpy(&beyond, &c[i * ldc + n], sizeof beyond);
                    assert_int_equal(beyond, 0x7f7f7f7f);
                }
            }
        }
    }
}

/* Texts that are generated together are the same as each generated alone. */
TEST(products_of_a_row_are_the_same_among_others) {
    static float a[8 * MAX], b[40 * MAX], narrow[40 * MAX], scale[40 * MAX], c[8 * 40], alone[40];
    for (size_t v = 0; kernels_at(v); v++) {
        for (int type = 0; type < KERNEL_TYPES; type++) {
            for (size_t s = 0; s < N_SIZE; s++) {
                size_t k = sizes[s], n = (s * 5) % 39 + 1;
                fill(a, 8 * k);
                fill_narrow(type, narrow, scale, b, n, k);
                for (size_t m = 1; m <= 8; m++) {
                    multiply_narrow(kernels_at(v), type, m, n, k, a, k, narrow, scale, c, n);
                    for (size_t i = 0; i < m; i++) {
                        multiply_narrow(kernels_at(v), type, 1, n, k, a + i * k, k, narrow, scale,
                                        alone, n);
                        assert_memory_equal(c + i * n, alone, n * sizeof *alone);
                    }
                }
            }
        }
    }
}

TEST(widening) {
    static float wide[5 * MAX], narrow[5 * MAX], scale[5 * MAX], out[5 * MAX];
    for (size_t v = 0; kernels_at(v); v++) {
        for (int type = 0; type < KERNEL_TYPES; type++) {
            for (size_t s = 0; s < N_SIZE; s++) {
                size_t n_row = s % 5 + 1, n_col = sizes[s];
                fill_narrow(type, narrow, scale, wide, n_row, n_col);
                kernels_at(v)->widen[type](narrow, scale, n_row, n_col, out);
                assert_memory_equal(out, wide, n_row * n_col * sizeof *out);
            }
        }
    }
}

TEST(multiplications) {
    static float a[20 * MAX], wide[MAX * 200], narrow[MAX * 200], c[20 * 200];
    static const size_t widths[] = {16, 32, 48, 64, 80, 144};
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t s = 0; s < MEMORY_TYPES * N_SIZE; s++) {
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                size_t type = s % MEMORY_TYPES, k = sizes[s / MEMORY_TYPES], n = widths[w];
                size_t m = (s + 3 * w) % 19 + 1;
                size_t lda = k + w % 3, ldb = n + s % 5, ldc = n + 3;
                bool add = (s + w) % 2;
                fill(a, m * lda);
                fill_narrow((int)type, narrow, NULL, wide, k, ldb);
                for (size_t i = 0; i < m * ldc; i++)
                    c[i] = 3;
                kernels_at(v)->multiply[type](
                    &(struct multiply_call){.m = m,
                                            .n = n,
                                            .k = k,
                                            .a = a,
                                            .lda = lda,
                                            .b = narrow,
                                            .ldb = ldb,
                                            .add = add,
                                            .c = c,
                                            .ldc = ldc,
                                            .next = s % 3 ? narrow : NULL});
                for (size_t i = 0; i < m; i++) {
                    for (size_t j = 0; j < n; j++) {
                        double sum = add ? 3 : 0;
                        for (size_t l = 0; l < k; l++)
                            sum += (double)a[i * lda + l] * wide[l * ldb + j];
                        assert_true(fabs(sum - c[i * ldc + j]) < 1e-4);
                    }
                    assert_true(c[i * ldc + n] == 3);
                }
            }
        }
    }
}

/* C (+)= A B of bf16, B by pairs of rows: every k is even. */
TEST(multiplications_of_bf16) {
    static float a[50 * MAX], c[50 * 150];
    static uint16_t narrow[50 * MAX], b[MAX * 160];
    static const size_t widths[] = {16, 32, 48, 64, 80, 144};
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t s = 0; s < 2 * N_SIZE; s++) {
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                size_t k = (sizes[s / 2] + 1) / 2 * 2, n = widths[w], m = (7 * s + 3 * w) % 49 + 1;
                size_t lda = k + 2 * (w % 3), ldb = n + s % 5, ldc = n + 3;
                bool add = (s + w) % 2;
                fill(a, m * lda);
                kernels_at(v)->narrow_bf16(a, m * lda, narrow);
                for (size_t i = 0; i < k * ldb; i++)
                    b[i] = bf16_of_float(number());
                for (size_t i = 0; i < m * ldc; i++)
                    c[i] = 3;
                kernels_at(v)->multiply_bf16(&(struct multiply_call){.m = m,
                                                                     .n = n,
                                                                     .k = k,
                                                                     .a = narrow,
                                                                     .lda = lda,
                                                                     .b = b,
                                                                     .ldb = ldb,
                                                                     .add = add,
                                                                     .c = c,
                                                                     .ldc = ldc,
                                                                     .next = s % 3 ? b : NULL});
                for (size_t i = 0; i < m; i++) {
                    for (size_t j = 0; j < n; j++) {
                        double sum = add ? 3 : 0;
                        for (size_t l = 0; l < k; l++)
                            sum += (double)float_of_bf16(narrow[i * lda + l]) *
                                   float_of_bf16(b[l / 2 * 2 * ldb + 2 * j + l % 2]);
                        assert_true(fabs(sum - c[i * ldc + j]) < 1e-4);
                    }
                    assert_true(c[i * ldc + n] == 3);
                }
            }
        }
    }
}

/* Four blocks of rows in 8 bits, and bytes between them that nobody may read as rows. */
enum { I8_WIDTH = 272, I8_APART = I8_WIDTH * I8_BLOCK + I8_BLOCK * sizeof(float) + 64 };
static _Alignas(64) char i8_blocks[4 * I8_APART];

/* Fills the blocks of a span; `most`: with the largest numbers, whose sums are the largest. */
static struct i8_span fill_i8(size_t width, size_t s, bool most) {
    struct i8_span span = {.block = i8_blocks,
                           .apart = width * I8_BLOCK + I8_BLOCK * sizeof(float) + s % 2 * 64,
                           .width = width,
                           .first = s % 4 * 16,
                           .end = s % 4 * 16 + 16 + s * 48 % 176,
                           .next = s % 3 ? i8_blocks : NULL};
    for (size_t i = 0; i < 4; i++) {
        int8_t *block = (int8_t *)i8_blocks + i * span.apart;
        for (size_t e = 0; e < width * I8_BLOCK; e++)
            block[e] = most ? INT8_MIN : (int8_t)(127 * number());
        fill((float *)(void *)(block + width * I8_BLOCK), I8_BLOCK);
    }
    return span;
}

/* The scale of a row. */
static double i8_scale(const struct i8_span *span, size_t row) {
    const char *block = i8_blocks + row / I8_BLOCK * span->apart;
    return ((const float *)(const void *)(block + span->width * I8_BLOCK))[row % I8_BLOCK];
}

/* Element (i, j) of the block of row `row`, an array of `columns` columns. */
static int i8_element(const struct i8_span *span, size_t row, size_t columns, size_t i, size_t j) {
    const int8_t *block = (const int8_t *)i8_blocks + row / I8_BLOCK * span->apart;
    return block[i / 2 * 2 * columns + 2 * j + i % 2];
}

/* S = Q K^T.  Each sum of 128 products is exact; what is rounded is Q, and their sum. */
TEST(scores_in_8_bits) {
    static float q[100 * (I8_WIDTH + 2)], c[100 * 259], alone[259];
    static int16_t a[I8_WIDTH];
    static const size_t depths[] = {2, 15, 64, 129, 272};
    static const size_t rows[] = {1, 2, 3, 4, 7, 50, 100};
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t s = 0; s < 5 * 7; s++) {
            const size_t k = depths[s % 5], m = rows[s / 5], ldq = k + s % 3, ldc = 259;
            const bool most = s % 8 == 0;
            const struct i8_span span = fill_i8((k + 1) / 2 * 2, s, most);
            for (size_t i = 0; i < m * ldq; i++)
                q[i] = most ? 1 : number();
            for (size_t i = 0; i < m * ldc; i++)
                c[i] = 3;
            kernels_at(v)->score_i8(m, k, q, ldq, &span, c, ldc);
            for (size_t i = 0; i < m; i++) {
                double expected[259] = {0}, size[259] = {0};
                for (size_t d = 0; d < k; d += 128) {
                    const size_t depth = k - d < 128 ? k - d : 128;
                    float scale;
                    kernels_at(v)->round(1, depth, q + i * ldq + d, ldq, a, &scale);
                    for (size_t j = span.first; j < span.end; j++) {
                        int64_t sum = 0;
                        for (size_t l = 0; l < depth; l++)
                            sum +=
                                (int64_t)a[l] * i8_element(&span, j, I8_BLOCK, d + l, j % I8_BLOCK);
                        expected[j] += (double)sum * scale * i8_scale(&span, j);
                        size[j] += fabs((double)sum * scale * i8_scale(&span, j));
                    }
                }
                for (size_t j = span.first; j < span.end; j++)
                    assert_true(fabs(expected[j] - c[i * ldc + j]) <= 0x1p-21 * size[j] + 1e-30);
                assert_true(span.first == 0 || c[i * ldc + span.first - 1] == 3);
                assert_true(c[i * ldc + span.end] == 3);
                kernels_at(v)->score_i8(1, k, q + i * ldq, ldq, &span, alone, ldc);
                assert_memory_equal(alone + span.first, c + i * ldc + span.first,
                                    (span.end - span.first) * sizeof *alone);
            }
        }
    }
}

/* out += S V.  Each block's weights times its scales are rounded by themselves. */
TEST(weighted_sums_in_8_bits) {
    static float weights[100 * 259], out[100 * I8_WIDTH + 16], alone[I8_WIDTH];
    static const size_t widths[] = {16, 48, 64, 112, 128, 272};
    static const size_t rows[] = {1, 2, 3, 4, 7, 50, 100};
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t s = 0; s < 6 * 7; s++) {
            const size_t width = widths[s % 6], m = rows[s / 6], lds = 259;
            const bool most = s % 8 == 0;
            const struct i8_span span = fill_i8(width, s, most);
            for (size_t i = 0; i < m * lds; i++)
                weights[i] = most ? 1 : number() + 1;
            for (size_t i = 0; i < m; i++) {
                for (size_t j = 0; j < span.first; j++)
                    weights[i * lds + j] = NAN; /* is not read */
                for (size_t j = 0; j < width; j++)
                    out[i * width + j] = 3;
            }
            out[m * width] = 4; /* is not written */
            kernels_at(v)->weigh_i8(m, weights, lds, &span, out);
            assert_true(out[m * width] == 4);
            for (size_t i = 0; i < m; i++) {
                double expected[I8_WIDTH], size[I8_WIDTH];
                for (size_t j = 0; j < width; j++)
                    expected[j] = size[j] = 3;
                for (size_t first = span.first, end; first < span.end; first = end) {
                    float x[I8_BLOCK], scale;
                    int16_t a[I8_BLOCK];
                    end = first / I8_BLOCK * I8_BLOCK + I8_BLOCK;
                    end = end < span.end ? end : span.end;
                    for (size_t l = first; l < end; l++)
                        x[l - first] = weights[i * lds + l] * (float)i8_scale(&span, l);
                    kernels_at(v)->round(1, end - first, x, end - first, a, &scale);
                    for (size_t j = 0; j < width; j++) {
                        int64_t sum = 0;
                        for (size_t l = first; l < end; l++)
                            sum += (int64_t)a[l - first] *
                                   i8_element(&span, l, width, l % I8_BLOCK, j);
                        expected[j] += (double)sum * scale;
                        size[j] += fabs((double)sum * scale);
                    }
                }
                for (size_t j = 0; j < width; j++)
                    assert_true(fabs(expected[j] - out[i * width + j]) <= 0x1p-21 * size[j]);
                for (size_t j = 0; j < width; j++)
                    alone[j] = 3;
                kernels_at(v)->weigh_i8(1, weights + i * lds, lds, &span, alone);
                assert_memory_equal(alone, out + i * width, width * sizeof *alone);
            }
        }
    }
}

/* Y = act(X B^T + bias) through panels. */
static void check_panels(const struct kernels *kernels, bool rounds, int type, size_t s, size_t m) {
    static float x[PANEL_WIDTH * MAX], wide[PANEL_ROWS * MAX], narrow[PANEL_ROWS * MAX];
    static float prepared[PANEL_ROWS * (MAX + PANEL_DEPTH)], prepared_scale[PANEL_ROWS * MAX];
    static float scale[PANEL_ROWS * MAX];
    static float packed[PANEL_WIDTH * (MAX + PANEL_DEPTH)], bias[PANEL_ROWS], y[PANEL_WIDTH * 64];
    const struct panels *p = rounds && type == 2 ? kernels->rounding[2] : kernels->panels[type];
    size_t k = sizes[s], n = (s * 7 + m) % PANEL_ROWS + 1, ldx = k + s % 3, ldy = n + 1;
    size_t width = (m + p->unit - 1) / p->unit * p->unit;
    bool relu = m % 2, with_bias = m % 3;
    fill(x, m * ldx);
    fill(bias, n);
    bias[n - 1] = NAN; /* which no activation may hide */
    fill_narrow(type, narrow, scale, wide, n, k);
    for (size_t i = 0; i < m * ldy; i++)
        y[i] = 3;
    const float *b = narrow, *b_scale = scale;
    if (p->prepare) {
        p->prepare(n, k, narrow, scale, prepared, prepared_scale);
        b = prepared;
        b_scale = prepared_scale;
    }
    p->pack(m, width, k, x, ldx, packed);
    p->panel(&(struct panel_call){.m = m,
                                  .width = width,
                                  .n = n,
                                  .k = k,
                                  .packed = packed,
                                  .b = b,
                                  .scale = b_scale,
                                  .bias = with_bias ? bias : NULL,
                                  .relu = relu,
                                  .y = y,
                                  .ldy = ldy});
    for (size_t i = 0; rounds && type == 2 && i < m * ldx; i++)
        x[i] = float_of_bf16(bf16_of_float(x[i]));
    for (size_t t = 0; t < m; t++) {
        assert_true(!with_bias || isnan(y[t * ldy + n - 1]));
        for (size_t j = 0; j < n - with_bias; j++) {
            double sum = with_bias ? bias[j] : 0;
            for (size_t l = 0; l < k; l++)
                sum += (double)x[t * ldx + l] * wide[j * k + l];
            double error = (relu && sum < 0 ? 0 : sum) - y[t * ldy + j];
            assert_true(fabs(error) < 1e-4);
        }
        assert_true(y[t * ldy + n] == 3);
    }
}

TEST(panels) {
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t s = 0; s < N_SIZE; s++) {
            for (size_t m = 1; m <= PANEL_WIDTH; m += 1 + s % 3)
                for (int type = 0; type < KERNEL_TYPES; type++)
                    for (int rounds = 0; rounds < 2; rounds++)
                        check_panels(kernels_at(v), rounds, type, s, m);
        }
    }
}

/* A block x[n] that is rounded to rounded[n], multiples of the largest in size divided by 127, with
 * no ties. */
static void fill_bytes(size_t n, float unit, float *x, float *rounded) {
    for (size_t i = 0; i < n; i++) {
        int q = rand() % 253 - 126;
        q = i == n / 2 ? 127 : q;
        rounded[i] = (float)q * unit;
        x[i] = i == n / 2 ? rounded[i] : rounded[i] + (float)(rand() % 3 - 1) * 0.375f * unit;
    }
}

/* Rows of a random matrix of q4 or q5 as `panel` takes them, and widened. */
static const float *prepare_tiled(const struct kernels *kernels, int type, size_t n, size_t k,
                                  float *wide, float *prepared) {
    static uint8_t tiles[(PANEL_ROWS + 16) / 16 * 10 * 704];
    static float factors[2 * (PANEL_ROWS + 16)];
    const int top = type == 5 ? Q5_TOP : Q4_TOP;
    const struct tile_rows rows = {tiles, factors, (n + k) % 3 ? (7 * n + k) % 16 : 0, n, k};
    assert_true(tiles_bytes(top, rows.skip + n, k) <= sizeof tiles);
    for (size_t i = 0; i < tiles_bytes(top, rows.skip + n, k); i++)
        tiles[i] = (uint8_t)rand();
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) /* NaN beyond the rows */
        factors[i] = i < 2 * (rows.skip + n) ? (float)(rand() % 99) * 0x1p-16f : NAN;
    kernels->tiles->widen[type - KERNEL_TYPES](&rows, wide);
    if (!kernels->rounding_tiles->prepare_tiles)
        return wide;
    kernels->rounding_tiles->prepare_tiles(top, &rows, prepared);
    return prepared;
}

/* Y = act(X B^T + bias) of weights in q8, q4 or q5 and activations rounded to bytes, block by
 * block; a row that is not finite gives NaN, and others with it nothing else. */
static void check_int8_panels(const struct kernels *kernels, int type, size_t k, size_t m) {
    static float x[PANEL_WIDTH * MAX], wide[PANEL_ROWS * MAX], narrow[PANEL_ROWS * MAX];
    static float prepared[PANEL_ROWS * (MAX + PANEL_DEPTH)], prepared_scale[PANEL_ROWS * MAX];
    static float scale[PANEL_ROWS * MAX];
    static float packed[PANEL_WIDTH * (MAX + PANEL_DEPTH)], bias[PANEL_ROWS], y[PANEL_WIDTH * 64];
    static float rounded[PANEL_WIDTH * MAX];
    const bool tiled = type >= KERNEL_TYPES;
    const struct panels *p = tiled ? kernels->rounding_tiles : kernels->rounding[type];
    const float *b = prepared;
    size_t n = (k * 7 + m) % PANEL_ROWS + 1, ldx = k + k % 3, ldy = n + 1;
    size_t width = (m + p->unit - 1) / p->unit * p->unit;
    for (size_t t = 0; t < m; t++)
        for (size_t i = 0; i < k; i += 64)
            fill_bytes(k - i < 64 ? k - i : 64, t == 0 && i == 0 ? 0x1p-120f : 0x1p-6f,
                       x + t * ldx + i, rounded + t * ldx + i);
    fill(bias, n);
    if (tiled) {
        b = prepare_tiled(kernels, type, n, k, wide, prepared);
    } else {
        fill_narrow(type, narrow, scale, wide, n, k);
        p->prepare(n, k, narrow, scale, prepared, prepared_scale);
    }
    if (m > 1)
        x[(m - 1) * ldx + k / 2] = m % 4 < 2 ? INFINITY : NAN;
    for (size_t i = 0; i < m * ldy; i++)
        y[i] = 3;
    p->pack(m, width, k, x, ldx, packed);
    p->panel(&(struct panel_call){.m = m,
                                  .width = width,
                                  .n = n,
                                  .k = k,
                                  .packed = packed,
                                  .b = b,
                                  .scale = prepared_scale,
                                  .bias = bias,
                                  .relu = m % 2,
                                  .y = y,
                                  .ldy = ldy});
    for (size_t t = 0; t < m; t++) {
        bool finite = t == 0 || t + 1 < m;
        for (size_t j = 0; j < n; j++) {
            double sum = bias[j], size = 0;
            for (size_t l = 0; l < k; l++) {
                double product = (double)rounded[t * ldx + l] * wide[j * k + l];
                sum += product;
                size += fabs(product);
            }
            double expected = m % 2 && sum < 0 ? 0 : sum;
            assert_true(finite ? fabs(expected - y[t * ldy + j]) < 1e-6 * (1 + size)
                               : isnan(y[t * ldy + j]));
        }
        assert_true(y[t * ldy + n] == 3);
    }
}

TEST(int8_panels) {
    for (size_t v = 0; kernels_at(v); v++) {
        for (int type = 3; type < KERNEL_TYPES + TILE_TYPES; type++) {
            for (size_t s = 0; s < N_SIZE; s++)
                for (size_t m = 1; m <= PANEL_WIDTH; m += 1 + s % 3)
                    check_int8_panels(kernels_at(v), type, sizes[s], m);
            /* More blocks than are added up before the sums are stored. */
            for (size_t m = 1; m <= PANEL_WIDTH; m += 7)
                check_int8_panels(kernels_at(v), type, 577, m);
        }
    }
}

/* A product Y[m, n] = X B^T through panels, all that goes into it of one type's panels. */
static void through_panels(const struct panels *p, size_t m, size_t n, size_t k, const float *x,
                           const void *b, const float *scale, float *y) {
    static float packed[64 * 2528], prepared[PANEL_ROWS * 2528], prepared_scale[PANEL_ROWS * 40];
    assert_true(m <= 64 && n <= 2 && k <= 2500);
    size_t width = (m + p->unit - 1) / p->unit * p->unit;
    p->pack(m, width, k, x, k, packed);
    if (p->prepare) {
        p->prepare(n, k, b, scale, prepared, prepared_scale);
        b = prepared;
        scale = prepared_scale;
    }
    p->panel(&(struct panel_call){.m = m,
                                  .width = width,
                                  .n = n,
                                  .k = k,
                                  .packed = packed,
                                  .b = b,
                                  .scale = scale,
                                  .y = y,
                                  .ldy = n,
                                  .next = b});
}

/* A sum over many steps is cut where the panel's part would leave the cache, and is the same
 * however many rows there are. */
TEST(panels_are_deep) {
    enum { K = 2500, M = 33 };
    static float x[M * K], b[2 * K], wide[2 * K], scale[2 * K], y[M * 2], one[2];
    fill(x, M * K);
    for (size_t v = 0; kernels_at(v); v++) {
        const struct kernels *kernels = kernels_at(v);
        const struct panels *rounding[] = {kernels->rounding[2], kernels->rounding[3]};
        for (int i = 0; i < KERNEL_TYPES + 2; i++) {
            const bool rounds = i >= KERNEL_TYPES;
            const int type = rounds ? i - 2 : i;
            const struct panels *p = rounds ? rounding[i - KERNEL_TYPES] : kernels->panels[type];
            fill_narrow(type, b, scale, wide, 2, K);
            through_panels(p, M, 2, K, x, b, scale, y);
            for (size_t t = 0; t < M; t++) {
                double sum = 0;
                for (size_t l = 0; l < K; l++)
                    sum += (double)x[t * K + l] * wide[K + l];
                assert_true(fabs(sum - y[t * 2 + 1]) < (rounds ? 0.5 : 1e-3));
                through_panels(p, 1, 2, K, x + t * K, b, scale, one);
                assert_memory_equal(one, y + t * 2, sizeof one);
            }
        }
    }
}

/* The largest sums of the narrow types do not overflow, and small numbers do not vanish. */
TEST(panels_of_any_magnitude) {
    enum { K = 192 };
    const struct {
        float x, w;
    } cases[] = {{1e30f, 60000}, {1e-30f, 60000}, {3e38f, 1e-3f}, {1e-20f, 1e-4f}, {0, 1}};
    float x[K], y;
    uint16_t b[K];
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            for (int way = 1; way <= 3; way++) {
                const struct kernels *kernels = kernels_at(v);
                const int type = way == 1 ? 1 : 2;
                float w = cases[c].w;
                for (size_t i = 0; i < K; i++) {
                    x[i] = cases[c].x / 256;
                    b[i] = type == 1 ? f16_of_float(w) : bf16_of_float(w);
                }
                w = type == 1 ? float_of_f16(b[0]) : float_of_bf16(b[0]);
                through_panels(way == 3 ? kernels->rounding[type] : kernels->panels[type], 1, 1, K,
                               x, b, NULL, &y);
                double sum = (double)x[0] * w * K;
                assert_true(fabs(y - sum) <= (way == 3 ? 4e-3 : 1e-5) * fabs(sum));
            }
        }
    }
}

/* Rounded as the scalar conversion does, and never infinite. */
TEST(narrowing) {
    static float in[MAX];
    static uint16_t out[MAX];
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t s = 0; s < N_SIZE; s++) {
            size_t n = sizes[s];
            fill(in, n);
            in[0] = s % 2 ? 70000 : 1e-6f;
            in[n / 2] = s % 3 ? -1e30f : 65510;
            kernels_at(v)->narrow_f16(in, n, out);
            for (size_t i = 0; i < n; i++) {
                float nearest = fmaxf(fminf(in[i], 65504), -65504);
                assert_int_equal(out[i], f16_of_float(nearest));
            }
        }
    }
}

/* In place too. */
TEST(narrowing_to_bf16) {
    static float in[MAX];
    static uint16_t out[MAX + 1];
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t s = 0; s < N_SIZE; s++) {
            size_t n = sizes[s];
            fill(in, n);
            in[0] = s % 2 ? 0x1.01p0f : -0x1.03p10f;
            in[n / 2] = s % 3 ? INFINITY : 3.4e38f;
            out[n] = 0x7f7f;
            kernels_at(v)->narrow_bf16(in, n, out);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(out[i], bf16_of_float(in[i]));
            assert_int_equal(out[n], 0x7f7f);
            in[n - 1] = float_of_bits(0x7f800001);
            kernels_at(v)->narrow_bf16(in, n, (uint16_t *)in);
            assert_memory_equal(in, out, (n - 1) * sizeof *out);
            memcpy(out, (uint16_t *)in + n - 1, sizeof *out);
            assert_true(isnan(float_of_bf16(out[0])));
        }
    }
}

TEST(narrowing_to_8_bits) {
    static float in[MAX];
    static int8_t out[MAX + 1], expected[MAX];
    static const float magnitudes[] = {1, 0x1p-99f, 0x1p-101f, 0, 3e38f};
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t s = 0; s < 5 * N_SIZE; s++) {
            size_t n = sizes[s / 5];
            fill(in, n);
            for (size_t i = 0; i < n; i++)
                in[i] *= magnitudes[s % 5];
            /* Halves between integers: with 127 the scale is the magnitude itself. */
            if (s % 5 == 0 && n > 8) {
                static const float halves[] = {127, 0.5F, 1.5F, -2.5F, -126.5F, 63.5F, -0.5F};
                memcpy(in + n - 7, halves, sizeof halves);
            }
            float scale = q8_scale(in, n);
            scale = scale * Q8_MAX > 0x1p-100f ? scale : 0;
            for (size_t i = 0; i < n; i++)
                expected[i] = q8_of_float(in[i], scale);
            out[n] = 99;
            assert_true(kernels_at(v)->narrow_i8(in, n, out) == scale);
            assert_memory_equal(out, expected, n);
            assert_int_equal(out[n], 99);
            for (int odd = 0; odd < 3; odd++) {
                const float numbers[] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
                in[n / 2] = numbers[odd];
                assert_true(isnan(kernels_at(v)->narrow_i8(in, n, out)));
                for (size_t i = 0; i < n; i++)
                    assert_int_equal(out[i], 0);
            }
        }
    }
}

TEST(attention_rows) {
    static float s[MAX], position[MAX];
    static double x[MAX];
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t i = 0; i < N_SIZE; i++) {
            for (size_t n_far = 0; n_far <= sizes[i]; n_far += sizes[i] / 3 + 1) {
                size_t n = sizes[i];
                float far = number(), scale = 9;
                double max = -INFINITY, sum = 0;
                fill(s, n);
                fill(position, n - n_far);
                for (size_t j = 0; j < n; j++) {
                    x[j] = scale * ((double)s[j] + (j < n_far ? far : position[j - n_far]));
                    max = fmax(max, x[j]);
                }
                float total = kernels_at(v)->attend(s, n, n_far, far, position, scale);
                for (size_t j = 0; j < n; j++) {
                    sum += exp(x[j] - max);
                    assert_true(fabs(s[j] - exp(x[j] - max)) < 1e-5);
                }
                assert_true(fabs(total / sum - 1) < 1e-5);
            }
        }
    }
}

TEST(layer_norms) {
    static float x[MAX], y[MAX], weight[MAX], bias[MAX], out[MAX];
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t i = 1; i < N_SIZE; i++) {
            size_t n = sizes[i];
            fill(x, n);
            fill(y, n);
            fill(weight, n);
            fill(bias, n);
            for (int with_y = 0; with_y < 2; with_y++) {
                double mean = 0, variance = 0;
                for (size_t j = 0; j < n; j++)
                    mean += (x[j] + (with_y ? y[j] : 0)) / (double)n;
                for (size_t j = 0; j < n; j++)
                    variance += pow(x[j] + (with_y ? y[j] : 0) - mean, 2) / (double)n;
                float epsilon = with_y ? 1e-5f : 0.01f;
                kernels_at(v)->layer_norm(n, x, with_y ? y : NULL, weight, bias, epsilon, out);
                for (size_t j = 0; j < n; j++) {
                    double z =
                        (x[j] + (with_y ? y[j] : 0) - mean) / sqrt(variance + (double)epsilon);
                    assert_true(fabs(out[j] - (z * weight[j] + bias[j])) < 1e-4);
                }
            }
        }
    }
}

static double activated(enum activation activation, double x) {
    switch (activation) {
    case RELU:
        return x > 0 ? x : 0;
    case GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case GELU_ERF:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case SWISH:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

TEST(activations) {
    static float x[MAX], out[MAX];
    static const float spread[] = {0.1f, 3, 40, 1e6f};
    for (size_t v = 0; kernels_at(v); v++) {
        for (enum activation a = LINEAR; a <= SWISH; a++) {
            for (size_t i = 0; i < N_SIZE * 4; i++) {
                size_t n = sizes[i / 4];
                fill(x, n);
                for (size_t j = 0; j < n; j++)
                    out[j] = x[j] *= spread[i % 4];
                kernels_at(v)->activate(a, n, out);
                for (size_t j = 0; j < n; j++)
                    assert_true(fabs(out[j] - activated(a, x[j])) <= 4e-7 * (1 + fabsf(x[j])));
            }
            out[0] = NAN;
            kernels_at(v)->activate(a, 1, out);
            assert_true(isnan(out[0]));
        }
    }
}

TEST(sums_of_exponentials) {
    static float x[MAX];
    static const float spread[] = {1, 30, 200};
    for (size_t v = 0; kernels_at(v); v++) {
        for (size_t i = 0; i < N_SIZE; i++) {
            for (size_t k = 0; k < 3; k++) {
                double top = -INFINITY, total = 0;
                float max, sum;
                fill(x, sizes[i]);
                for (size_t j = 0; j < sizes[i]; j++) {
                    x[j] *= spread[k];
                    top = fmax(top, x[j]);
                }
                for (size_t j = 0; j < sizes[i]; j++)
                    total += exp(x[j] - top);
                kernels_at(v)->sum_exp(sizes[i], x, &max, &sum);
                assert_true(max == (float)top);
                assert_true(fabs(sum / total - 1) < 1e-5);
            }
        }
    }
}

TEST(what_exceeds_a_bound_is_found_in_order) {
    static float x[MAX];
    for (size_t v = 0; kernels_at(v); v++) {
        const struct kernels *kernels = kernels_at(v);
        for (size_t i = 0; i < N_SIZE; i++) {
            fill(x, sizes[i]);
            for (size_t k = 0; k < 5; k++) {
                float bound = k == 0 ? -INFINITY : x[k * 7 % sizes[i]];
                size_t at = 0;
                for (size_t j = 0; j < sizes[i]; j++) {
                    if (!(x[j] > bound))
                        continue;
                    at = kernels->find_above(at, sizes[i], x, bound);
                    assert_int_equal(at, j);
                    at++;
                }
                assert_int_equal(kernels->find_above(at, sizes[i], x, bound), sizes[i]);
            }
        }
    }
}

TEST(a_table_is_chosen_by_name) {
    struct kernels kernels;
    txl_error error;
    for (size_t v = 0; kernels_at(v); v++) {
        setenv("TXL_CPU", kernels_at(v)->name, 1);
        assert_int_equal(kernels_choose(&kernels, &error), TXL_OK);
        assert_memory_equal(&kernels, kernels_at(v), sizeof kernels);
        assert_string_equal(txl_kernels_name(&error), kernels_at(v)->name);
    }
    setenv("TXL_CPU", "", 1);
    assert_int_equal(kernels_choose(&kernels, &error), TXL_OK);
    assert_memory_equal(&kernels, kernels_at(0), sizeof kernels);
    unsetenv("TXL_CPU");
}

static bool is_available(const char *name) {
    for (size_t v = 0; kernels_at(v); v++)
        if (strcmp(kernels_at(v)->name, name) == 0)
            return true;
    return false;
}

/* A name that nobody knows, one that begins like a name, and those of other processors. */
TEST(other_names_are_refused) {
    static const char *const names[] = {"abacus",     "gener",      "generic ",   "avx2", "avx512",
                                        "avx512vnni", "avx512bf16", "avx512fp16", "neon"};
    struct kernels kernels;
    size_t refused = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (is_available(names[i]))
            continue;
        txl_error error;
        txl_model *model;
        setenv("TXL_CPU", names[i], 1);
        assert_int_equal(kernels_choose(&kernels, &error), TXL_ARGUMENT);
        assert_int_equal(error.status, TXL_ARGUMENT);
        assert_non_null(strstr(error.message, names[i]));
        for (size_t v = 0; kernels_at(v); v++)
            assert_non_null(strstr(error.message, kernels_at(v)->name));
        assert_null(txl_kernels_name(NULL));
        assert_int_equal(txl_model_random("{}", "f32", 1, 1, &model, &error), TXL_ARGUMENT);
        refused++;
    }
    unsetenv("TXL_CPU");
    assert_true(refused >= 4); /* the first three; and no processor has avx2 and neon */
}

/* Halves go to even; what a subnormal scale cannot reach stays within the ends. */
TEST(q8_rounds) {
    const float x[] = {-254, 3, 5, -1, 0, 100.9f};
    const int expected[] = {-127, 2, 2, 0, 0, 50};
    float scale = q8_scale(x, 6), tiny[] = {0x1.7cp-142f, -0x1.7cp-142f};
    assert_true(scale == 2);
    for (int i = 0; i < 6; i++)
        assert_int_equal(q8_of_float(x[i], scale), expected[i]);
    assert_int_equal(q8_of_float(tiny[0], q8_scale(tiny, 2)), 127);
    assert_int_equal(q8_of_float(tiny[1], q8_scale(tiny, 2)), -127);
    assert_true(q8_scale(x + 4, 1) == 0);
    assert_int_equal(q8_of_float(0, 0), 0);
    assert_int_equal(q8_blocks(64), 1);
    assert_int_equal(q8_blocks(65), 2);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
