/* The exact arithmetic's kernels against its definition (weights-format.md), written here once
 * more, one element at a time: every table gives the same bits, at any size. */
#include "lib/base/exact_math.h"
#include "lib/base/numbers.h"
#include "tests/kernels_at.h"
#include "tests/unit.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { SUMS = 16, MOST = 1400 };

/* ---- The definition ----------------------------------------------------------------------- */

static float fold(float sum[SUMS]) {
    for (int half = SUMS / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            sum[j] += sum[j + half];
    return sum[0];
}

static float sixteen_sums(const float *x, size_t n) {
    float sum[SUMS] = {0};
    for (size_t i = 0; i < n; i++)
        sum[i % SUMS] += x[i];
    return fold(sum);
}

static float dot_product(const float *x, const float *y, size_t n) {
    float sum[SUMS] = {0};
    for (size_t i = 0; i < n; i++)
        sum[i % SUMS] = fmaf(x[i], y[i], sum[i % SUMS]);
    return fold(sum);
}

/* Of integers, k of them in whole blocks; elements beyond k are zeros. */
static float q8_product(const int16_t *x, const int8_t *w, const float *scale, size_t k) {
    float sum[SUMS] = {0};
    for (size_t block = 0; block < k; block += Q8_BLOCK) {
        for (size_t j = 0; j < SUMS; j++) {
            const size_t at[] = {2 * j, 2 * j + 1, 2 * j + 32, 2 * j + 33};
            int32_t products = 0;
            for (int i = 0; i < 4; i++)
                if (block + at[i] < k)
                    products += x[block + at[i]] * w[block + at[i]];
            sum[j] = fmaf((float)products, scale[block / Q8_BLOCK], sum[j]);
        }
    }
    return fold(sum);
}

static float exponential(float x) {
    static const float c[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
    x = x < -87 ? -87 : x;
    const float t = x * 0x1.715476p0f + 0x1.8p23f, n = t - 0x1.8p23f;
    float r = x - n * 0x1.62e4p-1f, p = c[0];
    r = r - n * 0x1.7f7d1cp-20f;
    for (int i = 1; i < 7; i++)
        p = p * r + c[i];
    return ldexpf(p, (int)n);
}

/* ---- Helpers ------------------------------------------------------------------------------ */

/* The same numbers in every run (Knuth's MMIX constants), from -size to size. */
static float number(float size) {
    static uint64_t state = 5;
    state = state * 6364136223846793005 + 1442695040888963407;
    return (float)((int32_t)(state >> 32)) / 0x1p31f * size;
}

static void fill(float *x, size_t n, float size) {
    for (size_t i = 0; i < n; i++)
        x[i] = number(size);
}

static void same_bits(const struct kernels *k, const char *what, size_t size, const float *x,
                      const float *expected, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(x + i, expected + i, sizeof *x) != 0)
            fail_msg("%s, %s of %zu, element %zu: %a, not %a", k->name, what, size, i, (double)x[i],
                     (double)expected[i]);
}

/* Sizes at the ends of vectors, blocks and sixteen sums. */
static const size_t sizes[] = {1,  2,  3,  4,  5,  7,   8,   9,   15,  16,  17, 31,
                               32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 321};
enum { N_SIZE = sizeof sizes / sizeof *sizes };
#define FOR_TABLES(k)                                                                              \
    for (size_t v_ = 0; kernels_at(v_); v_++)                                                      \
        for (const struct kernels *k = kernels_at(v_)->exact, *once_ = k; once_; once_ = NULL)

/* ---- Tests -------------------------------------------------------------------------------- */

/* Rows in tiles of every height, and beyond those that meet the weights from the cache. */
static const size_t heights[] = {1, 2, 3, 4, 5, 6, 7, 11, 61};
enum { N_HEIGHT = sizeof heights / sizeof *heights, N_COLUMN = 9, MOST_ROW = 61, MOST_K = 321 };

TEST(products) {
    static float a[MOST_ROW * MOST_K], b[N_COLUMN * MOST_K], c[MOST_ROW * N_COLUMN],
        expected[MOST_ROW * N_COLUMN];
    static uint16_t narrow[N_COLUMN * MOST_K];
    fill(a, MOST_ROW * MOST_K, 2);
    for (size_t i = 0; i < N_COLUMN * MOST_K; i++) { /* as bf16 they are the same */
        uint32_t bits;
        b[i] = number(1);
        memcpy(&bits, &b[i], sizeof bits);
        bits &= 0xffff0000;
        memcpy(&b[i], &bits, sizeof bits);
        narrow[i] = (uint16_t)(bits >> 16);
    }
    for (size_t s = 0; s < N_SIZE; s++) {
        const size_t k = sizes[s];
        for (size_t r = 0; r < MOST_ROW; r++)
            for (size_t j = 0; j < N_COLUMN; j++)
                expected[r * N_COLUMN + j] = dot_product(a + r * k, b + j * k, k);
        FOR_TABLES(table) {
            for (size_t h = 0; h < N_HEIGHT; h++) {
                table->product[0](heights[h], N_COLUMN, k, a, k, b, c, N_COLUMN);
                same_bits(table, "product", k, c, expected, heights[h] * N_COLUMN);
                table->product[2](heights[h], N_COLUMN, k, a, k, narrow, c, N_COLUMN);
                same_bits(table, "product in bf16", k, c, expected, heights[h] * N_COLUMN);
            }
        }
    }
}

TEST(products_of_integers) {
    static float x[MOST_ROW * MOST_K], x_scale[MOST_ROW], scale[N_COLUMN * 6],
        c[MOST_ROW * N_COLUMN], expected[MOST_ROW * N_COLUMN];
    static int16_t a[MOST_ROW * 6 * Q8_BLOCK];
    static int8_t b[N_COLUMN * MOST_K];
    fill(x, MOST_ROW * MOST_K, 2);
    fill(scale, N_COLUMN * 6, 0.1f);
    for (size_t i = 0; i < N_COLUMN * MOST_K; i++)
        b[i] = (int8_t)(i % 50 == 0 ? Q8_MAX : i % 50 == 1 ? -Q8_MAX : (int)number(127.9f));
    for (size_t s = 0; s < N_SIZE; s++) {
        const size_t k = sizes[s], blocks = q8_blocks(k);
        FOR_TABLES(table) {
            table->round(MOST_ROW, k, x, k, a, x_scale);
            for (size_t r = 0; r < MOST_ROW; r++) {
                float most = 0;
                for (size_t i = 0; i < k; i++)
                    most = fmaxf(most, fabsf(x[r * k + i]));
                const float inverse = 32767 / most, one = most / 32767;
                same_bits(table, "scale", k, x_scale + r, &one, 1);
                for (size_t i = 0; i < blocks * Q8_BLOCK; i++)
                    assert_int_equal(a[r * blocks * Q8_BLOCK + i],
                                     i < k ? (int)rintf(x[r * k + i] * inverse) : 0);
                for (size_t j = 0; j < N_COLUMN; j++)
                    expected[r * N_COLUMN + j] = one * q8_product(a + r * blocks * Q8_BLOCK,
                                                                  b + j * k, scale + j * blocks, k);
            }
            for (size_t h = 0; h < N_HEIGHT; h++) {
                table->product_q8(heights[h], N_COLUMN, k, a, x_scale, b, scale, c, N_COLUMN);
                same_bits(table, "product in q8", k, c, expected, heights[h] * N_COLUMN);
            }
        }
    }
}

/* The largest weight is 1; those below 2^-80 are 0, and count in the sum. */
TEST(attention_weights) {
    float score[MOST_K], s[MOST_K], position[MOST_K], expected[MOST_K], sum;
    for (size_t i = 0; i < N_SIZE; i++) {
        const size_t n = sizes[i], n_far = n / 3;
        float most = -INFINITY;
        for (size_t j = 0; j < n; j++) {
            score[j] = number(j % 4 == 3 ? 3000 : 50);
            position[j] = number(50);
            expected[j] = 0.125f * (score[j] + (j < n_far ? -1.5f : position[j - n_far]));
            most = fmaxf(most, expected[j]);
        }
        for (size_t j = 0; j < n; j++)
            expected[j] = exponential(expected[j] - most);
        sum = sixteen_sums(expected, n);
        for (size_t j = 0; j < n; j++)
            expected[j] = expected[j] < 0x1p-80f ? 0 : expected[j];
        FOR_TABLES(table) {
            memcpy(s, score, n * sizeof *s);
            const float found = table->attend(s, n, n_far, -1.5f, position, 0.125f);
            same_bits(table, "attention weights", n, s, expected, n);
            same_bits(table, "sum of attention weights", n, &found, &sum, 1);
        }
    }
    /* On both sides of 2^-80, which is exp(-55.45). */
    FOR_TABLES(table) {
        const float scores[] = {0, -55.4f, -55.5f, -200, -55.4f};
        memcpy(s, scores, sizeof scores);
        memset(position, 0, sizeof position);
        (void)table->attend(s, 5, 0, 0, position, 1);
        assert_true(s[0] == 1 && s[1] >= 0x1p-80f && s[2] == 0 && s[3] == 0 && s[4] == s[1]);
    }
}

/* Groups of 512 are added in double. */
TEST(exponentials) {
    static const size_t lengths[] = {1, 15, 16, 100, 511, 512, 513, 1024, 1025, MOST};
    static float x[MOST], e[MOST], expected[MOST];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        float most = -INFINITY;
        double total = 0;
        for (size_t j = 0; j < n; j++) {
            x[j] = number(j % 9 == 0 ? 300 : 10);
            most = fmaxf(most, x[j]);
        }
        for (size_t j = 0; j < n; j++)
            expected[j] = exponential(x[j] - most);
        for (size_t j = 0; j < n; j += 512)
            total += (double)sixteen_sums(expected + j, n - j < 512 ? n - j : 512);
        FOR_TABLES(table) {
            assert_true(table->largest(n, x) == most);
            assert_true(table->exponentials(n, x, most, NULL) == total);
            assert_true(table->exponentials(n, x, most, e) == total);
            same_bits(table, "exponentials", n, e, expected, n);
        }
    }
}

