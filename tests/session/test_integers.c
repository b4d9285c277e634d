/* The arithmetic in integers: its bits are constants, which every kind of processor, division of
 * the ids into calls, number of threads and group of sessions meets (weights-format.md specifies
 * them); and which models it covers. */
#include "tests/kernels_at.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { N_TOKEN = 300, N = 500 };

/* A model of random weights, the settings that differ from a plain one's, and the checksum of its
 * nats. */
struct integer_case {
    const char *type, *changes;
    int clamp_len;
    bool same_length;
    uint64_t checksum; /* XXH3-64 */
};

static const struct integer_case cases[] = {
    {"q8", "", 0, false, 0x2112b55c8491ae0f},
    {"q8", ", \"pre_lnorm\": true, \"memory_start\": \"zeros\"", 40, true, 0x85395c9055db6128},
    {"q8",
     ", \"cutoffs\": [100, 200], \"tied_projections\": [false, false, false], \"memory_start\": "
     "\"zeros\"",
     0, false, 0x4e510c4981f87e06},
    {"q4", "", 0, true, 0x53e649790bc7ac64},
    {"q4:q8", ", \"pre_lnorm\": true", 60, false, 0xab152970e1d808d3},
};
enum { N_CASE = sizeof cases / sizeof *cases };

/* ---- Helpers ------------------------------------------------------------------------------ */

static txl_status try_model(const char *type, const char *changes, txl_model **model,
                            txl_error *error) {
    char settings[1024];
    snprintf(settings, sizeof settings,
             "{\"family\": \"transformer-xl\", \"tokenizer\": \"words\", \"lower_case\": false, "
             "\"unk_id\": null, \"eos_id\": null, \"n_token\": %d, \"n_layer\": 2, \"n_head\": 3, "
             "\"d_head\": 24, \"d_model\": 72, \"d_embed\": 72, \"d_inner\": 200, \"div_val\": 1, "
             "\"tied_weights\": true, \"tgt_len\": 50, \"mem_len\": 70, \"clamp_len\": -1, "
             "\"same_length\": false, \"cluster_order\": \"forward\", \"cutoffs\": [], "
             "\"biases_per_layer\": true, \"tied_projections\": [false], "
             "\"memory_start\": \"empty\", \"attn_type\": 0, \"pre_lnorm\": false%s}",
             N_TOKEN, changes);
    return txl_model_random(settings, type, 3, 1, model, error);
}

static txl_model *open_case(const struct integer_case *c) {
    txl_model *model;
    txl_error error;
    assert_good(try_model(c->type, c->changes, &model, &error), &error);
    return model;
}

static txl_settings settings_of(const struct integer_case *c, const txl_model *model, int threads) {
    txl_settings s;
    txl_model_defaults(model, &s);
    s.clamp_len = c->clamp_len;
    s.same_length = c->same_length;
    s.threads = threads;
    s.memory_type = TXL_MEMORY_Q8;
    s.arithmetic = TXL_ARITHMETIC_INTEGERS;
    return s;
}

static txl_session *new_session(const txl_model *model, const txl_settings *settings) {
    txl_session *session;
    txl_error error;
    assert_good(txl_session_new(model, settings, &session, &error), &error);
    return session;
}

/* The ids that the models read. */
static const int32_t *text(void) {
    static int32_t ids[N];
    for (uint32_t i = 0, x = 7; i < N; i++, x = x * 1664525 + 1013904223)
        ids[i] = (int32_t)((x >> 16) % N_TOKEN);
    return ids;
}

static void score(txl_session *session, size_t from, size_t end, size_t step, float *nats) {
    txl_error error;
    for (size_t i = from, n; i < end; i += n) {
        n = end - i < step ? end - i : step;
        assert_good(txl_session_score(session, text() + i, n, text() + i + 1, nats + i, &error),
                    &error);
    }
}

static void check(const struct integer_case *c, const float nats[N - 1], const char *how) {
    const uint64_t found = XXH3_64bits(nats, (N - 1) * sizeof *nats);
    if (found != c->checksum)
        fail_msg("case %d in %s, %s: 0x%016llx", (int)(c - cases), c->type, how,
                 (unsigned long long)found);
}

/* ---- The constants ------------------------------------------------------------------------ */

TEST(constants) {
    const size_t divisions[] = {SIZE_MAX, 1, 7};
    for (size_t v = 0; kernels_at(v); v++) {
        setenv("TXL_CPU", kernels_at(v)->name, 1);
        for (int i = 0; i < N_CASE; i++) {
            txl_model *model = open_case(&cases[i]);
            for (int d = 0; d < 3; d++) {
                float nats[N - 1];
                char how[64];
                const txl_settings settings = settings_of(&cases[i], model, 3 - d);
                txl_session *session = new_session(model, &settings);
                score(session, 0, N - 1, divisions[d], nats);
                snprintf(how, sizeof how, "kernels %s, %d threads, %zu tokens a call",
                         kernels_at(v)->name, 3 - d, divisions[d]);
                check(&cases[i], nats, how);
                txl_session_free(session);
            }
            txl_model_close(model);
        }
    }
    unsetenv("TXL_CPU");
}

