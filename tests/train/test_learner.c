/* Dynamic evaluation against the reference's numbers, against sessions and the trainer, and against
 * itself: with any number of threads the same bits. */
#include "lib/kernels/kernels.h"
#include "lib/train/training.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the reference's float64 arithmetic.  Its own float32 run stays at a mean of 2e-5. */
static const double MEAN = 1e-4, TOTAL = 1e-5, DRIFT = 1e-4, FIRST = 2e-4;
enum { FIRST_SEGMENTS = 3 };

/* Of another order of the same sums in f32. */
static const double ROUNDING = 2e-4;

static txl_learner *make_learner(const txl_model *model, const txl_settings *settings,
                                 const txl_learning *learning) {
    txl_learner *learner;
    txl_error error;
    assert_good(txl_learner_new(model, settings, learning, &learner, &error), &error);
    return learner;
}

/* Scores ids[n], or gathers statistics of them, segment by segment: nats[n - 1]. */
static void read_ids(txl_learner *learner, const int32_t *ids, size_t n, float *nats) {
    txl_settings settings;
    txl_error error;
    txl_learner_settings(learner, &settings);
    for (size_t at = 0; at + 1 < n;) {
        size_t left = n - 1 - at, length = (size_t)settings.tgt_len;
        length = left < length ? left : length;
        if (nats)
            assert_good(
                txl_learner_score(learner, ids + at, length, ids + at + 1, nats + at, NULL, &error),
                &error);
        else
            assert_good(txl_learner_gather(learner, ids + at, length, ids + at + 1, &error),
                        &error);
        at += length;
    }
}

/* ---- The reference ------------------------------------------------------------------------ */

static void check_run(const struct model_case *c, int r, const json_t *run) {
    const txl_settings settings = run_settings(run, 2);
    bool rms = strcmp(json_string_value(json_object_get(run, "method")), "rms") == 0;
    const txl_learning learning = {.method = rms ? TXL_LEARNING_RMS : TXL_LEARNING_SGD,
                                   .rate = number_of(run, "lr"),
                                   .decay = rms ? number_of(run, "decay") : 0,
                                   .epsilon = rms ? number_of(run, "epsilon") : 0};
    size_t first = rms ? (size_t)number_of(run, "statistics") : 0, n = c->n - first;
    const json_t *expected = json_object_get(run, "nats");
    float *nats = calloc(n, sizeof *nats);
    double difference = 0, total = 0;
    assert_non_null(nats);
    assert_int_equal(json_array_size(expected), n - 1);
    txl_learner *learner = make_learner(c->model, &settings, &learning);
    if (rms)
        read_ids(learner, c->ids, first, NULL);
    assert_true(txl_learner_drift(learner) == 0);
    txl_learner_start(learner);
    read_ids(learner, c->ids + first, n, nats);
    for (size_t i = 0; i + 1 < n; i++) {
        double off = fabs(nats[i] - json_number_value(json_array_get(expected, i)));
        if (i < (size_t)(FIRST_SEGMENTS * settings.tgt_len) && !(off <= FIRST))
            fail_msg("%s, run %d: token %zu differs by %g", c->name, r, i, off);
        difference += off / (double)(n - 1);
        total += nats[i];
    }
    double drift = txl_learner_drift(learner);
    if (!(difference <= MEAN) || !(fabs(total / number_of(run, "total") - 1) <= TOTAL) ||
        !(fabs(drift / number_of(run, "drift") - 1) <= DRIFT))
        fail_msg("%s, run %d: nats differ by %g in the mean, their sum is %.7g, not %.7g, and the "
                 "drift %.7g, not %.7g",
                 c->name, r, difference, total, number_of(run, "total"), drift,
                 number_of(run, "drift"));
    txl_learner_free(learner);
    free(nats);
}

TEST(reference_runs) {
    check_trained_cases("dynamic.json", 9, check_run);
}

