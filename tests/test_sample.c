/* Sampling: the generator's published vectors, and each way to draw against its definition. */
#include "../lib/random.h"
#include "model_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The known answers that come with the generator's authors' own code (Random123, kat_vectors). */
static void philox_gives_its_published_numbers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        philox4x32(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].expected, sizeof out);
    }
}

static void streams_and_draws_differ(void **state) {
    (void)state;
    txl_random a = {.seed = 5}, b = {.seed = 5, .stream = 1}, c = {.seed = 6}, again = {.seed = 5};
    double first = random_uniform(&a), second = random_uniform(&a);
    assert_true(first != second && a.draw == 2);
    assert_true(first != random_uniform(&b));
    assert_true(first != random_uniform(&c));
    assert_true(first == random_uniform(&again));
}

/* What a draw should follow: the definition, from all log-probabilities. */
static void define(const txl_sampling *p, const float *logprob, size_t n, double *probability) {
    double *scaled = calloc(n, sizeof *scaled);
    bool *left = calloc(n, sizeof *left);
    assert_non_null(scaled);
    assert_non_null(left);
    double total = 0, kept = 0;
    for (size_t i = 0; i < n; i++) {
        left[i] = true;
        for (size_t b = 0; b < p->n_banned; b++)
            left[i] &= p->banned[b] != (int32_t)i;
        scaled[i] = exp(logprob[i] / (double)p->temperature);
        probability[i] = 0;
    }
    bool *in = calloc(n, sizeof *in);
    assert_non_null(in);
    for (size_t count = 0; p->top_k == 0 || count < (size_t)p->top_k; count++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++) {
            if (left[i] && !in[i] && (best == n || logprob[i] > logprob[best]))
                best = i;
        }
        if (best == n)
            break;
        in[best] = true;
        total += scaled[best];
    }
    while (kept < p->top_p * total * (1 - 1e-12)) {
        size_t best = n;
        for (size_t i = 0; i < n; i++) {
            if (in[i] && (best == n || logprob[i] > logprob[best]))
                best = i;
        }
        if (best == n)
            break;
        in[best] = false;
        probability[best] = scaled[best];
        kept += scaled[best];
    }
    for (size_t i = 0; i < n; i++)
        probability[i] /= kept;
    free(scaled);
    free(left);
    free(in);
}

enum { DRAWS = 20000 };

/* Pearson's chi-square over the tokens expected at least five times, the rest as one. */
static void check_draws(const struct model_case *c, txl_session *session, const txl_sampling *p) {
    size_t n = (size_t)txl_model_n_token(c->model);
    float *logprob = calloc(n, sizeof *logprob);
    double *probability = calloc(n, sizeof *probability);
    size_t *drawn = calloc(n, sizeof *drawn);
    txl_error error;
    txl_random random = {.seed = 123};
    assert_non_null(logprob);
    assert_non_null(probability);
    assert_non_null(drawn);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id;
        float own;
        assert_int_equal(txl_session_sample(session, p, &random, &id, &own, &error), TXL_OK);
        drawn[id]++;
        if (i == DRAWS - 1) {
            assert_int_equal(txl_session_logprobs(session, logprob, &error), TXL_OK);
            assert_true(fabsf(own - logprob[id]) < 1e-6f);
        }
    }
    assert_int_equal(random.draw, DRAWS);
    define(p, logprob, n, probability);
    double chi = 0, rest = DRAWS, rest_drawn = DRAWS;
    int degrees = 0;
    for (size_t i = 0; i < n; i++) {
        double expected = probability[i] * DRAWS;
        if (probability[i] == 0)
            assert_int_equal(drawn[i], 0);
        if (expected < 5)
            continue;
        chi += pow((double)drawn[i] - expected, 2) / expected;
        rest -= expected;
        rest_drawn -= (double)drawn[i];
        degrees++;
    }
    if (rest > 5)
        chi += pow(rest_drawn - rest, 2) / rest;
    else
        degrees--;
    /* Five standard deviations: with a fixed seed the outcome is always the same. */
    if (chi > degrees + 5 * sqrt(2.0 * degrees) + 5)
        fail_msg("%s: chi-square %.1f with %d degrees of freedom", c->name, chi, degrees);
    free(logprob);
    free(probability);
    free(drawn);
}

