/* Products of activations with weights of every type, for numbers of rows that take every way
 * through compute.c, of every table of kernels, against plain double arithmetic. */
#include "lib/base/numbers.h"
#include "lib/network/compute.h"
#include "tests/kernels_at.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_X = 520, MOST_ROWS = 330, MOST_COLUMNS = 410, THREADS = 2, BEYOND = 3 };

static const size_t numbers_of_rows[] = {1, 8, 9, 63, 64, 70, 256, 257, 300, MOST_X};
static const struct {
    size_t rows, columns;
} shapes[] = {{MOST_ROWS, 64}, {41, MOST_COLUMNS}, {145, 70}};

static uint64_t random_state = 5;

static float random_number(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) * 0x1p-31f;
}

/* A matrix of random numbers, and the same in float. */
struct weights_pair {
    struct matrix matrix;
    float value[MOST_ROWS * MOST_COLUMNS];
    union {
        float f32[MOST_ROWS * MOST_COLUMNS];
        uint16_t half[MOST_ROWS * MOST_COLUMNS];
        int8_t q8[MOST_ROWS * MOST_COLUMNS];
    } element;
    float scale[MOST_ROWS * ((MOST_COLUMNS + Q8_BLOCK - 1) / Q8_BLOCK)];
};

static void make_q8(struct weights_pair *w, size_t row, size_t columns) {
    float *value = w->value + row * columns;
    for (size_t i = 0; i < columns; i += Q8_BLOCK) {
        size_t n = columns - i < Q8_BLOCK ? columns - i : Q8_BLOCK;
        float scale = q8_scale(value + i, n);
        w->scale[row * q8_blocks(columns) + i / Q8_BLOCK] = scale;
        for (size_t j = i; j < i + n; j++) {
            w->element.q8[row * columns + j] = q8_of_float(value[j], scale);
            value[j] = (float)w->element.q8[row * columns + j] * scale;
        }
    }
}

static void make_weights(struct weights_pair *w, enum weights_type type, size_t rows,
                         size_t columns) {
    w->matrix = (struct matrix){.type = type,
                                .data = &w->element,
                                .n_row = rows,
                                .n_col = columns,
                                .scale = type == WEIGHTS_Q8 ? w->scale : NULL};
    for (size_t i = 0; i < rows * columns; i++) {
        float x = random_number();
        if (type == WEIGHTS_F16)
            x = float_of_f16(w->element.half[i] = f16_of_float(x));
        else if (type == WEIGHTS_BF16)
            x = float_of_bf16(w->element.half[i] = bf16_of_float(x));
        else if (type == WEIGHTS_F32)
            w->element.f32[i] = x;
        w->value[i] = x;
    }
    for (size_t row = 0; type == WEIGHTS_Q8 && row < rows; row++)
        make_q8(w, row, columns);
}

/* What an element of y may be off: activations have 16 bits where q8 meets few rows.  Where many
 * rows are rounded to bf16, it is some roundings to 8 bits of mantissa. */
static double allowed(enum weights_type type, double size, bool rounds) {
    return rounds ? 8e-3 * size : type == WEIGHTS_Q8 ? 1e-4 * size : 1e-6 * size;
}

static void check_product(const struct compute *compute, const struct weights_pair *w, size_t n_x,
                          bool rounds, const float *x, float *y) {
    size_t rows = w->matrix.n_row, columns = w->matrix.n_col, ldx = columns + 1;
    size_t ldy = rows + BEYOND;
    static float bias[MOST_ROWS];
    for (size_t i = 0; i < rows; i++)
        bias[i] = random_number();
    for (size_t i = 0; i < n_x * ldy; i++)
        y[i] = 7;
    compute_product(compute, n_x, x, ldx, &w->matrix, bias, RELU, y, ldy);
    double most = 0;
    for (size_t t = 0; t < n_x; t++) {
        for (size_t i = 0; i < rows; i++) {
            double sum = bias[i], size = fabs(sum);
            for (size_t j = 0; j < columns; j++) {
                double product = (double)x[t * ldx + j] * w->value[i * columns + j];
                sum += product;
                size += fabs(product);
            }
            sum = sum > 0 ? sum : 0;
            assert_true(fabs(sum - y[t * ldy + i]) <= allowed(w->matrix.type, size, rounds));
            most = fmax(most, fabs(sum - y[t * ldy + i]) / size);
        }
        for (size_t i = rows; i < ldy; i++)
            assert_true(y[t * ldy + i] == 7);
    }
    assert_true(!rounds || most > 1e-5); /* it does round */
}

