/* The network against the reference implementation's numbers, and against itself: however the same
 * tokens arrive, with whatever kernels and threads, the log-probabilities are the same. */
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How much nats per token may differ from the reference's float64 arithmetic. */
static const double REFERENCE = 2e-4;
/* How much they may differ between two ways to compute the same. */
static const double AGREEMENT = 1e-4;

struct every_case {
    void (*check)(const struct model_case *c);
};

static void every_case(void **state) {
    const struct every_case *test = *state;
    for (size_t i = 0; case_names[i]; i++) {
        struct model_case c;
        case_open(&c, case_names[i], NULL, -1);
        test->check(&c);
        case_close(&c);
    }
}

/* A test of every case, c. */
#define EVERY_CASE(name)                                                                           \
    static void name(const struct model_case *c);                                                  \
    LIST_TEST(name, {#name, every_case, NULL, NULL, &(struct every_case){name}})                   \
    static void name(const struct model_case *c)

static void assert_close(const struct model_case *c, const char *what, size_t i, double value,
                         double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%s, %s: token %zu has %.6f nats, not %.6f", c->name, what, i, value, expected);
}

static bool is_absolute(const struct model_case *c) {
    json_t *model = json_object_get(c->expect, "model");
    return json_integer_value(json_object_get(model, "attn_type")) >= 2;
}

/* Every run of expect.json, from one converted file. */
static void check_runs(const struct model_case *c, double tolerance) {
    size_t r;
    json_t *run;
    json_array_foreach(json_object_get(c->expect, "runs"), r, run) {
        txl_settings settings = run_settings(run, 2);
        float *nats = case_nats(c, &settings, c->n);
        json_t *expected = json_object_get(run, "nats");
        assert_int_equal(json_array_size(expected), c->n - 1);
        for (size_t i = 0; i + 1 < c->n; i++)
            assert_close(c, "run", i, nats[i], json_real_value(json_array_get(expected, i)),
                         tolerance);
        free(nats);
    }
}

EVERY_CASE(runs_agree_with_the_reference) {
    check_runs(c, REFERENCE);
}

/* The checkpoints of NVIDIA's training code state every setting, and have their vocabulary. */
TEST(nvidia_runs_agree_with_the_reference) {
    static const char *const names[] = {"nv-enwik8-zip", "nv-wt103-zip", "nv-untied"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model_case c;
        txl_settings defaults;
        case_open(&c, names[i], NULL, -1);
        check_runs(&c, REFERENCE);
        assert_string_equal(txl_model_same_length_reach(c.model), "mem_len + 1");
        const json_t *model = json_object_get(c.expect, "model");
        txl_model_defaults(c.model, &defaults);
        assert_int_equal(defaults.tgt_len, json_integer_value(json_object_get(model, "tgt_len")));
        assert_int_equal(defaults.mem_len, json_integer_value(json_object_get(model, "mem_len")));
        assert_int_equal(defaults.same_length, json_is_true(json_object_get(model, "same_length")));
        case_close(&c);
    }
}

TEST(kernels_agree_with_the_reference) {
    for (size_t v = 0; use_kernels(v); v++) {
        for (size_t i = 0; case_names[i]; i++) {
            struct model_case c;
            if (SANITIZED && (v + i) % 4 != 0)
                continue;
            case_open(&c, case_names[i], NULL, 0);
            check_runs(&c, REFERENCE);
            case_close(&c);
        }
    }
}

/* The vanilla Transformer's evaluation: each token from a fresh segment without memory. */
EVERY_CASE(sliding_windows_agree_with_the_reference) {
    txl_error error;
    json_t *sliding = json_object_get(c->expect, "sliding");
    int window = (int)json_integer_value(json_object_get(sliding, "window"));
    txl_settings settings = {.tgt_len = window,
                             .clamp_len =
                                 (int)json_integer_value(json_object_get(sliding, "clamp_len")),
                             .threads = 2};
    txl_session *session = case_session(c, &settings);
    size_t n = (size_t)json_integer_value(json_object_get(sliding, "tokens"));
    for (size_t i = 1; i < n; i++) {
        float nats[64];
        size_t first = i > (size_t)window ? i - (size_t)window : 0;
        txl_session_reset(session);
        assert_int_equal(
            txl_session_score(session, c->ids + first, i - first, c->ids + first + 1, nats, &error),
            TXL_OK);
        double expected = json_real_value(json_array_get(json_object_get(sliding, "nats"), i - 1));
        assert_close(c, "sliding window", i, nats[i - first - 1], expected, REFERENCE);
    }
    txl_session_free(session);
}

EVERY_CASE(top_and_greedy_agree_with_the_reference) {
    txl_error error;
    json_t *top = json_object_get(c->expect, "top"), *greedy = json_object_get(c->expect, "greedy");
    txl_settings settings = run_settings(greedy, 2);
    txl_session *session = case_session(c, &settings);
    int32_t best[5];
    float logprob[5];
    assert_int_equal(txl_session_feed(session, c->ids, c->n - 1, &error), TXL_OK);
    assert_int_equal(txl_session_top(session, 5, best, logprob, &error), TXL_OK);
    for (size_t i = 0; i < 5; i++) {
        json_t *pair = json_array_get(top, i);
        assert_int_equal(best[i], json_integer_value(json_array_get(pair, 0)));
        assert_close(c, "top", i, logprob[i], json_real_value(json_array_get(pair, 1)), REFERENCE);
    }
    txl_session_reset(session);
    size_t prompt = (size_t)json_integer_value(json_object_get(greedy, "prompt"));
    json_t *made = json_object_get(greedy, "ids");
    assert_int_equal(txl_session_feed(session, c->ids, prompt, &error), TXL_OK);
    txl_sampling sampling = {.temperature = 0, .top_p = 1};
    txl_random random = {0};
    for (size_t i = 0; i < json_array_size(made); i++) {
        int32_t id;
        float p;
        assert_int_equal(txl_session_sample(session, &sampling, &random, &id, &p, &error), TXL_OK);
        assert_int_equal(id, json_integer_value(json_array_get(made, i)));
        assert_int_equal(txl_session_feed(session, &id, 1, &error), TXL_OK);
    }
    assert_int_equal(random.draw, 0);
    txl_session_free(session);
}

/* Vanilla Transformers are excepted: their positions depend on where the segment ends. */
EVERY_CASE(any_division_gives_the_same_nats) {
    static const size_t steps[] = {1, 3, 17};
    size_t r;
    json_t *run;
    json_array_foreach(json_object_get(c->expect, "runs"), r, run) {
        if (is_absolute(c))
            break;
        txl_settings settings = run_settings(run, 2);
        float *whole = case_nats(c, &settings, c->n);
        for (size_t s = SANITIZED; s < sizeof steps / sizeof *steps; s++) {
            float *pieces = case_nats(c, &settings, steps[s]);
            for (size_t i = 0; i + 1 < c->n; i++)
                assert_close(c, "in pieces", i, pieces[i], whole[i], AGREEMENT);
            free(pieces);
        }
        free(whole);
    }
}

/* The log-probability that generation would report, against the score of the same ids. */
EVERY_CASE(distributions_agree_with_scores) {
    txl_error error;
    txl_settings settings = case_settings(c, 2);
    int32_t n_token = txl_model_n_token(c->model);
    float *logprob = calloc((size_t)n_token, sizeof *logprob);
    assert_non_null(logprob);
    float *nats = is_absolute(c) ? NULL : case_nats(c, &settings, c->n);
    txl_session *session = case_session(c, &settings);
    for (size_t i = 0; i < 60 && i + 1 < c->n; i++) {
        assert_int_equal(txl_session_feed(session, c->ids + i, 1, &error), TXL_OK);
        assert_int_equal(txl_session_logprobs(session, logprob, &error), TXL_OK);
        double sum = 0;
        for (int32_t id = 0; id < n_token; id++)
            sum += exp(logprob[id]);
        assert_close(c, "sum of probabilities", i, sum, 1, 1e-4);
        if (nats)
            assert_close(c, "distribution", i, -logprob[c->ids[i + 1]], nats[i], AGREEMENT);
    }
    txl_session_free(session);
    free(nats);
    free(logprob);
}

/* Many distributions at a time, against the scores of the same ids and against the distribution
 * after them, in calls that end within segments. */
EVERY_CASE(many_distributions_agree_with_one) {
    static const double rounding = 1e-5;
    static const size_t steps[] = {1, 7, 50};
    txl_error error;
    txl_settings settings = case_settings(c, 2);
    size_t n_token = (size_t)txl_model_n_token(c->model), n = c->n < 120 ? c->n - 1 : 120;
    float *many = calloc(n, n_token * sizeof *many), *one = calloc(n_token, sizeof *one);
    assert_non_null(many);
    assert_non_null(one);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        txl_session *session = case_session(c, &settings), *other = case_session(c, &settings);
        float *nats = case_nats(c, &settings, steps[s]);
        for (size_t i = 0; i < n; i += steps[s]) {
            size_t step = n - i < steps[s] ? n - i : steps[s], last = i + step - 1;
            assert_int_equal(
                txl_session_distributions(session, c->ids + i, step, many + i * n_token, &error),
                TXL_OK);
            assert_int_equal(txl_session_feed(other, c->ids + i, step, &error), TXL_OK);
            assert_int_equal(txl_session_logprobs(other, one, &error), TXL_OK);
            /* In the tens of nats of an unlikely token, float's steps are wider. */
            for (size_t id = 0; id < n_token; id++)
                assert_close(c, "one of many", id, many[last * n_token + id], one[id],
                             rounding * fmax(1, fabs((double)one[id]) / 10));
            /* The session is where it would be without the call. */
            assert_int_equal(txl_session_logprobs(session, one, &error), TXL_OK);
            assert_close(c, "next", last, one[0], many[last * n_token], rounding);
        }
        /* The last call of a score by steps takes more ids: absolute positions tell. */
        size_t same = is_absolute(c) ? n / steps[s] * steps[s] : n;
        for (size_t i = 0; i < same; i++)
            assert_close(c, "a target", i, -many[i * n_token + (size_t)c->ids[i + 1]], nats[i],
                         rounding);
        free(nats);
        txl_session_free(session);
        txl_session_free(other);
    }
    free(many);
    free(one);
}

EVERY_CASE(same_length_makes_segments_irrelevant) {
    static const int tgt_lens[] = {1, 5, 64};
    txl_settings settings = {
        .tgt_len = 12, .mem_len = 20, .clamp_len = 15, .same_length = true, .threads = 1};
    float *first = is_absolute(c) ? NULL : case_nats(c, &settings, c->n);
    for (size_t t = 0; first && t < sizeof tgt_lens / sizeof *tgt_lens; t++) {
        settings.tgt_len = tgt_lens[t];
        float *nats = case_nats(c, &settings, c->n);
        for (size_t i = 0; i + 1 < c->n; i++)
            assert_close(c, "same_length", i, nats[i], first[i], AGREEMENT);
        free(nats);
    }
    free(first);
}

EVERY_CASE(threads_change_no_bit) {
    txl_settings one = case_settings(c, 1), three = case_settings(c, 3);
    float *a = case_nats(c, &one, c->n), *b = case_nats(c, &three, c->n);
    assert_memory_equal(a, b, (c->n - 1) * sizeof *a);
    free(a);
    free(b);
}

EVERY_CASE(reset_goes_back_to_the_first_memory) {
    txl_settings settings = case_settings(c, 1);
    txl_session *session = case_session(c, &settings);
    float *first = calloc(c->n, sizeof *first), *second = calloc(c->n, sizeof *second);
    assert_true(first && second);
    case_score(c, session, c->n, first);
    txl_session_reset(session);
    case_score(c, session, c->n, second);
    assert_memory_equal(first, second, (c->n - 1) * sizeof *first);
    txl_session_free(session);
    free(first);
    free(second);
}

/* Copies made at different places of a text go on together as each would alone. */
EVERY_CASE(sessions_fed_together_are_as_alone) {
    enum { N = 11, APART = 3, STEPS = 20 };
    txl_error error;
    txl_settings settings = case_settings(c, 2);
    size_t n_token = (size_t)txl_model_n_token(c->model);
    float *together = calloc(n_token, sizeof *together), *alone = calloc(n_token, sizeof *alone);
    txl_session *source = case_session(c, &settings), *copy[N];
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(txl_session_feed(source, c->ids + i * APART, APART, &error), TXL_OK);
        assert_int_equal(txl_session_copy(source, &copy[i], &error), TXL_OK);
    }
    for (size_t step = 0; step < STEPS; step++) {
        int32_t ids[N];
        for (size_t i = 0; i < N; i++)
            ids[i] = c->ids[(i + 1) * APART + step];
        assert_int_equal(txl_session_feed_each(copy, N, ids, &error), TXL_OK);
    }
    for (size_t i = 0; i < N; i++) {
        txl_session_reset(source);
        size_t place = (i + 1) * APART;
        assert_int_equal(txl_session_feed(source, c->ids, place, &error), TXL_OK);
        for (size_t step = 0; step < STEPS; step++)
            assert_int_equal(txl_session_feed(source, c->ids + place + step, 1, &error), TXL_OK);
        assert_int_equal(txl_session_logprobs(copy[i], together, &error), TXL_OK);
        assert_int_equal(txl_session_logprobs(source, alone, &error), TXL_OK);
        for (size_t id = 0; id < n_token; id++)
            assert_close(c, "together", id, together[id], alone[id], AGREEMENT);
        txl_session_free(copy[i]);
    }
    txl_session_free(source);
    free(together);
    free(alone);
}

