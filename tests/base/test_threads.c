/* Several threads use one model at the same time, each with a session, an encoder and a decoder of
 * its own: each must get the results that it gets alone.  Mainly for the thread sanitizer. */
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_THREAD = 4, N_SCORED = 40, N_DRAWN = 8, N_PAIR = 2, TEXT_BYTES = 4096 };

static const char *const types[] = {"f32", "f16", "bf16", "q8"};

static void run_together(void *(*run)(void *), void *work, size_t size) {
    pthread_t thread[N_THREAD];
    for (size_t i = 0; i < N_THREAD; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run, (char *)work + i * size), 0);
    for (size_t i = 0; i < N_THREAD; i++)
        pthread_join(thread[i], NULL);
}

/* ---- Sessions ----------------------------------------------------------------------------- */

/* The work of one session, and its results. */
struct work {
    const txl_model *model;
    txl_settings settings;
    const int32_t *ids; /* [N_SCORED + 1] */
    uint64_t seed;
    float nats[N_SCORED];
    int32_t drawn[N_DRAWN][N_PAIR];
    txl_status status;
};

/* Draws from two timelines, which advance each by itself at first, then together. */
static txl_status draw(struct work *w, txl_session *const *pair) {
    const txl_sampling sampling = {.temperature = 1, .top_p = 0.95f};
    txl_random random[N_PAIR] = {{.seed = w->seed}, {.seed = w->seed, .stream = 1}};
    txl_status status = TXL_OK;
    for (int i = 0; i < N_DRAWN; i++) {
        int32_t *ids = w->drawn[i];
        float logprob;
        for (int j = 0; j < N_PAIR && !status; j++)
            status = txl_session_sample(pair[j], &sampling, &random[j], &ids[j], &logprob, NULL);
        for (int j = 0; i < N_DRAWN / 2 && j < N_PAIR && !status; j++)
            status = txl_session_feed(pair[j], &ids[j], 1, NULL);
        if (i >= N_DRAWN / 2 && !status)
            status = txl_session_feed_each(pair, N_PAIR, ids, NULL);
    }
    return status;
}

/* Scores its part of the case's text, and continues it. */
static void *run_session(void *context) {
    struct work *w = context;
    txl_session *pair[N_PAIR];
    w->status = txl_session_new(w->model, &w->settings, &pair[0], NULL);
    if (w->status)
        return NULL;
    w->status = txl_session_score(pair[0], w->ids, N_SCORED, w->ids + 1, w->nats, NULL);
    if (!w->status)
        w->status = txl_session_copy(pair[0], &pair[1], NULL);
    if (!w->status) {
        w->status = draw(w, pair);
        txl_session_free(pair[1]);
    }
    txl_session_free(pair[0]);
    return NULL;
}

static void check_case(const char *name, const char *type) {
    struct model_case c;
    txl_model *compressed;
    struct work alone[N_THREAD], together[N_THREAD];
    case_open(&c, name, type, -1);
    const char *path = scratch_path("threads.txl");
    case_convert(name, type, -1, path);
    assert_int_equal(txl_model_open_compressed(path, 1, &compressed, NULL), TXL_OK);
    unlink(path);
    assert_true(c.n > N_SCORED + N_THREAD);
    for (int i = 0; i < N_THREAD; i++) {
        alone[i] = (struct work){.model = c.model, .ids = c.ids + i, .seed = (uint64_t)i};
        alone[i].settings = run_settings(json_object_get(c.expect, "greedy"), 1);
        together[i] = alone[i];
        together[i].settings.threads = 1 + i % 2;
        if (i >= N_THREAD / 2)
            together[i].model = compressed;
        run_session(&alone[i]);
        assert_int_equal(alone[i].status, TXL_OK);
    }
    run_together(run_session, together, sizeof *together);
    for (int i = 0; i < N_THREAD; i++) {
        assert_int_equal(together[i].status, TXL_OK);
        assert_memory_equal(together[i].nats, alone[i].nats, sizeof alone[i].nats);
        assert_memory_equal(together[i].drawn, alone[i].drawn, sizeof alone[i].drawn);
    }
    txl_model_close(compressed);
    case_close(&c);
}

TEST(sessions) {
    for (size_t k = 0; case_names[k]; k++)
        for (size_t t = SANITIZED ? k % 2 : 0; t < sizeof types / sizeof *types; t += 1 + SANITIZED)
            check_case(case_names[k], types[t]);
}

/* ---- Copies ------------------------------------------------------------------------------- */

enum { N_BEFORE = 200, N_AFTER = 260, N_COPIED = 30, N_FREED = 220, MOST_SYMBOLS = 4096 };

/* A session that shares rows with others, and what follows. */
struct life {
    txl_session *session;
    int32_t n_token, first;
    float logprob[MOST_SYMBOLS];
    txl_status status;
};

/* Feeds it; from N_COPIED to N_FREED, together with a copy. */
static void *run_life(void *context) {
    struct life *l = context;
    txl_session *pair[N_PAIR] = {l->session};
    for (int i = 0; i < N_AFTER && !l->status; i++) {
        const int32_t ids[N_PAIR] = {(l->first + i * 7) % l->n_token, i % l->n_token};
        if (i == N_COPIED)
            l->status = txl_session_copy(pair[0], &pair[1], NULL);
        if (!l->status)
            l->status = txl_session_feed_each(pair, pair[1] ? N_PAIR : 1, ids, NULL);
        if (i == N_FREED) {
            txl_session_free(pair[1]);
            pair[1] = NULL;
        }
    }
    txl_session_free(pair[1]);
    if (!l->status)
        l->status = txl_session_logprobs(l->session, l->logprob, NULL);
    txl_session_free(l->session);
    return NULL;
}

