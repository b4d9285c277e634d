/* Sampling: the generator's published vectors, and each way to draw against its definition. */
#include "lib/base/numbers.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The known answers that come with the generator's authors' own code (Random123, kat_vectors). */
TEST(philox_gives_its_published_numbers) {
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

TEST(streams_and_draws_differ) {
    txl_random a = {.seed = 5}, b = {.seed = 5, .stream = 1}, c = {.seed = 6}, again = {.seed = 5};
    double first = random_uniform(&a), second = random_uniform(&a);
    assert_true(first != second && a.draw == 2);
    assert_true(first != random_uniform(&b));
    assert_true(first != random_uniform(&c));
    assert_true(first == random_uniform(&again));
}

/* ---- The definition ----------------------------------------------------------------------- */

/* A way to draw, and the past: the test's own list of ids, and the history. */
struct way {
    txl_sampling sampling;
    size_t ngram;
};

enum { PAST = 7 };

static void renormalise(double *p, size_t n) {
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += p[i];
    for (size_t i = 0; i < n; i++)
        p[i] /= total;
}

/* Keeps the elements with the greatest keys, at most `most` and no more than reach `share`, and
 * sets all others to 0.  It is simple: it takes the best of the rest again and again. */
static void keep(double *p, const double *key, size_t n, size_t most, double share) {
    double *kept = calloc(n, sizeof *kept), sum = 0;
    assert_non_null(kept);
    for (size_t count = 0; count < most && sum < share * (1 - 1e-12); count++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (p[i] > 0 && kept[i] == 0 && (best == n || key[i] > key[best]))
                best = i;
        if (best == n)
            break;
        sum += kept[best] = p[best];
    }
    memcpy(p, kept, n * sizeof *p);
    free(kept);
    renormalise(p, n);
}

static void keep_typical(double *p, size_t n, double share) {
    double *key = calloc(n, sizeof *key), entropy = 0;
    assert_non_null(key);
    for (size_t i = 0; i < n; i++)
        entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
    for (size_t i = 0; i < n; i++)
        key[i] = -fabs(log(p[i]) + entropy);
    keep(p, key, n, n, share);
    free(key);
}

static void keep_above(double *p, size_t n, double min_p) {
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, p[i]);
    for (size_t i = 0; i < n; i++)
        p[i] = p[i] < min_p * largest ? 0 : p[i];
    renormalise(p, n);
}

/* Whether `id` at the end of the past would make its last n ids the same as n before. */
static bool would_repeat(const int32_t *past, size_t n, int32_t id) {
    for (size_t i = 0; n > 0 && i + n <= PAST; i++)
        if (past[i + n - 1] == id &&
            memcmp(past + i, past + PAST - (n - 1), (n - 1) * sizeof *past) == 0)
            return true;
    return false;
}

/* Log-probabilities after penalty and bans; what is banned gets -INFINITY. */
static void adjust(const struct way *way, const int32_t *past, const float *logprob, size_t n,
                   double *score) {
    const txl_sampling *p = &way->sampling;
    for (size_t i = 0; i < n; i++) {
        bool recent = false, out = would_repeat(past, way->ngram, (int32_t)i);
        for (size_t j = 0; j < p->repeat_last; j++)
            recent |= past[PAST - 1 - j] == (int32_t)i;
        for (size_t b = 0; b < p->n_banned; b++)
            out |= p->banned[b] == (int32_t)i;
        bool penalised = recent && p->repetition_penalty > 0;
        score[i] = (double)logprob[i] * (penalised ? (double)p->repetition_penalty : 1);
        if (out)
            score[i] = -INFINITY;
    }
}