/* A copy's results are the same bit for bit alone and among up to seven others, however these
 * come and go. */
EVERY_CASE(copies_are_the_same_in_any_company) {
    enum { N = 8, FED = 5, STEPS = 20 };
    txl_error error;
    txl_settings settings = case_settings(c, 2);
    size_t n_token = (size_t)txl_model_n_token(c->model);
    float *together = calloc(n_token, sizeof *together), *alone = calloc(n_token, sizeof *alone);
    txl_session *source = case_session(c, &settings), *hermit, *twin, *other[N - 1];
    assert_int_equal(txl_session_feed(source, c->ids, FED, &error), TXL_OK);
    assert_int_equal(txl_session_copy(source, &hermit, &error), TXL_OK);
    assert_int_equal(txl_session_copy(source, &twin, &error), TXL_OK);
    for (size_t i = 0; i < N - 1; i++)
        assert_int_equal(txl_session_copy(source, &other[i], &error), TXL_OK);
    for (size_t step = 0; step < STEPS; step++) {
        txl_session *company[N];
        size_t n_other = step % N;
        memcpy(company, other, n_other * sizeof *company);
        company[n_other] = twin;
        const int32_t *ids = c->ids + FED + step, *id = ids + n_other;
        assert_int_equal(txl_session_feed_each(company, n_other + 1, ids, &error), TXL_OK);
        assert_int_equal(txl_session_feed(hermit, id, 1, &error), TXL_OK);
        assert_int_equal(txl_session_logprobs(twin, together, &error), TXL_OK);
        assert_int_equal(txl_session_logprobs(hermit, alone, &error), TXL_OK);
        assert_memory_equal(together, alone, n_token * sizeof *alone);
    }
    for (size_t i = 0; i < N - 1; i++)
        txl_session_free(other[i]);
    txl_session_free(twin);
    txl_session_free(hermit);
    txl_session_free(source);
    free(together);
    free(alone);
}

