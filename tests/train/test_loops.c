/* Every table of training's loops against float64, for lengths with and without a rest of a
 * vector. */
#include "tests/kernels_at.h"
#include "tests/unit.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MOST = 203, ROWS = 5 };

static const size_t lengths[] = {1, 5, 16, 37, 64, 130, MOST};
enum { N_LENGTH = sizeof lengths / sizeof *lengths };

struct every_table {
    void (*check)(const struct loops *loops, size_t n);
};

static void every_table(void **state) {
    const struct every_table *test = *state;
    for (size_t k = 0; kernels_at(k); k++)
        for (size_t i = 0; i < N_LENGTH; i++)
            test->check(kernels_at(k)->loops, lengths[i]);
}

/* A test of every table, loops, with vectors of every length, n. */
#define EVERY_TABLE(name)                                                                          \
    static void name(const struct loops *loops, size_t n);                                         \
    LIST_TEST(name, {#name, every_table, NULL, NULL, &(struct every_table){name}})                 \
    static void name(const struct loops *loops, size_t n)

/* Sums of 203 f32 numbers of size 1. */
static const double CLOSE = 2e-5;

static void assert_near(const char *what, const struct loops *loops, size_t n, size_t i,
                        double found, double expected) {
    if (!(fabs(found - expected) <= CLOSE * (1 + fabs(expected))))
        fail_msg("%s of %s, element %zu of %zu: %.8g, not %.8g", what, loops->name, i, n, found,
                 expected);
}

/* Numbers from -1 to 1 that depend on `seed`. */
static void fill(uint32_t seed, size_t n, float *x) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)((double)(seed >> 8) / (1 << 23) - 1);
    }
}

EVERY_TABLE(sums) {
    float x[MOST] = {0}, y[MOST] = {0}, sum[MOST + 1] = {0}, rows[ROWS][MOST + 3];
    double squares = 0;
    fill(1, n, x);
    fill(2, n, y);
    fill(3, ROWS * (MOST + 3), (float *)rows);
    sum[n] = 7;
    memcpy(sum, x, n * sizeof *x);
    loops->sum_rows(ROWS, n, rows[0], MOST + 3, sum);
    for (size_t i = 0; i < n; i++) {
        double expected = x[i];
        for (int r = 0; r < ROWS; r++)
            expected += rows[r][i];
        assert_near("sum_rows", loops, n, i, sum[i], expected);
        squares += (double)x[i] * x[i];
    }
    assert_true(sum[n] == 7);
    assert_near("squares", loops, n, 0, loops->squares(n, x), squares);
    memcpy(sum, x, n * sizeof *x);
    loops->add(n, y, sum);
    for (size_t i = 0; i < n; i++)
        assert_near("add", loops, n, i, sum[i], (double)x[i] + y[i]);
}

EVERY_TABLE(relu) {
    float x[MOST] = {0}, bias[MOST] = {0}, y[MOST], dy[MOST], given[MOST] = {0};
    fill(4, n, x);
    fill(5, n, bias);
    fill(6, n, given);
    memcpy(y, x, n * sizeof *x);
    memcpy(dy, given, n * sizeof *given);
    loops->bias_relu(n, bias, y);
    loops->relu_gradient(n, y, 1.25f, dy);
    for (size_t i = 0; i < n; i++) {
        double sum = (double)x[i] + bias[i];
        assert_near("bias_relu", loops, n, i, y[i], sum > 0 ? sum : 0);
        assert_near("relu_gradient", loops, n, i, dy[i], sum > 0 ? 1.25 * given[i] : 0);
    }
}

/* The softmax of scale (s + position), its gradient, and the entropy of a target in it. */
EVERY_TABLE(softmax) {
    float s[MOST] = {0}, position[MOST] = {0}, a[MOST], da[MOST], given[MOST] = {0}, logit[MOST];
    double e[MOST], total = 0, mean = 0;
    const float scale = 3.5f;
    size_t target = n / 2;
    fill(7, n, s);
    fill(8, n, position);
    fill(9, n, given);
    memcpy(a, s, n * sizeof *s);
    memcpy(da, given, n * sizeof *given);
    for (size_t i = 0; i < n; i++) {
        double score = scale * ((double)s[i] + position[i]);
        logit[i] = (float)score;
        total += e[i] = exp(score);
    }
    for (size_t i = 0; i < n; i++)
        mean += e[i] / total * given[i];
    loops->softmax(n, position, scale, a);
    loops->softmax_gradient(n, a, scale, da);
    double nats = loops->cross_entropy(n, target, 0.25f, logit);
    assert_near("cross_entropy", loops, n, target, nats, -log(e[target] / total));
    for (size_t i = 0; i < n; i++) {
        double share = e[i] / total;
        assert_near("softmax", loops, n, i, a[i], share);
        assert_near("softmax_gradient", loops, n, i, da[i], scale * share * (given[i] - mean));
        assert_near("cross_entropy's gradient", loops, n, i, logit[i],
                    0.25 * (share - (i == target)));
    }
}