/* What a draw should follow: txl.h's steps one after the other over all tokens. */
static void define(const struct way *way, const int32_t *past, const float *logprob, size_t n,
                   double *probability) {
    const txl_sampling *p = &way->sampling;
    adjust(way, past, logprob, n, probability);
    for (size_t i = 0; i < n; i++)
        probability[i] = exp(probability[i] / (double)p->temperature);
    renormalise(probability, n);
    if (p->top_k > 0)
        keep(probability, probability, n, (size_t)p->top_k, INFINITY);
    if (p->typical > 0 && p->typical < 1)
        keep_typical(probability, n, (double)p->typical);
    if (p->top_p < 1)
        keep(probability, probability, n, n, (double)p->top_p);
    keep_above(probability, n, (double)p->min_p);
}

/* ---- Draws against it --------------------------------------------------------------------- */

enum { DRAWS = SANITIZED ? 400 : 2000 };

/* The value that chi-square exceeds once in a million times (Wilson and Hilferty 1931).  The seed
 * is fixed, so a test that passes keeps passing; a wrong distribution exceeds the value many times
 * over. */
static double critical_value(int degrees) {
    const double normal = 4.7534; /* is exceeded once in a million times */
    double variance = 2.0 / (9 * degrees);
    return degrees * pow(1 - variance + normal * sqrt(variance), 3);
}

/* Pearson's chi-square over the tokens expected at least five times, the rest as one. */
static void compare(const char *name, size_t number, const double *probability, const size_t *drawn,
                    size_t n) {
    double chi = 0, rest = DRAWS, rest_drawn = DRAWS;
    int degrees = -1;
    for (size_t i = 0; i < n; i++) {
        double expected = probability[i] * DRAWS;
        if (expected == 0 && drawn[i] > 0)
            fail_msg("%s, way %zu: token %zu is not to be drawn", name, number, i);
        if (expected < 5)
            continue;
        chi += pow((double)drawn[i] - expected, 2) / expected;
        rest -= expected;
        rest_drawn -= (double)drawn[i];
        degrees++;
    }
    if (rest >= 5) {
        chi += pow(rest_drawn - rest, 2) / rest;
        degrees++;
    }
    if (degrees > 0 && chi > critical_value(degrees))
        fail_msg("%s, way %zu: chi-square %.1f with %d degrees of freedom", name, number, chi,
                 degrees);
}

/* A distribution of which nothing has been computed yet. */
static void feed_start(const struct model_case *c, txl_session *session) {
    txl_error error;
    txl_session_reset(session);
    assert_int_equal(txl_session_feed(session, c->ids, 20, &error), TXL_OK);
}

static void check_draws(const struct model_case *c, txl_session *session, const struct way *way,
                        size_t number, const int32_t *past) {
    size_t n = (size_t)txl_model_n_token(c->model);
    float *logprob = calloc(n, sizeof *logprob);
    double *probability = calloc(n, sizeof *probability);
    size_t *drawn = calloc(n, sizeof *drawn);
    txl_sampling sampling = way->sampling;
    txl_error error;
    txl_history *history;
    txl_random random = {.seed = 123};
    assert_non_null(logprob);
    assert_non_null(probability);
    assert_non_null(drawn);
    assert_int_equal(txl_history_new(PAST, way->ngram, &history, &error), TXL_OK);
    txl_history_push(history, past, PAST);
    sampling.history = history;
    feed_start(c, session);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id;
        float own;
        if (txl_session_sample(session, &sampling, &random, &id, &own, &error))
            fail_msg("%s, way %zu: %s", c->name, number, error.message);
        drawn[id]++;
        if (i == DRAWS - 1) {
            assert_int_equal(txl_session_logprobs(session, logprob, &error), TXL_OK);
            assert_true(own == logprob[id]);
        }
    }
    assert_int_equal(random.draw, DRAWS);
    define(way, past, logprob, n, probability);
    compare(c->name, number, probability, drawn, n);
    txl_history_free(history);
    free(logprob);
    free(probability);
    free(drawn);
}

/* A past to which the rules against repetition apply: the likeliest tokens, of which the last two
 * occurred in a row before, and one token of the last band. */
