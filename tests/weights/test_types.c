/* Every type of weights narrower than f32: a model scores as the f32 model of the same rounded
 * weights does, in whatever pieces its tokens come and with whatever kernels. */
#include "convert/converter.h"
#include "lib/base/numbers.h"
#include "lib/kernels/kernels.h"
#include "lib/weights/weights.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nats of a token by which scores may differ from those of the same weights in f32.  Few
 * activations are rounded too, to 16 bits, where the weights are q8, q5 or q4. */
static double tolerance(const char *type) {
    return strcmp(type, "q8") == 0 ? 4e-3 : type[0] == 'q' ? 8e-3 : 2e-4;
}

/* The layouts whose matrices differ; q8 finds rows of 64 columns and more in most. */
static const char *const names[] = {"enwik8-zip", "wt103-zip", "projected-div1",
                                    "untied",     "hf-bin",    "learnable-positions"};
static const char *const types[] = {"f16", "bf16", "q8", "q5", "q4"};
enum { N_NAME = sizeof names / sizeof *names, N_TYPE = sizeof types / sizeof *types };

/* ---- The f32 file of the same weights ----------------------------------------------------- */

struct tensor {
    const struct weights_tensor *tensor;
    uint8_t *bytes; /* expanded */
};

static float element_in_tiles(const struct tensor *t, uint64_t i) {
    const bool fifth = t->tensor->type == WEIGHTS_Q5;
    const uint64_t n_row = t->tensor->shape[0], n_col = t->tensor->shape[1];
    const uint64_t row = i / n_col, column = i % n_col, r = row % 16, size = fifth ? 704 : 576;
    const uint8_t *tile = t->bytes + (row / 16 * ((n_col + 63) / 64) + column / 64) * size;
    const uint64_t block = column % 64 / 32, k = column % 32, line = k % 16 / 4;
    const uint8_t byte = tile[64 + 256 * block + 64 * line + 4 * r + k % 4];
    int level = k < 16 ? byte & 15 : byte >> 4;
    if (fifth)
        level += (tile[576 + 64 * block + 4 * r + k % 4] >> (line + (k < 16 ? 0 : 4)) & 1) << 4;
    float factors[2];
    memcpy(factors, t->bytes + (n_row + 15) / 16 * ((n_col + 63) / 64) * size + 8 * row,
           sizeof factors);
    const float scale = tile[32 * block + r] * factors[0];
    const float minimum = tile[32 * block + 16 + r] * factors[1];
    return scale * (float)level - minimum;
}

static float element_of(const struct tensor *t, uint64_t i) {
    uint16_t half;
    float x;
    switch (t->tensor->type) {
    case WEIGHTS_F16:
        memcpy(&half, t->bytes + 2 * i, sizeof half);
        return float_of_f16(half);
    case WEIGHTS_BF16:
        memcpy(&half, t->bytes + 2 * i, sizeof half);
        return float_of_bf16(half);
    case WEIGHTS_Q8: {
        uint64_t n_col = t->tensor->shape[1], row = i / n_col, column = i % n_col;
        const uint8_t *scales = t->bytes + (t->tensor->n_element + 63) / 64 * 64;
        memcpy(&x, scales + 4 * (row * ((n_col + 63) / 64) + column / 64), sizeof x);
        return x * (int8_t)t->bytes[i];
    }
    case WEIGHTS_Q4:
    case WEIGHTS_Q5:
        return element_in_tiles(t, i);
    default:
        memcpy(&x, t->bytes + 4 * i, sizeof x);
        return x;
    }
}

static txl_status read_widened(void *context, uint64_t first, size_t count, float *out,
                               txl_error *error) {
    (void)error;
    for (size_t i = 0; i < count; i++)
        out[i] = element_of(context, first + i);
    return TXL_OK;
}

static void expand(const struct weights *w, struct tensor *t, struct block_coder *coder) {
    txl_error error;
    t->bytes = malloc(t->tensor->size);
    assert_non_null(t->bytes);
    for (uint32_t b = 0; b < t->tensor->n_block; b++) {
        uint64_t begin;
        size_t size;
        weights_block_extent(t->tensor, b, &begin, &size);
        if (weights_read_block(w, t->tensor, b, coder, t->bytes + begin, &error))
            fail_msg("%s", error.message);
    }
}