/* Squares that somebody else kept. */
TEST(squares_are_set) {
    static const char bias[] = "layer.0.feed_forward.1.bias";
    const txl_settings settings = {.tgt_len = 16, .mem_len = 24, .clamp_len = -1, .threads = 1};
    const txl_learning rms = {.method = TXL_LEARNING_RMS, .rate = 1, .epsilon = 1},
                       sgd = {.method = TXL_LEARNING_SGD, .rate = 1};
    const float squares[] = {4, 0, 9}, negative = -1, none = NAN, endless = INFINITY;
    struct model_case c;
    txl_error error;
    txl_tensor tensor = {.name = ""};
    case_open(&c, "enwik8-zip", "f32", 0);
    for (size_t i = 0; i < txl_model_n_tensor(c.model) && strcmp(tensor.name, bias) != 0; i++)
        txl_model_tensor(c.model, i, &tensor);
    assert_string_equal(tensor.name, bias);
    txl_learner *learner = make_learner(c.model, &settings, &rms),
                *other = make_learner(c.model, &settings, &sgd);
    uint64_t n = tensor.shape[0];
    assert_good(txl_learner_set_squares(learner, bias, n - 3, squares, 3, &error), &error);
    assert_good(txl_learner_set_squares(learner, "position.inv_freq", 0, squares, 3, &error),
                &error);
    assert_int_equal(txl_learner_set_squares(learner, bias, n - 2, squares, 3, &error),
                     TXL_ARGUMENT);
    assert_int_equal(txl_learner_set_squares(learner, bias, UINT64_MAX, squares, 3, &error),
                     TXL_ARGUMENT);
    assert_int_equal(txl_learner_set_squares(learner, "bias", 0, squares, 3, &error), TXL_ARGUMENT);
    assert_int_equal(txl_learner_set_squares(learner, bias, 0, &negative, 1, &error), TXL_FORMAT);
    assert_int_equal(txl_learner_set_squares(learner, bias, 0, &none, 1, &error), TXL_FORMAT);
    assert_int_equal(txl_learner_set_squares(learner, bias, 0, &endless, 1, &error), TXL_FORMAT);
    assert_int_equal(txl_learner_set_squares(other, bias, 0, squares, 3, &error), TXL_ARGUMENT);
    txl_learner_free(learner);
    txl_learner_free(other);
    case_close(&c);
}

/* ---- Sessions ----------------------------------------------------------------------------- */

static const txl_settings ways[] = {
    {.tgt_len = 16, .mem_len = 24, .clamp_len = -1, .threads = 1},
    {.tgt_len = 9, .mem_len = 20, .clamp_len = 11, .same_length = true, .threads = 2},
    {.tgt_len = 7, .mem_len = 0, .clamp_len = -1, .threads = 1}};

static const txl_learning methods[] = {
    {.method = TXL_LEARNING_SGD, .rate = 0.003},
    {.method = TXL_LEARNING_RMS, .rate = 1e-5, .decay = 0.1, .epsilon = 1e-3},
    {.method = TXL_LEARNING_ADAM, .rate = 1e-3, .epsilon = 1e-8}};

static void assert_near(const char *name, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= ROUNDING))
            fail_msg("%s: number %zu of %zu is %.7g, not %.7g", name, i, n, (double)a[i],
                     (double)b[i]);
}

/* Learns from two segments.  A session that goes on from there predicts as the learner does; before
 * the first, one of the model does. */
static void check_session(const struct model_case *c, const txl_settings *settings,
                          const txl_learning *learning) {
    size_t length = (size_t)settings->tgt_len, n_token = (size_t)txl_model_n_token(c->model);
    float *by_learner = calloc(length * n_token, sizeof *by_learner);
    float *by_session = calloc(length * n_token, sizeof *by_session);
    float *nats = calloc(length, sizeof *nats);
    txl_learner *learner = make_learner(c->model, settings, learning);
    txl_session *session = case_session(c, settings);
    txl_error error;
    assert_true(by_learner && by_session && nats);
    for (int s = 0; s < 3; s++) {
        const int32_t *ids = c->ids + (size_t)s * length;
        if (s > 0)
            assert_good(txl_learner_session(learner, &session, &error), &error);
        assert_good(txl_session_distributions(session, ids, length, by_session, &error), &error);
        txl_session_free(session);
        assert_good(txl_learner_score(learner, ids, length, ids + 1, nats, by_learner, &error),
                    &error);
        assert_near(c->name, by_learner, by_session, length * n_token);
        for (size_t i = 0; i < length; i++)
            assert_true(fabs(nats[i] + by_learner[i * n_token + (size_t)ids[i + 1]]) <= ROUNDING);
    }
    assert_true(txl_learner_drift(learner) > 0);
    txl_learner_free(learner);
    free(by_learner);
    free(by_session);
    free(nats);
}

static void check_sessions(const struct model_case *c) {
    txl_settings own;
    txl_model_defaults(c->model, &own);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        txl_settings settings = ways[w];
        settings.mem_len = own.mem_len > 0 ? settings.mem_len : 0;
        check_session(c, &settings, &methods[w]);
    }
}

