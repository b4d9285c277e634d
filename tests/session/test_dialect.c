/* What TensorFlow's code has otherwise: the reach of same_length, layer norm's epsilon, bands
 * without projections; and the format's version that goes with them.  A setting without one. */
#include "tests/unit.h"
#include "txl.h"

#include <string.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { N = 61, N_TOKEN = 97, MEM_LEN = 9 };

/* Orders of summation differ by 2e-7.  A position more changes nats by 4e-5, and the mean of a step
 * by 8e-6: random weights are small. */
static const float TOLERANCE = 1e-6F;

static const char reach[] = "\"same_length_reach\": \"mem_len + 1\"";
static const char epsilon[] = "\"layer_norm_eps\": 0.25";
static const char unprojected[] = "\"proj_same_dim\": false";

static txl_status try_model(const char *changes, txl_model **model, txl_error *error) {
    char settings[2048];
    snprintf(settings, sizeof settings,
             "{\"family\": \"transformer-xl\", \"tokenizer\": \"words\", \"lower_case\": false,"
             " \"unk_id\": null, \"eos_id\": null, \"n_token\": %d, \"n_layer\": 3, \"n_head\": 2,"
             " \"d_head\": 7, \"d_model\": 20, \"d_embed\": 20, \"d_inner\": 33,"
             " \"pre_lnorm\": false, \"div_val\": 2, \"cutoffs\": [30, 60], \"tied_weights\": true,"
             " \"tied_projections\": [false, false, false], \"tgt_len\": 5, \"mem_len\": %d,"
             " \"clamp_len\": -1, \"same_length\": true, \"cluster_order\": \"forward\", %s}",
             N_TOKEN, MEM_LEN, changes);
    return txl_model_random(settings, "f32", 3, 1, model, error);
}

/* `fact` is one of the above or "". */
static txl_model *make_model(const char *rest, const char *fact) {
    char changes[512];
    txl_model *model;
    txl_error error = {0};
    snprintf(changes, sizeof changes, "%s%s%s", rest, *fact ? ", " : "", fact);
    if (try_model(changes, &model, &error))
        fail_msg("%s: %s", changes, error.message);
    return model;
}

static txl_settings settings_of(const txl_model *model, int mem_len) {
    txl_settings settings;
    txl_model_defaults(model, &settings);
    settings.mem_len = mem_len;
    settings.threads = 2;
    return settings;
}

static void ids_of(int32_t *ids) {
    for (int i = 0; i <= N; i++)
        ids[i] = i * 41 % N_TOKEN;
}

static txl_session *make_session(const txl_model *model, const txl_settings *settings) {
    txl_session *session;
    txl_error error;
    assert_int_equal(txl_session_new(model, settings, &session, &error), TXL_OK);
    return session;
}

static void score(const txl_model *model, const txl_settings *settings, float *nats) {
    int32_t ids[N + 1];
    txl_error error;
    txl_session *session = make_session(model, settings);
    ids_of(ids);
    assert_int_equal(txl_session_score(session, ids, N, ids + 1, nats, &error), TXL_OK);
    txl_session_free(session);
}