static void make_past(const struct model_case *c, txl_session *session, int32_t *past) {
    int32_t best[4], rare = txl_model_n_token(c->model) - 1;
    float logprobs[4];
    txl_error error;
    assert_int_equal(txl_session_top(session, 4, best, logprobs, &error), TXL_OK);
    const int32_t ids[PAST] = {best[0], best[1], best[2], rare, best[3], best[0], best[1]};
    memcpy(past, ids, sizeof ids);
}

static const int32_t banned[] = {0, 3, 700, 1572};

/* The ids of the first band, without which the others matter; main fills it. */
enum { HEAD = 262 };
static int32_t head[HEAD];

static const struct way ways[] = {
    {.sampling = {.temperature = 1, .top_p = 1}},
    {.sampling = {.temperature = 1, .top_p = 1, .banned = banned, .n_banned = 4}},
    {.sampling = {.temperature = 0.95f, .top_k = 40, .top_p = 1}},
    {.sampling = {.temperature = 1, .top_p = 0.8f}},
    {.sampling = {.temperature = 1, .top_p = 0.999f, .banned = banned, .n_banned = 4}},
    {.sampling = {.temperature = 1.5f, .top_k = 7, .top_p = 0.9f}},
    {.sampling = {.temperature = 2, .top_k = 100, .top_p = 1, .banned = banned, .n_banned = 1}},
    {.sampling = {.temperature = 0.7f, .top_p = 0.9f}},
    /* min-p, alone and after others */
    {.sampling = {.temperature = 1, .top_p = 1, .min_p = 0.3f}},
    {.sampling = {.temperature = 0.5f, .top_p = 1, .min_p = 0.1f}},
    {.sampling = {.temperature = 1.5f, .top_p = 0.6f, .min_p = 0.2f}},
    {.sampling = {.temperature = 1, .top_p = 0.3f, .min_p = 0.02f}},
    {.sampling = {.temperature = 1, .top_p = 1, .min_p = 0.2f, .banned = banned, .n_banned = 4}},
    {.sampling = {.temperature = 1, .top_p = 1, .min_p = 1}},
    /* typical */
    {.sampling = {.temperature = 1, .top_p = 1, .typical = 0.2f}},
    {.sampling = {.temperature = 1.3f, .top_p = 1, .typical = 0.9f}},
    {.sampling = {.temperature = 0.6f, .top_k = 20, .top_p = 1, .typical = 0.5f}},
    {.sampling = {.temperature = 1, .top_p = 0.5f, .typical = 0.7f, .min_p = 0.5f}},
    {.sampling = {.temperature = 1, .top_p = 1, .typical = 1e-6f}},
    {.sampling = {.temperature = 2, .top_p = 1, .typical = 0.9f, .min_p = 0.3f}},
    /* the repetition penalty, also as a reward */
    {.sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1.3f, .repeat_last = 3}},
    {.sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 30, .repeat_last = PAST}},
    {.sampling = {.temperature = 1, .top_p = 0.7f, .repetition_penalty = 1.2f, .repeat_last = 5}},
    {.sampling =
         {.temperature = 0.8f, .top_k = 5, .top_p = 1, .repetition_penalty = 2, .repeat_last = 2}},
    {.sampling = {.temperature = 1,
                  .top_p = 1,
                  .min_p = 0.1f,
                  .repetition_penalty = 1.5f,
                  .repeat_last = PAST}},
    {.sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 0.05f, .repeat_last = 4}},
    {.sampling =
         {.temperature = 1, .top_p = 0.9f, .repetition_penalty = 0.1f, .repeat_last = PAST}},
    {.sampling =
         {.temperature = 1, .top_k = 3, .top_p = 1, .repetition_penalty = 0.01f, .repeat_last = 4}},
    /* repeated n-grams */
    {.sampling = {.temperature = 1, .top_p = 1}, .ngram = 1},
    {.sampling = {.temperature = 1, .top_p = 1}, .ngram = 2},
    {.sampling = {.temperature = 0.95f, .top_k = 4, .top_p = 1}, .ngram = 3},
    {.sampling = {.temperature = 1, .top_p = 0.5f}, .ngram = 3},
    {.sampling = {.temperature = 1, .top_p = 1}, .ngram = 4},
    /* tokens of other bands than the first */
    {.sampling = {.temperature = 1, .top_p = 1, .banned = head, .n_banned = HEAD}},
    {.sampling = {.temperature = 1, .top_p = 0.8f, .banned = head, .n_banned = HEAD}},
    {.sampling =
         {.temperature = 1.4f, .top_p = 1, .banned = head, .n_banned = HEAD, .min_p = 0.2f}},
    {.sampling = {.temperature = 1,
                  .top_p = 1,
                  .banned = head,
                  .n_banned = HEAD,
                  .repetition_penalty = 0.5f,
                  .repeat_last = 4}},
    /* everything */
    {.sampling = {.temperature = 1.2f,
                  .top_k = 60,
                  .top_p = 0.9f,
                  .banned = banned,
                  .n_banned = 4,
                  .min_p = 0.02f,
                  .typical = 0.8f,
                  .repetition_penalty = 1.2f,
                  .repeat_last = 5},
     .ngram = 2},
    {.sampling = {.temperature = 1,
                  .top_p = 0.95f,
                  .banned = banned,
                  .n_banned = 4,
                  .min_p = 0.05f,
                  .repetition_penalty = 1.1f,
                  .repeat_last = PAST},
     .ngram = 3},
};