static void check_kernels(const struct kernels *kernels, const struct weights_pair *w, bool rounds,
                          const float *x, float *y) {
    struct arena arena = {0};
    struct compute compute;
    txl_error error;
    size_t scratch = compute_scratch(&w->matrix, MOST_X);
    size_t packed = compute_packed(kernels, MOST_X, w->matrix.n_col);
    compute_lay_out(&compute, THREADS, scratch, packed, 0, &arena);
    assert_int_equal(arena_open(&arena, arena.used, "a test", &error), TXL_OK);
    compute_lay_out(&compute, THREADS, scratch, packed, 0, &arena);
    assert_int_equal(compute_open(&compute, kernels, THREADS, true, &error), TXL_OK);
    for (size_t i = 0; i < sizeof numbers_of_rows / sizeof *numbers_of_rows; i++)
        check_product(&compute, w, numbers_of_rows[i], rounds && numbers_of_rows[i] > 8, x, y);
    compute_close(&compute);
    arena_close(&arena);
}

TEST(sgemm_multiplies_f32_and_many_rows) {
    struct matrix w = {.type = WEIGHTS_F32, .n_row = 1, .n_col = 1};
    txl_error error;
    struct kernels kernels;
    assert_int_equal(kernels_choose(&kernels, &error), TXL_OK);
    assert_false(compute_uses_sgemm(&kernels, 63, &w));
    assert_true(compute_uses_sgemm(&kernels, 64, &w) == !blas_better_core());
    assert_false(compute_uses_sgemm(kernels.exact, 64, &w));
    w.type = WEIGHTS_Q8;
    assert_false(compute_uses_sgemm(&kernels, 64, &w));
}

/* Long rows: few of them fit into the scratch, widened or transposed. */
TEST(products_stay_in_their_scratch) {
    enum { N = 113, K = 20000, N_X = 257, GUARD = 16 };
    static uint16_t bf16[N * K];
    static float f32[N * K], x[N_X * K], y[N_X * N];
    for (size_t i = 0; i < N; i++)
        bf16[i * K + K - 1] = bf16_of_float(f32[i * K + K - 1] = (float)i);
    for (size_t t = 0; t < N_X; t++)
        x[t * K + K - 1] = (float)t;
    const struct matrix matrix[] = {
        {.type = WEIGHTS_F32, .data = f32, .n_row = N, .n_col = K},
        {.type = WEIGHTS_BF16, .data = bf16, .n_row = N, .n_col = K},
    };
    for (size_t v = 0; v < 16; v++) {
        const struct kernels *kernels = kernels_at(v / 2);
        const struct matrix *w = &matrix[v % 2];
        if (!kernels)
            break;
        struct arena arena = {0};
        struct compute compute;
        txl_error error;
        size_t scratch = compute_scratch(w, N_X), packed = compute_packed(kernels, N_X, K);
        compute_lay_out(&compute, THREADS, scratch + GUARD, packed, 0, &arena);
        assert_int_equal(arena_open(&arena, arena.used, "a test", &error), TXL_OK);
        compute_lay_out(&compute, THREADS, scratch + GUARD, packed, 0, &arena);
        assert_int_equal(compute_open(&compute, kernels, THREADS, true, &error), TXL_OK);
        for (int i = 0; i < THREADS; i++)
            for (size_t j = 0; j < GUARD; j++)
                compute.scratch[i][scratch + j] = 7;
        compute_product(&compute, N_X, x, K, w, NULL, LINEAR, y, N);
        for (int i = 0; i < THREADS; i++)
            for (size_t j = 0; j < GUARD; j++)
                assert_true(compute.scratch[i][scratch + j] == 7);
        for (size_t i = 0; i < N_X * N; i++)
            assert_true(y[i] == (float)(i / N * (i % N)));
        compute_close(&compute);
        arena_close(&arena);
    }
}

TEST(products) {
    float *x = malloc(MOST_X * (MOST_COLUMNS + 1) * sizeof *x);
    float *y = malloc(MOST_X * (MOST_ROWS + BEYOND) * sizeof *y);
    struct weights_pair *w = malloc(sizeof *w);
    assert_true(x && y && w);
    for (size_t i = 0; i < MOST_X * (MOST_COLUMNS + 1); i++)
        x[i] = random_number();
    for (int type = 0; type < KERNEL_TYPES; type++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            make_weights(w, (enum weights_type)type, shapes[s].rows, shapes[s].columns);
            for (size_t v = 0; kernels_at(v); v++) {
                check_kernels(kernels_at(v), w, false, x, y);
                const struct kernels rounding = kernels_rounding(kernels_at(v));
                if (type == WEIGHTS_BF16)
                    check_kernels(&rounding, w, true, x, y);
            }
        }
    }
    free(x);
    free(y);
    free(w);
}

/* ---- Products in integers ----------------------------------------------------------------- */

enum { GUARD = 16 };