TEST(layer_norms) {
    float x[MOST_K], y[MOST_K], weight[MOST_K], bias[MOST_K], out[MOST_K], expected[MOST_K];
    for (size_t i = 0; i < N_SIZE; i++) {
        const size_t n = sizes[i];
        for (int alone = 0; alone < 2; alone++) {
            fill(x, n, 3);
            fill(y, n, 1);
            fill(weight, n, 2);
            fill(bias, n, 1);
            for (size_t j = 0; j < n; j++)
                expected[j] = alone ? x[j] : x[j] + y[j];
            const float mean = sixteen_sums(expected, n) / (float)n;
            for (size_t j = 0; j < n; j++)
                expected[j] -= mean;
            const float variance = dot_product(expected, expected, n) / (float)n;
            const float inverse = 1 / sqrtf(variance + 1e-5f);
            for (size_t j = 0; j < n; j++)
                expected[j] = fmaf(expected[j] * inverse, weight[j], bias[j]);
            FOR_TABLES(table) {
                table->layer_norm(n, x, alone ? NULL : y, weight, bias, 1e-5f, out);
                same_bits(table, "layer norm", n, out, expected, n);
            }
        }
    }
}

/* Functions in double: the checksum of their bits.  Results are rounded to f32 later, which would
 * hide most of what could change here. */
