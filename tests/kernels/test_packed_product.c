/* Products of packed operands, as they are and rounded to bf16, of every table of kernels that this
 * processor can run, against plain double arithmetic. */
#include "lib/base/numbers.h"
#include "tests/kernels_at.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 112, MOST_DEPTH = 1100, MOST = 130 * MOST_DEPTH };

static const size_t depths[] = {1, 2, 15, 31, 32, 33, 64, 70, 257, 512, 513, 1050};
enum { N_DEPTH = sizeof depths / sizeof *depths };

static uint64_t random_state = 11;

static uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static void fill(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(int32_t)random_bits() * 0x1p-31f;
}

static float element(const struct packed_source *x, size_t row, size_t i) {
    return x->transposed ? x->x[i * x->ld + row] : x->x[row * x->ld + i];
}

/* As a pack has it. */
static float rounded(bool bf16, const struct packed_source *x, size_t row, size_t i) {
    float exact = element(x, row, i);
    return bf16 ? float_of_bf16(bf16_of_float(exact)) : exact;
}

/* A source with `rows` rows of k, some way in a matrix that is wider. */
static struct packed_source source(const float *x, size_t rows, size_t k, bool transposed,
                                   size_t wider) {
    return (struct packed_source){x, (transposed ? rows : k) + wider, transposed};
}

static void *new_pack(const struct packed_product *p, size_t rows, size_t k) {
    void *elements = NULL;
    size_t size = pack_size(p, rows, k);
    assert_int_equal(posix_memalign(&elements, 64, size), 0);
    memset(elements, 0x7f, size);
    return elements;
}

/* Of a pack in bf16: blocks of 16 rows by 32 elements, a left one row by row, a right one by pairs.
 */
static uint16_t in_pack(const uint16_t *blocks, bool left, size_t k, size_t row, size_t i) {
    enum { ROWS = 16, DEPTH = 32 };
    const uint16_t *block =
        blocks + (row / ROWS * ((k + DEPTH - 1) / DEPTH) + i / DEPTH) * ROWS * DEPTH;
    row %= ROWS;
    i %= DEPTH;
    return left ? block[row * DEPTH + i] : block[(i / 2 * ROWS + row) * 2 + i % 2];
}

/* Numbers of every kind: halfway between two in bf16, infinite, NaN that rounding could make
 * infinite, too large for bf16. */
static void fill_odd(float *x, size_t n) {
    static const uint32_t odd[] = {0x3f808000, 0x3f818000, 0xbf808001, 0xbf807fff,
                                   0x7f800000, 0xff800000, 0x7f800001, 0x7fffffff,
                                   0xff81ffff, 0x7f7fffff, 0x80000000, 0};
    for (size_t i = 0; i < n; i++)
        x[i] = float_of_bits(odd[random_bits() % (sizeof odd / sizeof *odd)]);
}

TEST(packs_are_rounded) {
    static float x[MOST];
    for (size_t v = 0; kernels_at(v); v++) {
        const struct packed_product *p = kernels_at(v)->bf16_product;
        for (size_t s = 0; s < 4 * N_DEPTH; s++) {
            size_t k = depths[s / 4], rows = (s * 29 + 1) % MOST_ROWS + 1;
            struct packed_source from = source(x, rows, k, s & 1, s % 3);
            fill_odd(x, MOST);
            bool left = s & 2;
            struct pack pack = {new_pack(p, rows, k), k};
            size_t cut = rows / 2 / PACK_ROWS * PACK_ROWS;
            (left ? p->pack_left : p->pack_right)(&from, cut, rows, &pack);
            (left ? p->pack_left : p->pack_right)(&from, 0, cut, &pack);
            for (size_t row = 0; row < (rows + 15) / 16 * 16; row++) {
                for (size_t i = 0; i < (k + p->depth - 1) / p->depth * p->depth; i++) {
                    uint16_t found = in_pack(pack.elements, left, k, row, i);
                    float exact = row < rows && i < k ? element(&from, row, i) : 0;
                    if (isnan(exact))
                        assert_true(isnan(float_of_bf16(found)));
                    else
                        assert_int_equal(found, bf16_of_float(exact));
                }
            }
            free(pack.elements);
        }
    }
}

