/* The types q4 and q5: rounding against files that another implementation made; and every set of
 * kernels against the definition, bit for bit. */
#include "lib/base/numbers.h"
#include "lib/base/tiles.h"
#include "tests/kernels_at.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 11;

static float number(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) * 0x1p-31f;
}

/* ---- A second reading of the format -------------------------------------------------------- */

static int type_of(int top) {
    return top == Q5_TOP;
}

/* What an element of the matrix is made of. */
struct element {
    int level, c, n;
};

static struct element element_at(int top, const uint8_t *tiles, size_t n_col, size_t row,
                                 size_t column) {
    const uint8_t *tile =
        tiles + (row / 16 * ((n_col + 63) / 64) + column / 64) * (top == 31 ? 704 : 576);
    const size_t block = column % 64 / 32, k = column % 32, r = row % 16;
    const uint8_t byte = tile[64 + 256 * block + 64 * (k % 16 / 4) + 4 * r + k % 4];
    struct element e = {k < 16 ? byte & 15 : byte >> 4, tile[32 * block + r],
                        tile[32 * block + 16 + r]};
    if (top == 31)
        e.level |= (tile[576 + 64 * block + 4 * r + k % 4] >> (k % 16 / 4 + (k < 16 ? 0 : 4)) & 1)
                   << 4;
    return e;
}

static float widened(int top, const uint8_t *tiles, const float *factors, size_t n_col, size_t row,
                     size_t column) {
    const struct element e = element_at(top, tiles, n_col, row, column);
    const float scale = (float)e.c * factors[2 * row], minimum = (float)e.n * factors[2 * row + 1];
    const float scaled = scale * (float)e.level;
    return scaled - minimum;
}

/* An element of x as an integer. */
static int rounded(float x, float most) {
    return most > 0x1p-100f ? (int)rintf(x * (32639 / most)) : 0;
}

/* The product of x and a row, as weights-format.md defines it. */
static float defined_product(int top, const uint8_t *tiles, const float *factors, size_t n_col,
                             size_t row, const float *x) {
    float most = 0, scaled = 0, minimum = 0;
    for (size_t i = 0; i < n_col; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    for (size_t first = 0; first < n_col; first += 32) {
        long sum = 0, plain = 0;
        const struct element e = element_at(top, tiles, n_col, row, first);
        for (size_t i = first; i < first + 32 && i < n_col; i++) {
            plain += rounded(x[i], most);
            sum += element_at(top, tiles, n_col, row, i).level * (long)rounded(x[i], most);
        }
        scaled = fmaf((float)sum, (float)e.c, scaled);
        minimum = fmaf((float)plain, (float)e.n, minimum);
    }
    const float product = scaled * factors[2 * row];
    return fmaf(-minimum, factors[2 * row + 1], product) * (most / 32639);
}

/* ---- Rounding ------------------------------------------------------------------------------ */

/* A file of tests/cases/tiles: top, rows, columns and whether it is calibrated, u32; the matrix,
 * f32; calibrated: the order, u64, and U, f64; the tiles; the factors; the matrix as it is widened;
 * a row of activations, and its product with the matrix, f32. */
struct tile_case {
    uint32_t top, n_row, n_col, calibrated;
    const float *matrix, *factors, *wide, *x, *product;
    const uint8_t *tiles;
    struct tile_calibration calibration;
    char *file;
};

static void open_case(struct tile_case *c, const char *name) {
    FILE *f = fopen(case_path("tiles", name), "rb");
    assert_non_null(f);
    c->file = malloc(1 << 16);
    assert_non_null(c->file);
    size_t size = fread(c->file, 1, 1 << 16, f);
    fclose(f);
    memcpy(c, c->file, 16);
    const char *at = c->file + 16;
    c->matrix = (const float *)(const void *)at;
    at += sizeof(float) * c->n_row * c->n_col;
    c->calibration =
        (struct tile_calibration){.n = c->n_col, .order = (const size_t *)(const void *)at};
    at += c->calibrated ? sizeof(uint64_t) * c->n_col : 0;
    c->calibration.upper = (const double *)(const void *)at;
    at += c->calibrated ? sizeof(double) * c->n_col * c->n_col : 0;
    c->tiles = (const uint8_t *)at;
    at += tiles_bytes((int)c->top, c->n_row, c->n_col);
    c->factors = (const float *)(const void *)at;
    c->wide = c->factors + 2 * c->n_row;
    c->x = c->wide + c->n_row * c->n_col;
    c->product = c->x + c->n_col;
    assert_ptr_equal(c->product + c->n_row, c->file + size);
}

static const char *const names[] = {"q4", "q5", "q4-calibrated"};

TEST(rounding_gives_the_bytes_of_another_implementation) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tile_case c;
        open_case(&c, names[i]);
        const struct tile_calibration *calibration = c.calibrated ? &c.calibration : NULL;
        const size_t row = tile_row_bytes((int)c.top, c.n_col);
        double *scratch = calloc(tiles_scratch(c.n_col, calibration), sizeof *scratch);
        uint8_t *tiles = malloc(row);
        assert_true(scratch && tiles);
        for (size_t first = 0; first < c.n_row; first += 16) {
            const size_t n = c.n_row - first < 16 ? c.n_row - first : 16;
            float factors[32];
            memset(tiles, 0xa5, row);
            assert_true(tiles_round((int)c.top, n, c.n_col, c.matrix + first * c.n_col, calibration,
                                    scratch, tiles, factors));
            assert_memory_equal(tiles, c.tiles + first / 16 * row, row);
            assert_memory_equal(factors, c.factors + 2 * first, n * 2 * sizeof *factors);
        }
        free(tiles);
        free(scratch);
        free(c.file);
    }
}