/* The gradient to the input is written, or added to what is there, or left out. */
static void check_norm_gradient(const struct loops *loops, size_t n, const float *x,
                                const float *weight, double mean, double inverse) {
    float dy[MOST] = {0}, before[MOST] = {0}, at_first[2 * MOST];
    double g_mean = 0, gz_mean = 0;
    fill(10, n, dy);
    fill(11, n, before);
    fill(12, 2 * MOST, at_first);
    for (size_t i = 0; i < n; i++) {
        double g = (double)dy[i] * weight[i];
        g_mean += g / (double)n;
        gz_mean += g * (x[i] - mean) * inverse / (double)n;
    }
    enum { WRITTEN, ADDED, LEFT_OUT, IN_PLACE, WAYS };
    for (int way = 0; way < WAYS; way++) {
        float dx[MOST], of_weight[MOST], of_bias[MOST];
        memcpy(dx, way == IN_PLACE ? dy : before, n * sizeof *dx);
        memcpy(of_weight, at_first, n * sizeof *of_weight);
        memcpy(of_bias, at_first + MOST, n * sizeof *of_bias);
        loops->norm_gradient(n, x, (float)mean, (float)inverse, weight, way == IN_PLACE ? dx : dy,
                             way == ADDED, way == LEFT_OUT ? NULL : dx, of_weight, of_bias);
        for (size_t i = 0; i < n; i++) {
            double z = (x[i] - mean) * inverse;
            double d = inverse * ((double)dy[i] * weight[i] - g_mean - z * gz_mean);
            double expected = way == LEFT_OUT ? before[i] : way == ADDED ? before[i] + d : d;
            assert_near("norm_gradient", loops, n, i, dx[i], expected);
            assert_near("norm_gradient's weight", loops, n, i, of_weight[i],
                        at_first[i] + dy[i] * z);
            assert_near("norm_gradient's bias", loops, n, i, of_bias[i],
                        (double)at_first[MOST + i] + dy[i]);
        }
    }
}

EVERY_TABLE(norm) {
    /* Large enough for floats to show it. */
    const float epsilon = 0.03f;
    float x[MOST] = {0}, weight[MOST] = {0}, bias[MOST] = {0}, out[MOST], mean, inverse;
    double sum = 0, squares = 0;
    fill(13, n, x);
    fill(14, n, weight);
    fill(15, n, bias);
    for (size_t i = 0; i < n; i++)
        sum += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - sum) * (x[i] - sum) / (double)n;
    double expected = 1 / sqrt(squares + (double)epsilon);
    loops->norm(n, x, weight, bias, epsilon, out, &mean, &inverse);
    assert_near("norm's mean", loops, n, 0, mean, sum);
    assert_near("norm's inverse", loops, n, 0, inverse, expected);
    for (size_t i = 0; i < n; i++)
        assert_near("norm", loops, n, i, out[i], (x[i] - sum) * expected * weight[i] + bias[i]);
    if (n > 1)
        check_norm_gradient(loops, n, x, weight, sum, expected);
}

EVERY_TABLE(adam) {
    const struct adam adam = {.clip = 0.5f,
                              .beta_1 = 0.9f,
                              .beta_2 = 0.99f,
                              .gain_1 = 0.1f,
                              .gain_2 = 0.01f,
                              .rate = 0.01f,
                              .correction = 2,
                              .epsilon = 1e-3f};
    float g[MOST] = {0}, w[MOST], m[MOST], v[MOST], at_first[3][MOST];
    fill(16, n, g);
    fill(17, 3 * MOST, (float *)at_first);
    for (size_t i = 0; i < n; i++) {
        w[i] = at_first[0][i];
        m[i] = at_first[1][i];
        v[i] = at_first[2][i] = fabsf(at_first[2][i]);
    }
    loops->adam(&adam, n, g, w, m, v);
    for (size_t i = 0; i < n; i++) {
        double d = 0.5 * g[i], first = 0.9 * at_first[1][i] + 0.1 * d;
        double second = 0.99 * at_first[2][i] + 0.01 * d * d;
        assert_near("adam's first moment", loops, n, i, m[i], first);
        assert_near("adam's second moment", loops, n, i, v[i], second);
        assert_near("adam", loops, n, i, w[i],
                    at_first[0][i] - 0.01 * first / (2 * sqrt(second) + 1e-3));
    }
}

/* The decay is as strong as the root of the sum, and at most 1. */
EVERY_TABLE(learning) {
    const struct rms way = {.rate = 0.01f, .decay = 1.5f, .epsilon = 1e-3f};
    float g[MOST] = {0}, first[MOST] = {0}, s[MOST] = {0}, w[MOST] = {0}, before[MOST];
    bool limited = n < 5;
    fill(18, n, g);
    fill(19, n, first);
    fill(20, n, s);
    fill(21, n, w);
    for (size_t i = 0; i < n; i++)
        s[i] = fabsf(s[i]);
    memcpy(before, w, n * sizeof *w);
    loops->rms(&way, n, g, first, s, w);
    for (size_t i = 0; i < n; i++) {
        double root = sqrt(s[i]), back = 1.5 * root < 1 ? 1.5 * root : 1;
        limited = limited || back == 1;
        assert_near("rms", loops, n, i, w[i],
                    before[i] - 0.01 * g[i] / (root + 1e-3) -
                        back * ((double)before[i] - first[i]));
    }
    assert_true(limited);
    memcpy(w, before, n * sizeof *w);
    loops->descend(n, 0.25f, g, w);
    memcpy(first, s, n * sizeof *s);
    loops->add_squares(n, g, s);
    for (size_t i = 0; i < n; i++) {
        assert_near("descend", loops, n, i, w[i], before[i] - 0.25 * g[i]);
        assert_near("add_squares", loops, n, i, s[i], first[i] + (double)g[i] * g[i]);
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
