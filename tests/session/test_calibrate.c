/* Calibration of rounding: how far it is, in which order columns are rounded, and the factor. */
#include "lib/base/tiles.h"
#include "lib/session/model.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What progress told; the call of number `last` stops. */
struct told {
    uint64_t done, total;
    size_t calls, last;
};

static bool hear(void *context, uint64_t done, uint64_t total) {
    struct told *told = context;
    assert_true(done > told->done && done <= total);
    assert_true(told->calls == 0 || total == told->total);
    told->done = done;
    told->total = total;
    return ++told->calls != told->last;
}

static txl_status write_calibrated(const struct model_case *c, const int32_t *ids, size_t n,
                                   struct told *told) {
    txl_error error;
    FILE *file = tmpfile();
    assert_non_null(file);
    const txl_calibration how = {ids, n, hear, told};
    txl_status status =
        txl_model_write_calibrated(c->model, fileno(file), "a test's", "q4", &how, 1, &error);
    fclose(file);
    return status;
}

/* Of a text in two parts, whose second is one token. */
TEST(calibration_tells_how_far_it_is_and_stops_at_any_time) {
    enum { N = 514 };
    int32_t ids[N];
    struct model_case c;
    struct told whole = {0};
    case_open(&c, "wt103-zip", NULL, -1);
    for (size_t i = 0; i < N; i++)
        ids[i] = c.ids[i % c.n];
    assert_int_equal(write_calibrated(&c, ids, N, &whole), TXL_OK);
    assert_true(whole.calls > 2);
    assert_true(whole.done == whole.total);
    for (size_t last = 1; last <= whole.calls; last += SANITIZED ? 8 : 1) {
        struct told told = {.last = last};
        assert_int_equal(write_calibrated(&c, ids, N, &told), TXL_STOPPED);
        assert_int_equal(told.calls, last);
    }
    case_close(&c);
}

/* The number of a tensor of 32 bits; sets *elements to what the model has in memory,
 * to be changed. */
static size_t find_tensor(const struct model_case *c, const char *name, float **elements) {
    txl_tensor tensor = {.name = ""};
    size_t i = 0;
    for (; i < txl_model_n_tensor(c->model) && strcmp(tensor.name, name) != 0; i++)
        txl_model_tensor(c->model, i, &tensor);
    assert_string_equal(tensor.name, name);
    *elements = (float *)c->model->tensors.element[i - 1];
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)*elements & -page;
    assert_int_equal(mprotect((void *)begin, (uintptr_t)*elements + tensor.expanded - begin,
                              PROT_READ | PROT_WRITE),
                     0);
    return i - 1;
}

enum { D_MODEL = 64, N_VALUE = 36 };

/* A layer norm that lets nothing through. */
TEST(inputs_of_zero_calibrate_nothing) {
    struct model_case c;
    struct told told = {0};
    float *weight, *bias;
    case_open(&c, "wt103-zip", NULL, -1);
    find_tensor(&c, "layer.0.attention.norm.weight", &weight);
    find_tensor(&c, "layer.0.attention.norm.bias", &bias);
    memset(weight, 0, sizeof *weight * D_MODEL);
    memset(bias, 0, sizeof *bias * D_MODEL);
    assert_int_equal(write_calibrated(&c, c.ids, c.n, &told), TXL_OK);
    case_close(&c);
}

/* Two values of a head that are the same. */
TEST(equal_inputs_are_rounded_in_their_order) {
    enum { FIRST = 2, SECOND = 9, VALUES = 2 * N_VALUE };
    struct model_case c;
    struct calibrator *calibrator;
    const struct tile_calibration *calibration;
    txl_error error;
    float *qkv, *output;
    bool wanted[100] = {false};
    size_t place[N_VALUE];
    case_open(&c, "wt103-zip", NULL, -1);
    find_tensor(&c, "layer.0.attention.qkv", &qkv);
    size_t tensor = find_tensor(&c, "layer.0.attention.o", &output);
    memcpy(qkv + (VALUES + SECOND) * D_MODEL, qkv + (VALUES + FIRST) * D_MODEL,
           sizeof *qkv * D_MODEL);
    wanted[tensor] = true;
    const txl_calibration how = {.ids = c.ids, .n = c.n};
    assert_good(calibrator_new(c.model, &how, wanted, 1, &calibrator, &error), &error);
    assert_good(calibrator_get(calibrator, tensor, &calibration, &error), &error);
    assert_int_equal(calibration->n, N_VALUE);
    for (size_t i = 0; i < N_VALUE; i++)
        place[calibration->order[i]] = i;
    assert_int_equal(place[SECOND], place[FIRST] + 1);
    calibrator_free(calibrator);
    case_close(&c);
}