TEST(draws_follow_their_definition) {
    static const char *const names[] = {"characters", "wt103-zip", "hf-bin"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct model_case c;
        txl_settings settings;
        int32_t past[PAST];
        case_open(&c, names[k], NULL, -1);
        txl_model_defaults(c.model, &settings);
        settings.threads = 1;
        txl_session *session = case_session(&c, &settings);
        feed_start(&c, session);
        make_past(&c, session, past);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            if (ways[w].sampling.banned == head && txl_model_n_token(c.model) <= HEAD)
                continue;
            check_draws(&c, session, &ways[w], w, past);
        }
        txl_session_free(session);
        case_close(&c);
    }
}

/* Temperature 0 over the whole distribution, by the same penalties and bans. */
TEST(greedy_takes_the_best_that_is_left) {
    struct model_case c;
    txl_error error;
    int32_t past[PAST];
    case_open(&c, "wt103-zip", NULL, -1);
    txl_session *session = case_session(&c, NULL);
    size_t n = (size_t)txl_model_n_token(c.model);
    float *logprob = calloc(n, sizeof *logprob), own;
    double *score = calloc(n, sizeof *score);
    assert_non_null(logprob);
    assert_non_null(score);
    feed_start(&c, session);
    make_past(&c, session, past);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        txl_history *history;
        txl_sampling sampling = ways[w].sampling;
        txl_random random = {.seed = 1};
        int32_t id;
        assert_int_equal(txl_history_new(PAST, ways[w].ngram, &history, &error), TXL_OK);
        txl_history_push(history, past, PAST);
        sampling.history = history;
        sampling.temperature = 0;
        feed_start(&c, session);
        assert_int_equal(txl_session_sample(session, &sampling, &random, &id, &own, &error),
                         TXL_OK);
        assert_int_equal(random.draw, 0);
        assert_int_equal(txl_session_logprobs(session, logprob, &error), TXL_OK);
        adjust(&ways[w], past, logprob, n, score);
        size_t best = 0;
        for (size_t i = 1; i < n; i++)
            best = score[i] > score[best] ? i : best;
        assert_int_equal(id, best);
        assert_true(own == logprob[id]);
        txl_history_free(history);
    }
    txl_session_free(session);
    free(logprob);
    free(score);
    case_close(&c);
}