/* Writes the file's tensors to another, those whose names begin with `prefix` as of that type. */
static void retype_file(const char *from, const char *to, const char *prefix,
                        enum weights_type type) {
    txl_error error;
    struct weights *w;
    if (weights_open(from, &w, &error))
        fail_msg("%s", error.message);
    struct block_coder *coder = block_coder_new(true);
    struct weights_source *source = calloc(w->n_tensor, sizeof *source);
    struct tensor *tensor = calloc(w->n_tensor, sizeof *tensor);
    assert_true(coder && source && tensor);
    for (size_t i = 0; i < w->n_tensor; i++) {
        tensor[i].tensor = &w->tensor[i];
        expand(w, &tensor[i], coder);
        bool changes = strncmp(w->tensor[i].name, prefix, strlen(prefix)) == 0;
        source[i] = (struct weights_source){.type = changes ? type : w->tensor[i].type,
                                            .n_dim = w->tensor[i].n_dim,
                                            .read = read_widened,
                                            .context = &tensor[i]};
        snprintf(source[i].name, sizeof source[i].name, "%s", w->tensor[i].name);
        memcpy(source[i].shape, w->tensor[i].shape, sizeof source[i].shape);
    }
    struct weights_contents contents = {.settings = w->settings,
                                        .vocabulary = w->vocabulary,
                                        .vocabulary_size = w->vocabulary_size,
                                        .source = source,
                                        .n_source = w->n_tensor,
                                        .threads = 1};
    if (weights_write(to, &contents, &error))
        fail_msg("%s", error.message);
    for (size_t i = 0; i < w->n_tensor; i++)
        free(tensor[i].bytes);
    free(tensor);
    free(source);
    block_coder_free(coder);
    weights_close(w);
}

/* ---- Scores ------------------------------------------------------------------------------- */

static void assert_agree(const struct model_case *c, const char *what, const float *a,
                         const float *b) {
    double most = tolerance(txl_model_type(c->model));
    for (size_t i = 0; i + 1 < c->n; i++) {
        if (!(fabsf(a[i] - b[i]) <= most))
            fail_msg("%s, %s: token %zu has %.6f nats, not %.6f", c->name, what, i, (double)a[i],
                     (double)b[i]);
    }
}

/* The case's model in the type, and its twin, where tensors of the prefix are f32. */
static void open_both(const char *name, const char *type, int level, const char *prefix,
                      struct model_case *narrow, txl_model **wide) {
    char from[4096], to[4096];
    txl_error error;
    struct convert_options options;
    case_open(narrow, name, type, level);
    assert_string_equal(txl_model_type(narrow->model), type);
    convert_options_init(&options);
    options.type = type;
    options.threads = 1;
    snprintf(from, sizeof from, "%s", scratch_path("narrow.txl"));
    snprintf(to, sizeof to, "%s", scratch_path("wide.txl"));
    if (convert_checkpoint(case_path(name, "."), from, &options, &error))
        fail_msg("%s: %s", name, error.message);
    retype_file(from, to, prefix, WEIGHTS_F32);
    if (txl_model_open(to, 1, wide, &error))
        fail_msg("%s: %s", name, error.message);
    unlink(from);
    unlink(to);
}

static void check_case(const char *name, const char *type, int level) {
    struct model_case narrow;
    txl_model *wide;
    open_both(name, type, level, "", &narrow, &wide);
    struct model_case twin = narrow;
    twin.model = wide;
    txl_settings settings =
        run_settings(json_array_get(json_object_get(narrow.expect, "runs"), 0), 2);
    float *a = case_nats(&narrow, &settings, narrow.n), *b = case_nats(&twin, &settings, twin.n);
    float *single = case_nats(&narrow, &settings, 1);
    assert_agree(&narrow, type, a, b);
    assert_agree(&narrow, "a token at a time", single, b);
    free(single);
    free(a);
    free(b);
    txl_model_close(wide);
    case_close(&narrow);
}

TEST(scores_are_those_of_the_rounded_weights) {
    for (size_t i = 0; i < N_NAME; i++)
        for (size_t t = 0; t < N_TYPE; t++)
            check_case(names[i], types[t], (int)(i % 2));
}

TEST(all_kernels_score_narrow_types) {
    for (size_t v = 0; use_kernels(v); v++)
        for (size_t i = 0; i < N_NAME; i++)
            for (size_t t = 0; t < N_TYPE; t++)
                if (!SANITIZED || (v + i + t) % 3 == 0) /* products alone: test_kernels.c */
                    check_case(names[i], types[t], 0);
}

/* TXL_COMPUTE_BF16 rounds activations to a part in 256, which leaves the scores near; where they
 * are few, only those that make position rows. */
