/* The exact arithmetic: its bits are constants, which every kind of processor, compiler, division
 * of the ids into calls and number of threads meets (weights-format.md specifies them). */
#include "lib/base/float_environment.h"
#include "tests/kernels_at.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* A checkpoint, the type of its weights, what differs from its first run's settings (0: nothing),
 * and the checksum of the bits of its nats. */
struct exact_case {
    const char *name, *type;
    int memory_type, tgt_len, mem_len, clamp_len; /* lengths: -1 for 0 */
    bool same_length;
    uint64_t checksum; /* XXH3-64 */
};

static const struct exact_case cases[] = {
    {"enwik8-zip", "f32", TXL_MEMORY_F32, 0, 0, 0, false, 0x5f7d27e38ab70e22},
    {"enwik8-zip", "q8", TXL_MEMORY_F16, 200, 300, 100, false, 0xcab094bcc4e5b21c},
    {"pre-lnorm", "f16", TXL_MEMORY_F32, 0, 0, 0, true, 0xf2356622af6e6407},
    {"wt103-zip", "f32", TXL_MEMORY_F32, 0, 0, 0, false, 0x1f8d2260a8754435},
    {"wt103-zip", "q8", TXL_MEMORY_F32, 0, -1, 0, false, 0x64253979896eca23},
    {"wt103-zip", "bf16", TXL_MEMORY_F16, 100, 0, 0, true, 0xd8cb24c57c1f1ffa},
    {"untied", "f16", TXL_MEMORY_F16, 150, 150, 0, false, 0xe0052adcd71a5def},
    {"hf-bin", "q8", TXL_MEMORY_F32, 0, 0, 0, true, 0xdee084d203f6febf},
    {"hf-bin", "f32", TXL_MEMORY_F32, 64, 100, 0, false, 0x062da75bfeaa9e6d},
    {"wt103-zip", "q4", TXL_MEMORY_F32, 0, 0, 0, false, 0x0ffa7144cba0bf46},
    {"hf-bin", "q5", TXL_MEMORY_F16, 64, 100, 0, true, 0xc1beff3bb94f8630},
    {"enwik8-zip", "q4:q8", TXL_MEMORY_F32, 0, 0, 0, false, 0xae05634f7828e1e1},
    {"learnable-positions", "bf16", TXL_MEMORY_F32, 0, 0, 0, false, 0xfe703c81b03006d3},
};
/* The checksum of the ids that `draws` draws. */
static const uint64_t DRAWN = 0x9cc3cebe6ec1b679;

enum { N_CASE = sizeof cases / sizeof *cases };

/* ---- Helpers ------------------------------------------------------------------------------ */

static int length(int given, int standard) {
    return given == 0 ? standard : given < 0 ? 0 : given;
}

static txl_settings settings_of(const struct exact_case *e, const struct model_case *c,
                                int threads) {
    txl_settings s = run_settings(json_array_get(json_object_get(c->expect, "runs"), 0), threads);
    s.tgt_len = length(e->tgt_len, s.tgt_len);
    s.mem_len = length(e->mem_len, s.mem_len);
    s.clamp_len = length(e->clamp_len, s.clamp_len);
    s.same_length = e->same_length;
    s.memory_type = (txl_memory_type)e->memory_type;
    s.arithmetic = TXL_ARITHMETIC_EXACT;
    return s;
}

static void open_case(const struct exact_case *e, struct model_case *c) {
    case_open(c, e->name, e->type, 0);
}

static uint64_t checksum(const struct model_case *c, const float *nats) {
    return XXH3_64bits(nats, (c->n - 1) * sizeof *nats);
}

static float *new_nats(const struct model_case *c) {
    float *nats = calloc(c->n, sizeof *nats);
    assert_non_null(nats);
    return nats;
}

/* ---- The constants ------------------------------------------------------------------------ */

static void check(const struct exact_case *e, const struct model_case *c, int threads,
                  size_t division) {
    const txl_settings settings = settings_of(e, c, threads);
    txl_session *session = case_session(c, &settings);
    float *nats = new_nats(c);
    case_score(c, session, division, nats);
    if (checksum(c, nats) != e->checksum)
        fail_msg("case %d: %s in %s, kernels %s, %d threads, %zu tokens a call: 0x%016llx",
                 (int)(e - cases), e->name, e->type, txl_kernels_name(NULL), threads, division,
                 (unsigned long long)checksum(c, nats));
    free(nats);
    txl_session_free(session);
}