/* A vocabulary of one token, as far as a draw can tell, and one of none. */
TEST(the_last_token_is_drawn_or_missed) {
    struct model_case c;
    txl_error error;
    case_open(&c, "wt103-zip", NULL, -1);
    txl_session *session = case_session(&c, NULL);
    int32_t n = txl_model_n_token(c.model), id, *others = calloc((size_t)n, sizeof *others);
    float logprob;
    txl_history *history;
    assert_non_null(others);
    assert_int_equal(txl_history_new((size_t)n, 1, &history, &error), TXL_OK);
    static const int32_t last[] = {0, 7, 1572};
    for (size_t k = 0; k < sizeof last / sizeof *last; k++) {
        txl_history_reset(history);
        for (int32_t i = 0; i < n; i++) {
            if (i == last[k])
                continue;
            others[i < last[k] ? i : i - 1] = i;
            txl_history_push(history, &i, 1);
        }
        const txl_sampling left[] = {
            {.temperature = 0, .top_p = 1, .banned = others, .n_banned = (size_t)n - 1},
            {.temperature = 1, .top_p = 1, .banned = others, .n_banned = (size_t)n - 1},
            {.temperature = 1, .top_p = 1, .history = history},
            {.temperature = 1, .top_p = 0.5f, .history = history},
            {.temperature = 3, .top_p = 0.5f, .typical = 0.5f, .min_p = 0.5f, .history = history},
            {.temperature = 1, .top_k = 9, .top_p = 1, .typical = 0.1f, .history = history},
        };
        feed_start(&c, session);
        for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
            txl_random random = {.seed = i};
            assert_int_equal(txl_session_sample(session, &left[i], &random, &id, &logprob, &error),
                             TXL_OK);
            assert_int_equal(id, last[k]);
        }
        for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
            txl_random random = {.seed = i};
            txl_sampling none = left[i];
            int32_t banned_too = last[k];
            none.history = history;
            none.banned = &banned_too;
            none.n_banned = 1;
            assert_int_equal(txl_session_sample(session, &none, &random, &id, &logprob, &error),
                             TXL_ARGUMENT);
            assert_non_null(strstr(error.message, "n-gram"));
            assert_int_equal(random.draw, 0);
        }
    }
    txl_history_free(history);
    txl_session_free(session);
    free(others);
    case_close(&c);
}

/* Numbers at the ends of float, and ids that no vocabulary has: a token comes, and nothing else. */
TEST(extremes_are_harmless) {
    struct model_case c;
    txl_error error;
    case_open(&c, "hf-bin", NULL, -1);
    txl_session *session = case_session(&c, NULL);
    static const int32_t ids[] = {-1, INT32_MAX, INT32_MIN, 5, 6, -1};
    txl_history *history;
    assert_int_equal(txl_history_new(6, 2, &history, &error), TXL_OK);
    txl_history_push(history, ids, 6);
    const txl_sampling extreme[] = {
        {.temperature = 1e-45f, .top_p = 1e-45f, .typical = 1e-45f, .min_p = 1e-45f},
        {.temperature = 1e-45f, .top_k = 9, .top_p = 1, .typical = 0.5f},
        {.temperature = INFINITY, .top_p = 0.5f, .typical = 0.5f, .min_p = 1},
        {.temperature = 3e38f, .top_k = INT32_MAX, .top_p = INFINITY},
        {.temperature = 1, .top_p = 1, .repetition_penalty = 3e38f, .repeat_last = 6},
        {.temperature = 1, .top_p = 0.5f, .repetition_penalty = 1e-45f, .repeat_last = 6},
        {.temperature = 0, .top_p = 1, .repetition_penalty = 1e-45f, .repeat_last = 6},
    };
    feed_start(&c, session);
    for (size_t i = 0; i < sizeof extreme / sizeof *extreme; i++) {
        txl_sampling sampling = extreme[i];
        sampling.history = history;
        txl_random random = {.seed = 9};
        for (int draw = 0; draw < 20; draw++) {
            int32_t id = -1;
            float logprob = NAN;
            assert_int_equal(txl_session_sample(session, &sampling, &random, &id, &logprob, &error),
                             TXL_OK);
            assert_in_range(id, 0, txl_model_n_token(c.model) - 1);
            assert_true(logprob <= 0);
        }
    }
    txl_history_free(history);
    txl_session_free(session);
    case_close(&c);
}

