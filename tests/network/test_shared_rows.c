/* Copies of a session share the keys and values of their common past.  Each gives the same numbers,
 * bit for bit, as a session that was fed the same tokens alone: while the shared rows are visible,
 * while they leave the window, after that, and whatever happens to the other copies. */
#include "convert/converter.h"
#include "lib/session/session.h"
#include "lib/transformer_xl/timeline.h"
#include "tests/files.h"
#include "tests/model_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Pairs -------------------------------------------------------------------------------- */

enum { STEPS = 330, MOST_CALLS = 512, MOST_PAIRS = 6, MOST_TOKENS = 32000 };

/* A session that shares rows, and one that is fed the same tokens alone. */
struct pair {
    txl_session *shared, *alone;
    size_t call[MOST_CALLS], n_call; /* number of ids in each call so far */
    uint32_t seed;                   /* the random state that makes its ids */
    int32_t id[MOST_CALLS + 512];
    size_t n;
};

struct trial {
    const struct model_case *c;
    txl_settings settings;
    int32_t n_token;
    struct pair pair[MOST_PAIRS];
    float *logprob[2]; /* [n_token] */
};

/* Makes the pair's next n ids and records them as one call. */
static const int32_t *next_ids(const struct trial *t, struct pair *p, size_t n) {
    int32_t *ids = p->id + p->n;
    assert_true(p->n_call < MOST_CALLS && p->n + n <= sizeof p->id / sizeof *p->id);
    for (size_t i = 0; i < n; i++) {
        p->seed = p->seed * 1664525 + 1013904223;
        ids[i] = (int32_t)((p->seed >> 8) % (uint32_t)t->n_token);
    }
    p->call[p->n_call++] = n;
    p->n += n;
    return ids;
}

static void feed(const struct trial *t, struct pair *p, size_t n) {
    txl_error error;
    const int32_t *ids = next_ids(t, p, n);
    assert_good(txl_session_feed(p->shared, ids, n, &error), &error);
    assert_good(txl_session_feed(p->alone, ids, n, &error), &error);
}

static void copy(struct trial *t, size_t from, size_t to) {
    txl_error error;
    struct pair *p = &t->pair[to];
    size_t done = 0;
    *p = t->pair[from];
    p->seed += (uint32_t)to;
    assert_good(txl_session_copy(t->pair[from].shared, &p->shared, &error), &error);
    p->alone = case_session(t->c, &t->settings);
    for (size_t i = 0; i < p->n_call; done += p->call[i++])
        assert_good(txl_session_feed(p->alone, p->id + done, p->call[i], &error), &error);
}

static void end(struct pair *p) {
    txl_session_free(p->shared);
    txl_session_free(p->alone);
    *p = (struct pair){0};
}

static void reset(struct pair *p) {
    txl_session_reset(p->shared);
    txl_session_reset(p->alone);
    p->n = p->n_call = 0;
}

static const struct kv_ring *ring_of(const struct pair *p) {
    return &xl_timeline(p->shared->timeline)->ring;
}

/* ---- What is compared --------------------------------------------------------------------- */

static void compare(const struct trial *t, size_t step) {
    txl_error error;
    for (size_t i = 0; i < MOST_PAIRS; i++) {
        const struct pair *p = &t->pair[i];
        if (!p->shared || p->n == 0)
            continue;
        assert_good(txl_session_logprobs(p->shared, t->logprob[0], &error), &error);
        assert_good(txl_session_logprobs(p->alone, t->logprob[1], &error), &error);
        if (memcmp(t->logprob[0], t->logprob[1], (size_t)t->n_token * sizeof(float)) != 0)
            fail_msg("%s, memory type %d, step %zu: session %zu differs", t->c->name,
                     (int)t->settings.memory_type, step, i);
    }
}

/* Feeds one token to each session in one call; session 2 is left out of every third step. */
static void feed_together(struct trial *t, size_t step) {
    txl_session *session[MOST_PAIRS];
    int32_t ids[MOST_PAIRS];
    txl_error error;
    size_t n = 0;
    for (size_t i = 0; i < MOST_PAIRS; i++) {
        struct pair *p = &t->pair[i];
        if (!p->shared || (i == 2 && step % 3 == 0))
            continue;
        session[n] = p->shared;
        ids[n] = *next_ids(t, p, 1);
        assert_good(txl_session_feed(p->alone, &ids[n++], 1, &error), &error);
    }
    assert_good(txl_session_feed_each(session, n, ids, &error), &error);
}