/* Every table, division and number of threads; of the emulated instructions, which are slow, and
 * under a sanitizer each division with one number of threads, of half the cases.  On an emulated
 * processor, where TXL_TEST_BRIEF is set, one division and two threads. */
TEST(constants) {
    const size_t divisions[] = {128, 1, 7, SIZE_MAX};
    const int threads[] = {2, 1, 3, 5};
    const int some = getenv("TXL_TEST_BRIEF") ? 1 : 4;
    for (size_t v = 0; kernels_at(v); v++) {
        bool emulates = strcmp(kernels_at(v)->name, "generic") == 0;
        setenv("TXL_CPU", kernels_at(v)->name, 1);
        for (int i = 0; i < N_CASE; i++) {
            struct model_case c;
            open_case(&cases[i], &c);
            for (int d = 0; d < some; d++)
                for (int t = 0; t < some; t++)
                    if ((!emulates && !SANITIZED) ||
                        (t == d && (!SANITIZED || ((int)v + i + t) % 2 == 0)))
                        check(&cases[i], &c, threads[t], divisions[d]);
            case_close(&c);
        }
    }
    unsetenv("TXL_CPU");
}

/* ---- The same bits by other ways ---------------------------------------------------------- */

/* An environment that no result may depend on: results are rounded upwards, and subnormal numbers
 * are zero where the processor can do that. */
