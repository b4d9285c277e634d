/* XLNet gives the reference implementation's numbers.  They do not depend on how the tokens are
 * divided among calls, nor on kernels and threads; narrow types of weights and memory come
 * close. */
#include "tests/files.h"
#include "tests/model_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Largest difference from the reference, which computes in float64: nats per token. */
static const double REFERENCE = 2e-4;
/* Largest difference between two ways to compute the same number. */
static const double AGREEMENT = 1e-4;

static const char *const cases[] = {"xlnet/base-zip",
                                    "xlnet/base-legacy",
                                    "xlnet/safetensors",
                                    "xlnet/relu",
                                    "xlnet/gelu-new",
                                    "xlnet/wide-heads",
                                    "xlnet/narrow-heads",
                                    "xlnet/clamp",
                                    "xlnet/uni",
                                    "xlnet/one-bias",
                                    "xlnet/half-precision",
                                    "xlnet/sharded",
                                    NULL};

static int int_of(const json_t *object, const char *key) {
    assert_true(json_is_integer(json_object_get(object, key)));
    return (int)json_integer_value(json_object_get(object, key));
}

static double real_of(const json_t *object, const char *key, size_t i) {
    return json_real_value(json_array_get(json_object_get(object, key), i));
}

/* The ids of a list, followed by room for `extra` more; the caller frees them. */
static int32_t *ids_of(const json_t *list, size_t extra, size_t *n) {
    *n = json_array_size(list);
    int32_t *ids = calloc(*n + extra + 1, sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static float *new_floats(size_t n) {
    float *floats = calloc(n + 1, sizeof *floats);
    assert_non_null(floats);
    return floats;
}

static void check(const struct model_case *c, txl_status status, const txl_error *error) {
    if (status)
        fail_msg("%s: %s", c->name, error->message);
}

static void assert_close(const struct model_case *c, const char *what, size_t i, double value,
                         double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%s, %s: token %zu has %.6f nats, not %.6f", c->name, what, i, value, expected);
}

static void assert_nats(const struct model_case *c, const char *what, const float *nats, size_t n,
                        const json_t *run, double tolerance) {
    assert_int_equal(json_array_size(json_object_get(run, "nats")), n);
    for (size_t i = 0; i < n; i++)
        assert_close(c, what, i, nats[i], real_of(run, "nats", i), tolerance);
}

static txl_settings settings_of(const json_t *run, int mem_len) {
    return (txl_settings){.tgt_len = int_of(run, "tgt_len"),
                          .mem_len = mem_len,
                          .clamp_len = int_of(run, "clamp_len"),
                          .threads = 2};
}

/* ---- Scoring ------------------------------------------------------------------------------ */

/* Fails if a token is off by more than `most` nats, or all tokens by more than `mean` on
 * average. */
static void check_runs(const struct model_case *c, txl_memory_type memory_type, double most,
                       double mean) {
    size_t r, n = 0;
    json_t *run;
    double sum = 0;
    json_array_foreach(json_object_get(c->expect, "runs"), r, run) {
        txl_settings settings = settings_of(run, int_of(run, "mem_len"));
        settings.memory_type = memory_type;
        float *nats = case_nats(c, &settings, c->n);
        assert_nats(c, "run", nats, c->n - 1, run, most);
        for (size_t i = 0; i + 1 < c->n; i++)
            sum += fabs(nats[i] - real_of(run, "nats", i));
        n += c->n - 1;
        free(nats);
    }
    if (sum / (double)n > mean)
        fail_msg("%s: tokens are off by %.6f nats on average", c->name, sum / (double)n);
}

/* Scores a text in rounds: each feeds the tokens before it as one block and scores the `refresh`
 * tokens after it. */
static void check_refreshed(const struct model_case *c, const json_t *run) {
    txl_error error;
    size_t tgt_len = (size_t)int_of(run, "tgt_len"), refresh = (size_t)int_of(run, "refresh");
    txl_settings settings = settings_of(run, (int)refresh);
    txl_session *session = case_session(c, &settings);
    float *nats = new_floats(c->n);
    for (size_t i = 1; i < c->n; i += refresh) {
        size_t known = i < tgt_len ? i : tgt_len, left = c->n - i;
        size_t n = left < refresh ? left : refresh;
        check(c,
              txl_session_score_block(session, c->ids + i - known, known, n, nats + i - 1, NULL,
                                      &error),
              &error);
    }
    assert_nats(c, "refreshed", nats, c->n - 1, run, REFERENCE);
    free(nats);
    txl_session_free(session);
}

/* ---- Generating --------------------------------------------------------------------------- */

/* Checks that the likeliest token and its nats are the i-th of the run; returns the token. */
static int32_t expect_likeliest(const struct model_case *c, txl_session *session, const json_t *run,
                                size_t i) {
    txl_error error;
    int32_t id;
    float logprob;
    check(c, txl_session_top(session, 1, &id, &logprob, &error), &error);
    assert_int_equal(id, json_integer_value(json_array_get(json_object_get(run, "ids"), i)));
    assert_close(c, "likeliest", i, -(double)logprob, real_of(run, "nats", i), REFERENCE);
    return id;
}

static void check_greedy(const struct model_case *c, const json_t *run) {
    txl_error error;
    size_t n = json_array_size(json_object_get(run, "ids")), prompt;
    size_t tgt_len = (size_t)int_of(run, "tgt_len"), refresh = (size_t)int_of(run, "refresh");
    int32_t *ids = ids_of(json_object_get(run, "prompt"), n, &prompt);
    bool left = strcmp(json_string_value(json_object_get(run, "order")), "left") == 0;
    txl_settings settings = settings_of(run, int_of(run, "mem_len"));
    txl_session *session = case_session(c, &settings);
    for (size_t i = 0; i < n; i++) {
        size_t known = prompt + i;
        if (i == 0 || (refresh > 0 && i % refresh == 0)) {
            size_t first = refresh > 0 && known > tgt_len ? known - tgt_len : 0;
            txl_session_reset(session);
            check(c,
                  left ? txl_session_feed(session, ids + first, known - first, &error)
                       : txl_session_feed_block(session, ids + first, known - first, &error),
                  &error);
        } else {
            txl_session_end_segment(session);
            check(c, txl_session_feed(session, ids + known - 1, 1, &error), &error);
        }
        ids[known] = expect_likeliest(c, session, run, i);
    }
    free(ids);
    txl_session_free(session);
}

/* ---- Filling ------------------------------------------------------------------------------ */

static void check_top(const struct model_case *c, txl_session *session, const json_t *top) {
    txl_error error;
    int32_t ids[3];
    float logprobs[3];
    check(c, txl_session_top(session, 3, ids, logprobs, &error), &error);
    for (size_t i = 0; i < 3; i++) {
        const json_t *pair = json_array_get(top, i);
        assert_int_equal(ids[i], json_integer_value(json_array_get(pair, 0)));
        assert_close(c, "top", i, logprobs[i], json_real_value(json_array_get(pair, 1)), REFERENCE);
    }
}

static void check_fill(const struct model_case *c, const json_t *run) {
    txl_error error;
    size_t n, n_gap, filled = 0, tgt_len = (size_t)int_of(run, "tgt_len");
    int32_t *ids = ids_of(json_object_get(run, "tokens"), 0, &n);
    int32_t *gaps = ids_of(json_object_get(run, "gaps"), 0, &n_gap);
    txl_settings settings = settings_of(run, int_of(run, "mem_len"));
    txl_session *session = case_session(c, &settings);
    for (size_t i = 0; i < n_gap; i++)
        ids[gaps[i]] = TXL_GAP;
    for (size_t first = 0; first < n; first += tgt_len) {
        size_t length = n - first < tgt_len ? n - first : tgt_len;
        check(c, txl_session_feed_gaps(session, ids + first, length, &error), &error);
        for (; filled < n_gap && (size_t)gaps[filled] < first + length; filled++) {
            size_t gap = (size_t)gaps[filled] - first;
            check(c, txl_session_ask(session, &gap, 1, NULL, &error), &error);
            if (filled == 0)
                check_top(c, session, json_object_get(run, "top"));
            int32_t id = expect_likeliest(c, session, run, filled);
            check(c, txl_session_fill(session, gap, id, &error), &error);
        }
    }
    assert_int_equal(filled, n_gap);
    free(ids);
    free(gaps);
    txl_session_free(session);
}

/* ---- All of expect.json ------------------------------------------------------------------- */

static void check_case(const char *name) {
    size_t i;
    json_t *run;
    struct model_case c;
    case_open(&c, name, NULL, -1);
    check_runs(&c, TXL_MEMORY_F32, REFERENCE, REFERENCE);
    json_array_foreach(json_object_get(c.expect, "refreshed"), i, run) {
        check_refreshed(&c, run);
    }
    json_array_foreach(json_object_get(c.expect, "greedy"), i, run) {
        check_greedy(&c, run);
    }
    json_array_foreach(json_object_get(c.expect, "fill"), i, run) {
        check_fill(&c, run);
    }
    case_close(&c);
}

TEST(cases_agree_with_the_reference) {
    for (size_t i = 0; cases[i]; i++)
        check_case(cases[i]);
}

TEST(kernels_agree_with_the_reference) {
    for (size_t v = 0; use_kernels(v); v++)
        for (size_t i = 0; cases[i]; i++)
            if (!SANITIZED || (v + i) % 3 == 0)
                check_case(cases[i]);
}

/* ---- The same in other ways --------------------------------------------------------------- */

/* If the memory drops nothing, numbers do not depend on the division of the text into segments and
 * calls, nor on the number of threads. */
TEST(divisions_agree) {
    static const size_t steps[] = {1, 7, 50, 1000};
    static const int tgt_lens[] = {1, 13, 64, 600};
    for (size_t i = 0; cases[i]; i++) {
        struct model_case c;
        case_open(&c, cases[i], NULL, -1);
        txl_settings settings = {
            .tgt_len = (int)c.n, .mem_len = (int)c.n, .clamp_len = 9, .threads = 1};
        float *whole = case_nats(&c, &settings, c.n);
        for (size_t k = 0; k < 4; k++) {
            settings.tgt_len = tgt_lens[k];
            settings.threads = 1 + (int)k % 2;
            float *nats = case_nats(&c, &settings, steps[k]);
            for (size_t t = 0; t + 1 < c.n; t++)
                assert_close(&c, "division", t, nats[t], whole[t], AGREEMENT);
            free(nats);
        }
        free(whole);
        case_close(&c);
    }
}

/* Distributions contain the scores and sum to one. */
TEST(distributions_agree) {
    struct model_case c;
    txl_error error;
    case_open(&c, cases[0], NULL, -1);
    const json_t *run = json_array_get(json_object_get(c.expect, "runs"), 0);
    txl_settings settings = settings_of(run, int_of(run, "mem_len"));
    size_t n_token = (size_t)txl_model_n_token(c.model);
    txl_session *session = case_session(&c, &settings);
    float *logprob = new_floats((c.n - 1) * n_token), *nats = new_floats(c.n - 1);
    check(&c, txl_session_distributions(session, c.ids, c.n - 1, logprob, &error), &error);
    for (size_t t = 0; t + 1 < c.n; t++) {
        double sum = 0;
        for (size_t id = 0; id < n_token; id++)
            sum += exp((double)logprob[t * n_token + id]);
        assert_true(fabs(sum - 1) < 1e-4);
        nats[t] = -logprob[t * n_token + (size_t)c.ids[t + 1]];
    }
    assert_nats(&c, "distributions", nats, c.n - 1, run, REFERENCE);
    free(logprob);
    free(nats);
    txl_session_free(session);
    case_close(&c);
}

/* Several gaps asked for in one pass get the same distributions as each alone. */
TEST(gaps_asked_together_agree) {
    enum { GAPS = 12, LENGTH = 60 };
    for (size_t i = 0; cases[i]; i++) {
        struct model_case c;
        txl_error error;
        case_open(&c, cases[i], NULL, -1);
        size_t n_token = (size_t)txl_model_n_token(c.model), gap[GAPS];
        txl_settings settings = {.tgt_len = 64, .mem_len = 20, .clamp_len = -1, .threads = 2};
        txl_session *session = case_session(&c, &settings);
        float *together = new_floats(GAPS * n_token), *alone = new_floats(n_token);
        int32_t ids[LENGTH];
        memcpy(ids, c.ids + 10, sizeof ids);
        for (size_t k = 0; k < GAPS; k++) {
            gap[k] = 3 + 4 * k;
            ids[gap[k]] = TXL_GAP;
        }
        check(&c, txl_session_feed(session, c.ids, 10, &error), &error);
        check(&c, txl_session_feed_gaps(session, ids, LENGTH, &error), &error);
        check(&c, txl_session_ask(session, gap, GAPS, together, &error), &error);
        for (size_t k = 0; k < GAPS; k++) {
            check(&c, txl_session_look(session, k, &error), &error);
            check(&c, txl_session_logprobs(session, alone, &error), &error);
            for (size_t id = 0; id < n_token; id++)
                assert_close(&c, "look", id, alone[id], together[k * n_token + id], AGREEMENT);
        }
        for (size_t k = 0; k < GAPS; k += 5) {
            check(&c, txl_session_ask(session, &gap[k], 1, alone, &error), &error);
            for (size_t id = 0; id < n_token; id++)
                assert_close(&c, "ask", id, alone[id], together[k * n_token + id], AGREEMENT);
        }
        free(together);
        free(alone);
        txl_session_free(session);
        case_close(&c);
    }
}

/* The largest difference between a gap's log-probabilities in two texts.  Three other tokens are
 * gaps, filled in order `one` in the first text; in the second they are filled in order `two`, or
 * known from the start (`known`). */
static double order_matters(const struct model_case *c, const size_t *one, const size_t *two,
                            bool known) {
    enum { LENGTH = 40, LAST = 11 };
    txl_error error;
    size_t n_token = (size_t)txl_model_n_token(c->model), last = LAST;
    txl_settings settings = {.tgt_len = 64, .mem_len = 0, .clamp_len = -1, .threads = 2};
    float *logprob[2];
    for (int k = 0; k < 2; k++) {
        const size_t *order = k == 0 ? one : two;
        txl_session *session = case_session(c, &settings);
        int32_t ids[LENGTH];
        memcpy(ids, c->ids, sizeof ids);
        ids[LAST] = TXL_GAP;
        for (int i = 0; i < 3 && !(known && k == 1); i++)
            ids[order[i]] = TXL_GAP;
        check(c, txl_session_feed_gaps(session, ids, LENGTH, &error), &error);
        for (int i = 0; i < 3 && !(known && k == 1); i++)
            check(c, txl_session_fill(session, order[i], c->ids[order[i]], &error), &error);
        logprob[k] = new_floats(n_token);
        check(c, txl_session_ask(session, &last, 1, logprob[k], &error), &error);
        txl_session_free(session);
    }
    double most = 0;
    for (size_t id = 0; id < n_token; id++)
        most = fmax(most, fabs((double)logprob[0][id] - (double)logprob[1][id]));
    free(logprob[0]);
    free(logprob[1]);
    return most;
}

/* The order of filling decides which gaps see each other, so it changes the numbers. */
TEST(the_order_of_filling_decides) {
    static const size_t up[] = {6, 21, 30}, down[] = {30, 21, 6};
    struct model_case c;
    case_open(&c, cases[1], NULL, -1);
    assert_true(order_matters(&c, up, up, false) == 0);
    assert_true(order_matters(&c, up, down, false) > 1e-3);
    assert_true(order_matters(&c, up, up, true) > 1e-3);
    case_close(&c);
}

/* Copies that are fed together, and so share passes, give the same bits as each alone. */
TEST(copies_agree) {
    enum { COPIES = 7, STEPS = 20 };
    struct model_case c;
    txl_error error;
    case_open(&c, cases[2], NULL, -1);
    size_t n_token = (size_t)txl_model_n_token(c.model);
    txl_settings settings = {.tgt_len = 16, .mem_len = 24, .clamp_len = 12, .threads = 2};
    txl_session *alone = case_session(&c, &settings), *copy[COPIES];
    float *one = new_floats(n_token), *two = new_floats(n_token);
    check(&c, txl_session_feed_block(alone, c.ids, 40, &error), &error);
    for (size_t k = 0; k < COPIES; k++)
        check(&c, txl_session_copy(alone, &copy[k], &error), &error);
    for (size_t t = 40; t < 40 + STEPS; t++) {
        int32_t ids[COPIES];
        for (size_t k = 0; k < COPIES; k++) {
            ids[k] = c.ids[(t + 3 * k) % c.n];
            txl_session_end_segment(copy[k]);
        }
        txl_session_end_segment(alone);
        check(&c, txl_session_feed(alone, &ids[5], 1, &error), &error);
        check(&c, txl_session_feed_each(copy, COPIES, ids, &error), &error);
        check(&c, txl_session_logprobs(alone, one, &error), &error);
        check(&c, txl_session_logprobs(copy[5], two, &error), &error);
        assert_memory_equal(one, two, n_token * sizeof *one);
    }
    for (size_t k = 0; k < COPIES; k++)
        txl_session_free(copy[k]);
    txl_session_free(alone);
    free(one);
    free(two);
    case_close(&c);
}

/* Checks that both sessions give the same next distribution, bit for bit. */
static void assert_same_next(const struct model_case *c, txl_session *a, txl_session *b) {
    txl_error error;
    size_t n_token = (size_t)txl_model_n_token(c->model);
    float *one = new_floats(n_token), *two = new_floats(n_token);
    check(c, txl_session_logprobs(a, one, &error), &error);
    check(c, txl_session_logprobs(b, two, &error), &error);
    assert_memory_equal(one, two, n_token * sizeof *one);
    free(one);
    free(two);
}

/* A session that is saved and loaded continues as one that was not. */
TEST(saved_memory_goes_on) {
    struct model_case c;
    txl_error error;
    case_open(&c, cases[5], NULL, -1);
    for (int type = TXL_MEMORY_F32; type <= TXL_MEMORY_Q8; type++) {
        txl_settings settings = {.tgt_len = 16,
                                 .mem_len = 24,
                                 .clamp_len = -1,
                                 .threads = 2,
                                 .memory_type = (txl_memory_type)type};
        txl_session *session = case_session(&c, &settings), *other = case_session(&c, &settings);
        txl_memory *memory;
        check(&c, txl_session_feed_block(session, c.ids, 37, &error), &error);
        check(&c, txl_session_feed(session, c.ids + 37, 5, &error), &error);
        check(&c, txl_session_save(session, NULL, &memory, &error), &error);
        check(&c, txl_session_load(other, memory, &error), &error);
        assert_same_next(&c, session, other);
        check(&c, txl_session_feed(session, c.ids + 42, 20, &error), &error);
        check(&c, txl_session_feed(other, c.ids + 42, 20, &error), &error);
        assert_same_next(&c, session, other);
        txl_memory_free(memory);
        txl_session_free(session);
        txl_session_free(other);
    }
    case_close(&c);
}

/* ---- Types and memory --------------------------------------------------------------------- */

/* These weights are large, so rounding them shows.  Bounds are about twice the measured
 * differences.  Matrices with rows of fewer than 64 elements stay f16 in a file of type q8. */
TEST(narrow_types_are_near) {
    static const struct {
        const char *type;
        double most, mean;
    } types[] = {{"f16", 0.05, 0.0035}, {"bf16", 0.5, 0.04}, {"q8", 0.05, 0.0035}};
    for (size_t k = 0; k < 3; k++) {
        struct model_case c;
        case_open(&c, cases[0], types[k].type, -1);
        assert_string_equal(txl_model_type(c.model), types[k].type);
        check_runs(&c, TXL_MEMORY_F32, types[k].most, types[k].mean);
        case_close(&c);
    }
}

/* A random model of `type` with rows long enough for q8.  Its weights are the same for every type,
 * except for rounding. */
static txl_model *wide_model(const char *type) {
    static const char settings[] =
        "{\"family\":\"xlnet\",\"tokenizer\":\"words\",\"lower_case\":false,\"unk_id\":null,"
        "\"eos_id\":null,\"n_token\":300,\"n_layer\":3,\"n_head\":4,\"d_head\":32,\"d_model\":128,"
        "\"d_inner\":192,\"ff_activation\":\"gelu-tanh\",\"attn_type\":\"bi\","
        "\"layer_norm_eps\":1e-12,\"tied_weights\":true,\"memory_start\":\"empty\",\"tgt_len\":64,"
        "\"mem_len\":64,\"clamp_len\":-1,\"same_length\":false}";
    txl_model *model;
    txl_error error;
    if (txl_model_random(settings, type, 1, 1, &model, &error))
        fail_msg("%s", error.message);
    return model;
}

/* The distributions of the tokens after a block, then of a text read left to right. */
static float *wide_distributions(const char *type, size_t n_token) {
    enum { KNOWN = 40, AFTER = 20, LEFT = 60 };
    txl_model *model = wide_model(type);
    txl_session *session;
    txl_settings settings;
    txl_error error;
    int32_t ids[KNOWN + AFTER + LEFT];
    float *logprob = new_floats((AFTER + LEFT) * n_token);
    assert_string_equal(txl_model_type(model), type);
    for (int i = 0; i < KNOWN + AFTER + LEFT; i++)
        ids[i] = i * 37 % (int32_t)n_token;
    txl_model_defaults(model, &settings);
    settings.threads = 1;
    assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);
    assert_int_equal(txl_session_score_block(session, ids, KNOWN, AFTER, NULL, logprob, &error),
                     TXL_OK);
    txl_session_reset(session);
    assert_int_equal(txl_session_distributions(session, ids + KNOWN + AFTER, LEFT,
                                               logprob + AFTER * n_token, &error),
                     TXL_OK);
    txl_session_free(session);
    txl_model_close(model);
    return logprob;
}

/* Bounds are twice the measured differences. */
TEST(weights_in_8_bits_are_near) {
    enum { N_TOKEN = 300, N = 80 * N_TOKEN };
    float *one = wide_distributions("f32", N_TOKEN), *two = wide_distributions("q8", N_TOKEN);
    double most = 0, sum = 0;
    for (size_t i = 0; i < N; i++) {
        double d = fabs((double)one[i] - (double)two[i]);
        most = fmax(most, d);
        sum += d;
    }
    assert_true(most > 1e-4); /* the weights really are rounded */
    if (!(most <= 0.012 && sum / N <= 0.003))
        fail_msg("distributions are off by %.6f nats at most, %.6f on average", most, sum / N);
    free(one);
    free(two);
}

/* Bounds are up to twice the measured differences, which are the same for every table of
 * kernels. */
TEST(memory_in_16_bits_is_near) {
    for (size_t i = 0; cases[i]; i++) {
        struct model_case c;
        case_open(&c, cases[i], NULL, -1);
        check_runs(&c, TXL_MEMORY_F16, 0.1, 0.006);
        check_runs(&c, TXL_MEMORY_BF16, 1, 0.045);
        case_close(&c);
    }
}

/* A model opened in compressed form gives the same bits. */
TEST(compressed_models_agree) {
    for (size_t i = 0; i < 3; i++) {
        struct model_case c, compressed;
        txl_error error;
        case_open(&c, cases[i], NULL, 3);
        case_convert(cases[i], NULL, 3, scratch_path("compressed.txl"));
        compressed = c;
        check(
            &c,
            txl_model_open_compressed(scratch_path("compressed.txl"), 1, &compressed.model, &error),
            &error);
        txl_settings settings = {.tgt_len = 16, .mem_len = 24, .clamp_len = -1, .threads = 2};
        float *one = case_nats(&c, &settings, c.n), *two = case_nats(&compressed, &settings, c.n);
        assert_memory_equal(one, two, (c.n - 1) * sizeof *one);
        free(one);
        free(two);
        unlink(scratch_path("compressed.txl"));
        txl_model_close(compressed.model);
        case_close(&c);
    }
}

/* ---- Text --------------------------------------------------------------------------------- */

struct reading {
    const struct model_case *c;
    size_t n;
};

static txl_status compare_id(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)error;
    struct reading *r = context;
    if (!symbol->text)
        return TXL_OK;
    if (r->n >= r->c->n || symbol->id != r->c->ids[r->n])
        fail_msg("%s: piece %zu of the text is %d", r->c->name, r->n, symbol->id);
    r->n++;
    return TXL_OK;
}