static size_t saved_bytes(const txl_session *session, const char *name, char **bytes) {
    txl_memory *memory;
    txl_error error;
    const char *path = scratch_path(name);
    assert_good(txl_session_save(session, NULL, &memory, &error), &error);
    assert_good(txl_memory_write(memory, path, &error), &error);
    txl_memory_free(memory);
    size_t n;
    *bytes = read_file(path, &n);
    return n;
}

/* Checks that both sessions of pair `from` save the same bytes, and loads these into both sessions
 * of pair `to`. */
static void move_memory(struct trial *t, size_t from, size_t to) {
    char *bytes[2];
    txl_error error;
    txl_memory *memory;
    size_t n = saved_bytes(t->pair[from].shared, "shared.memory", &bytes[0]);
    assert_int_equal(saved_bytes(t->pair[from].alone, "alone.memory", &bytes[1]), n);
    assert_memory_equal(bytes[0], bytes[1], n);
    free(bytes[0]);
    free(bytes[1]);
    unlink(scratch_path("alone.memory"));
    const char *path = scratch_path("shared.memory");
    assert_good(txl_memory_read(path, t->c->model, &memory, &error), &error);
    unlink(path);
    assert_good(txl_session_load(t->pair[to].shared, memory, &error), &error);
    assert_good(txl_session_load(t->pair[to].alone, memory, &error), &error);
    txl_memory_free(memory);
    assert_int_equal(ring_of(&t->pair[to])->n_shared, 0);
}

/* ---- Lives -------------------------------------------------------------------------------- */

/* Copies, ends, feeds, loads or resets sessions at fixed steps.  By the last step, each session has
 * ended or no longer sees shared rows. */
static void event(struct trial *t, size_t step) {
    if (step == 10)
        copy(t, 1, 4); /* a copy of a copy that was just made */
    if (step == 30)
        end(&t->pair[3]);
    if (step == 40)
        feed(t, &t->pair[0], 9); /* the original runs ahead of its copies */
    if (step == 80)
        copy(t, 2, 5); /* a copy of a copy that has whole blocks of its own */
    if (step == 90)
        end(&t->pair[0]);
    if (step == 95)
        copy(t, 5, 3);
    if (step == 100)
        move_memory(t, 1, 4);
    if (step == 110)
        move_memory(t, 3, 3);
    if (step == 120)
        feed(t, &t->pair[2], 23);
    if (step == 130)
        reset(&t->pair[5]);
}

static void live(struct trial *t) {
    t->pair[0].shared = case_session(t->c, &t->settings);
    t->pair[0].alone = case_session(t->c, &t->settings);
    feed(t, &t->pair[0], 70);
    feed(t, &t->pair[0], 45);
    for (size_t i = 0; i < 20; i++)
        feed(t, &t->pair[0], 1);
    copy(t, 0, 1);
    copy(t, 0, 2);
    for (size_t i = 0; i < 3; i++)
        feed(t, &t->pair[0], 1);
    copy(t, 0, 3);
    for (size_t i = 0; i < 4; i++)
        assert_ptr_equal(ring_of(&t->pair[i])->shared[0].store,
                         ring_of(&t->pair[0])->shared[0].store);
    compare(t, 0);
    for (size_t step = 1; step <= STEPS; step++) {
        event(t, step);
        feed_together(t, step);
        compare(t, step);
    }
    for (size_t i = 0; i < MOST_PAIRS; i++) {
        if (t->pair[i].shared)
            assert_int_equal(ring_of(&t->pair[i])->n_shared, 0);
        end(&t->pair[i]);
    }
}

static void try_model(const struct model_case *c, const txl_settings *settings) {
    struct trial *t = calloc(1, sizeof *t);
    assert_non_null(t);
    *t = (struct trial){.c = c, .settings = *settings, .n_token = txl_model_n_token(c->model)};
    assert_true(t->n_token < MOST_TOKENS);
    for (int i = 0; i < 2; i++) {
        t->logprob[i] = malloc((size_t)t->n_token * sizeof(float));
        assert_non_null(t->logprob[i]);
    }
    live(t);
    free(t->logprob[0]);
    free(t->logprob[1]);
    free(t);
}

static void try_case(const char *name, const txl_settings *settings) {
    struct model_case c;
#if defined(__SANITIZE_THREAD__)
    if (settings->threads == 1)
        return;
#endif
    case_open(&c, name, NULL, -1);
    try_model(&c, settings);
    case_close(&c);
}

/* ---- Cases -------------------------------------------------------------------------------- */

/* The ring wraps around at least once.  The window moves with segments (the first two) or with
 * every token (the last). */
