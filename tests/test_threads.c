/* Several sessions of one model in several threads, each with threads of its own: each gives the
 * numbers that it gives alone.  Meant for the thread sanitizer above all. */
#include "../convert/convert.h"
#include "model_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { N_THREAD = 4, N_SCORED = 40, N_DRAWN = 12 };

/* What one session is to do, and what came of it. */
struct work {
    const struct model_case *c;
    int number, threads;
    float nats[N_SCORED];
    int32_t drawn[N_DRAWN];
    txl_status status;
};

static txl_status draw(struct work *w, txl_session *session) {
    const txl_sampling sampling = {.temperature = 1, .top_p = 0.95f};
    txl_random random = {.seed = (uint64_t)w->number};
    txl_status status = TXL_OK;
    for (int i = 0; i < N_DRAWN && !status; i++) {
        float logprob;
        status = txl_session_sample(session, &sampling, &random, &w->drawn[i], &logprob, NULL);
        if (!status)
            status = txl_session_feed(session, &w->drawn[i], 1, NULL);
    }
    return status;
}

/* Scores the case's text from a place that differs from session to session, and goes on with it. */
static void *run(void *context) {
    struct work *w = context;
    txl_settings settings = run_settings(json_object_get(w->c->expect, "greedy"), w->threads);
    txl_session *session, *copy;
    const int32_t *ids = w->c->ids + w->number;
    w->status = txl_session_new(w->c->model, &settings, &session, NULL);
    if (w->status)
        return NULL;
    w->status = txl_session_score(session, ids, N_SCORED, ids + 1, w->nats, NULL);
    if (!w->status)
        w->status = txl_session_copy(session, &copy, NULL);
    if (!w->status) {
        txl_session_free(session);
        session = copy;
        w->status = draw(w, session);
    }
    txl_session_free(session);
    return NULL;
}

static void check_case(const char *name, const char *type) {
    struct model_case c;
    struct work alone[N_THREAD], together[N_THREAD];
    pthread_t thread[N_THREAD];
    case_open(&c, name, type, -1);
    assert_true(c.n > N_SCORED + N_THREAD);
    for (int i = 0; i < N_THREAD; i++) {
        alone[i] = (struct work){.c = &c, .number = i, .threads = 1};
        together[i] = (struct work){.c = &c, .number = i, .threads = 1 + i % 2};
        run(&alone[i]);
        assert_int_equal(alone[i].status, TXL_OK);
    }
    for (int i = 0; i < N_THREAD; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run, &together[i]), 0);
    for (int i = 0; i < N_THREAD; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(together[i].status, TXL_OK);
        assert_memory_equal(together[i].nats, alone[i].nats, sizeof alone[i].nats);
        assert_memory_equal(together[i].drawn, alone[i].drawn, sizeof alone[i].drawn);
    }
    case_close(&c);
}

static void sessions(void **state) {
    (void)state;
    check_case("enwik8-zip", NULL);
    check_case("wt103-zip", "q8");
    check_case("hf-bin", "bf16");
    check_case("absolute-sinusoid", NULL);
}

/* Opens and closes a model. */
static void *open_model(void *path) {
    txl_model *model;
    if (txl_model_open(path, 2, &model, NULL) != TXL_OK)
        return NULL;
    txl_model_close(model);
    return path;
}

static void models(void **state) {
    (void)state;
    char source[4096], path[4096];
    struct convert_options options;
    pthread_t thread[N_THREAD];
    convert_options_init(&options);
    snprintf(source, sizeof source, "%s", case_path("wt103-zip", "."));
    snprintf(path, sizeof path, "%s", scratch_path("threads.txl"));
    assert_int_equal(convert_checkpoint(source, path, &options, NULL), TXL_OK);
    for (int i = 0; i < N_THREAD; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, open_model, path), 0);
    for (int i = 0; i < N_THREAD; i++) {
        void *opened;
        pthread_join(thread[i], &opened);
        assert_non_null(opened);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions),
        cmocka_unit_test(models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