TEST(functions) {
    enum { N = 4000 };
    static double y[4 * N];
    for (size_t i = 0; i < N; i++) {
        const double x = (double)number(1);
        y[4 * i] = exact_exp(705 * x);
        y[4 * i + 1] = exact_log(ldexp(1.5 + 0.49 * x, (int)(i % 2000) - 1000));
        exact_sin_cos(i % 2 ? 5000 * x : x, &y[4 * i + 2], &y[4 * i + 3]);
        assert_true(fabs(y[4 * i] / exp(705 * x) - 1) < 1e-15);
        assert_true(fabs(y[4 * i + 2] - sin(i % 2 ? 5000 * x : x)) < 4e-16);
    }
    const uint64_t found = XXH3_64bits(y, sizeof y);
    if (found != 0xe2b7493621939f82)
        fail_msg("0x%016llx", (unsigned long long)found);
}

TEST(ends_of_functions) {
    assert_true(fabs(exact_exp(-708) / exp(-708) - 1) < 1e-15);
    assert_true(exact_exp(nextafter(-708, -INFINITY)) == 0 && exact_exp(-INFINITY) == 0);
    assert_true(fabs(exact_exp(709) / exp(709) - 1) < 1e-15);
    assert_true(exact_exp(nextafter(709, INFINITY)) == INFINITY && exact_exp(INFINITY) == INFINITY);
    assert_true(isnan(exact_exp(NAN)) && isnan(exact_log(NAN)));
    assert_true(fabs(exact_log(DBL_MIN) / log(DBL_MIN) - 1) < 1e-15);
    assert_true(exact_log(nextafter(DBL_MIN, 0)) == -INFINITY);
    assert_true(exact_log(0) == -INFINITY && exact_log(-1) == -INFINITY);
    assert_true(exact_log(INFINITY) == INFINITY && exact_log(1) == 0);
    assert_true(fabs(exact_log(DBL_MAX) / log(DBL_MAX) - 1) < 1e-15);
}

