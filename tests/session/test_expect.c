/* Ids that are expected to come (txl_session_expect): right, wrong or forgotten, they change no
 * bit of what the session computes. */
#include "tests/files.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

/* A checkpoint, or the settings of a random model that differ from a plain one's; the type of its
 * weights and of its memory; lengths: 0 for the model's own. */
struct expect_case {
    const char *name, *type;
    txl_memory_type memory;
    int tgt_len, mem_len, clamp_len, threads;
    bool same_length;
    txl_arithmetic arithmetic;
    bool low_memory;
};

static const struct expect_case cases[] = {
    {"enwik8-zip", "f32", TXL_MEMORY_F32, 0, 0, 0, 1, false, 0, false},
    {"enwik8-zip", "q8", TXL_MEMORY_F16, 20, 100, 0, 2, true, 0, false},
    {"enwik8-zip", "q8", TXL_MEMORY_Q8, 33, 1, 10, 1, false, 0, false},
    {"characters", "q4", TXL_MEMORY_F16, 11, 3, 0, 3, true, 0, false},
    {"characters", "f16", TXL_MEMORY_BF16, 5, 40, 7, 1, false, 0, false},
    {"hf-bin", "q5", TXL_MEMORY_F16, 0, 0, 0, 1, false, 0, false},
    {"pre-lnorm", "bf16", TXL_MEMORY_BF16, 3, 2, 0, 2, true, 0, false},
    {"wt103-zip", "q8", TXL_MEMORY_F16, 0, 0, 0, 1, true, 0, false},
    {"wt103-zip", "q4", TXL_MEMORY_Q8, 7, 20, 0, 2, false, 0, true},
    {"untied", "f16", TXL_MEMORY_F16, 100, 70, 0, 1, false, 0, false},
    {"text8", "f32", TXL_MEMORY_F16, 0, 0, 0, 1, false, 0, false},
    {"learnable-positions", "q8", TXL_MEMORY_F32, 0, 0, 0, 1, false, 0, false},
    {"hf-bin", "q8", TXL_MEMORY_F16, 64, 100, 0, 1, true, TXL_ARITHMETIC_EXACT, false},
    {", \"memory_start\": \"empty\"", "q8", TXL_MEMORY_Q8, 40, 60, 0, 1, false,
     TXL_ARITHMETIC_INTEGERS, false},
    {", \"memory_start\": \"zeros\"", "q8", TXL_MEMORY_F16, 30, 40, 0, 1, false, 0, false},
    {", \"memory_start\": \"zeros\"", "f32", TXL_MEMORY_F32, 90, 80, 0, 2, true, 0, false},
    {", \"memory_start\": \"zeros\", \"pre_lnorm\": true", "f32", TXL_MEMORY_F32, 30, 40, 0, 1,
     false, 0, false},
};

enum { N_IDS = 200, N_TOKEN = 300 };

struct opened {
    struct model_case c; /* unless the model is random */
    txl_model *model;
    int32_t ids[N_IDS];
    txl_settings settings;
    size_t n_token;
    float *a, *b; /* [n_token] */
};

static void open_random(struct opened *o, const struct expect_case *e) {
    char settings[1024];
    txl_error error;
    snprintf(settings, sizeof settings,
             "{\"family\": \"transformer-xl\", \"tokenizer\": \"words\", \"lower_case\": false, "
             "\"unk_id\": null, \"eos_id\": null, \"n_token\": %d, \"n_layer\": 2, \"n_head\": 3, "
             "\"d_head\": 24, \"d_model\": 80, \"d_embed\": 80, \"d_inner\": 200, \"div_val\": 1, "
             "\"tied_weights\": true, \"tgt_len\": 50, \"mem_len\": 70, \"clamp_len\": -1, "
             "\"same_length\": false, \"cluster_order\": \"forward\", \"cutoffs\": [], "
             "\"biases_per_layer\": true, \"tied_projections\": [false], "
             "\"attn_type\": 0, \"pre_lnorm\": false%s}",
             N_TOKEN, e->name);
    assert_good(txl_model_random(settings, e->type, 3, 1, &o->model, &error), &error);
    for (int i = 0; i < N_IDS; i++)
        o->ids[i] = i * i % N_TOKEN;
    txl_model_defaults(o->model, &o->settings);
    o->settings.threads = e->threads;
}