/* Sessions at different places, some of them copies, fed together. */
TEST(any_group) {
    enum { SESSIONS = 11, STEP = 9 };
    for (int i = 0; i < N_CASE; i++) {
        txl_error error;
        txl_model *model = open_case(&cases[i]);
        const txl_settings settings = settings_of(&cases[i], model, 2);
        static float nats[SESSIONS][N - 1], logprob[N_TOKEN];
        txl_session *session[SESSIONS];
        for (size_t s = 0; s < SESSIONS; s++) {
            const size_t from = s % 3 == 2 ? (s - 1) * STEP : 0;
            if (s % 3 == 2)
                assert_good(txl_session_copy(session[s - 1], &session[s], &error), &error);
            else
                session[s] = new_session(model, &settings);
            memcpy(nats[s], nats[s > 0 ? s - 1 : 0], from * sizeof **nats);
            score(session[s], from, s * STEP, SIZE_MAX, nats[s]);
        }
        for (size_t at = 0; at < N - 1; at++) {
            txl_session *left[SESSIONS];
            int32_t ids[SESSIONS];
            size_t n = 0;
            while (n < SESSIONS && n * STEP + at < N - 1) {
                left[n] = session[n];
                ids[n] = text()[n * STEP + at];
                n++;
            }
            assert_good(txl_session_feed_each(left, n, ids, &error), &error);
            for (size_t s = 0; s < n; s++) {
                assert_good(txl_session_logprobs(left[s], logprob, &error), &error);
                nats[s][s * STEP + at] = -logprob[text()[s * STEP + at + 1]];
            }
        }
        for (size_t s = 0; s < SESSIONS; s++) {
            check(&cases[i], nats[s], "in a group");
            txl_session_free(session[s]);
        }
        txl_model_close(model);
    }
}

/* ---- What the numbers are ----------------------------------------------------------------- */

/* Rounding to 8 bits changes the nats of the exact arithmetic by little. */
TEST(accuracy) {
    for (int i = 0; i < N_CASE; i++) {
        float nats[2][N - 1];
        double most = 0, mean = 0;
        txl_model *model = open_case(&cases[i]);
        for (int exact = 0; exact < 2; exact++) {
            txl_settings settings = settings_of(&cases[i], model, 2);
            if (exact) {
                settings.arithmetic = TXL_ARITHMETIC_EXACT;
                settings.memory_type = TXL_MEMORY_F32;
            }
            txl_session *session = new_session(model, &settings);
            score(session, 0, N - 1, SIZE_MAX, nats[exact]);
            txl_session_free(session);
        }
        for (size_t t = 0; t < N - 1; t++) {
            const double change = fabs((double)nats[0][t] - (double)nats[1][t]);
            most = fmax(most, change);
            mean += change / (N - 1);
        }
        print_message("case %d: %g nats on average, %g at most\n", i, mean, most);
        assert_true(mean > 0 && mean < 0.02 && most < 0.1);
        txl_model_close(model);
    }
}

/* ---- Refusals ----------------------------------------------------------------------------- */

static void refused(const char *type, const char *changes, const txl_settings *settings,
                    const char *why) {
    txl_model *model;
    txl_session *session;
    txl_error error;
    assert_good(try_model(type, changes, &model, &error), &error);
    assert_int_equal(txl_session_new(model, settings, &session, &error), TXL_UNSUPPORTED);
    if (!strstr(error.message, why))
        fail_msg("%s", error.message);
    txl_model_close(model);
}

TEST(refusals) {
    const char plain[] = "", models[] = "matrices are all in q8 or q4";
    txl_model *model = open_case(&cases[0]);
    const txl_settings settings = settings_of(&cases[0], model, 1);
    txl_settings other = settings;
    refused("q5", plain, &settings, models);
    refused("q5:q8", plain, &settings, models);
    refused("q4:q5", plain, &settings, models);
    refused("bf16", plain, &settings, models);
    refused("q8", ", \"attn_type\": 1, \"max_klen\": 99", &settings, models);
    refused("q8", ", \"d_inner\": 63", &settings, models); /* has f16 */
    other.memory_type = TXL_MEMORY_F16;
    refused("q8", plain, &other, "the arithmetic in integers needs a memory in q8, not f16");
    other = settings;
    other.compute = TXL_COMPUTE_INT8;
    refused("q8", plain, &other, "does not compute in int8");
    txl_session *session = new_session(model, &settings);
    txl_memory *memory;
    txl_error error;
    assert_good(txl_session_feed(session, text(), 9, &error), &error);
    assert_int_equal(txl_session_save(session, NULL, &memory, &error), TXL_UNSUPPORTED);
    assert_non_null(strstr(error.message, "a memory of the arithmetic in integers"));
    txl_session_free(session);
    txl_model_close(model);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
