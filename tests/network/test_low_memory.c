/* Models opened compressed: every result is bit for bit that of the expanded model, even if others
 * use the model at the same time, and the session that reaches a damaged block reports it. */
#include "convert/converter.h"
#include "lib/weights/weights.h"
#include "tests/files.h"
#include "tests/model_cases.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Models ------------------------------------------------------------------------------- */

/* The model of a case, both ways. */
struct both {
    struct model_case c; /* expanded */
    txl_model *compressed;
};

static void convert_case(const char *name, const char *type, const char *memory_start,
                         const char *path) {
    txl_error error;
    char source[4096];
    struct convert_options options;
    convert_options_init(&options);
    options.type = type;
    options.memory_start = memory_start;
    options.threads = 1;
    snprintf(source, sizeof source, "%s", case_path(name, "."));
    if (convert_checkpoint(source, path, &options, &error))
        fail_msg("%s: %s", name, error.message);
}

static void open_both(struct both *both, const char *name, const char *type,
                      const char *memory_start) {
    txl_error error;
    case_open(&both->c, name, type, -1);
    txl_model_close(both->c.model);
    const char *path = scratch_path("low-memory.txl");
    convert_case(name, type, memory_start, path);
    if (txl_model_open(path, 1, &both->c.model, &error) ||
        txl_model_open_compressed(path, 1, &both->compressed, &error))
        fail_msg("%s: %s", name, error.message);
    unlink(path);
}

static void close_both(struct both *both) {
    txl_model_close(both->compressed);
    case_close(&both->c);
}

static txl_settings settings_of(const struct both *both, size_t run) {
    json_t *runs = json_object_get(both->c.expect, "runs");
    return run_settings(json_array_get(runs, run), 2);
}

static txl_session *open_session(const txl_model *model, const txl_settings *settings) {
    txl_error error;
    txl_session *session;
    if (txl_session_new(model, settings, &session, &error))
        fail_msg("%s", error.message);
    return session;
}

/* ---- What a session gives ----------------------------------------------------------------- */

/* Scores, a token at a time at first, and after copying the session: nats[n - 1]. */
static void score(const struct model_case *c, txl_session *session, float *nats) {
    txl_error error;
    txl_session *copy;
    size_t i = 0, n = c->n - 1;
    for (; i < n / 2; i++)
        assert_int_equal(
            txl_session_score(session, c->ids + i, 1, c->ids + i + 1, nats + i, &error), TXL_OK);
    assert_int_equal(txl_session_copy(session, &copy, &error), TXL_OK);
    assert_int_equal(txl_session_score(copy, c->ids + i, n - i, c->ids + i + 1, nats + i, &error),
                     TXL_OK);
    txl_session_free(copy);
}

/* Scores all of the tokens in one call. */
static void score_whole(const struct model_case *c, txl_session *session, float *nats) {
    txl_session_reset(session);
    case_score(c, session, c->n, nats);
}

/* Two timelines in one pass, and the distribution after it. */
static void feed_pair(const struct model_case *c, txl_session *session, float *logprob) {
    txl_error error;
    txl_session *pair[2] = {session, NULL};
    txl_session_reset(session);
    assert_int_equal(txl_session_feed(session, c->ids, 20, &error), TXL_OK);
    assert_int_equal(txl_session_copy(session, &pair[1], &error), TXL_OK);
    for (size_t i = 20; i < 24; i++) {
        int32_t ids[2] = {c->ids[i], c->ids[i + 1]};
        assert_int_equal(txl_session_feed_each(pair, 2, ids, &error), TXL_OK);
    }
    assert_int_equal(txl_session_logprobs(pair[1], logprob, &error), TXL_OK);
    txl_session_free(pair[1]);
}

static void check_run(const struct both *both, const txl_settings *settings) {
    const struct model_case *c = &both->c;
    size_t n_token = (size_t)txl_model_n_token(c->model), room = n_token > c->n ? n_token : c->n;
    void (*const ways[])(const struct model_case *, txl_session *, float *) = {score, score_whole,
                                                                               feed_pair};
    float *expected = calloc(room, sizeof *expected), *got = calloc(room, sizeof *got);
    assert_true(expected && got);
    txl_session *plain = open_session(c->model, settings);
    txl_session *low = open_session(both->compressed, settings);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        ways[w](c, plain, expected);
        ways[w](c, low, got);
        for (size_t i = 0; i < room; i++) {
            if (memcmp(&expected[i], &got[i], sizeof *got) != 0)
                fail_msg("%s, way %zu: number %zu is %.9g, not %.9g", c->name, w, i, (double)got[i],
                         (double)expected[i]);
        }
    }
    txl_session_free(plain);
    txl_session_free(low);
    free(expected);
    free(got);
}