static float farthest(const float *a, const float *b) {
    float most = 0;
    for (int i = 0; i < N; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

/* ---- The reach ---------------------------------------------------------------------------- */

static const char *const memories[] = {
    "\"attn_type\": 0, \"memory_start\": \"empty\"",
    "\"attn_type\": 0, \"memory_start\": \"zeros\"",
    "\"attn_type\": 1, \"max_klen\": 8, \"memory_start\": \"zeros\"",
    "\"attn_type\": 0, \"memory_start\": \"zeros\", \"pre_lnorm\": true, \"clamp_len\": 10",
};

/* With M rows of memory a token sees what it sees of M + 1 where it counts itself. */
TEST(reach_is_one_more) {
    float ours[N], theirs[N];
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
        txl_model *further = make_model(memories[i], reach), *usual = make_model(memories[i], "");
        assert_string_equal(txl_model_same_length_reach(further), "mem_len + 1");
        assert_string_equal(txl_model_same_length_reach(usual), "mem_len");
        txl_settings s = settings_of(further, MEM_LEN), more = settings_of(usual, MEM_LEN + 1);
        txl_costs a, b;
        score(further, &s, ours);
        score(usual, &more, theirs);
        assert_true(farthest(ours, theirs) <= TOLERANCE);
        txl_model_costs(further, &s, &a);
        txl_model_costs(usual, &more, &b);
        assert_int_equal(a.flops, b.flops);
        assert_int_equal(a.bytes, b.bytes);
        /* With fewer segments' ends too. */
        s.tgt_len = 7;
        score(further, &s, ours);
        assert_true(farthest(ours, theirs) <= TOLERANCE);
        score(usual, &s, theirs);
        assert_true(farthest(ours, theirs) > 10 * TOLERANCE);

        /* It means nothing without same_length, and where nothing is remembered. */
        for (int way = 0; way < 2; way++) {
            s = settings_of(further, way == 0 ? 0 : MEM_LEN);
            s.same_length = way == 0;
            score(further, &s, ours);
            score(usual, &s, theirs);
            assert_memory_equal(ours, theirs, sizeof ours);
            txl_model_costs(further, &s, &a);
            txl_model_costs(usual, &s, &b);
            assert_int_equal(a.flops, b.flops);
        }
        txl_model_close(further);
        txl_model_close(usual);
    }
}

/* ---- Training ----------------------------------------------------------------------------- */

/* The loss of a step is what a session scores, and what it sees counts. */
TEST(training_has_them_too) {
    static const char *const all[] = {reach, epsilon, unprojected};
    int32_t ids[N + 1];
    ids_of(ids);
    for (size_t i = 0; i < 3; i++) {
        for (int pre_lnorm = 0; pre_lnorm < 2; pre_lnorm++) {
            char rest[128];
            snprintf(rest, sizeof rest, "\"attn_type\": 0, \"pre_lnorm\": %s",
                     pre_lnorm ? "true" : "false");
            txl_model *model = make_model(rest, all[i]), *usual = make_model(rest, "");
            txl_settings settings = settings_of(model, MEM_LEN);
            txl_training how = {.batch = 1,
                                .tgt_len = 5,
                                .mem_len = MEM_LEN,
                                .clamp_len = -1,
                                .same_length = true,
                                .epsilon = 1e-8,
                                .threads = 1};
            float nats[N];
            txl_error error;
            txl_ids *list;
            txl_trainer *trainer;
            score(model, &settings, nats);
            assert_int_equal(txl_ids_new(N_TOKEN, &list, &error), TXL_OK);
            assert_int_equal(txl_ids_add(list, ids, N + 1, &error), TXL_OK);
            if (txl_trainer_new(model, list, &how, &trainer, &error))
                fail_msg("%s", error.message);
            for (int at = 0; at + 5 <= N; at += 5) {
                txl_step step;
                double mean = 0;
                assert_int_equal(txl_trainer_step(trainer, 0, &step, &error), TXL_OK);
                for (int k = 0; k < 5; k++)
                    mean += nats[at + k] / 5.0;
                assert_true(fabs(step.loss - mean) < (double)TOLERANCE);
            }
            uint64_t flops = txl_trainer_flops(model, &how), plain;
            plain = txl_trainer_flops(usual, &how);
            assert_true(i == 0 ? flops > plain : i == 1 ? flops == plain : flops < plain);
            txl_trainer_free(trainer);
            txl_ids_free(list);
            txl_model_close(model);
            txl_model_close(usual);
        }
    }
}

/* ---- Files -------------------------------------------------------------------------------- */

static char path[] = "/tmp/txl-dialect-XXXXXX";

/* Also in a saved memory. */
TEST(files_keep_the_dialect) {
    static const char *const cases[] = {
        "", reach, epsilon, unprojected,
        "\"same_length_reach\": \"mem_len\", \"layer_norm_eps\": 1e-5, \"proj_same_dim\": true"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float ours[N], theirs[N];
        txl_error error;
        txl_model *model = make_model("\"attn_type\": 0", cases[i]), *again;
        txl_settings settings = settings_of(model, MEM_LEN);
        assert_int_equal(txl_model_write(model, path, "f32", 1, &error), TXL_OK);
        assert_int_equal(txl_model_open(path, 1, &again, &error), TXL_OK);
        assert_string_equal(txl_model_same_length_reach(again), txl_model_same_length_reach(model));
        assert_true(txl_model_layer_norm_eps(again) == txl_model_layer_norm_eps(model));
        score(model, &settings, ours);
        score(again, &settings, theirs);
        assert_memory_equal(ours, theirs, sizeof ours);

        /* A saved memory goes on where it was. */
        txl_session *session = make_session(again, &settings), *loaded;
        txl_resume resume = {0};
        txl_memory *memory, *read;
        int32_t ids[N + 1];
        ids_of(ids);
        assert_int_equal(txl_session_score(session, ids, 20, ids + 1, theirs, &error), TXL_OK);
        assert_int_equal(txl_session_save(session, &resume, &memory, &error), TXL_OK);
        assert_int_equal(txl_memory_write(memory, path, &error), TXL_OK);
        assert_int_equal(txl_memory_read(path, again, &read, &error), TXL_OK);
        loaded = make_session(again, &settings);
        assert_int_equal(txl_session_load(loaded, read, &error), TXL_OK);
        assert_int_equal(txl_session_score(loaded, ids + 20, N - 20, ids + 21, theirs + 20, &error),
                         TXL_OK);
        assert_true(farthest(ours, theirs) <= TOLERANCE);
        txl_memory_free(memory);
        txl_memory_free(read);
        txl_session_free(session);
        txl_session_free(loaded);
        txl_model_close(again);
        txl_model_close(model);
    }
}

/* A rate of dynamic evaluation is kept; without one nothing is stated. */
TEST(files_state_a_rate) {
    static const struct {
        const char *fact;
        double rate;
    } cases[] = {
        {"", 0},
        {"\"dynamic_lr\": 1e-5", 1e-5},
        {"\"dynamic_lr\": 5e-324", 5e-324},
        {"\"dynamic_lr\": 1", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        txl_error error;
        txl_model *model = make_model("\"attn_type\": 0", cases[i].fact), *again;
        assert_true(txl_model_dynamic_lr(model) == cases[i].rate);
        assert_int_equal(txl_model_write(model, path, "f32", 1, &error), TXL_OK);
        assert_int_equal(txl_model_open(path, 1, &again, &error), TXL_OK);
        assert_true(txl_model_dynamic_lr(again) == cases[i].rate);
        const char *stated = strstr(txl_model_settings_json(again), "\"dynamic_lr\"");
        assert_int_equal(stated != NULL, cases[i].rate > 0);
        txl_model_close(model);
        txl_model_close(again);
    }
}

TEST(impossible_rates_are_refused) {
    static const char *const wrong[] = {"0",     "-1",   "2",    "1.0000001",
                                        "\"1\"", "true", "null", "[1]"};
    txl_model *model;
    txl_error error;
    char changes[64];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(changes, sizeof changes, "\"attn_type\": 0, \"dynamic_lr\": %s", wrong[i]);
        assert_int_equal(try_model(changes, &model, &error), TXL_ARGUMENT);
        assert_non_null(strstr(error.message, "setting \"dynamic_lr\" is missing or not a number "
                                              "above 0 and up to 1"));
    }
    /* No JSON has these. */
    assert_int_equal(try_model("\"attn_type\": 0, \"dynamic_lr\": NaN", &model, &error),
                     TXL_ARGUMENT);
    assert_int_equal(try_model("\"attn_type\": 0, \"dynamic_lr\": 1e999", &model, &error),
                     TXL_ARGUMENT);
}

static off_t saved_size(const txl_model *model, const txl_settings *settings) {
    int32_t ids[N + 1];
    txl_memory *memory;
    txl_error error;
    struct stat about;
    txl_session *session = make_session(model, settings);
    ids_of(ids);
    assert_int_equal(txl_session_feed(session, ids, N, &error), TXL_OK);
    assert_int_equal(txl_session_save(session, &(txl_resume){0}, &memory, &error), TXL_OK);
    assert_int_equal(txl_memory_write(memory, path, &error), TXL_OK);
    txl_memory_free(memory);
    txl_session_free(session);
    assert_int_equal(stat(path, &about), 0);
    return about.st_size;
}

/* A memory has mem_len rows, whatever the reach.  There is one distance more, unless clamp_len
 * leaves fewer: a row of sines, and in every layer position rows, in blocks of 64. */
TEST(memories_have_their_sizes) {
    txl_model *further = make_model(memories[1], reach), *usual = make_model(memories[1], "");
    for (int mem_len = 2; mem_len < 150; mem_len++) {
        txl_settings s = settings_of(usual, mem_len);
        uint64_t more = txl_session_bytes(further, &s) - txl_session_bytes(usual, &s);
        assert_true(more > 0 && more < 30000);
        assert_true((more > 3 * 64 * 2 * 7 * sizeof(float)) == (mem_len % 64 == 0));
        s.clamp_len = 1;
        assert_int_equal(txl_session_bytes(further, &s), txl_session_bytes(usual, &s));
        if (mem_len % 16 == 0)
            assert_int_equal(saved_size(further, &s), saved_size(usual, &s));
    }
    txl_model_close(further);
    txl_model_close(usual);
}

/* ---- Bands -------------------------------------------------------------------------------- */

static bool has_tensor(const txl_model *model, const char *name) {
    txl_tensor tensor;
    for (size_t i = 0; i < txl_model_n_tensor(model); i++) {
        txl_model_tensor(model, i, &tensor);
        if (strcmp(tensor.name, name) == 0)
            return true;
    }
    return false;
}

/* The band as wide as the model is, whichever it is. */
TEST(bands_lack_projections) {
    txl_error error;
    txl_model *model = make_model("\"attn_type\": 0", unprojected);
    assert_false(has_tensor(model, "embedding.0.projection"));
    assert_false(has_tensor(model, "softmax.0.projection"));
    assert_true(has_tensor(model, "embedding.1.projection"));
    assert_true(has_tensor(model, "softmax.2.projection"));
    txl_model_close(model);
    float nats[N];
    model = make_model("\"attn_type\": 0, \"d_embed\": 40", unprojected);
    assert_true(has_tensor(model, "embedding.0.projection"));
    assert_false(has_tensor(model, "embedding.1.projection"));
    txl_settings settings = settings_of(model, MEM_LEN);
    score(model, &settings, nats);
    for (int i = 0; i < N; i++)
        assert_true(isfinite(nats[i]));
    txl_model_close(model);
    static const char *const wrong[] = {
        "\"attn_type\": 0, \"proj_same_dim\": false, \"div_val\": 1",
        "\"attn_type\": 0, \"proj_same_dim\": false, \"d_embed\": 22",
    };
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(try_model(wrong[i], &model, &error), TXL_ARGUMENT);
        assert_non_null(strstr(error.message, "no band is without"));
    }
}

static int make_path(void **state) {
    (void)state;
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    return cmocka_run_group_tests_name("dialect", tests, make_path, remove_path);
}