/* The line of the least squared error begins half a step below the least element. */
TEST(numbers_that_the_type_cannot_hold_are_refused) {
    const float most = 0x1.fffffep127f;
    float x[32] = {0}, factors[2];
    double scratch[8];
    uint8_t tile[576];
    for (size_t i = 0; i < 21; i++)
        x[i] = i == 0 ? -most : most * (0.55f / 15 - 1);
    assert_false(tiles_round(Q4_TOP, 1, 32, x, NULL, scratch, tile, factors));
    for (size_t i = 0; i < 32; i++)
        x[i] /= 2;
    assert_true(tiles_round(Q4_TOP, 1, 32, x, NULL, scratch, tile, factors));
    assert_true(factors[1] > most / 2 / 255);
}

/* Scales of 255 and 2.5, whose bytes are 255 and 2: halves become even. */
TEST(a_tie_of_codes_takes_the_even_one) {
    float x[64], factors[2];
    double scratch[8];
    uint8_t tile[576];
    for (size_t i = 0; i < 64; i++)
        x[i] = (float)(i % 16) * (i < 32 ? 255 : 2.5f);
    assert_true(tiles_round(Q4_TOP, 1, 64, x, NULL, scratch, tile, factors));
    assert_int_equal(tile_scales(tile, 0, 0)[0], 255);
    assert_int_equal(tile_scales(tile, 1, 0)[0], 2);
}

/* Two values fit without an error at level 15, and again at level 14. */
TEST(a_tie_of_trials_takes_the_first) {
    float x[32], factors[2];
    double scratch[8];
    uint8_t tile[576];
    for (size_t i = 0; i < 32; i++)
        x[i] = i % 2 ? 15 : 0;
    assert_true(tiles_round(Q4_TOP, 1, 32, x, NULL, scratch, tile, factors));
    assert_true(factors[0] == 1.0f / 255);
}

/* No line is the best one for equal levels; that of the trial stays. */
TEST(equal_numbers_are_kept) {
    float x[32], factors[2];
    double scratch[8];
    uint8_t tile[576];
    for (size_t i = 0; i < 32; i++)
        x[i] = 5;
    assert_true(tiles_round(Q4_TOP, 1, 32, x, NULL, scratch, tile, factors));
    for (size_t i = 0; i < 32; i++)
        assert_true(fabsf(widened(Q4_TOP, tile, factors, 32, 0, i) - 5) < 1e-5f);
}

TEST(tiny_numbers_keep_their_scale) {
    float x[32], factors[2];
    double scratch[8];
    uint8_t tile[576];
    for (size_t i = 0; i < 32; i++)
        x[i] = (float)(i % 16) * 0x1p-60f;
    assert_true(tiles_round(Q4_TOP, 1, 32, x, NULL, scratch, tile, factors));
    assert_true(factors[0] == (float)(0x1p-60 / 255));
}

TEST(every_set_reads_the_files_of_another_implementation) {
    for (size_t v = 0; kernels_at(v); v++) {
        const struct tile_kernels *k = kernels_at(v)->tiles;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            struct tile_case c;
            open_case(&c, names[i]);
            const struct tile_rows b = {c.tiles, c.factors, 0, c.n_row, c.n_col};
            float wide[17 * 70], y[17], scale;
            uint8_t x[2 * TILE_INPUT];
            k->widen[type_of((int)c.top)](&b, wide);
            assert_memory_equal(wide, c.wide, c.n_row * c.n_col * sizeof *wide);
            k->round(1, c.n_col, c.x, c.n_col, x, &scale);
            k->product[type_of((int)c.top)](1, x, &scale, &b, y, c.n_row);
            assert_memory_equal(y, c.product, c.n_row * sizeof *y);
            free(c.file);
        }
    }
}