TEST(results_are_the_same_to_the_bit) {
    static const char *const types[] = {"f32", "bf16", "q8", "q4", "q5"};
    for (size_t k = 0; case_names[k]; k++) {
        for (size_t t = SANITIZED ? k % 5 : 0; t < sizeof types / sizeof *types;
             t += SANITIZED ? 5 : 1) {
            struct both both;
            open_both(&both, case_names[k], types[t], NULL);
            for (size_t r = 0; r < json_array_size(json_object_get(both.c.expect, "runs")); r++) {
                txl_settings settings = settings_of(&both, r);
                check_run(&both, &settings);
            }
            close_both(&both);
        }
    }
}

/* The first memory is each layer's own projection then, which a new session computes. */
TEST(projected_zeros_are_the_same) {
    struct both both;
    open_both(&both, "pre-lnorm", NULL, "zeros");
    txl_settings settings = settings_of(&both, 0);
    check_run(&both, &settings);
    close_both(&both);
}

/* ---- Memory ------------------------------------------------------------------------------- */

static uint64_t expanded_bytes_of(const txl_model *model) {
    uint64_t stored, expanded;
    txl_model_bytes(model, &stored, &expanded);
    return expanded;
}

/* Of enwik8-zip the layers are most of it. */
TEST(layers_stay_compressed) {
    struct both both;
    uint64_t layers = 0;
    open_both(&both, "enwik8-zip", NULL, NULL);
    for (size_t i = 0; i < txl_model_n_tensor(both.c.model); i++) {
        txl_tensor tensor;
        txl_model_tensor(both.c.model, i, &tensor);
        if (strncmp(tensor.name, "layer.", 6) == 0 && tensor.n_dim == 2)
            layers += tensor.expanded;
    }
    assert_true(layers > 0);
    assert_int_equal(expanded_bytes_of(both.c.model) - expanded_bytes_of(both.compressed), layers);
    txl_settings settings = settings_of(&both, 0);
    assert_true(txl_session_bytes(both.compressed, &settings) >
                txl_session_bytes(both.c.model, &settings));
    close_both(&both);
}

/* ---- Several sessions at once ------------------------------------------------------------- */

struct timeline {
    const struct both *both;
    txl_session *session;
    float *nats;
    txl_status status;
};

static void *run_timeline(void *context) {
    struct timeline *t = context;
    const struct model_case *c = &t->both->c;
    t->status = TXL_OK;
    for (size_t i = 0; i + 1 < c->n && !t->status; i += 8) {
        size_t n = c->n - 1 - i < 8 ? c->n - 1 - i : 8;
        t->status = txl_session_score(t->session, c->ids + i, n, c->ids + i + 1, t->nats + i, NULL);
    }
    return NULL;
}

TEST(sessions_share_a_model) {
    struct both both;
    struct timeline timeline[5]; /* the last of the expanded model */
    pthread_t thread[4];
    open_both(&both, "wt103-zip", NULL, NULL);
    txl_settings settings = settings_of(&both, 0);
    for (size_t i = 0; i < 5; i++) {
        const txl_model *model = i < 4 ? both.compressed : both.c.model;
        timeline[i] = (struct timeline){&both, open_session(model, &settings),
                                        calloc(both.c.n, sizeof(float)), TXL_OK};
        assert_non_null(timeline[i].nats);
    }
    run_timeline(&timeline[4]);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_timeline, &timeline[i]), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(timeline[i].status, TXL_OK);
        assert_memory_equal(timeline[i].nats, timeline[4].nats, both.c.n * sizeof(float));
        txl_session_free(timeline[i].session);
    }
    for (size_t i = 0; i < 5; i++)
        free(timeline[i].nats);
    close_both(&both);
}

/* ---- Damage ------------------------------------------------------------------------------- */

/* A weights file in memory, to be damaged while it is open. */
struct image {
    uint8_t *data;
    size_t size;
};

static void load_image(struct image *image, const char *name, const char *memory_start) {
    const char *path = scratch_path("damaged.txl");
    convert_case(name, NULL, memory_start, path);
    image->data = read_file(path, &image->size);
    unlink(path);
}