/* ---- The factor ---------------------------------------------------------------------------- */

/* More columns than a thread takes at a time, of `larger_settings`. */
enum { N_COLUMN = 200, N_TOKEN = 3000, N_READ = 600 };

/* The factor of layer 0's queries, keys and values, and the order of its columns, of a text whose
 * last input is `last`; the caller frees it. */
static double *larger_factor(int threads, int32_t last, size_t order[N_COLUMN]) {
    struct model_case c = {.name = "larger"};
    struct calibrator *calibrator;
    const struct tile_calibration *calibration;
    txl_error error;
    int32_t ids[N_READ];
    bool wanted[100] = {false};
    double *upper = calloc(N_COLUMN * N_COLUMN, sizeof *upper);
    float *elements;
    assert_non_null(upper);
    for (size_t i = 0; i < N_READ; i++)
        ids[i] = i == N_READ - 2 ? last : (int32_t)(i * 41 % N_TOKEN);
    assert_good(txl_model_random(larger_settings, "f32", 3, 1, &c.model, &error), &error);
    size_t tensor = find_tensor(&c, "layer.0.attention.qkv", &elements);
    wanted[tensor] = true;
    const txl_calibration how = {.ids = ids, .n = N_READ};
    assert_good(calibrator_new(c.model, &how, wanted, threads, &calibrator, &error), &error);
    assert_good(calibrator_get(calibrator, tensor, &calibration, &error), &error);
    assert_int_equal(calibration->n, N_COLUMN);
    memcpy(upper, calibration->upper, N_COLUMN * N_COLUMN * sizeof *upper);
    memcpy(order, calibration->order, N_COLUMN * sizeof *order);
    calibrator_free(calibrator);
    txl_model_close(c.model);
    return upper;
}

TEST(every_set_of_kernels_and_any_threads_give_the_same_factor) {
    size_t order[N_COLUMN], other_order[N_COLUMN];
    double *upper = larger_factor(1, 7, order);
    for (size_t v = 0; use_kernels(v); v++) {
        if (SANITIZED && v > 0)
            continue;
        double *other = larger_factor(1 + (int)v, 7, other_order);
        assert_memory_equal(order, other_order, sizeof order);
        assert_memory_equal(upper, other, N_COLUMN * N_COLUMN * sizeof *upper);
        free(other);
    }
    free(upper);
}

/* Also in the second part of the text. */
TEST(every_input_counts) {
    size_t order[N_COLUMN];
    double *upper = larger_factor(2, 7, order), *other = larger_factor(2, 8, order);
    assert_memory_not_equal(upper, other, N_COLUMN * N_COLUMN * sizeof *upper);
    free(upper);
    free(other);
}

/* H = V V^T, V = U^-1, has the inputs' squares on its diagonal, and what weighs more comes first.
 */
TEST(the_factor_is_that_of_inputs_in_falling_order) {
    static double v[N_COLUMN][N_COLUMN];
    size_t order[N_COLUMN];
    double *upper = larger_factor(2, 7, order), before = INFINITY;
    for (size_t j = 0; j < N_COLUMN; j++)
        for (size_t i = j + 1; i-- > 0;) {
            double sum = i == j;
            for (size_t k = i + 1; k <= j; k++)
                sum -= upper[i * N_COLUMN + k] * v[k][j];
            v[i][j] = sum / upper[i * (N_COLUMN + 1)];
        }
    for (size_t i = 0; i < N_COLUMN; i++) {
        double square = 0;
        for (size_t j = i; j < N_COLUMN; j++)
            square += v[i][j] * v[i][j];
        assert_true(square <= before * (1 + 1e-9)); /* of rounding */
        before = square;
    }
    free(upper);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