/* New sessions at different places of different texts, also among the first tokens of a memory that
 * starts with zeros, get the bits that each has alone. */
EVERY_CASE(new_sessions_are_the_same_in_any_company) {
    enum { N = 8, STEPS = 20 };
    txl_error error;
    txl_settings settings = case_settings(c, 2);
    settings.mem_len = is_absolute(c) ? 0 : 40; /* more than the tokens that are called the first */
    size_t n_token = (size_t)txl_model_n_token(c->model);
    float *together = calloc(n_token, sizeof *together), *alone = calloc(n_token, sizeof *alone);
    txl_session *each[N], *hermit[N];
    for (size_t i = 0; i < N; i++) {
        each[i] = case_session(c, &settings);
        hermit[i] = case_session(c, &settings);
        assert_int_equal(txl_session_feed(each[i], c->ids + i, 1 + 3 * i, &error), TXL_OK);
        assert_int_equal(txl_session_feed(hermit[i], c->ids + i, 1 + 3 * i, &error), TXL_OK);
    }
    for (size_t step = 0; step < STEPS; step++) {
        const int32_t *ids = c->ids + step;
        assert_int_equal(txl_session_feed_each(each, N, ids, &error), TXL_OK);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(txl_session_feed(hermit[i], &ids[i], 1, &error), TXL_OK);
            assert_int_equal(txl_session_logprobs(each[i], together, &error), TXL_OK);
            assert_int_equal(txl_session_logprobs(hermit[i], alone, &error), TXL_OK);
            assert_memory_equal(together, alone, n_token * sizeof *alone);
        }
    }
    for (size_t i = 0; i < N; i++) {
        txl_session_free(each[i]);
        txl_session_free(hermit[i]);
    }
    free(together);
    free(alone);
}