struct laid_out {
    struct arena arena;
    struct compute compute;
    size_t scratch;
};

static void lay_out_integers(struct laid_out *l, const struct matrix *w) {
    const struct kernels *kernels = l->compute.kernels;
    l->scratch = compute_scratch(w, MOST_X);
    for (int i = 0; i < 2; i++) {
        compute_lay_out(&l->compute, THREADS, l->scratch + GUARD,
                        compute_packed(kernels, MOST_X, w->n_col), 1, &l->arena);
        txl_error error;
        if (i == 0)
            assert_int_equal(arena_open(&l->arena, l->arena.used, "a test", &error), TXL_OK);
    }
    compute_order(&l->compute, w);
    for (int i = 0; i < THREADS; i++)
        for (size_t j = 0; j < GUARD; j++)
            l->compute.scratch[i][l->scratch + j] = 7;
}

static void open_integers(struct laid_out *l, const struct kernels *kernels,
                          const struct matrix *w) {
    txl_error error;
    *l = (struct laid_out){.compute.kernels = kernels};
    lay_out_integers(l, w);
    assert_int_equal(compute_open(&l->compute, kernels, THREADS, false, &error), TXL_OK);
}

static void close_integers(struct laid_out *l) {
    for (int i = 0; i < THREADS; i++)
        for (size_t j = 0; j < GUARD; j++)
            assert_true(l->compute.scratch[i][l->scratch + j] == 7);
    compute_close(&l->compute);
    arena_close(&l->arena);
}

/* Rows [first, end) of W, a block or all. */
static void multiply_rows(const struct compute *compute, const struct matrix *w, size_t n_x,
                          const float *x, size_t first, size_t end, float *y) {
    const struct operand operand = compute_prepare(compute, n_x, x, w->n_col, w);
    const struct product_block block = {w, first, end - first, NULL, LINEAR, y, end - first};
    compute_product_block(compute, 1, &operand, &block);
}

/* What was packed before, by this compute or by one that it shares with, is what a task packs, also
 * for rows that begin within a panel; weights that are not in order are packed by tasks. */
static void check_integers(const struct kernels *kernels, const struct matrix *w, const float *x,
                           float *y[2]) {
    static const size_t parts[][2] = {{0, 33}, {16, 48}, {32, 35}, {31, 41}, {40, 41}};
    struct laid_out plain, first, second;
    txl_error error;
    const struct matrix other = *w;
    open_integers(&plain, kernels, w);
    open_integers(&first, kernels, w);
    open_integers(&second, kernels, w);
    assert_int_equal(compute_pack_weights(&first.compute, NULL, &error), TXL_OK);
    assert_int_equal(compute_pack_weights(&second.compute, &first.compute, &error), TXL_OK);
    assert_ptr_equal(first.compute.weights, second.compute.weights);
    close_integers(&first);
    for (size_t n_x = 1; n_x <= 70; n_x = n_x * 2 + 1) {
        const size_t bytes = n_x * w->n_row * sizeof **y;
        compute_product(&plain.compute, n_x, x, w->n_col, w, NULL, LINEAR, y[0], w->n_row);
        compute_product(&second.compute, n_x, x, w->n_col, w, NULL, LINEAR, y[1], w->n_row);
        assert_memory_equal(y[0], y[1], bytes);
        memset(y[1], 0, bytes);
        compute_product(&second.compute, n_x, x, w->n_col, &other, NULL, LINEAR, y[1], w->n_row);
        assert_memory_equal(y[0], y[1], bytes);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const size_t from = parts[i][0], n = parts[i][1] - from;
            multiply_rows(&second.compute, w, n_x, x, from, from + n, y[1]);
            for (size_t t = 0; t < n_x; t++)
                assert_memory_equal(y[0] + t * w->n_row + from, y[1] + t * n, n * sizeof **y);
        }
    }
    close_integers(&plain);
    close_integers(&second);
}

TEST(packed_weights) {
    enum { MOST = 70 };
    float *x = malloc(MOST * MOST_COLUMNS * sizeof *x);
    float *y[2] = {malloc(MOST * MOST_ROWS * sizeof **y), malloc(MOST * MOST_ROWS * sizeof **y)};
    struct weights_pair *w = malloc(sizeof *w);
    assert_true(x && y[0] && y[1] && w);
    for (size_t i = 0; i < MOST * MOST_COLUMNS; i++)
        x[i] = random_number();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        make_weights(w, WEIGHTS_Q8, shapes[s].rows < 48 ? 48 : shapes[s].rows, shapes[s].columns);
        for (size_t v = 0; kernels_at(v); v++)
            check_integers(kernels_at(v)->in_integers, &w->matrix, x, y);
    }
    free(x);
    free(y[0]);
    free(y[1]);
    free(w);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
