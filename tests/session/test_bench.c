/* The foundations of txl bench: models of random weights, the costs of a token, the machine's
 * limits. */
#include "lib/session/model.h"
#include "tests/unit.h"
#include "txl.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Settings of a small model: every dimension another number, an adaptive softmax of three bands.
 * `changes` replaces some of them.  The caller frees it. */
static char *small_settings(const char *changes) {
    json_t *settings =
        json_loads("{\"family\": \"transformer-xl\", \"tokenizer\": \"words\","
                   " \"lower_case\": false, \"unk_id\": null, \"eos_id\": null, \"n_token\": 97,"
                   " \"n_layer\": 3, \"n_head\": 2, \"d_head\": 7, \"d_model\": 20,"
                   " \"d_embed\": 20, \"d_inner\": 33, \"attn_type\": 0, \"pre_lnorm\": false,"
                   " \"div_val\": 2, \"cutoffs\": [30, 60], \"tied_weights\": true,"
                   " \"tied_projections\": [false, true, true], \"biases_per_layer\": false,"
                   " \"tgt_len\": 5, \"mem_len\": 9, \"clamp_len\": 6, \"same_length\": true,"
                   " \"memory_start\": \"empty\", \"cluster_order\": \"reversed\"}",
                   0, NULL);
    json_t *changed = json_loads(changes, 0, NULL);
    assert_non_null(settings);
    assert_non_null(changed);
    assert_int_equal(json_object_update(settings, changed), 0);
    char *text = json_dumps(settings, 0);
    assert_non_null(text);
    json_decref(settings);
    json_decref(changed);
    return text;
}

static txl_model *small_model(const char *changes, const char *type, int threads) {
    txl_model *model;
    txl_error error = {0};
    char *settings = small_settings(changes);
    if (txl_model_random(settings, type, 3, threads, &model, &error))
        fail_msg("%s: %s", changes, error.message);
    free(settings);
    return model;
}

static void assert_scores(const txl_model *model) {
    enum { N = 23 };
    int32_t ids[N + 1];
    float nats[N];
    txl_settings settings;
    txl_session *session;
    txl_error error;
    for (int i = 0; i <= N; i++)
        ids[i] = i * 41 % 97;
    txl_model_defaults(model, &settings);
    settings.threads = 2;
    assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);
    assert_int_equal(txl_session_score(session, ids, N, ids + 1, nats, &error), TXL_OK);
    for (int i = 0; i < N; i++)
        assert_true(isfinite(nats[i]) && nats[i] > 0 && nats[i] < 20);
    txl_session_free(session);
}

TEST(every_kind_of_random_model_scores) {
    static const char *const changes[] = {
        "{}",
        "{\"biases_per_layer\": true, \"pre_lnorm\": true}",
        "{\"tied_weights\": false, \"memory_start\": \"zeros\", \"cluster_order\": \"forward\"}",
        "{\"div_val\": 1, \"tied_weights\": false}",
        "{\"div_val\": 1, \"d_embed\": 12}",
        "{\"div_val\": 1, \"cutoffs\": []}",
        "{\"attn_type\": 1, \"max_klen\": 14, \"biases_per_layer\": true}",
        "{\"attn_type\": 2, \"mem_len\": 0}",
        "{\"attn_type\": 3, \"mem_len\": 0, \"max_klen\": 6, \"d_head\": 10}",
    };
    static const char *const types[] = {"f32", "f16", "bf16", "q8", "q4", "q5"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        txl_model *model = small_model(changes[i], types[i % 6], 2);
        assert_string_equal(txl_model_type(model), types[i % 6]);
        assert_scores(model);
        txl_model_close(model);
    }
}