/* ---- In integers -------------------------------------------------------------------------- */

#define FOR_INTEGERS(k)                                                                            \
    for (size_t v_ = 0; kernels_at(v_); v_++)                                                      \
        for (const struct kernels *k = kernels_at(v_)->in_integers, *once_ = k; once_; once_ = NULL)

/* The sizes above, and more than are packed at a time. */
static const size_t long_sizes[] = {512, 513, 576, 1100};
enum { N_ANY_SIZE = N_SIZE + sizeof long_sizes / sizeof *long_sizes, MOST_LONG = 1100 };

static size_t any_size(size_t s) {
    return s < N_SIZE ? sizes[s] : long_sizes[s - N_SIZE];
}

/* Activations as integers, each 64 with a scale. */
struct rounded_row {
    int8_t x[MOST_LONG + Q8_BLOCK];
    float scale[MOST_LONG / Q8_BLOCK + 1];
};

static struct rounded_row rounded(const float *x, size_t k) {
    struct rounded_row row = {{0}, {0}};
    for (size_t i = 0; i < k; i++) {
        const size_t block = i / Q8_BLOCK * Q8_BLOCK,
                     n = k - block < Q8_BLOCK ? k - block : Q8_BLOCK;
        float most = 0;
        for (size_t j = block; j < block + n; j++)
            most = fmaxf(most, fabsf(x[j]));
        row.scale[i / Q8_BLOCK] = most > 0x1p-100f ? most / 63 : 0;
        row.x[i] = (int8_t)(most > 0x1p-100f ? rintf(x[i] / (most / 63)) : 0);
    }
    return row;
}

static float integer_product(const struct rounded_row *x, const int8_t *w, const float *scale,
                             size_t k) {
    float sum = 0;
    for (size_t block = 0; block < k; block += Q8_BLOCK) {
        int32_t products = 0;
        for (size_t i = block; i < block + Q8_BLOCK && i < k; i++)
            products += x->x[i] * w[i];
        const float both = scale[block / Q8_BLOCK] * x->scale[block / Q8_BLOCK],
                    part = (float)products * both;
        sum += part;
    }
    return sum;
}

/* Rows in whose blocks all are of one magnitude, all are zero or nearly, or any number is. */
static void fill_rows(float *x, size_t m, size_t k) {
    fill(x, m * k, 2);
    for (size_t r = 0; r < m; r++)
        for (size_t i = 0; i < k; i++) {
            const size_t what = (r + i / Q8_BLOCK) % 5;
            x[r * k + i] = what == 0   ? ((r * i) % 3 ? 1.5f : -1.5f)
                           : what == 1 ? (r % 2 ? 0x1p-101f : 0)
                                       : x[r * k + i];
        }
}