TEST(sessions_that_go_on) {
    struct model_case c;
    for (size_t i = 0; trained_cases[i]; i++) {
        case_open(&c, trained_cases[i], "f32", 0);
        check_sessions(&c);
        case_close(&c);
    }
    case_open_pre_lnorm(&c, "absolute-sinusoid");
    check_sessions(&c);
    case_close(&c);
    case_open_pre_lnorm(&c, "absolute-learned");
    check_sessions(&c);
    case_close(&c);
}

/* ---- Threads and starts ------------------------------------------------------------------- */

enum { LARGER_IDS = 401, LARGER_TOKENS = 3000 };

static txl_model *open_larger(int32_t ids[LARGER_IDS]) {
    txl_model *model;
    txl_error error;
    assert_good(txl_model_random(larger_settings, "f32", 1, 1, &model, &error), &error);
    for (int i = 0; i < LARGER_IDS; i++)
        ids[i] = (int32_t)((i * 7919u + i / 3u) % LARGER_TOKENS);
    return model;
}

static const txl_settings larger_lengths = {.tgt_len = 100, .mem_len = 120, .clamp_len = -1};

/* A second text gives what the first did: nothing of the first is left. */
TEST(any_number_of_threads) {
    const int threads[] = {1, 2, 3, 5};
    int32_t ids[LARGER_IDS];
    txl_model *model = open_larger(ids);
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        float first[LARGER_IDS - 1] = {0}, nats[LARGER_IDS - 1];
        double drift = 0;
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            txl_settings settings = larger_lengths;
            settings.threads = threads[i];
            txl_learner *learner = make_learner(model, &settings, &methods[m]);
            txl_learner_settings(learner, &settings);
            assert_int_equal(settings.threads, threads[i]);
            if (methods[m].method == TXL_LEARNING_RMS)
                read_ids(learner, ids, 230, NULL);
            for (int again = 0; again < 2; again++) {
                txl_learner_start(learner);
                assert_true(txl_learner_drift(learner) == 0);
                read_ids(learner, ids, LARGER_IDS, nats);
                if (i == 0 && !again) {
                    memcpy(first, nats, sizeof nats);
                    drift = txl_learner_drift(learner);
                }
                assert_memory_equal(first, nats, sizeof nats);
                assert_true(drift > 0 && drift == txl_learner_drift(learner));
            }
            txl_learner_free(learner);
        }
    }
    txl_model_close(model);
}

/* Adam's steps are those of a trainer with one stream that does not clip. */
TEST(adam_of_the_trainer) {
    int32_t ids[LARGER_IDS];
    txl_model *model = open_larger(ids);
    txl_error error;
    txl_ids *text;
    txl_trainer *trainer;
    txl_step step;
    float nats[LARGER_IDS - 1];
    txl_settings settings = larger_lengths;
    settings.threads = 2;
    const txl_training training = {.batch = 1,
                                   .tgt_len = settings.tgt_len,
                                   .mem_len = settings.mem_len,
                                   .clamp_len = -1,
                                   .epsilon = methods[2].epsilon,
                                   .threads = 1};
    assert_good(txl_ids_new(LARGER_TOKENS, &text, &error), &error);
    assert_good(txl_ids_add(text, ids, LARGER_IDS, &error), &error);
    assert_good(txl_trainer_new(model, text, &training, &trainer, &error), &error);
    txl_learner *learner = make_learner(model, &settings, &methods[2]);
    read_ids(learner, ids, LARGER_IDS, nats);
    for (int s = 0; s < (LARGER_IDS - 1) / 100; s++) {
        double sum = 0;
        assert_good(txl_trainer_step(trainer, methods[2].rate, &step, &error), &error);
        for (int i = 0; i < 100; i++)
            sum += nats[100 * s + i];
        assert_true(step.loss == sum / 100);
    }
    const char *path[] = {"learned.txl", "trained.txl"};
    uint64_t checksum[2];
    for (int i = 0; i < 2; i++) {
        txl_model *written;
        const char *file = scratch_path(path[i]);
        assert_good(txl_model_write(i ? txl_trainer_model(trainer) : txl_learner_model(learner),
                                    file, "f32", 1, &error),
                    &error);
        assert_good(txl_model_open(file, 1, &written, &error), &error);
        checksum[i] = txl_model_checksum(written);
        txl_model_close(written);
        unlink(file);
    }
    assert_true(checksum[0] == checksum[1]);
    txl_learner_free(learner);
    txl_trainer_free(trainer);
    txl_ids_free(text);
    txl_model_close(model);
}