static void open_expect_case(struct opened *o, const struct expect_case *e) {
    txl_error error;
    *o = (struct opened){0};
    if (e->name[0] == ',') {
        open_random(o, e);
    } else {
        case_open(&o->c, e->name, e->type, -1);
        o->model = o->c.model;
        assert_true(o->c.n >= N_IDS);
        memcpy(o->ids, o->c.ids, sizeof o->ids);
        o->settings = case_settings(&o->c, e->threads);
    }
    if (e->low_memory) {
        case_convert(e->name, e->type, 1, scratch_path("low.txl"));
        assert_good(txl_model_open_compressed(scratch_path("low.txl"), 1, &o->model, &error),
                    &error);
    }
    if (e->tgt_len > 0) {
        o->settings.tgt_len = e->tgt_len;
        o->settings.mem_len = e->mem_len;
        o->settings.clamp_len = e->clamp_len;
    }
    o->settings.same_length = e->same_length;
    o->settings.memory_type = e->memory;
    o->settings.arithmetic = e->arithmetic;
    o->n_token = (size_t)txl_model_n_token(o->model);
    o->a = calloc(o->n_token, sizeof *o->a);
    o->b = calloc(o->n_token, sizeof *o->b);
}

static void close_expect_case(struct opened *o) {
    if (o->model != o->c.model)
        txl_model_close(o->model);
    if (o->c.model)
        case_close(&o->c);
    free(o->a);
    free(o->b);
}

static txl_session *new_session(const struct opened *o) {
    txl_session *session;
    txl_error error;
    assert_good(txl_session_new(o->model, &o->settings, &session, &error), &error);
    return session;
}

static void assert_same(const struct opened *o, txl_session *a, txl_session *b) {
    txl_error error;
    assert_good(txl_session_logprobs(a, o->a, &error), &error);
    assert_good(txl_session_logprobs(b, o->b, &error), &error);
    assert_memory_equal(o->a, o->b, o->n_token * sizeof *o->a);
}