/* These tiny random models feel rounding more than trained ones do. */
EVERY_CASE(narrow_memory_loses_little) {
    txl_settings settings = case_settings(c, 2);
    float *wide = case_nats(c, &settings, c->n);
    for (int t = 0; t < 3; t++) {
        static const char *const names[] = {"f16 memory", "bf16 memory", "q8 memory"};
        const double looser = t == 0 ? 1 : 8; /* three bits fewer, in q8 at most four */
        const char *name = names[t];
        settings.memory_type = (txl_memory_type)(TXL_MEMORY_F16 + t);
        float *narrow = case_nats(c, &settings, c->n), *single = case_nats(c, &settings, 1);
        double sum = 0;
        for (size_t i = 0; i + 1 < c->n; i++) {
            sum += narrow[i] - wide[i];
            assert_close(c, name, i, narrow[i], wide[i], looser * 5e-2);
            if (!is_absolute(c))
                assert_close(c, name, i, single[i], narrow[i], looser * 1e-2);
        }
        assert_true(fabs(sum / (double)(c->n - 1)) < looser * 2e-3);
        free(narrow);
        free(single);
    }
    free(wide);
}

/* A narrower type's results are those of f32 on the same rounded weights. */
TEST(narrow_types_keep_the_numbers) {
    static const char *const types[] = {"f16", "bf16"};
    for (size_t t = 0; t < 2; t++) {
        struct model_case narrow, wide;
        case_open(&narrow, "wt103-zip", types[t], -1);
        case_open(&wide, "wt103-zip", NULL, -1);
        assert_string_equal(txl_model_type(narrow.model), types[t]);
        json_t *run = json_array_get(json_object_get(wide.expect, "runs"), 0);
        txl_settings settings = run_settings(run, 1);
        float *a = case_nats(&narrow, &settings, wide.n), *b = case_nats(&wide, &settings, wide.n);
        double difference = 0, mean = 0;
        for (size_t i = 0; i + 1 < wide.n; i++) {
            difference += fabs(a[i] - b[i]);
            mean += b[i];
        }
        assert_true(difference / mean < (t == 0 ? 1e-3 : 1e-2));
        /* One at a time and in a segment the rounded weights are the same. */
        float *single = case_nats(&narrow, &settings, 1);
        for (size_t i = 0; i + 1 < wide.n; i++)
            assert_close(&narrow, types[t], i, single[i], a[i], REFERENCE);
        free(single);
        free(a);
        free(b);
        case_close(&narrow);
        case_close(&wide);
    }
}