static const txl_settings by_segments = {
    .tgt_len = 16, .mem_len = 150, .clamp_len = 40, .threads = 1};
static const txl_settings short_segments = {
    .tgt_len = 2, .mem_len = 150, .clamp_len = -1, .threads = 1};
static const txl_settings sliding = {
    .tgt_len = 16, .mem_len = 131, .clamp_len = -1, .same_length = true, .threads = 2};

TEST(with_every_kind_of_memory) {
    static const char *const names[] = {"enwik8-zip", "wt103-legacy", "hf-safetensors", "pre-lnorm",
                                        "learnable-positions"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        try_case(names[i], &sliding);
        if (SANITIZED && i > 0)
            continue;
        try_case(names[i], &by_segments);
        try_case(names[i], &short_segments);
    }
}

/* Before the first token, the memory is the projection of zeros instead of empty. */
TEST(after_projected_zeros) {
    struct model_case c = {.name = "pre-lnorm, zeros"};
    txl_error error;
    const char *path = scratch_path("zeros.txl");
    struct convert_options options;
    convert_options_init(&options);
    options.memory_start = "zeros";
    options.threads = 1;
    assert_good(convert_checkpoint(case_path("pre-lnorm", "."), path, &options, &error), &error);
    assert_good(txl_model_open(path, 1, &c.model, &error), &error);
    unlink(path);
    try_model(&c, &by_segments);
    try_model(&c, &sliding);
    txl_model_close(c.model);
}

TEST(with_all_kernels) {
    for (size_t v = 0; use_kernels(v); v++) {
        for (int type = TXL_MEMORY_F32; type <= TXL_MEMORY_Q8; type++) {
            txl_settings settings = by_segments;
            settings.memory_type = (txl_memory_type)type;
            if (!SANITIZED || ((int)v + type) % 4 == 0)
                try_case("enwik8-zip", &settings);
        }
    }
}

/* Sessions with a common past form one group, however far apart their positions in the window are.
 * There is one thread, so groups are not divided among threads. */
TEST(what_is_shared_is_read_together) {
    enum { N = 8 };
    struct model_case c;
    txl_error error;
    txl_session *session[N];
    int32_t ids[100] = {0};
    case_open(&c, "enwik8-zip", NULL, -1);
    session[0] = case_session(&c, &by_segments);
    assert_good(txl_session_feed(session[0], ids, 100, &error), &error);
    for (size_t i = 1; i < N; i++) {
        assert_good(txl_session_copy(session[0], &session[i], &error), &error);
        assert_good(txl_session_feed(session[i], ids, i, &error), &error);
    }
    assert_good(txl_session_feed_each(session, N, ids, &error), &error);
    const size_t *group = xl_timeline(session[0]->timeline)->group;
    assert_int_equal(group[0], 0);
    assert_int_equal(group[1], N);
    /* A session that shares nothing is a group of its own. */
    txl_session_free(session[3]);
    session[3] = case_session(&c, &by_segments);
    assert_good(txl_session_feed_each(session, N, ids, &error), &error);
    assert_int_equal(group[1], 3);
    assert_int_equal(group[2], 4);
    assert_int_equal(group[3], N);
    /* So is one so far ahead that the scores of all keys between would not fit. */
    for (size_t i = 0; i < 30; i++)
        assert_good(txl_session_feed(session[5], ids, 100, &error), &error);
    assert_good(txl_session_feed_each(session, N, ids, &error), &error);
    const size_t first[] = {0, 3, 4, 5, 6, N};
    assert_memory_equal(group, first, sizeof first);
    for (size_t i = 0; i < N; i++)
        txl_session_free(session[i]);
    case_close(&c);
}

/* The first block that is written is block 0, where a head's blocks lie in the shortest runs. */
TEST(a_ring_begins_with_its_first_position) {
    for (uint64_t first = 0; first < 1000; first += 37) {
        struct kv_ring ring = ring_plan(TXL_MEMORY_F32, 2, 3, 8, 300, first);
        uint64_t begin = first / ROW_BLOCK * ROW_BLOCK;
        for (uint64_t p = begin; p < begin + 2 * ring.capacity; p++) {
            assert_int_equal(ring_row(&ring, p), (p - begin) % ring.capacity);
            assert_int_equal(ring_block(&ring, p), ring_row(&ring, p) / ROW_BLOCK);
        }
        for (uint64_t p = 0; p + 1 < begin; p++)
            assert_int_equal((ring_row(&ring, p) + 1) % ring.capacity, ring_row(&ring, p + 1));
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