/* Each case's SentencePiece model turns its text into the ids that were scored. */
TEST(texts_have_the_reference_ids) {
    for (size_t i = 0; cases[i]; i++) {
        struct model_case c;
        txl_encoder *encoder;
        txl_error error;
        size_t length;
        case_open(&c, cases[i], NULL, -1);
        struct reading reading = {&c, 0};
        const txl_encoding how = {.lookup = true, .symbol = compare_id, .context = &reading};
        char *text = read_file(case_path(cases[i], "text.txt"), &length);
        assert_int_equal(txl_model_kind(c.model), TXL_XLNET);
        check(&c, txl_encoder_new(c.model, &how, &encoder, &error), &error);
        check(&c, txl_encoder_feed(encoder, text, length, &error), &error);
        check(&c, txl_encoder_finish(encoder, &error), &error);
        assert_int_equal(reading.n, c.n);
        txl_encoder_free(encoder);
        free(text);
        case_close(&c);
    }
}

/* ---- What is stated and refused ----------------------------------------------------------- */

static void assert_same_word(const json_t *a, const json_t *b, const char *key) {
    assert_string_equal(json_string_value(json_object_get(a, key)),
                        json_string_value(json_object_get(b, key)));
}

static void check_header(const struct model_case *c) {
    static const char *const numbers[] = {"n_token", "n_layer", "n_head",   "d_head",
                                          "d_model", "d_inner", "clamp_len"};
    json_t *header = json_loads(txl_model_settings_json(c->model), 0, NULL);
    const json_t *expected = json_object_get(c->expect, "model");
    const json_t *mem_len = json_object_get(expected, "mem_len");
    const char *activation = json_string_value(json_object_get(expected, "ff_activation"));
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        assert_int_equal(int_of(header, numbers[k]), int_of(expected, numbers[k]));
    assert_same_word(header, expected, "family");
    assert_same_word(header, expected, "attn_type");
    assert_same_word(header, expected, "memory_start");
    assert_string_equal(json_string_value(json_object_get(header, "ff_activation")),
                        strcmp(activation, "relu") == 0 ? "relu" : "gelu-tanh");
    assert_true(json_real_value(json_object_get(header, "layer_norm_eps")) ==
                json_real_value(json_object_get(expected, "layer_norm_eps")));
    assert_int_equal(json_is_true(json_object_get(header, "same_length")),
                     json_is_true(json_object_get(expected, "same_length")));
    assert_true(json_is_true(json_object_get(header, "tied_weights")));
    assert_int_equal(int_of(header, "tgt_len"), 512);
    assert_int_equal(int_of(header, "mem_len"),
                     json_is_null(mem_len) ? 384 : json_integer_value(mem_len));
    assert_int_equal(txl_model_family(c->model), TXL_FAMILY_XLNET);
    json_decref(header);
}