struct collected {
    const struct model_case *c;
    size_t n;
};

static txl_status collect(void *context, const txl_symbol *symbol, txl_error *error) {
    struct collected *collected = context;
    (void)error;
    if (!symbol->text)
        return TXL_OK;
    assert_true(collected->n < collected->c->n);
    assert_int_equal(symbol->id, collected->c->ids[collected->n]);
    collected->n++;
    return TXL_OK;
}

EVERY_CASE(texts_give_the_reference_ids) {
    txl_error error;
    txl_encoder *encoder;
    struct collected collected = {.c = c};
    txl_encoding encoding = {.lookup = true, .symbol = collect, .context = &collected};
    assert_int_equal(txl_encoder_new(c->model, &encoding, &encoder, &error), TXL_OK);
    FILE *file = fopen(case_path(c->name, "text.txt"), "rb");
    assert_non_null(file);
    char text[777];
    size_t n;
    while ((n = fread(text, 1, sizeof text, file)) > 0)
        assert_int_equal(txl_encoder_feed(encoder, text, n, &error), TXL_OK);
    fclose(file);
    assert_int_equal(txl_encoder_finish(encoder, &error), TXL_OK);
    assert_int_equal(collected.n, c->n);
    txl_encoder_free(encoder);
}

EVERY_CASE(header_states_the_model) {
    json_t *settings = json_loads(txl_model_settings_json(c->model), 0, NULL), *value;
    const char *key;
    json_object_foreach(json_object_get(c->expect, "model"), key, value) {
        const char *name = strcmp(key, "mem_init") == 0 ? "memory_start" : key;
        if (!json_equal(json_object_get(settings, name), value))
            fail_msg("%s: setting %s differs from expect.json", c->name, name);
    }
    json_t *tokenizer = json_object_get(c->expect, "tokenizer");
    assert_true(json_equal(json_object_get(settings, "tokenizer"), tokenizer));
    json_decref(settings);
}