static void draws_follow_their_definition(void **state) {
    (void)state;
    static const char *const names[] = {"characters", "wt103-zip", "hf-bin", "untied"};
    static const int32_t banned[] = {0, 3, 700, 1572};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct model_case c;
        txl_error error;
        case_open(&c, names[k], NULL, -1);
        bool words = txl_model_n_token(c.model) > 1000;
        const txl_sampling ways[] = {
            {.temperature = 1, .top_p = 1},
            {.temperature = 1, .top_p = 1, .banned = banned, .n_banned = words ? 4 : 2},
            {.temperature = 0.95f, .top_k = 40, .top_p = 1},
            {.temperature = 1, .top_p = 0.8f},
            {.temperature = 1, .top_p = 0.999f, .banned = banned, .n_banned = words ? 4 : 2},
            {.temperature = 1.5f, .top_k = 7, .top_p = 0.9f},
            {.temperature = 2, .top_k = 100, .top_p = 1, .banned = banned, .n_banned = 1},
        };
        txl_settings settings;
        txl_model_defaults(c.model, &settings);
        settings.threads = 1;
        txl_session *session = case_session(&c, &settings);
        assert_int_equal(txl_session_feed(session, c.ids, 20, &error), TXL_OK);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            check_draws(&c, session, &ways[w]);
        txl_session_free(session);
        case_close(&c);
    }
}

/* Leaving bands out changes nothing: the best k by the lazy way and by all log-probabilities. */
static void the_likeliest_are_exact(void **state) {
    (void)state;
    struct model_case c;
    txl_error error;
    case_open(&c, "wt103-zip", NULL, -1);
    txl_settings settings;
    txl_model_defaults(c.model, &settings);
    settings.threads = 1;
    txl_session *session = case_session(&c, &settings);
    size_t n = (size_t)txl_model_n_token(c.model);
    float *logprob = calloc(n, sizeof *logprob), best[300];
    int32_t ids[300];
    assert_non_null(logprob);
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(txl_session_feed(session, c.ids + i, 1, &error), TXL_OK);
        assert_int_equal(txl_session_top(session, 300, ids, best, &error), TXL_OK);
        assert_int_equal(txl_session_logprobs(session, logprob, &error), TXL_OK);
        for (size_t k = 0; k < 300; k++) {
            size_t better = 0;
            for (size_t id = 0; id < n; id++)
                better += logprob[id] > best[k] || (logprob[id] == best[k] && (int32_t)id < ids[k]);
            assert_int_equal(better, k);
            assert_true(best[k] == logprob[ids[k]]);
        }
    }
    txl_session_free(session);
    free(logprob);
    case_close(&c);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    struct model_case c;
    txl_error error;
    case_open(&c, "characters", NULL, -1);
    txl_settings settings;
    txl_model_defaults(c.model, &settings);
    txl_session *session = case_session(&c, &settings);
    int32_t n = txl_model_n_token(c.model), id, *all = calloc((size_t)n, sizeof *all);
    float logprob;
    txl_random random = {0};
    assert_non_null(all);
    for (int32_t i = 0; i < n; i++)
        all[i] = i;
    assert_int_equal(txl_session_feed(session, c.ids, 1, &error), TXL_OK);
    const txl_sampling bad[] = {
        {.temperature = -1, .top_p = 1},
        {.temperature = NAN, .top_p = 1},
        {.temperature = 1, .top_p = 0},
        {.temperature = 1, .top_k = -1, .top_p = 1},
        {.temperature = 1, .top_p = 1, .banned = all, .n_banned = (size_t)n},
        {.temperature = 0, .top_p = 1, .banned = all, .n_banned = (size_t)n},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(txl_session_sample(session, &bad[i], &random, &id, &logprob, &error),
                         TXL_ARGUMENT);
    free(all);
    txl_session_free(session);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_its_published_numbers),
        cmocka_unit_test(streams_and_draws_differ),
        cmocka_unit_test(draws_follow_their_definition),
        cmocka_unit_test(the_likeliest_are_exact),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