/* A saved session, as it is written to a file. */
static void assert_same_saved(const txl_session *a, const txl_session *b) {
    const txl_session *const session[] = {a, b};
    char *bytes[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        txl_memory *memory;
        txl_error error;
        const char *path = scratch_path("memory");
        assert_good(txl_session_save(session[i], NULL, &memory, &error), &error);
        assert_good(txl_memory_write(memory, path, &error), &error);
        txl_memory_free(memory);
        bytes[i] = read_file(path, &size[i]);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* Feeds the case's ids, with `right` right ones among those expected, and the next one wrong. */
static void expect_next(const struct opened *o, txl_session *session, size_t at, size_t n,
                        size_t right) {
    txl_error error;
    int32_t ids[TXL_MAX_EXPECTED];
    size_t taken;
    memcpy(ids, o->ids + at + 1, n * sizeof *ids);
    if (right < n)
        ids[right] = (ids[right] + 1) % (int32_t)o->n_token;
    assert_good(txl_session_expect(session, ids, n, &taken, &error), &error);
    assert_true(taken <= n);
}

static void feed_both(const struct opened *o, txl_session *a, txl_session *b, size_t at) {
    txl_error error;
    assert_good(txl_session_feed(a, o->ids + at, 1, &error), &error);
    assert_good(txl_session_feed(b, o->ids + at, 1, &error), &error);
}

/* Every number of expected ids, and every number of right ones among them. */
static void feed_all(const struct opened *o, txl_session *expecting, txl_session *plain) {
    size_t at = 0;
    for (size_t n = 1; n <= TXL_MAX_EXPECTED; n += SANITIZED ? 3 : 1)
        for (size_t right = 0; right <= n; right++) {
            expect_next(o, expecting, at, n, right);
            for (size_t i = 0; i <= right + (right < n); i++) { /* to the wrong one */
                feed_both(o, expecting, plain, at++);
                assert_same(o, expecting, plain);
            }
        }
    assert_true(at + TXL_MAX_EXPECTED < N_IDS);
}

/* Twice, because what the first text has made known must not differ for the second. */
static void check_case(const struct expect_case *e) {
    struct opened o;
    open_expect_case(&o, e);
    txl_session *plain = new_session(&o), *expecting = new_session(&o);
    for (int i = 0; i < 2; i++) {
        feed_all(&o, expecting, plain);
        if (e->arithmetic != TXL_ARITHMETIC_INTEGERS)
            assert_same_saved(expecting, plain);
        txl_session_reset(plain);
        txl_session_reset(expecting);
    }
    txl_session_free(plain);
    txl_session_free(expecting);
    close_expect_case(&o);
}

TEST_EACH(expected_ids_change_no_bit, cases) {
    for (size_t v = 0; use_kernels(v); v++)
        check_case(row);
}

/* ---- What makes a session forget ---------------------------------------------------------- */

struct other_call {
    const char *name;
    size_t n; /* of ids that it feeds */
    txl_status (*call)(const struct opened *o, txl_session *session, size_t at, txl_error *error);
};

static txl_status feed_more(const struct opened *o, txl_session *s, size_t at, txl_error *error) {
    return txl_session_feed(s, o->ids + at, 2, error);
}

static txl_status score(const struct opened *o, txl_session *s, size_t at, txl_error *error) {
    float nats;
    return txl_session_score(s, o->ids + at, 1, o->ids + at + 1, &nats, error);
}

static txl_status distribute(const struct opened *o, txl_session *s, size_t at, txl_error *error) {
    return txl_session_distributions(s, o->ids + at, 1, o->b, error);
}

static txl_status end_segment(const struct opened *o, txl_session *s, size_t at, txl_error *error) {
    (void)o, (void)at, (void)error;
    txl_session_end_segment(s);
    return TXL_OK;
}

static txl_status copy(const struct opened *o, txl_session *s, size_t at, txl_error *error) {
    (void)o, (void)at;
    txl_session *copied;
    txl_status status = txl_session_copy(s, &copied, error);
    if (!status)
        txl_session_free(copied);
    return status;
}

static txl_status feed_each(const struct opened *o, txl_session *s, size_t at, txl_error *error) {
    txl_session *pair[] = {s, new_session(o)};
    txl_status status = txl_session_feed_each(pair, 2, o->ids + at, error);
    txl_session_free(pair[1]);
    return status;
}

static txl_status reset(const struct opened *o, txl_session *s, size_t at, txl_error *error) {
    txl_session_reset(s);
    return txl_session_feed(s, o->ids + at, 1, error);
}

static txl_status save_and_load(const struct opened *o, txl_session *s, size_t at,
                                txl_error *error) {
    (void)o, (void)at;
    txl_memory *memory;
    txl_status status = txl_session_save(s, NULL, &memory, error);
    if (!status)
        status = txl_session_load(s, memory, error);
    txl_memory_free(memory);
    return status;
}

static txl_status refuse(const struct opened *o, txl_session *s, size_t at, txl_error *error) {
    const int32_t wrong = (int32_t)o->n_token;
    size_t taken;
    (void)at;
    assert_int_equal(txl_session_feed(s, &wrong, 1, error), TXL_ARGUMENT);
    assert_int_equal(txl_session_expect(s, &wrong, 1, &taken, error), TXL_ARGUMENT);
    return TXL_OK;
}

static const struct other_call other_calls[] = {
    {"feed", 2, feed_more},
    {"score", 1, score},
    {"distributions", 1, distribute},
    {"end_segment", 0, end_segment},
    {"copy", 0, copy},
    {"feed_each", 1, feed_each},
    {"reset", 1, reset},
    {"save", 0, save_and_load},
    {"wrong id", 0, refuse},
};

/* The call comes before the expected ids were read, or when some of them have come. */
static void check_call(const struct expect_case *e, const struct other_call *call) {
    enum { START = 124, EXPECTED = 5, AFTER = 6 };
    struct opened o;
    txl_error error;
    open_expect_case(&o, e);
    for (size_t come = 0; come < 3; come++) {
        size_t at = START;
        txl_session *plain = new_session(&o), *expecting = new_session(&o);
        for (size_t i = 0; i < at; i++)
            feed_both(&o, plain, expecting, i);
        expect_next(&o, expecting, at, EXPECTED, EXPECTED);
        for (size_t i = 0; i < come; i++)
            feed_both(&o, plain, expecting, at++);
        assert_good(call->call(&o, plain, at, &error), &error);
        assert_good(call->call(&o, expecting, at, &error), &error);
        at += call->n;
        for (size_t i = 0; i < AFTER; i++) {
            feed_both(&o, plain, expecting, at++);
            assert_same(&o, expecting, plain);
        }
        txl_session_free(plain);
        txl_session_free(expecting);
    }
    close_expect_case(&o);
}

/* In a window that slides, and in segments. */
TEST_EACH(other_calls_make_it_forget, other_calls) {
    check_call(&cases[1], row);
    check_call(&cases[9], row);
}

/* ---- How many are taken ------------------------------------------------------------------- */

static size_t taken_of(txl_session *session, size_t n) {
    const int32_t ids[TXL_MAX_EXPECTED + 3] = {0};
    size_t taken = 99;
    txl_error error;
    assert_good(txl_session_expect(session, ids, n, &taken, &error), &error);
    return taken;
}

TEST(as_many_are_taken_as_one_pass_can_read) {
    struct opened o;
    txl_error error;
    open_expect_case(&o, &cases[4]); /* segments of 5 */
    txl_session *session = new_session(&o);
    static const size_t left[] = {4, 3, 2, 1, 0, 4};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        assert_int_equal(taken_of(session, 0), 0);
        assert_int_equal(taken_of(session, 9), left[i]);
        assert_int_equal(taken_of(session, 2), left[i] < 2 ? left[i] : 2);
        assert_good(txl_session_feed(session, o.ids + i, 1, &error), &error);
    }
    txl_session_free(session);
    close_expect_case(&o);
    open_expect_case(&o, &cases[1]); /* the segments' ends are not seen */
    session = new_session(&o);
    assert_int_equal(taken_of(session, 9), TXL_MAX_EXPECTED);
    txl_session_free(session);
    close_expect_case(&o);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