TEST(headers_state_the_facts) {
    for (size_t i = 0; cases[i]; i++) {
        struct model_case c;
        case_open(&c, cases[i], NULL, -1);
        check_header(&c);
        case_close(&c);
    }
}

/* Costs are the multiply-adds of a content row, a query row and their attention, counted by
 * hand. */
TEST(costs_count_both_rows) {
    struct model_case c;
    txl_costs costs, longer;
    case_open(&c, "xlnet/wide-heads", NULL, -1);
    const json_t *model = json_object_get(c.expect, "model");
    uint64_t n = (uint64_t)int_of(model, "n_layer"), d = (uint64_t)int_of(model, "d_model");
    uint64_t wide = (uint64_t)int_of(model, "n_head") * (uint64_t)int_of(model, "d_head");
    uint64_t inner = (uint64_t)int_of(model, "d_inner"),
             head = d * (uint64_t)txl_model_n_token(c.model);
    uint64_t content = 4 * d * wide + 2 * d * inner, query = 2 * d * wide + 2 * d * inner;
    txl_settings settings = {.tgt_len = 15, .mem_len = 20, .clamp_len = -1, .threads = 1};
    txl_model_costs(c.model, &settings, &costs);
    assert_int_equal(costs.flops, 2 * (n * (content + query + 2 * 3 * 28 * wide) + head));
    assert_int_equal(costs.block_flops, 2 * ((n - 1) * (content + 3 * 15 * wide) + 2 * d * wide));
    settings.mem_len = 21; /* one more row of keys, values and distances */
    txl_model_costs(c.model, &settings, &longer);
    assert_int_equal(longer.bytes - costs.bytes, 4 * n * 3 * wide);
    case_close(&c);
}

