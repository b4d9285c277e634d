/* The relative effective context length, with numbers made by hand. */
#include "cli/ppl/recl.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>

static const int lengths[] = {0, 8, 16};

static void start(struct recl *recl, size_t n_model, const float *nats, size_t n) {
    *recl = (struct recl){.n_model = n_model, .n_length = 3, .length = lengths};
    assert_true(buffer_append(&recl->nats, nats, n_model * 3 * n * sizeof *nats));
    assert_true(recl_compute(recl, n));
}

static double gain(const struct recl *recl, size_t model, size_t c, size_t r) {
    return recl->gain[(model * 2 + c) * RECL_SHARES + r];
}

/* b is the nats themselves.  The hardest of ten at 0 is the last; half are the last five. */
TEST(one_model) {
    static const float nats[] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 3,    /* 0 */
                                 1, 1, 1, 1, 1, 2, 2, 2, 2, 2.5f, /* 8 */
                                 9, 1, 1, 1, 1, 2, 2, 2, 2, 2.5f};
    struct recl recl;
    start(&recl, 1, nats, 10);
    assert_true(fabs(gain(&recl, 0, 0, 0) - (1 - exp(-0.5))) < 1e-12);
    assert_true(fabs(gain(&recl, 0, 0, 1) - (1 - exp(-0.1))) < 1e-12);
    assert_true(fabs(gain(&recl, 0, 0, 2) - (1 - exp(-0.05))) < 1e-12);
    /* What the longer context predicts worse counts as before. */
    for (size_t r = 0; r < RECL_SHARES; r++) {
        assert_true(gain(&recl, 0, 1, r) == 0);
        assert_int_equal(recl_length(&recl, 0, r), 0);
    }
    recl_free(&recl);
}

/* The second is worse everywhere, so that the group's b is the first's, and gains only where it
 * becomes better than that.  Of equally hard tokens the earlier is taken: of four, a tenth is one.
 */
TEST(a_group) {
    static const float nats[] = {2, 2, 1, 1, 2, 1,    1, 1, 1.5f, 1, 1,     1,
                                 4, 3, 3, 3, 1, 1.9f, 3, 3, 1,    1, 0.98f, 3};
    struct recl recl;
    start(&recl, 2, nats, 4);
    assert_true(gain(&recl, 0, 0, 0) == 0); /* the first of the two that have 2 */
    assert_true(fabs(gain(&recl, 0, 0, 1) - (1 - exp(-0.5))) < 1e-12);
    assert_true(fabs(gain(&recl, 0, 0, 2) - (1 - exp(-0.25))) < 1e-12);
    assert_true(fabs(gain(&recl, 1, 0, 0) - (1 - exp(-1))) < 1e-6);
    assert_true(fabs(gain(&recl, 1, 0, 1) - (1 - exp(-1.1 / 2))) < 1e-6);
    /* At 8 b is 1, 1, 1, 1: the least of both. */
    assert_true(gain(&recl, 0, 1, 0) == 0);
    assert_true(gain(&recl, 1, 1, 0) == 0);
    assert_true(fabs(gain(&recl, 1, 1, 2) - (1 - exp(-0.02 / 4))) < 1e-6);
    assert_int_equal(recl_length(&recl, 0, 0), -1);
    assert_int_equal(recl_length(&recl, 0, 1), 0);
    assert_int_equal(recl_length(&recl, 1, 2), 0); /* half a percent is too little */
    recl_free(&recl);
}

/* A tenth of 30 is 3. */
TEST(a_tenth_of_thirty) {
    float nats[90];
    struct recl recl;
    for (size_t i = 0; i < 90; i++)
        nats[i] = i < 3 ? 4 : i == 3 ? 3 : i % 30 < 3 ? 4 : 1;
    start(&recl, 1, nats, 30);
    assert_true(gain(&recl, 0, 0, 0) == 0);
    assert_true(gain(&recl, 0, 0, 1) > 0);
    recl_free(&recl);
}

/* 1 % is enough, and the largest length counts. */
TEST(the_threshold) {
    static const float nats[] = {1, 1, 0.9898F}, less[] = {1, 1, 0.991F};
    struct recl recl;
    start(&recl, 1, nats, 1);
    assert_int_equal(recl_length(&recl, 0, 0), 8);
    recl_free(&recl);
    start(&recl, 1, less, 1);
    assert_int_equal(recl_length(&recl, 0, 0), -1);
    recl_free(&recl);
}

/* A length that is none is null. */
TEST(json_has_every_gain_and_length) {
    static const float nats[] = {2, 2, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1};
    struct recl recl;
    start(&recl, 1, nats, 4);
    recl.model = calloc(1, sizeof *recl.model);
    assert_non_null(recl.model);
    recl.model[0] = "one";
    json_t *list = recl_to_json(&recl), *one = json_array_get(list, 0);
    for (size_t r = 0; r < RECL_SHARES; r++) {
        const json_t *length = json_array_get(json_object_get(one, "lengths"), r);
        assert_true(json_real_value(json_object_get(length, "share")) == (r == 0   ? 0.1
                                                                          : r == 1 ? 0.5
                                                                                   : 1));
        assert_int_equal(json_is_null(json_object_get(length, "length")), r == 0);
        for (size_t c = 0; c < 2; c++) {
            const json_t *step = json_array_get(json_object_get(one, "steps"), c);
            const json_t *gains = json_object_get(step, "gains");
            assert_true(json_real_value(json_array_get(gains, r)) == gain(&recl, 0, c, r));
        }
    }
    json_decref(list);
    recl_free(&recl);
}

int main(void) {
    return cmocka_run_group_tests_name("recl", tests, NULL, NULL);
}