/* Weights of both signs, among them blocks of the largest ones alone. */
static int8_t weight(size_t row, size_t column) {
    if ((row + column / Q8_BLOCK) % 4 == 0)
        return (int8_t)(row % 2 ? -128 : 127);
    return (int8_t)number(127.9f);
}

static const struct fetch_part later = {(const char *)&later, (const char *)(&later + 1)};

TEST(products_in_integers) {
    static const size_t columns[] = {1, 15, 16, 17, 37};
    enum { MOST_COLUMN = 37, MOST_HEIGHT = 70, BLOCKS = MOST_LONG / Q8_BLOCK + 1 };
    static float x[MOST_HEIGHT * MOST_LONG], scale[MOST_COLUMN * BLOCKS],
        c[MOST_HEIGHT * MOST_COLUMN], expected[MOST_HEIGHT * MOST_COLUMN];
    static struct integer_block a[MOST_HEIGHT * BLOCKS];
    static int8_t b[MOST_COLUMN * MOST_LONG];
    static _Alignas(64) char packed[2 * INTEGER_PANEL * BLOCKS * (INTEGER_BLOCK + sizeof(float))];
    for (size_t s = 0; s < N_ANY_SIZE; s++) {
        const size_t k = any_size(s), blocks = q8_blocks(k), n = columns[k > 512 ? 4 : s % 5];
        const size_t m = s % 3 == 0 ? MOST_HEIGHT : 1 + s % 12;
        fill_rows(x, m, k);
        fill(scale, n * blocks, 0.1f);
        for (size_t i = 0; i < n * k; i++)
            b[i] = weight(i / k, i % k);
        for (size_t r = 0; r < m; r++) {
            const struct rounded_row row = rounded(x + r * k, k);
            for (size_t j = 0; j < n; j++)
                expected[r * n + j] = integer_product(&row, b + j * k, scale + j * blocks, k);
        }
        FOR_INTEGERS(table) {
            table->integers->round(m, k, x, k, a);
            struct fetch fetch = {.part = &later, .n = 1};
            table->integers->pack_q8(n, k, b, scale, packed);
            table->integers->q8(m, a, n, k, packed, &fetch, c, n);
            same_bits(table, "product in integers", k, c, expected, m * n);
        }
    }
}

/* What an element of the tiles made below is: a level, and its block's bytes. */
static int tile_level(size_t row, size_t column) {
    return (row + column / 32) % 3 == 0 ? 15 : (int)((row * 7 + column * 5 + row * column) % 16);
}

static int tile_byte(size_t row, size_t block, int which) {
    return (row + block) % 4 == 0 ? 255 : (int)((row * 11 + block * 3 + (size_t)which * 29) % 256);
}

static void fill_tiles(size_t n_row, size_t n_col, uint8_t *tiles) {
    memset(tiles, 0, tiles_bytes(Q4_TOP, n_row, n_col));
    for (size_t r = 0; r < n_row; r++)
        for (size_t i = 0; i < n_col; i++) {
            uint8_t *tile = tiles + r / TILE_HEIGHT * tile_row_bytes(Q4_TOP, n_col) +
                            i / TILE_WIDTH * tile_bytes(Q4_TOP);
            tile_set_level(tile, Q4_TOP, r % TILE_HEIGHT, i % TILE_WIDTH, tile_level(r, i));
            for (int which = 0; which < 2; which++)
                tile_scales(tile, i % TILE_WIDTH / TILE_BLOCK, which)[r % TILE_HEIGHT] =
                    (uint8_t)tile_byte(r, i / TILE_BLOCK, which);
        }
}