static void assert_refused(txl_status status, const txl_error *error, txl_status expected,
                           const char *part) {
    assert_int_equal(status, expected);
    if (!strstr(error->message, part))
        fail_msg("'%s' lacks '%s'", error->message, part);
}

TEST(misuse_is_refused) {
    struct model_case c;
    txl_error e;
    txl_memory *memory;
    case_open(&c, cases[0], NULL, -1);
    txl_settings settings = {.tgt_len = 16, .mem_len = 8, .clamp_len = -1, .threads = 1};
    txl_session *s = case_session(&c, &settings), *copy;
    const int32_t open[] = {TXL_GAP, TXL_GAP}, holed[] = {9, TXL_GAP, 10}, bad[] = {-2};
    const size_t gap = 1, known = 0;
    assert_refused(txl_session_feed_gaps(s, open, 2, &e), &e, TXL_ARGUMENT, "nothing is known");
    assert_refused(txl_session_feed_gaps(s, bad, 1, &e), &e, TXL_ARGUMENT, "id -2");
    assert_refused(txl_session_feed_gaps(s, c.ids, 17, &e), &e, TXL_ARGUMENT, "from 1 to tgt_len");
    check(&c, txl_session_feed_gaps(s, holed, 3, &e), &e);
    assert_refused(txl_session_feed(s, c.ids, 1, &e), &e, TXL_ARGUMENT, "not filled");
    assert_refused(txl_session_feed_block(s, c.ids, 1, &e), &e, TXL_ARGUMENT, "not filled");
    assert_refused(txl_session_copy(s, &copy, &e), &e, TXL_ARGUMENT, "gaps");
    assert_refused(txl_session_save(s, NULL, &memory, &e), &e, TXL_ARGUMENT, "gaps");
    assert_refused(txl_session_ask(s, &known, 1, NULL, &e), &e, TXL_ARGUMENT, "no open gap");
    assert_refused(txl_session_ask(s, &gap, 0, NULL, &e), &e, TXL_ARGUMENT, "at a time");
    assert_refused(txl_session_look(s, 0, &e), &e, TXL_ARGUMENT, "asked for");
    assert_refused(txl_session_fill(s, 0, 1, &e), &e, TXL_ARGUMENT, "no open gap");
    check(&c, txl_session_fill(s, gap, 11, &e), &e);
    check(&c, txl_session_feed(s, c.ids, 1, &e), &e);
    assert_refused(txl_session_score_block(s, c.ids, 16, 10, NULL, NULL, &e), &e, TXL_ARGUMENT,
                   "a block of 16 tokens and 10");
    assert_refused(txl_session_score_block(s, c.ids, 17, 1, NULL, NULL, &e), &e, TXL_ARGUMENT,
                   "a block of 17");
    txl_session_free(s);
    settings.same_length = true;
    assert_refused(txl_session_new(c.model, &settings, &s, &e), &e, TXL_ARGUMENT, "same_length");
    case_close(&c);
}

TEST(other_families_have_no_blocks) {
    struct model_case c;
    txl_error e;
    const size_t gap = 0;
    case_open(&c, "wt103-zip", NULL, -1);
    txl_session *s = case_session(&c, NULL);
    assert_refused(txl_session_feed_block(s, c.ids, 1, &e), &e, TXL_UNSUPPORTED, "transformer-xl");
    assert_refused(txl_session_feed_gaps(s, c.ids, 1, &e), &e, TXL_UNSUPPORTED, "transformer-xl");
    assert_refused(txl_session_ask(s, &gap, 1, NULL, &e), &e, TXL_UNSUPPORTED, "transformer-xl");
    assert_refused(txl_session_fill(s, 0, 1, &e), &e, TXL_UNSUPPORTED, "transformer-xl");
    assert_refused(txl_session_score_block(s, c.ids, 1, 1, NULL, NULL, &e), &e, TXL_UNSUPPORTED,
                   "transformer-xl");
    txl_session_free(s);
    case_close(&c);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