TEST(impossible_settings_are_refused) {
    struct model_case c;
    txl_error error;
    txl_session *session;
    case_open(&c, "absolute-learned", NULL, -1);
    txl_settings settings;
    txl_model_defaults(c.model, &settings);
    settings.mem_len = 4;
    assert_int_equal(txl_session_new(c.model, &settings, &session, &error), TXL_ARGUMENT);
    txl_model_defaults(c.model, &settings);
    settings.tgt_len = 1000;
    assert_int_equal(txl_session_new(c.model, &settings, &session, &error), TXL_ARGUMENT);
    settings.tgt_len = 0;
    assert_int_equal(txl_session_new(c.model, &settings, &session, &error), TXL_ARGUMENT);
    txl_model_defaults(c.model, &settings);
    settings.mem_len = -1;
    assert_int_equal(txl_session_new(c.model, &settings, &session, &error), TXL_ARGUMENT);
    txl_model_defaults(c.model, &settings);
    settings.memory_type = (txl_memory_type)7;
    assert_int_equal(txl_session_new(c.model, &settings, &session, &error), TXL_ARGUMENT);
    assert_string_equal(error.message, "unknown memory_type 7");
    txl_model_defaults(c.model, &settings);
    session = case_session(&c, &settings);
    int32_t id = txl_model_n_token(c.model);
    float nats;
    assert_int_equal(txl_session_feed(session, &id, 1, &error), TXL_ARGUMENT);
    assert_int_equal(txl_session_top(session, 1, &id, &nats, &error), TXL_ARGUMENT);
    assert_int_equal(txl_session_top(session, -1, &id, &nats, &error), TXL_ARGUMENT);
    assert_int_equal(txl_session_top(session, id + 1, &id, &nats, &error), TXL_ARGUMENT);
    txl_session_free(session);
    case_close(&c);
}

/* Any setting in which one session is unlike the first, and no session has moved. */
TEST(sessions_unlike_the_first_are_not_fed) {
    struct model_case c;
    txl_error error;
    case_open(&c, "enwik8-zip", "q8", -1);
    const txl_settings settings = {.tgt_len = 5, .mem_len = 9, .clamp_len = 4, .threads = 1};
    txl_session *first = case_session(&c, &settings), *twin = case_session(&c, &settings);
    for (int i = 0; i < 6; i++) {
        txl_settings unlike = settings;
        unlike.tgt_len += i == 0;
        unlike.mem_len += i == 1;
        unlike.clamp_len += i == 2;
        unlike.same_length = i == 3;
        unlike.memory_type = i == 4 ? TXL_MEMORY_F16 : TXL_MEMORY_F32;
        unlike.compute = i == 5 ? TXL_COMPUTE_INT8 : TXL_COMPUTE_F32;
        txl_session *other = case_session(&c, &unlike);
        assert_int_equal(txl_session_feed_each((txl_session *[]){first, twin, other}, 3,
                                               (const int32_t[]){0, 0, 0}, &error),
                         TXL_ARGUMENT);
        assert_non_null(strstr(error.message, "must have one model and one settings"));
        float logprob;
        int32_t id;
        assert_int_equal(txl_session_top(first, 1, &id, &logprob, &error), TXL_ARGUMENT);
        txl_session_free(other);
    }
    assert_int_equal(
        txl_session_feed_each((txl_session *[]){first, twin}, 2, (const int32_t[]){0, 0}, &error),
        TXL_OK);
    txl_session_free(twin);
    txl_session_free(first);
    case_close(&c);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