static void check_rounded_activations(void) {
    static const size_t steps[] = {1, 8, 40};
    struct model_case narrow;
    txl_model *wide;
    open_both("wt103-zip", "bf16", 0, "", &narrow, &wide);
    struct model_case twin = narrow;
    twin.model = wide;
    txl_settings settings = {.tgt_len = 40, .mem_len = 20, .clamp_len = -1, .threads = 2};
    float *expected = case_nats(&twin, &settings, twin.n);
    settings.compute = TXL_COMPUTE_BF16;
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        float *nats = case_nats(&narrow, &settings, steps[s]);
        double most = 0, mean = 0;
        for (size_t i = 0; i + 1 < narrow.n; i++) {
            double difference = fabs((double)nats[i] - (double)expected[i]);
            most = difference > most ? difference : most;
            mean += difference / (double)(narrow.n - 1);
        }
        assert_true(mean > 1e-4);
        assert_true(steps[s] > 8 ? most < 0.25 && mean < 0.025 : most < 0.02 && mean < 0.0012);
        free(nats);
    }
    free(expected);
    txl_model_close(wide);
    case_close(&narrow);
}

TEST(rounded_activations_are_near) {
    for (size_t v = 0; use_kernels(v); v++)
        check_rounded_activations();
}

/* Nothing in the format forbids it; widening the other layers' blocks takes memory of its own. */
TEST(layers_may_differ_in_type) {
    struct model_case narrow;
    txl_model *mixed;
    open_both("enwik8-zip", "bf16", -1, "layer.0.", &narrow, &mixed);
    struct model_case twin = narrow;
    twin.model = mixed;
    txl_settings settings = {.tgt_len = 9, .mem_len = 3, .clamp_len = -1, .threads = 2};
    float *a = case_nats(&narrow, &settings, narrow.n), *b = case_nats(&twin, &settings, twin.n);
    assert_agree(&narrow, "layers of two types", a, b);
    free(a);
    free(b);
    txl_model_close(mixed);
    case_close(&narrow);
}

TEST(vectors_have_to_be_f32) {
    char from[4096], to[4096];
    txl_model *model;
    txl_error error;
    struct convert_options options;
    convert_options_init(&options);
    snprintf(from, sizeof from, "%s", scratch_path("vectors.txl"));
    snprintf(to, sizeof to, "%s", scratch_path("narrow-vectors.txl"));
    assert_int_equal(convert_checkpoint(case_path("text8", "."), from, &options, &error), TXL_OK);
    retype_file(from, to, "softmax.0.bias", WEIGHTS_F16);
    assert_int_equal(txl_model_open(to, 1, &model, &error), TXL_FORMAT);
    assert_non_null(strstr(error.message, "narrow-vectors.txl: tensor softmax.0.bias must be f32"));
    unlink(from);
    unlink(to);
}

/* Which matrices become q8, and what the others become. */
TEST(q8_serves_wide_products_and_embeddings) {
    struct model_case c;
    case_open(&c, "wt103-zip", "q8", -1);
    size_t n_q8 = 0, n_f16 = 0;
    for (size_t i = 0; i < txl_model_n_tensor(c.model); i++) {
        txl_tensor t;
        txl_model_tensor(c.model, i, &t);
        bool wide = t.n_dim == 2 && t.shape[1] >= Q8_BLOCK;
        assert_string_equal(t.type, wide ? "q8" : t.n_dim == 2 ? "f16" : "f32");
        n_q8 += wide;
        n_f16 += t.n_dim == 2 && !wide;
        if (wide)
            assert_int_equal(t.expanded, (t.shape[0] * t.shape[1] + 63) / 64 * 64 +
                                             4 * t.shape[0] * ((t.shape[1] + 63) / 64));
    }
    assert_true(n_q8 > 0 && n_f16 > 0);
    case_close(&c);
}

/* The same of types in tiles: what the embeddings are in, what is not read for each token. */
TEST(tiles_serve_products_and_embeddings) {
    static const char *const forms[] = {"q4", "q5", "q5:q4", "q4:q8"};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        struct model_case c;
        case_open(&c, "wt103-zip", forms[k], -1);
        const char matrices[] = {forms[k][0], forms[k][1], '\0'};
        const char *embeddings = strchr(forms[k], ':') ? strchr(forms[k], ':') + 1 : matrices;
        size_t n_embedding = 0, n_tiled = 0;
        assert_string_equal(txl_model_type(c.model), matrices);
        for (size_t i = 0; i < txl_model_n_tensor(c.model); i++) {
            txl_tensor t;
            txl_model_tensor(c.model, i, &t);
            const bool table = strncmp(t.name, "embedding.", 10) == 0 && strstr(t.name, ".weight");
            const bool narrow = t.shape[1] < 64, tiled = strcmp(t.type, matrices) == 0;
            const char *type = t.n_dim == 1                    ? "f32"
                               : strstr(t.name, "cluster")     ? "f32"
                               : narrow                        ? "f16"
                               : strstr(t.name, "attention.r") ? "q8"
                               : table                         ? embeddings
                                                               : matrices;
            assert_string_equal(t.type, type);
            n_embedding += table && !narrow;
            n_tiled += tiled;
        }
        assert_true(n_embedding > 0 && n_tiled > 0);
        case_close(&c);
    }
}