/* Rows of 130 and of 70 are q8, those of 14 are not. */
TEST(random_q8_is_near_to_random_f32) {
    const char *changes = "{\"d_model\": 130, \"d_embed\": 130, \"d_inner\": 70, \"div_val\": 1}";
    txl_model *model = small_model(changes, "q8", 2), *wide = small_model(changes, "f32", 2);
    struct matrix q, w;
    txl_error error;
    assert_scores(model);
    assert_int_equal(tensors_matrix(&model->tensors, "layer.1.attention.o", 130, 14, &q, &error),
                     TXL_OK);
    assert_int_equal(q.type, WEIGHTS_F16);
    assert_int_equal(tensors_matrix(&model->tensors, "embedding.0.weight", 97, 130, &q, &error),
                     TXL_OK);
    assert_int_equal(tensors_matrix(&wide->tensors, "embedding.0.weight", 97, 130, &w, &error),
                     TXL_OK);
    assert_int_equal(q.type, WEIGHTS_Q8);
    for (size_t row = 0; row < 97; row++) {
        struct matrix one = matrix_rows(&q, row, 1);
        const int8_t *element = one.data;
        for (size_t i = 0; i < 130; i++) {
            float x = ((const float *)w.data)[row * 130 + i];
            assert_true(fabsf((float)element[i] * one.scale[i / 64] - x) <= one.scale[i / 64]);
        }
    }
    txl_settings settings;
    txl_costs costs, wide_costs;
    txl_model_defaults(model, &settings);
    txl_model_costs(model, &settings, &costs);
    txl_model_costs(wide, &settings, &wide_costs);
    assert_int_equal(costs.flops, wide_costs.flops);
    /* Rows of 130 have 3 scales, those of 70 two; the clusters' and one embedding's row count. */
    uint64_t rows = 3 * (3 * 14 + 70) + 30 + 2 + 1, narrow = 3 * 130 * 14, other = 3 * 130;
    uint64_t saved = rows * (3 * 130 - 3 * 4) + narrow * 2 + other * (3 * 70 - 2 * 4);
    assert_int_equal(wide_costs.bytes - costs.bytes, saved);
    txl_model_close(model);
    txl_model_close(wide);
}

/* Rows of 130 are in tiles, also those in the middle of one; the first band's 97 tokens are one
 * tile's row more than 96. */
TEST(random_q4_and_q5_are_near_to_random_f32) {
    const char *changes = "{\"d_model\": 130, \"d_embed\": 130, \"d_inner\": 70, \"div_val\": 1}";
    static const char *const types[] = {"q4", "q5", "q4:q8"};
    txl_model *wide = small_model(changes, "f32", 2);
    txl_error error;
    for (size_t t = 0; t < 3; t++) {
        txl_model *model = small_model(changes, types[t], 2);
        const float step = 7 * 0.02f / (t == 1 ? 31 : 15);
        struct matrix q, w;
        assert_scores(model);
        assert_int_equal(
            tensors_matrix(&model->tensors, "layer.1.feed_forward.1.weight", 70, 130, &q, &error),
            TXL_OK);
        assert_int_equal(
            tensors_matrix(&wide->tensors, "layer.1.feed_forward.1.weight", 70, 130, &w, &error),
            TXL_OK);
        assert_int_equal(q.type, t == 1 ? WEIGHTS_Q5 : WEIGHTS_Q4);
        assert_int_equal(matrix_bytes(&q), 5 * 3 * tile_bytes(weights_top(q.type)) + 70 * 8);
        for (size_t row = 0; row < 70; row++) {
            float x[130];
            matrix_widen(&model->kernels, &q, row, 1, x);
            for (size_t i = 0; i < 130; i++)
                assert_true(fabsf(x[i] - ((const float *)w.data)[row * 130 + i]) <= 0.502f * step);
        }
        assert_int_equal(
            tensors_matrix(&model->tensors, "layer.0.attention.r", 14, 130, &q, &error), TXL_OK);
        assert_int_equal(q.type, WEIGHTS_Q8);
        assert_int_equal(
            tensors_matrix(&model->tensors, "softmax.cluster.weight", 2, 130, &q, &error), TXL_OK);
        assert_int_equal(q.type, WEIGHTS_F32);
        assert_int_equal(tensors_matrix(&model->tensors, "embedding.0.weight", 97, 130, &q, &error),
                         TXL_OK);
        assert_int_equal(q.type, t == 0 ? WEIGHTS_Q4 : t == 1 ? WEIGHTS_Q5 : WEIGHTS_Q8);
        txl_model_close(model);
    }
    txl_model_close(wide);
}