/* min_p keeps a token exactly at its bound: at a temperature that makes all tokens equally likely
 * to the last bit, min_p 1 keeps every one. */
TEST(the_bound_of_min_p_stays) {
    struct model_case c;
    txl_error error;
    case_open(&c, "text8", NULL, -1);
    txl_session *session = case_session(&c, NULL);
    const txl_sampling sampling = {.temperature = 3e38f, .top_p = 1, .min_p = 1};
    txl_random random = {.seed = 1};
    bool drawn[27] = {false};
    size_t different = 0, n = (size_t)txl_model_n_token(c.model);
    assert_int_equal(n, 27);
    feed_start(&c, session);
    for (int draw = 0; draw < 1000; draw++) {
        int32_t id;
        float logprob;
        assert_int_equal(txl_session_sample(session, &sampling, &random, &id, &logprob, &error),
                         TXL_OK);
        different += !drawn[id];
        drawn[id] = true;
    }
    assert_int_equal(different, n); /* one would be missed once in 10^14 */
    txl_session_free(session);
    case_close(&c);
}

/* Leaving bands out changes nothing: the best k by the lazy way and by all log-probabilities. */
TEST(the_likeliest_are_exact) {
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

TEST(nonsense_is_refused) {
    struct model_case c;
    txl_error error;
    case_open(&c, "characters", NULL, -1);
    txl_session *session = case_session(&c, NULL);
    int32_t n = txl_model_n_token(c.model), id, *all = calloc((size_t)n, sizeof *all);
    float logprob;
    txl_random random = {0};
    txl_history *history;
    assert_int_equal(txl_history_new(4, 0, &history, &error), TXL_OK);
    assert_non_null(all);
    for (int32_t i = 0; i < n; i++)
        all[i] = i;
    assert_int_equal(txl_session_feed(session, c.ids, 1, &error), TXL_OK);
    const txl_sampling bad[] = {
        {.temperature = -1, .top_p = 1},
        {.temperature = NAN, .top_p = 1},
        {.temperature = 1, .top_p = -0.1f},
        {.temperature = 1, .top_p = NAN},
        {.temperature = 1, .top_k = -1, .top_p = 1},
        {.temperature = 1, .top_p = 1, .min_p = NAN},
        {.temperature = 1, .top_p = 1, .min_p = -0.1f},
        {.temperature = 1, .top_p = 1, .min_p = 1.1f},
        {.temperature = 1, .top_p = 1, .typical = NAN},
        {.temperature = 1, .top_p = 1, .typical = -0.1f},
        {.temperature = 1, .top_p = 1, .typical = 1.1f},
        {.temperature = 1, .top_p = 1, .repetition_penalty = NAN, .history = history},
        {.temperature = 1, .top_p = 1, .repetition_penalty = INFINITY, .history = history},
        {.temperature = 1, .top_p = 1, .repetition_penalty = -1, .history = history},
        {.temperature = 1, .top_p = 1, .repetition_penalty = 2, .repeat_last = 1},
        {.temperature = 0,
         .top_p = 1,
         .repetition_penalty = 2,
         .repeat_last = 5,
         .history = history},
        {.temperature = 1, .top_p = 1, .banned = all, .n_banned = (size_t)n},
        {.temperature = 0, .top_p = 1, .banned = all, .n_banned = (size_t)n},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(txl_session_sample(session, &bad[i], &random, &id, &logprob, &error),
                         TXL_ARGUMENT);
    assert_int_equal(random.draw, 0);
    txl_history_free(history);
    free(all);
    txl_session_free(session);
    case_close(&c);
}

int main(void) {
    for (int32_t id = 0; id < HEAD; id++)
        head[id] = id;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