/* The original and its copies continue in threads of their own, beyond what they share. */
static void check_copies(const char *name) {
    struct model_case c;
    static struct life alone[N_THREAD], together[N_THREAD];
    case_open(&c, name, NULL, -1);
    const txl_settings settings = {.tgt_len = 8, .mem_len = 150, .clamp_len = -1, .threads = 1};
    txl_session *source = case_session(&c, &settings);
    int32_t ids[N_BEFORE], n_token = txl_model_n_token(c.model);
    assert_true(n_token <= MOST_SYMBOLS);
    for (int i = 0; i < N_BEFORE; i++)
        ids[i] = i * 11 % n_token;
    assert_int_equal(txl_session_feed(source, ids, N_BEFORE, NULL), TXL_OK);
    for (int i = 0; i < N_THREAD; i++) {
        alone[i] = together[i] = (struct life){.n_token = n_token, .first = i};
        assert_int_equal(txl_session_copy(source, &alone[i].session, NULL), TXL_OK);
        run_life(&alone[i]);
        assert_int_equal(alone[i].status, TXL_OK);
    }
    for (int i = 1; i < N_THREAD; i++)
        assert_int_equal(txl_session_copy(source, &together[i].session, NULL), TXL_OK);
    together[0].session = source;
    run_together(run_life, together, sizeof *together);
    for (int i = 0; i < N_THREAD; i++) {
        assert_int_equal(together[i].status, TXL_OK);
        assert_memory_equal(together[i].logprob, alone[i].logprob,
                            (size_t)n_token * sizeof *alone[i].logprob);
    }
    case_close(&c);
}

TEST(copies) {
    check_copies("enwik8-zip");
    check_copies("xlnet/base-zip");
}

/* ---- Text --------------------------------------------------------------------------------- */

/* A text that is encoded, and decoded again. */
struct reading {
    const txl_model *model;
    const char *text;
    size_t length;
    txl_decoder *decoder;
    char shown[2 * TEXT_BYTES];
    size_t n_shown;
    txl_status status;
};

static txl_status show(struct reading *r, const char *text, size_t length) {
    if (length > sizeof r->shown - r->n_shown)
        return TXL_MEMORY;
    memcpy(r->shown + r->n_shown, text, length);
    r->n_shown += length;
    return TXL_OK;
}

static txl_status decode(void *context, const txl_symbol *symbol, txl_error *error) {
    struct reading *r = context;
    const char *text;
    size_t length;
    if (symbol->id < 0)
        return TXL_OK;
    txl_status status = txl_decoder_push(r->decoder, symbol->id, &text, &length, error);
    return status ? status : show(r, text, length);
}

static void *run_reading(void *context) {
    struct reading *r = context;
    const txl_encoding encoding = {
        .raw = true, .skip_unknown = true, .lookup = true, .symbol = decode, .context = r};
    txl_encoder *encoder;
    const char *text;
    size_t length;
    r->status = txl_encoder_new(r->model, &encoding, &encoder, NULL);
    if (r->status)
        return NULL;
    r->status = txl_decoder_new(r->model, true, &r->decoder, NULL);
    if (!r->status) {
        r->status = txl_encoder_feed(encoder, r->text, r->length, NULL);
        if (!r->status)
            r->status = txl_encoder_finish(encoder, NULL);
        if (!r->status)
            r->status = txl_decoder_finish(r->decoder, &text, &length, NULL);
        if (!r->status)
            r->status = show(r, text, length);
        txl_decoder_free(r->decoder);
    }
    txl_encoder_free(encoder);
    return NULL;
}

TEST(texts) {
    static const char *const names[] = {"wt103-zip", "lm1b", "characters", "text8", "enwik8-zip"};
    static struct reading alone, together[N_THREAD];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct model_case c;
        char text[TEXT_BYTES];
        FILE *file = fopen(case_path(names[k], "text.txt"), "rb");
        assert_non_null(file);
        size_t length = fread(text, 1, sizeof text, file);
        fclose(file);
        case_open(&c, names[k], NULL, -1);
        alone = (struct reading){.model = c.model, .text = text, .length = length};
        for (size_t i = 0; i < N_THREAD; i++)
            together[i] = alone;
        run_reading(&alone);
        assert_int_equal(alone.status, TXL_OK);
        assert_true(alone.n_shown > 0);
        run_together(run_reading, together, sizeof *together);
        for (size_t i = 0; i < N_THREAD; i++) {
            assert_int_equal(together[i].status, TXL_OK);
            assert_int_equal(together[i].n_shown, alone.n_shown);
            assert_memory_equal(together[i].shown, alone.shown, alone.n_shown);
        }
        case_close(&c);
    }
}

/* ---- Models ------------------------------------------------------------------------------- */

struct opening {
    const char *path;
    txl_status status;
};

static void *run_opening(void *context) {
    struct opening *o = context;
    txl_model *model;
    o->status = txl_model_open(o->path, 2, &model, NULL);
    if (!o->status)
        txl_model_close(model);
    return NULL;
}

/* Comes first, so that choices made once in a process, such as the kernels, are made here. */
TEST(models) {
    struct opening openings[N_THREAD];
    const char *path = scratch_path("threads.txl");
    case_convert("wt103-zip", NULL, -1, path);
    for (size_t i = 0; i < N_THREAD; i++)
        openings[i] = (struct opening){.path = path};
    run_together(run_opening, openings, sizeof *openings);
    unlink(path);
    for (size_t i = 0; i < N_THREAD; i++)
        assert_int_equal(openings[i].status, TXL_OK);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