/* The matrix's elements have the mean 0 and the deviation 0.02, and none is like its neighbour. */
TEST(random_weights_are_as_said) {
    enum { ROWS = 97, COLUMNS = 700 };
    const char *changes = "{\"div_val\": 1, \"d_model\": 700, \"d_embed\": 700}";
    txl_model *model = small_model(changes, "f32", 2), *again = small_model(changes, "f32", 1);
    struct matrix w, same;
    txl_error error;
    assert_int_equal(
        tensors_matrix(&model->tensors, "embedding.0.weight", ROWS, COLUMNS, &w, &error), TXL_OK);
    assert_int_equal(
        tensors_matrix(&again->tensors, "embedding.0.weight", ROWS, COLUMNS, &same, &error),
        TXL_OK);
    const size_t n = (size_t)ROWS * COLUMNS;
    const float *x = w.data;
    assert_memory_equal(x, same.data, n * sizeof *x);
    double sum = 0, squares = 0, neighbours = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
        neighbours += (double)x[i] * x[(i + 1) % n];
    }
    double error_of_mean = 0.02 / sqrt(n);
    assert_true(fabs(sum / n) < 5 * error_of_mean);
    assert_true(fabs(sqrt(squares / n) - 0.02) < 5 * error_of_mean);
    assert_true(fabs(neighbours / squares) < 5 / sqrt(n));
    const float *norm;
    assert_int_equal(
        tensors_vector(&model->tensors, "layer.1.attention.norm.weight", 700, &norm, &error),
        TXL_OK);
    for (int i = 0; i < 700; i++)
        assert_true(norm[i] > 0.9 && norm[i] < 1.1);
    txl_model_close(model);
    txl_model_close(again);
}

TEST(impossible_settings_are_refused) {
    static const char *const changes[] = {
        "{\"n_layer\": \"three\"}",
        "{\"d_model\": 0}",
        "{\"d_inner\": 1048577}",
        "{\"cutoffs\": [60, 30]}",
        "{\"cutoffs\": [30, 97]}",
        "{\"family\": \"other\"}",
        "{\"d_model\": 21}",
        "{\"div_val\": 10}",
        "{\"attn_type\": 4}",
        "{\"d_head\": 1048576, \"n_head\": 1048576, \"d_model\": 1048576}",
    };
    txl_model *model;
    txl_error error;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *settings = small_settings(changes[i]);
        error.message[0] = '\0';
        assert_int_not_equal(txl_model_random(settings, "f32", 1, 1, &model, &error), TXL_OK);
        assert_true(strlen(error.message) > 0);
        free(settings);
    }
    char many[512] = "{\"n_token\": 1000, \"cutoffs\": [1";
    for (int i = 2; i <= 65; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ", %d", i);
    strcat(many, "]}");
    char *settings = small_settings(many);
    assert_int_equal(txl_model_random(settings, "f32", 1, 1, &model, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "not a list of up to 64"));
    static const char *const wrong[] = {"f31",    "",      ":",      "q4:",      ":q8",
                                        "q4:f32", "q8:q8", "f32:q8", "q4:q8:q8", "q44"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(txl_model_random(settings, wrong[i], 1, 1, &model, &error), TXL_ARGUMENT);
        assert_non_null(strstr(error.message, "type of weights"));
    }
    free(settings);
    assert_int_equal(txl_model_random("[]", "f32", 1, 1, &model, &error), TXL_ARGUMENT);
    assert_int_equal(txl_model_random("{", "f32", 1, 1, &model, &error), TXL_ARGUMENT);
}