/* Changes a byte of the tensor's last block, or changes it back. */
static void damage(const struct image *image, const char *tensor) {
    struct weights *weights;
    assert_int_equal(weights_open_memory(image->data, image->size, "image", &weights, NULL),
                     TXL_OK);
    const struct weights_tensor *t = weights_find(weights, tensor);
    assert_non_null(t);
    assert_null(t->raw);
    const struct layout_block *block = &weights->block[t->first_block + t->n_block - 1];
    image->data[block->offset + block->stored / 2] ^= 1;
    weights_close(weights);
}

static const char last_matrix[] = "layer.1.feed_forward.2.weight";

static void assert_damaged(txl_status status, const txl_error *error) {
    assert_int_equal(status, TXL_FORMAT);
    assert_non_null(strstr(error->message, "image: tensor layer.1."));
    assert_non_null(strstr(error->message, "checksum"));
}

/* A session that could not go on has the timeline that it had before. */
TEST(damage_is_reported_by_the_session) {
    static const char *const names[] = {"wt103-zip", "hf-bin", "learnable-positions",
                                        "absolute-sinusoid", NULL};
    for (size_t k = 0; names[k]; k++) {
        struct both both;
        struct image image;
        txl_error error;
        txl_model *model;
        open_both(&both, names[k], NULL, NULL);
        load_image(&image, names[k], NULL);
        assert_int_equal(
            txl_model_open_memory_compressed(image.data, image.size, "image", 1, &model, &error),
            TXL_OK);
        const struct model_case *c = &both.c;
        txl_settings settings = settings_of(&both, 0);
        txl_session *session = open_session(model, &settings), *copy;
        float *expected = calloc(c->n, sizeof *expected), *nats = calloc(c->n, sizeof *nats);
        assert_true(expected && nats);

        damage(&image, last_matrix);
        assert_damaged(txl_session_feed(session, c->ids, 1, &error), &error);
        assert_damaged(txl_session_score(session, c->ids, 30, c->ids + 1, nats, &error), &error);
        assert_damaged(txl_session_feed_each(&session, 1, c->ids, &error), &error);
        damage(&image, last_matrix);
        for (size_t i = 0; i + 1 < c->n; i++) {
            size_t broken = i % 7 == 3;
            if (broken) {
                damage(&image, last_matrix);
                assert_damaged(txl_session_feed(session, c->ids + i, 1, &error), &error);
                damage(&image, last_matrix);
            }
            assert_int_equal(
                txl_session_score(session, c->ids + i, 1, c->ids + i + 1, nats + i, &error),
                TXL_OK);
        }
        assert_int_equal(txl_session_copy(session, &copy, &error), TXL_OK);
        txl_session_free(copy);
        txl_session_free(session);

        session = open_session(c->model, &settings);
        for (size_t i = 0; i + 1 < c->n; i++)
            assert_int_equal(
                txl_session_score(session, c->ids + i, 1, c->ids + i + 1, expected + i, &error),
                TXL_OK);
        assert_memory_equal(nats, expected, c->n * sizeof *nats);
        txl_session_free(session);
        free(nats);
        free(expected);
        txl_model_close(model);
        free(image.data);
        close_both(&both);
    }
}

/* Copying computes position rows; with a first memory of projected zeros, that every layer's, so
 * does a new session. */
static void check_copies(const char *name, const char *memory_start) {
    struct image image;
    txl_error error;
    txl_model *model;
    txl_session *other;
    load_image(&image, name, memory_start);
    assert_int_equal(
        txl_model_open_memory_compressed(image.data, image.size, "image", 1, &model, &error),
        TXL_OK);
    txl_settings settings = {.tgt_len = 8, .mem_len = 24, .clamp_len = -1, .threads = 2};
    txl_session *session = open_session(model, &settings);
    damage(&image, last_matrix);
    assert_damaged(txl_session_copy(session, &other, &error), &error);
    if (memory_start)
        assert_damaged(txl_session_new(model, &settings, &other, &error), &error);
    damage(&image, last_matrix);
    assert_int_equal(txl_session_copy(session, &other, &error), TXL_OK);
    txl_session_free(other);
    txl_session_free(session);
    txl_model_close(model);
    free(image.data);
}

TEST(damage_stops_copies_and_new_sessions) {
    check_copies("wt103-zip", NULL);
    check_copies("pre-lnorm", "zeros");
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