/* m by n from the first k of depth_a and depth_b, cut in four. */
static void check_product(const struct packed_product *p, size_t m, size_t n, size_t k,
                          size_t depth_a, size_t depth_b, unsigned how) {
    static float x[MOST], y[MOST], c[MOST_ROWS * (MOST_ROWS + 2)],
        whole[MOST_ROWS * (MOST_ROWS + 2)];
    bool add = how & 4, bf16 = p->element < sizeof(float);
    struct packed_source a = source(x, m, depth_a, how & 1, how % 3);
    struct packed_source b = source(y, n, depth_b, how & 2, how % 5);
    struct pack left = {new_pack(p, m, depth_a), depth_a},
                right = {new_pack(p, n, depth_b), depth_b};
    fill(x, MOST);
    fill(y, MOST);
    p->pack_left(&a, 0, m, &left);
    p->pack_right(&b, 0, n, &right);
    size_t ldc = n + 2, i_cut = m / 3 / PACK_ROWS * PACK_ROWS,
           j_cut = n / 2 / PACK_ROWS * PACK_ROWS;
    for (size_t i = 0; i < m * ldc; i++)
        whole[i] = c[i] = 3;
    const struct product_part all = {
        .k = k, .i_end = m, .j_end = n, .add = add, .c = whole, .ldc = ldc};
    struct product_part parts[4];
    for (int i = 0; i < 4; i++)
        parts[i] = (struct product_part){.k = k,
                                         .i_first = i & 1 ? i_cut : 0,
                                         .i_end = i & 1 ? m : i_cut,
                                         .j_first = i & 2 ? j_cut : 0,
                                         .j_end = i & 2 ? n : j_cut,
                                         .add = add,
                                         .c = c,
                                         .ldc = ldc};
    p->multiply(&left, &right, &all);
    for (int i = 0; i < 4; i++)
        p->multiply(&left, &right, &parts[i]);
    assert_memory_equal(whole, c, m * ldc * sizeof *c);
    if (!left_needs_pack(p, a.transposed)) {
        for (size_t i = 0; i < m * ldc; i++)
            c[i] = 3;
        for (int i = 0; i < 4; i++)
            p->multiply_rows(x, a.ld, &right, &parts[i]);
        assert_memory_equal(whole, c, m * ldc * sizeof *c);
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = add ? 3 : 0, size = 0;
            for (size_t l = 0; l < k; l++) {
                double product = (double)rounded(bf16, &a, i, l) * rounded(bf16, &b, j, l);
                sum += product;
                size += fabs(product);
            }
            assert_true(fabs(sum - c[i * ldc + j]) < 1e-6 * (3 + size));
        }
        assert_true(c[i * ldc + n] == 3 && c[i * ldc + n + 1] == 3);
    }
    free(left.elements);
    free(right.elements);
}

/* The products that this processor has, NULL after the last. */
static const struct packed_product *available(size_t i) {
    size_t n = 0;
    for (size_t v = 0; kernels_at(v); v++) {
        const struct kernels *kernels = kernels_at(v);
        if (n++ == i)
            return kernels->bf16_product;
        if (kernels->f32_product && n++ == i)
            return kernels->f32_product;
    }
    return NULL;
}

TEST(products) {
    const struct packed_product *p;
    for (size_t v = 0; (p = available(v)); v++) {
        for (unsigned s = 0; s < 8 * N_DEPTH; s++) {
            size_t k = depths[s / 8], m = (s * 37) % 100 + 1, n = (s * 23 + 5) % MOST_ROWS + 1;
            check_product(p, m, n, k, k, k, s);
            check_product(p, n, m, k, k, k + 40, s);
            check_product(p, 17, 16, k, k + 33, k, s);
        }
        check_product(p, 96, 64, 160, 160, 192, 0);
        check_product(p, 31, 64, 0, 40, 40, 0);
        check_product(p, 31, 64, 0, 40, 40, 4);
    }
}

/* A row that is not all numbers spoils its own results, no others. */
TEST(not_a_number_stays) {
    enum { M = 40, N = 33, K = 70 };
    static float x[M * K], y[N * K], c[M * N];
    const struct packed_product *p;
    for (size_t v = 0; (p = available(v)); v++) {
        struct packed_source a = {x, K, false}, b = {y, K, false};
        struct pack left = {new_pack(p, M, K), K}, right = {new_pack(p, N, K), K};
        fill(x, M * K);
        fill(y, N * K);
        x[17 * K + 69] = NAN;
        y[32 * K + 3] = float_of_bits(0x7f800001);
        p->pack_left(&a, 0, M, &left);
        p->pack_right(&b, 0, N, &right);
        p->multiply(&left, &right,
                    &(struct product_part){.k = K, .i_end = M, .j_end = N, .c = c, .ldc = N});
        for (size_t i = 0; i < M * N; i++)
            assert_int_equal(!!isnan(c[i]), i / N == 17 || i % N == 32);
        free(left.elements);
        free(right.elements);
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