/* Counted by hand: 3 layers of width 14, 9 positions in sight, 7 different distances. */
TEST(costs_count_what_a_token_needs) {
    txl_model *model = small_model("{}", "bf16", 1);
    txl_settings settings;
    txl_costs costs;
    txl_model_defaults(model, &settings);
    txl_model_costs(model, &settings, &costs);
    uint64_t layer = 3 * 14 * 20 + 20 * 14 + 2 * 33 * 20;
    uint64_t head = 20 * 20 + 20 * 20 + 30 * 20 + 2 * 20;
    uint64_t rows = 3 * 14 * (9 + 9 + 7);
    uint64_t vectors = 30 + 2 + 14 + 14 + 3 * (5 * 20 + 33);
    assert_int_equal(costs.flops, 2 * (3 * layer + head + rows));
    assert_int_equal(costs.bytes, 2 * (3 * layer + head + 20) + 4 * (rows + vectors));
    assert_int_equal(txl_model_target_flops(model, 0), 0);
    assert_int_equal(txl_model_target_flops(model, 29), 0);
    assert_int_equal(txl_model_target_flops(model, 30), 2 * (30 * 10 + 10 * 20));
    assert_int_equal(txl_model_target_flops(model, 59), 2 * (30 * 10 + 10 * 20));
    assert_int_equal(txl_model_target_flops(model, 60), 2 * (37 * 5 + 5 * 20));
    assert_int_equal(txl_model_target_flops(model, 96), 2 * (37 * 5 + 5 * 20));

    /* Without same_length a token sees, on average, half of its segment besides the memory. */
    settings.same_length = false;
    settings.clamp_len = -1;
    txl_model_costs(model, &settings, &costs);
    assert_int_equal(costs.flops, 2 * (3 * layer + head + 3 * 14 * 3 * 12));
    txl_model_close(model);

    /* Learned distances have a key and a bias for each head; only so many were learned. */
    model =
        small_model("{\"attn_type\": 1, \"max_klen\": 8, \"biases_per_layer\": true}", "f32", 1);
    txl_model_defaults(model, &settings);
    txl_model_costs(model, &settings, &costs);
    assert_int_equal(costs.flops, 2 * (3 * layer + head + 3 * 14 * (9 + 9 + 6)));
    txl_costs fewer;
    settings.clamp_len = 5;
    txl_model_costs(model, &settings, &fewer);
    assert_int_equal(costs.bytes - fewer.bytes, 4 * 3 * (14 + 2));
    settings.clamp_len = -1;
    txl_model_costs(model, &settings, &costs);
    assert_int_equal(costs.flops, 2 * (3 * layer + head + 3 * 14 * (9 + 9 + 8)));
    txl_model_close(model);

    /* Without memory there is half of the segment, and no distances. */
    model = small_model("{\"attn_type\": 2, \"mem_len\": 0}", "f32", 1);
    txl_model_defaults(model, &settings);
    txl_model_costs(model, &settings, &costs);
    assert_int_equal(costs.flops, 2 * (3 * layer + head + 3 * 14 * (3 + 3)));
    txl_model_close(model);
}

static txl_costs published_costs(const char *changes) {
    txl_model *model = small_model(changes, "f32", 0);
    txl_settings settings;
    txl_costs costs;
    txl_model_defaults(model, &settings);
    txl_model_costs(model, &settings, &costs);
    txl_model_close(model);
    return costs;
}

/* Rounded figures that are known of the published shapes, for arithmetic with W_r and without. */
TEST(costs_of_published_shapes) {
    txl_costs enwik8 = published_costs(
        "{\"n_token\": 204, \"n_layer\": 12, \"n_head\": 8, \"d_head\": 64, \"d_model\": 512,"
        " \"d_embed\": 512, \"d_inner\": 2048, \"div_val\": 1, \"cutoffs\": [],"
        " \"tgt_len\": 80, \"mem_len\": 2100, \"clamp_len\": 820}");
    assert_true(fabs((double)enwik8.flops / 0.14e9 - 1) < 0.05);
    /* One layer tells of all: 18 times the difference between two and one. */
    static const char *const wt103[] = {
        "{\"n_token\": 20010, \"n_layer\": 1, \"n_head\": 16, \"d_head\": 64, \"d_model\": 1024,"
        " \"d_embed\": 1024, \"d_inner\": 4096, \"div_val\": 4, \"cutoffs\": [20000, 20004, 20007],"
        " \"tgt_len\": 128, \"mem_len\": 1600, \"clamp_len\": 1000}",
        "{\"n_token\": 20010, \"n_layer\": 2, \"n_head\": 16, \"d_head\": 64, \"d_model\": 1024,"
        " \"d_embed\": 1024, \"d_inner\": 4096, \"div_val\": 4, \"cutoffs\": [20000, 20004, 20007],"
        " \"tgt_len\": 128, \"mem_len\": 1600, \"clamp_len\": 1000}"};
    txl_costs one = published_costs(wt103[0]), two = published_costs(wt103[1]);
    double flops = (double)one.flops + 17 * (double)(two.flops - one.flops);
    double bytes = (double)one.bytes + 17 * (double)(two.bytes - one.bytes);
    assert_true(fabs(flops / 0.68e9 - 1) < 0.05);
    /* 265.8 M weights less 18.9 M of W_r, two projections more, 310 MB of keys, values, positions.
     */
    double expected = 4 * (265.8e6 - 18.9e6 + 2.1e6) + 310e6;
    assert_true(fabs(bytes / expected - 1) < 0.01);
}