/* ---- Refusals ----------------------------------------------------------------------------- */

static void expect_refused(const txl_model *model, const txl_settings *settings,
                           const txl_learning *learning, txl_status expected, const char *message) {
    txl_learner *learner;
    txl_error error;
    assert_int_equal(txl_learner_new(model, settings, learning, &learner, &error), expected);
    if (!strstr(error.message, message))
        fail_msg("'%s' does not say '%s'", error.message, message);
}

TEST(refusals) {
    struct model_case c;
    txl_error error;
    case_open(&c, "characters", "f32", 0);
    txl_settings settings = ways[0];
    txl_learning learning = methods[0];
    learning.decay = 0.1;
    expect_refused(c.model, &settings, &learning, TXL_ARGUMENT, "decay");
    learning = methods[1];
    learning.epsilon = 0;
    expect_refused(c.model, &settings, &learning, TXL_ARGUMENT, "epsilon");
    learning.rate = NAN;
    expect_refused(c.model, &settings, &learning, TXL_ARGUMENT, "rate");
    learning = methods[2];
    learning.reserved[3] = 1;
    expect_refused(c.model, &settings, &learning, TXL_ARGUMENT, "txl_learning");
    settings.memory_type = TXL_MEMORY_F16;
    expect_refused(c.model, &settings, &methods[0], TXL_ARGUMENT, "f32");
    settings = ways[0];
    settings.arithmetic = TXL_ARITHMETIC_EXACT;
    expect_refused(c.model, &settings, &methods[0], TXL_ARGUMENT, "exactly");
    settings = ways[0];
    settings.tgt_len = 0;
    expect_refused(c.model, &settings, &methods[0], TXL_ARGUMENT, "tgt_len");
    settings = ways[0];
    uint64_t bytes = 0;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        assert_true(txl_learner_bytes(c.model, &settings, &methods[m]) > bytes);
        bytes = txl_learner_bytes(c.model, &settings, &methods[m]);
    }
    txl_learner *learner = make_learner(c.model, &settings, &methods[0]);
    float nats[16];
    int32_t ids[18] = {0};
    assert_int_equal(txl_learner_score(learner, ids, 17, ids + 1, nats, NULL, &error),
                     TXL_ARGUMENT);
    assert_int_equal(txl_learner_score(learner, ids, 0, ids + 1, nats, NULL, &error), TXL_ARGUMENT);
    assert_int_equal(txl_learner_gather(learner, ids, 16, ids + 1, &error), TXL_ARGUMENT);
    ids[16] = txl_model_n_token(c.model);
    assert_int_equal(txl_learner_score(learner, ids, 16, ids + 1, nats, NULL, &error),
                     TXL_ARGUMENT);
    ids[16] = 0;
    assert_good(txl_learner_score(learner, ids, 15, ids + 1, nats, NULL, &error), &error);
    ids[3] = -1;
    assert_int_equal(txl_learner_score(learner, ids, 16, ids + 1, nats, NULL, &error),
                     TXL_ARGUMENT);
    txl_learner_free(learner);
    case_close(&c);
    case_open(&c, "absolute-sinusoid", "f32", 0);
    expect_refused(c.model, &settings, &methods[0], TXL_ARGUMENT, "mem_len must be 0");
    case_close(&c);
}

/* The error names the segment and the rate; another start is as the first. */
TEST(no_number) {
    struct model_case c;
    txl_error error;
    float nats[16], at_first[16];
    const txl_learning wild = {.method = TXL_LEARNING_SGD, .rate = 1e6};
    case_open(&c, "characters", "f32", 0);
    txl_learner *learner = make_learner(c.model, &ways[0], &wild);
    txl_status status = TXL_OK;
    assert_good(txl_learner_score(learner, c.ids, 16, c.ids + 1, at_first, NULL, &error), &error);
    for (size_t at = 16; !status && at + 17 < c.n; at += 16)
        status = txl_learner_score(learner, c.ids + at, 16, c.ids + at + 1, nats, NULL, &error);
    assert_int_equal(status, TXL_FORMAT);
    assert_non_null(strstr(error.message, "segment "));
    assert_non_null(strstr(error.message, "1e+06"));
    txl_learner_start(learner);
    assert_good(txl_learner_score(learner, c.ids, 16, c.ids + 1, nats, NULL, &error), &error);
    assert_memory_equal(nats, at_first, sizeof nats);
    txl_learner_free(learner);
    case_close(&c);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