static void set_hostile_environment(void) {
    fesetround(FE_UPWARD);
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

TEST(any_environment) {
    const struct exact_case *e = &cases[1];
    struct model_case c;
    open_case(e, &c);
    set_hostile_environment();
    check(e, &c, 2, 7);
    check(e, &c, 3, SIZE_MAX);
    assert_int_equal(fegetround(), FE_UPWARD); /* the caller's own is restored */
#if defined(__SSE__)
    assert_int_equal(_mm_getcsr() & 0x8040, 0x8040);
    _mm_setcsr(0x1f80);
#endif
    fesetround(FE_TONEAREST);
    case_close(&c);
}

/* Nats of the next token, one token a call, by the whole distribution. */
static void score_one(txl_session *session, const struct model_case *c, size_t i, float *nats) {
    txl_error error;
    static float logprob[1 << 16];
    assert_int_equal(txl_session_logprobs(session, logprob, &error), TXL_OK);
    nats[i] = -logprob[c->ids[i + 1]];
}

/* Sessions at different places, fed together in groups of several sizes, some of them copies. */
TEST(any_group) {
    enum { N = 16, STEP = 9 };
    for (int e = 1; e < N_CASE; e += 4) {
        txl_error error;
        struct model_case c;
        open_case(&cases[e], &c);
        const txl_settings settings = settings_of(&cases[e], &c, 2);
        txl_session *session[N];
        float *nats[N];
        int32_t ids[N];
        for (size_t s = 0; s < N; s++) {
            nats[s] = new_nats(&c);
            if (s % 3 == 2)
                assert_int_equal(txl_session_copy(session[s - 1], &session[s], &error), TXL_OK);
            else
                session[s] = case_session(&c, &settings);
            size_t from = s % 3 == 2 ? (s - 1) * STEP : 0;
            memcpy(nats[s], nats[s > 0 ? s - 1 : 0], from * sizeof **nats);
            if (s * STEP > from)
                assert_int_equal(txl_session_score(session[s], c.ids + from, s * STEP - from,
                                                   c.ids + from + 1, nats[s] + from, &error),
                                 TXL_OK);
        }
        for (size_t i = 0; i + 1 < c.n; i++) {
            size_t n = 0, size;
            txl_session *left[N];
            for (size_t s = 0; s < N; s++) {
                if (s * STEP + i + 1 >= c.n)
                    continue;
                ids[n] = c.ids[s * STEP + i];
                left[n++] = session[s];
            }
            for (size_t done = 0; done < n; done += size) {
                size = 1 + (i + done) % N < n - done ? 1 + (i + done) % N : n - done;
                if (txl_session_feed_each(left + done, size, ids + done, &error))
                    fail_msg("%s", error.message);
            }
            for (size_t s = 0; s < n; s++)
                score_one(left[s], &c, s * STEP + i, nats[s]);
        }
        for (size_t s = 0; s < N; s++) {
            assert_int_equal(checksum(&c, nats[s]), cases[e].checksum);
            txl_session_free(session[s]);
            free(nats[s]);
        }
        case_close(&c);
    }
}

/* Models whose layers stay compressed until they are used. */
TEST(low_memory) {
    for (int e = 0; e < N_CASE; e++) {
        txl_error error;
        struct model_case c;
        open_case(&cases[e], &c);
        txl_model_close(c.model);
        const char *path = scratch_path("exact-compressed.txl");
        case_convert(cases[e].name, cases[e].type, 1, path);
        if (txl_model_open_compressed(path, 2, &c.model, &error))
            fail_msg("%s: %s", c.name, error.message);
        unlink(path);
        check(&cases[e], &c, 2, e % 2 ? 50 : SIZE_MAX);
        case_close(&c);
    }
}

/* A memory goes on with the same bits, and only into a session of the same arithmetic. */
TEST(saved_memories) {
    const struct exact_case *e = &cases[1];
    txl_error error;
    txl_memory *memory, *read;
    struct model_case c;
    char path[4096];
    open_case(e, &c);
    txl_settings settings = settings_of(e, &c, 1), saved;
    float *nats = new_nats(&c);
    size_t half = c.n / 2;
    txl_session *session = case_session(&c, &settings);
    assert_int_equal(txl_session_score(session, c.ids, half, c.ids + 1, nats, &error), TXL_OK);
    assert_int_equal(txl_session_save(session, NULL, &memory, &error), TXL_OK);
    snprintf(path, sizeof path, "%s", scratch_path("exact.memory"));
    assert_int_equal(txl_memory_write(memory, path, &error), TXL_OK);
    if (txl_memory_read(path, c.model, &read, &error))
        fail_msg("%s", error.message);
    unlink(path);
    txl_memory_settings(read, &saved);
    assert_int_equal(saved.arithmetic, TXL_ARITHMETIC_EXACT);
    txl_session *other = case_session(&c, &settings);
    assert_int_equal(txl_session_load(other, read, &error), TXL_OK);
    assert_int_equal(txl_session_score(other, c.ids + half, c.n - 1 - half, c.ids + half + 1,
                                       nats + half, &error),
                     TXL_OK);
    assert_int_equal(checksum(&c, nats), e->checksum);
    settings.arithmetic = TXL_ARITHMETIC_FAST;
    txl_session *fast = case_session(&c, &settings);
    assert_int_equal(txl_session_load(fast, read, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "saved with the exact arithmetic"));
    txl_session *sessions[] = {other, fast};
    assert_int_equal(txl_session_feed_each(sessions, 2, c.ids, &error), TXL_ARGUMENT);
    txl_session_free(session);
    txl_session_free(other);
    txl_session_free(fast);
    txl_memory_free(memory);
    txl_memory_free(read);
    free(nats);
    case_close(&c);
}

/* ---- What the numbers are ----------------------------------------------------------------- */

/* Within 2e-4 nats of the reference, as the fast arithmetic: f32 alone. */
TEST(accuracy) {
    for (int i = 0; case_names[i]; i++) {
        struct model_case c;
        case_open(&c, case_names[i], "f32", 0);
        json_t *run = json_array_get(json_object_get(c.expect, "runs"), 0);
        txl_settings settings = run_settings(run, 2);
        settings.arithmetic = TXL_ARITHMETIC_EXACT;
        txl_session *session;
        txl_error error;
        txl_status status = txl_session_new(c.model, &settings, &session, &error);
        if (strncmp(c.name, "absolute", 8) == 0) {
            assert_int_equal(status, TXL_UNSUPPORTED);
            assert_non_null(strstr(error.message, "attention type"));
        } else {
            assert_int_equal(status, TXL_OK);
            float *nats = new_nats(&c);
            case_score(&c, session, SIZE_MAX, nats);
            for (size_t t = 0; t + 1 < c.n; t++) {
                double expected = json_real_value(json_array_get(json_object_get(run, "nats"), t));
                if (!(fabs((double)nats[t] - expected) <= 2e-4))
                    fail_msg("%s: token %zu has %g nats, not %g", c.name, t, (double)nats[t],
                             expected);
            }
            free(nats);
            txl_session_free(session);
        }
        case_close(&c);
    }
}

TEST(refusals) {
    struct model_case c;
    txl_error error;
    txl_session *session;
    open_case(&cases[1], &c);
    txl_settings settings = settings_of(&cases[1], &c, 1), other = settings;
    other.memory_type = TXL_MEMORY_BF16;
    assert_int_equal(txl_session_new(c.model, &other, &session, &error), TXL_UNSUPPORTED);
    assert_non_null(strstr(error.message, "not bf16"));
    other.memory_type = TXL_MEMORY_Q8;
    assert_int_equal(txl_session_new(c.model, &other, &session, &error), TXL_UNSUPPORTED);
    assert_non_null(strstr(error.message, "not q8"));
    other = settings;
    other.compute = TXL_COMPUTE_INT8;
    assert_int_equal(txl_session_new(c.model, &other, &session, &error), TXL_UNSUPPORTED);
    assert_non_null(strstr(error.message, "int8"));
    other = settings;
    other.arithmetic = TXL_ARITHMETIC_INTEGERS + 1;
    assert_int_equal(txl_session_new(c.model, &other, &session, &error), TXL_ARGUMENT);
    case_close(&c);
}

/* Products whose sum a second rounding would change, subnormal results, overflow, and opposite
 * signs, with every table. */
TEST(fused_products) {
    const struct {
        float a, b, c, sum;
    } cases_of[] = {
        {1 + 0x1p-12f, 1 + 0x1p-12f, 0x1p-60f, 0x1.002002p+0f},
        {1 + 0x1p-12f, 1 + 0x1p-12f, -0x1p-60f, 0x1.002p+0f},
        {-1 - 0x1p-12f, 1 + 0x1p-12f, -0x1p-60f, -0x1.002002p+0f},
        {0x1p-100f, 0x1p-49f, 0, 0x1p-149f},
        {0x1p-75f, 0x1p-75f, 0, 0},
        {0x1.8p-75f, 0x1p-75f, 0, 0x1p-149f},
        {0x1p-75f, 0x1p-75f, 0x1p-149f, 0x1p-148f},
        {0x1.fffffep127f, 2, -0x1.fffffep127f, 0x1.fffffep127f},
        {0x1.fffffep127f, 2, 0, INFINITY},
        {3, -5, 15, 0},
        {1 + 0x1p-23f, 1 - 0x1p-23f, -1, -0x1p-46f},
    };
    /* As every call of the library does; -Ofast starts a program without subnormal numbers. */
    const struct float_environment before = float_environment_set();
    for (size_t v = 0; kernels_at(v); v++) {
        const struct kernels *k = kernels_at(v)->exact;
        for (size_t i = 0; i < sizeof cases_of / sizeof *cases_of; i++) {
            float a[2] = {cases_of[i].c, cases_of[i].a}, b[32] = {1}, c[16];
            b[16] = cases_of[i].b; /* c 1 + a b, in this order */
            k->multiply[0](&(struct multiply_call){
                .m = 1, .n = 16, .k = 2, .a = a, .lda = 2, .b = b, .ldb = 16, .c = c, .ldc = 16});
            if (memcmp(c, &cases_of[i].sum, sizeof *c) != 0)
                fail_msg("%s, product %zu: %a, not %a", k->name, i, (double)c[0],
                         (double)cases_of[i].sum);
        }
    }
    float_environment_restore(&before);
}

/* ---- Draws -------------------------------------------------------------------------------- */

/* The ids drawn with one seed: their checksum is a constant too. */
TEST(draws) {
    static const txl_sampling ways[] = {
        {.temperature = 1},
        {.temperature = 0.8f, .top_k = 40},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 1.3f, .min_p = 0.02f},
        {.temperature = 0.9f, .typical = 0.7f},
    };
    enum { N_WAY = sizeof ways / sizeof *ways, N_DRAW = 60 };
    for (size_t v = 0; kernels_at(v); v++) {
        setenv("TXL_CPU", kernels_at(v)->name, 1);
        struct model_case c;
        txl_error error;
        int32_t ids[N_WAY * N_DRAW];
        open_case(&cases[4], &c);
        const txl_settings settings = settings_of(&cases[4], &c, 2);
        for (size_t w = 0; w < N_WAY; w++) {
            txl_session *session = case_session(&c, &settings);
            txl_random random = {.seed = 7};
            int32_t id = c.ids[0];
            float logprob;
            for (size_t i = 0; i < N_DRAW; i++) {
                assert_int_equal(txl_session_feed(session, &id, 1, &error), TXL_OK);
                assert_int_equal(
                    txl_session_sample(session, &ways[w], &random, &id, &logprob, &error), TXL_OK);
                ids[w * N_DRAW + i] = id;
            }
            txl_session_free(session);
        }
        case_close(&c);
        uint64_t found = XXH3_64bits(ids, sizeof ids);
        if (found != DRAWN)
            fail_msg("%s: 0x%016llx", kernels_at(v)->name, (unsigned long long)found);
    }
    unsetenv("TXL_CPU");
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