static float tile_product(const struct rounded_row *x, size_t row, const float *factors, size_t k) {
    float sum = 0;
    for (size_t first = 0; first < k; first += TILE_BLOCK) {
        int32_t products = 0, plain = 0;
        for (size_t i = first; i < first + TILE_BLOCK && i < k; i++) {
            products += x->x[i] * tile_level(row, i);
            plain += x->x[i];
        }
        const size_t block = first / TILE_BLOCK;
        const float scale = (float)tile_byte(row, block, 0) * factors[0],
                    minimum = (float)tile_byte(row, block, 1) * factors[1],
                    scaled = (float)products * scale, less = (float)plain * minimum,
                    part = (scaled - less) * x->scale[first / Q8_BLOCK];
        sum += part;
    }
    return sum;
}

TEST(products_of_tiles_in_integers) {
    enum { ROWS = 37, MOST_HEIGHT = 70, BLOCKS = MOST_LONG / Q8_BLOCK + 1 };
    static float x[MOST_HEIGHT * MOST_LONG], factors[2 * ROWS], c[MOST_HEIGHT * ROWS],
        expected[MOST_HEIGHT * ROWS];
    static struct integer_block a[MOST_HEIGHT * BLOCKS];
    static uint8_t tiles[3 * BLOCKS * 704];
    for (size_t i = 0; i < 2 * ROWS; i++)
        factors[i] = fabsf(number(0.01f));
    for (size_t s = 0; s < N_ANY_SIZE; s++) {
        const size_t k = any_size(s), m = s % 3 == 0 ? MOST_HEIGHT : 1 + s % 12;
        const size_t skip = s % 4 == 0 ? 0 : 3 * s % 16, n = ROWS - skip - s % 5;
        fill_rows(x, m, k);
        fill_tiles(ROWS, k, tiles);
        for (size_t r = 0; r < m; r++) {
            const struct rounded_row row = rounded(x + r * k, k);
            for (size_t j = 0; j < n; j++)
                expected[r * n + j] = tile_product(&row, skip + j, factors + 2 * (skip + j), k);
        }
        FOR_INTEGERS(table) {
            const struct tile_rows rows = {tiles, factors, skip, n, k};
            table->integers->round(m, k, x, k, a);
            struct fetch fetch = {.part = &later, .n = 1};
            table->integers->q4(m, a, &rows, &fetch, c, n);
            same_bits(table, "product of tiles in integers", k, c, expected, m * n);
        }
    }
}

/* A row that is not all finite spoils its own results alone. */
TEST(integers_of_no_numbers) {
    enum { K = 130, N = 3 };
    float x[2 * K], scale[N * 3], c[2 * N];
    struct integer_block a[2 * 3];
    int8_t b[N * K];
    _Alignas(64) char packed[INTEGER_PANEL * 3 * (INTEGER_BLOCK + sizeof(float))];
    memset(b, 1, sizeof b);
    fill(x, 2 * K, 1);
    fill(scale, N * 3, 1);
    x[K + 64] = NAN;
    FOR_INTEGERS(table) {
        table->integers->round(2, K, x, K, a);
        struct fetch fetch = {0};
        table->integers->pack_q8(N, K, b, scale, packed);
        table->integers->q8(2, a, N, K, packed, &fetch, c, N);
        for (size_t j = 0; j < N; j++)
            assert_true(isfinite(c[j]) && isnan(c[N + j]));
    }
}

/* Keys and values: blocks of 64 rows, of the elements and then the rows' scales.  Element j of row
 * r of keys, or of values, if they are `wide`. */
static size_t place_of(bool wide, size_t width, size_t r, size_t j) {
    return wide ? r / 2 * 2 * width + 2 * j + r % 2 : j / 2 * 2 * I8_BLOCK + 2 * r + j % 2;
}

/* x as integers in 16 bits, and their scale. */
static float round_to_16(const float *x, size_t n, int *out) {
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    const float inverse = most > 0x1p-100f ? 32767 / most : 0;
    for (size_t i = 0; i < n; i++) {
        const float product = x[i] * inverse;
        out[i] = (int)rintf(product);
    }
    return most / 32767;
}

enum { ATTEND_BLOCKS = 3, ATTEND_WIDTH = 160, ATTEND_ROWS = ATTEND_BLOCKS * I8_BLOCK };