/* ---- A trained model ---------------------------------------------------------------------- */

enum { N_DRAWN = 1200 };

/* A text of the model's own, the same on every machine. */
static void draw_text(const txl_model *model, int32_t *ids) {
    txl_settings settings;
    txl_sampling sampling;
    txl_session *session;
    txl_error error;
    txl_random random = {.seed = 1};
    float logprob;
    txl_model_defaults(model, &settings);
    settings.arithmetic = TXL_ARITHMETIC_EXACT;
    txl_sampling_defaults(model, &sampling);
    assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);
    ids[0] = txl_model_first_context(model);
    for (size_t i = 0; i < N_DRAWN; i++) {
        assert_int_equal(txl_session_feed(session, ids + i, 1, &error), TXL_OK);
        assert_int_equal(
            txl_session_sample(session, &sampling, &random, ids + i + 1, &logprob, &error), TXL_OK);
    }
    txl_session_free(session);
}

/* The nats of each of the text's tokens with the model's weights written as `type`. */
static void score_text(const txl_model *built_in, const char *type, txl_memory_type memory,
                       txl_compute compute, const int32_t *ids, float *nats) {
    txl_settings settings;
    txl_session *session;
    txl_model *model;
    txl_error error;
    const char *path = scratch_path("rounded.txl");
    assert_int_equal(txl_model_write(built_in, path, type, 2, &error), TXL_OK);
    assert_int_equal(txl_model_open(path, 2, &model, &error), TXL_OK);
    txl_model_defaults(model, &settings);
    settings.memory_type = memory;
    settings.compute = compute;
    assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);
    assert_int_equal(txl_session_score(session, ids, N_DRAWN, ids + 1, nats, &error), TXL_OK);
    txl_session_free(session);
    txl_model_close(model);
    unlink(scratch_path("rounded.txl"));
}

/* docs/speed.md says by how much each rounding changes a token's nats of the built-in model, on
 * average and at most.  A text of the model's own is easier to predict than a novel: the average is
 * about 0.6 of that. */
TEST(a_token_changes_as_is_said) {
    static const struct {
        const char *type;
        txl_memory_type memory;
        txl_compute compute;
        double mean, worst;
    } rows[] = {{"f16", TXL_MEMORY_F32, TXL_COMPUTE_F32, 0.0016, 0.020},
                {"bf16", TXL_MEMORY_F32, TXL_COMPUTE_F32, 0.0136, 0.15},
                {"bf16", TXL_MEMORY_F32, TXL_COMPUTE_BF16, 0.0115, 0.20},
                {"q8", TXL_MEMORY_F32, TXL_COMPUTE_INT8, 0.035, 0.50},
                {"q5", TXL_MEMORY_F32, TXL_COMPUTE_INT8, 0.035, 0.50},
                {"q4", TXL_MEMORY_F32, TXL_COMPUTE_INT8, 0.035, 0.50},
                {"f32", TXL_MEMORY_F16, TXL_COMPUTE_F32, 0.0003, 0.009},
                {"f32", TXL_MEMORY_BF16, TXL_COMPUTE_F32, 0.0025, 0.09},
                {"f32", TXL_MEMORY_Q8, TXL_COMPUTE_F32, 0.0073, 0.22}};
    static float unrounded[N_DRAWN], plain[N_DRAWN], rounded[N_DRAWN];
    static int32_t ids[N_DRAWN + 1];
    txl_model *model;
    txl_error error;
    if (SANITIZED)
        skip(); /* statistics of what the other tests score too */
    if (txl_model_open(case_path("../..", "cli/default.txl"), 2, &model, &error))
        fail_msg("%s", error.message);
    draw_text(model, ids);
    score_text(model, "f32", TXL_MEMORY_F32, TXL_COMPUTE_F32, ids, unrounded);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double sum = 0, worst = 0;
        /* Activations in bf16 or 8 bits are compared with the weights' rounding alone. */
        const float *nats = rows[r].compute == TXL_COMPUTE_F32 ? unrounded : plain;
        if (nats == plain)
            score_text(model, rows[r].type, TXL_MEMORY_F32, TXL_COMPUTE_F32, ids, plain);
        score_text(model, rows[r].type, rows[r].memory, rows[r].compute, ids, rounded);
        for (size_t i = 0; i < N_DRAWN; i++) {
            double difference = fabs((double)rounded[i] - (double)nats[i]);
            sum += difference;
            worst = fmax(worst, difference);
        }
        double mean = sum / N_DRAWN;
        if (!(mean > 0.3 * rows[r].mean && mean < 1.2 * rows[r].mean && worst < rows[r].worst))
            fail_msg("row %zu: nats change by %.6f on average, at most %.6f", r, mean, worst);
    }
    txl_model_close(model);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