/* ---- Products and widening ----------------------------------------------------------------- */

enum { MOST_ROWS = 61, MOST_COLUMNS = 321, MOST_X = 9 };

/* A matrix whose tiles are of `all` (levels, c and n at their ends), or random. */
struct matrix {
    uint8_t tiles[4 * 6 * 704];
    float factors[2 * 64];
};

static void fill_matrix(struct matrix *m, int top, size_t n_row, size_t n_col, bool at_ends) {
    const size_t size = tiles_bytes(top, n_row, n_col);
    for (size_t i = 0; i < size; i++)
        m->tiles[i] = at_ends ? 255 : (uint8_t)(number() * 128 + 128);
    for (size_t i = 0; i < 2 * n_row; i++)
        m->factors[i] = fabsf(number()) * 0x1p-10f;
    for (size_t i = 2 * n_row; i < 128; i++)
        m->factors[i] = NAN; /* beyond the matrix */
}

static void fill_rows(float *x, size_t n, size_t shape) {
    for (size_t i = 0; i < n; i++)
        x[i] = shape == 0   ? number()
               : shape == 1 ? -1
               : shape == 2 ? (i % 2 ? 1.0f : -1.0f)
                            : 1e-30f * number();
}

TEST(every_set_gives_the_bits_of_the_definition) {
    static const size_t columns[] = {1, 31, 32, 33, 63, 64, 65, 100, 128, 200, 321};
    static struct matrix m;
    static float x[MOST_X * MOST_COLUMNS], y[MOST_X * (MOST_ROWS + 1)],
        wide[MOST_ROWS * MOST_COLUMNS];
    static uint8_t a[MOST_X * 6 * TILE_INPUT];
    for (size_t s = 0; s < 4 * sizeof columns / sizeof *columns; s++) {
        const int top = s % 2 ? Q5_TOP : Q4_TOP;
        const size_t n_col = columns[s / 4], skip = s * 5 % 16,
                     n_row = 1 + s * 7 % (MOST_ROWS - 16);
        const size_t m_x = 1 + s % MOST_X, ldx = n_col + s % 3, ldy = n_row + 1;
        fill_matrix(&m, top, skip + n_row, n_col, s % 4 > 1);
        for (size_t r = 0; r < m_x; r++)
            fill_rows(x + r * ldx, n_col, (s + r) % 4);
        for (size_t v = 0; kernels_at(v); v++) {
            const struct tile_kernels *k = kernels_at(v)->tiles;
            const struct tile_rows b = {m.tiles, m.factors, skip, n_row, n_col};
            float scale[MOST_X];
            memset(y, 0x7f, sizeof y);
            k->round(m_x, n_col, x, ldx, a, scale);
            k->product[type_of(top)](m_x, a, scale, &b, y, ldy);
            k->widen[type_of(top)](&b, wide);
            for (size_t r = 0; r < m_x; r++) {
                for (size_t j = 0; j < n_row; j++) {
                    const float expected =
                        defined_product(top, m.tiles, m.factors, n_col, skip + j, x + r * ldx);
                    if (memcmp(&expected, y + r * ldy + j, sizeof expected) != 0)
                        fail_msg("%s, top %d, %zu columns, row %zu of %zu: %a, not %a", k->name,
                                 top, n_col, j, n_row, (double)y[r * ldy + j], (double)expected);
                }
                assert_int_equal(bits_of_float(y[r * ldy + n_row]), 0x7f7f7f7f);
            }
            for (size_t i = 0; i < n_row * n_col; i++)
                assert_true(wide[i] ==
                            widened(top, m.tiles, m.factors, n_col, skip + i / n_col, i % n_col));
        }
    }
}

TEST(a_row_that_is_not_finite_gives_nan_alone) {
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    static struct matrix m;
    fill_matrix(&m, Q4_TOP, 20, 70, false);
    for (size_t v = 0; kernels_at(v); v++) {
        const struct tile_kernels *k = kernels_at(v)->tiles;
        const struct tile_rows b = {m.tiles, m.factors, 0, 20, 70};
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
            float x[2 * 70], y[2 * 20], scale[2];
            uint8_t a[2 * 2 * TILE_INPUT];
            fill_rows(x, 140, 0);
            x[i * 30] = odd[i];
            k->round(2, 70, x, 70, a, scale);
            k->product[0](2, a, scale, &b, y, 20);
            for (size_t j = 0; j < 40; j++)
                assert_int_equal(isnan(y[j]) != 0, j < 20);
        }
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