static void check_scores(const struct kernels *k, const struct i8_span *span, size_t d_head,
                         const float *q, float *s, float *expected) {
    int x[ATTEND_WIDTH];
    for (size_t r = span->first; r < span->end; r++) {
        const char *block = span->block + r / I8_BLOCK * span->apart;
        const float *scale = (const float *)(const void *)(block + span->width * I8_BLOCK);
        for (size_t d = 0; d < d_head; d += 128) {
            const size_t n = d_head - d < 128 ? d_head - d : 128;
            const float q_scale = round_to_16(q + d, n, x);
            int32_t sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += x[j] * (int8_t)block[place_of(false, span->width, r % I8_BLOCK, d + j)];
            float part = (float)sum * q_scale;
            part = part * scale[r % I8_BLOCK];
            expected[r] = d == 0 ? part : expected[r] + part;
        }
    }
    k->score_i8(1, d_head, q, d_head, span, s, ATTEND_ROWS);
    same_bits(k, "scores of keys in 8 bits", d_head, s + span->first, expected + span->first,
              span->end - span->first);
}

static void check_values(const struct kernels *k, const struct i8_span *span, const float *s,
                         float *out, float *expected) {
    for (size_t j = 0; j < span->width; j++)
        expected[j] = out[j] = 0;
    for (size_t b = 0; b * I8_BLOCK < span->end; b++) {
        const char *block = span->block + b * span->apart;
        const float *scale = (const float *)(const void *)(block + span->width * I8_BLOCK);
        const size_t first = b == 0 ? span->first : 0, end = span->end - b * I8_BLOCK < I8_BLOCK
                                                                 ? span->end - b * I8_BLOCK
                                                                 : I8_BLOCK;
        float weights[I8_BLOCK];
        int x[I8_BLOCK];
        for (size_t r = first; r < end; r++)
            weights[r - first] = s[b * I8_BLOCK + r] * scale[r];
        const float w_scale = round_to_16(weights, end - first, x);
        for (size_t j = 0; j < span->width; j++) {
            int32_t sum = 0;
            for (size_t r = first; r < end; r++)
                sum += x[r - first] * (int8_t)block[place_of(true, span->width, r, j)];
            const float part = (float)sum * w_scale;
            expected[j] += part;
        }
    }
    k->weigh_i8(1, s, ATTEND_ROWS, span, out);
    same_bits(k, "sums of values in 8 bits", span->width, out, expected, span->width);
}

/* The tables of the fast arithmetic may fuse what these may not. */
TEST(attention_in_integers) {
    static const size_t widths[] = {16, 64, 80, 128, 160};
    static _Alignas(64) char blocks[ATTEND_BLOCKS * (ATTEND_WIDTH + sizeof(float)) * I8_BLOCK];
    float q[ATTEND_WIDTH], s[ATTEND_ROWS], out[ATTEND_ROWS], expected[ATTEND_ROWS];
    for (size_t i = 0; i < 5; i++) {
        const size_t width = widths[i], apart = (width + sizeof(float)) * I8_BLOCK;
        for (size_t b = 0; b < ATTEND_BLOCKS; b++) {
            char *block = blocks + b * apart;
            for (size_t j = 0; j < width * I8_BLOCK; j++)
                block[j] = (char)(b == 1 ? (j % 2 ? 127 : -127) : (int)number(127.9f));
            for (size_t j = 0; j < I8_BLOCK; j++)
                ((float *)(void *)(block + width * I8_BLOCK))[j] = fabsf(number(0.1f));
        }
        fill(q, width, 3);
        for (size_t j = 0; j < ATTEND_ROWS; j++)
            s[j] = j % 7 ? fabsf(number(1)) : 0x1p-70f;
        FOR_INTEGERS(table) {
            struct i8_span span = {blocks, apart, width, 16 * i % 64, 192 - 16 * i, NULL};
            float scores[ATTEND_ROWS];
            check_scores(table, &span, width, q, scores, expected);
            check_values(table, &span, s, out, expected);
        }
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