static uint64_t flops_of(const char *changes, txl_training how) {
    txl_model *model = small_model(changes, "f32", 0);
    uint64_t flops = txl_trainer_flops(model, &how);
    txl_model_close(model);
    return flops;
}

static uint64_t training_flops(const char *changes, int batch, int length) {
    return flops_of(changes, (txl_training){.batch = batch, .tgt_len = length, .mem_len = length});
}

/* What was worked out by hand for two shapes. */
TEST(costs_of_training) {
    static const char shape[] =
        "{\"n_token\": 4096, \"n_layer\": 6, \"n_head\": 5, \"d_head\": 64, \"d_model\": 320,"
        " \"d_embed\": 320, \"d_inner\": 1280, \"div_val\": 1, \"cutoffs\": []}";
    assert_int_equal(training_flops(shape, 16, 128), 63976320);
    /* Half losses take the same segments for half of the tokens, whose softmax is not more. */
    uint64_t full = flops_of(shape, (txl_training){.batch = 16, .tgt_len = 256});
    uint64_t half = flops_of(shape, (txl_training){.batch = 16, .tgt_len = 128, .ext_len = 128});
    assert_int_equal(half, 2 * full - 6 * 4096 * 320);
    uint64_t enwik8 = training_flops(
        "{\"n_token\": 204, \"n_layer\": 12, \"n_head\": 8, \"d_head\": 64, \"d_model\": 512,"
        " \"d_embed\": 512, \"d_inner\": 2048, \"div_val\": 1, \"cutoffs\": []}",
        4, 512);
    assert_int_equal(enwik8 / 1000000, 343);
}

TEST(the_machine_has_limits) {
    double bandwidth, flops;
    txl_error error;
    assert_int_equal(txl_measure_read_bandwidth(2, &bandwidth, &error), TXL_OK);
    assert_int_equal(txl_measure_sgemm(2, &flops, &error), TXL_OK);
    assert_true(isfinite(bandwidth) && bandwidth > 0);
    assert_true(isfinite(flops) && flops > 0);
}

/* The instructions of each kind of kernels; the others multiply in f32. */
TEST(products_have_a_peak) {
    static const struct {
        const char *kernels, *instruction[4];
    } rows[] = {{"amx", {"sgemm", "tdpbf16ps", "tdpbssd", "tdpbf16ps"}},
                {"avx512vnni", {"sgemm", "sgemm", "vpdpbusd", "sgemm"}},
                {"avx512bf16", {"sgemm", "vdpbf16ps", "vpdpbusd", "vdpbf16ps"}},
                {"", {"sgemm", "sgemm", "sgemm", "sgemm"}}};
    const char *kernels = txl_kernels_name(NULL);
    assert_non_null(kernels);
    size_t row = 0;
    while (rows[row].kernels[0] && strcmp(rows[row].kernels, kernels) != 0)
        row++;
    for (int products = TXL_PRODUCTS_F32; products <= TXL_PRODUCTS_TRAINING_BF16; products++) {
        const char *instruction;
        double peak;
        txl_error error;
        assert_int_equal(
            txl_measure_products((txl_products)products, 1, &instruction, &peak, &error), TXL_OK);
        assert_string_equal(instruction, rows[row].instruction[products]);
        assert_true(isfinite(peak) && peak > 1e6);
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
