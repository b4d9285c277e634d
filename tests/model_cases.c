/* Opens the checkpoints of tests/cases. */
#include "model_cases.h"
#include "convert/converter.h"
#include "kernels_at.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const case_names[] = {"enwik8-zip",
                                  "enwik8-legacy",
                                  "pre-lnorm",
                                  "half-precision",
                                  "text8",
                                  "wt103-zip",
                                  "wt103-legacy",
                                  "projected-div1",
                                  "untied",
                                  "characters",
                                  "hf-bin",
                                  "hf-safetensors",
                                  "hf-sharded",
                                  "lm1b",
                                  "learnable-positions",
                                  "absolute-sinusoid",
                                  "absolute-learned",
                                  NULL};

const char *const trained_cases[] = {
    "characters",        "enwik8-zip",       "text8", "pre-lnorm", "wt103-zip",
    "projected-div1",    "untied",           "lm1b",  "hf-bin",    "learnable-positions",
    "absolute-sinusoid", "absolute-learned", NULL};

const char *case_path(const char *name, const char *file) {
    static char path[4096];
    const char *folder = getenv("TXL_TEST_CASES");
    snprintf(path, sizeof path, "%s/%s/%s", folder ? folder : "tests/cases", name, file);
    return path;
}

const char *scratch_path(const char *name) {
    static char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/txl-test-%ld-%s", folder ? folder : "/tmp", (long)getpid(),
             name);
    return path;
}

static void convert(const char *name, const char *type, int level, enum convert_choice pre_lnorm,
                    const char *path) {
    txl_error error;
    char source[4096], output[4096];
    struct convert_options options;
    convert_options_init(&options);
    options.type = type;
    options.level = level;
    options.threads = 1;
    options.pre_lnorm = pre_lnorm;
    snprintf(output, sizeof output, "%s", path);
    snprintf(source, sizeof source, "%s", case_path(name, "."));
    if (convert_checkpoint(source, output, &options, &error))
        fail_msg("%s: %s", name, error.message);
}

void case_convert(const char *name, const char *type, int level, const char *path) {
    convert(name, type, level, CONVERT_UNSET, path);
}

static void open_as(struct model_case *c, const char *name, const char *type, int level,
                    enum convert_choice pre_lnorm) {
    txl_error error;
    *c = (struct model_case){.name = name};
    char path[4096];
    snprintf(path, sizeof path, "%s", scratch_path("case.txl"));
    convert(name, type, level, pre_lnorm, path);
    if (txl_model_open(path, 1, &c->model, &error))
        fail_msg("%s: %s", name, error.message);
    unlink(path); /* it stays mapped */
    c->expect = json_load_file(case_path(name, "expect.json"), 0, NULL);
    assert_non_null(c->expect);
    json_t *tokens = json_object_get(c->expect, "tokens");
    c->n = json_array_size(tokens);
    c->ids = calloc(c->n + 1, sizeof *c->ids);
    assert_non_null(c->ids);
    for (size_t i = 0; i < c->n; i++)
        c->ids[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
}

void case_open(struct model_case *c, const char *name, const char *type, int level) {
    open_as(c, name, type, level, CONVERT_UNSET);
}

void case_open_pre_lnorm(struct model_case *c, const char *name) {
    open_as(c, name, "f32", 0, CONVERT_YES);
}

void case_close(struct model_case *c) {
    txl_model_close(c->model);
    json_decref(c->expect);
    free(c->ids);
}

bool use_kernels(size_t v) {
    const struct kernels *kernels = kernels_at(v);
    assert_int_equal(kernels ? setenv("TXL_CPU", kernels->name, 1) : unsetenv("TXL_CPU"), 0);
    return kernels;
}

void check_trained_cases(const char *file, size_t n,
                         void (*check)(const struct model_case *c, int r, const json_t *run)) {
    for (size_t v = 0; use_kernels(v); v++) {
        size_t found = 0;
        for (size_t i = 0; trained_cases[i]; i++) {
            struct model_case c;
            if (access(case_path(trained_cases[i], file), F_OK) != 0)
                continue;
            found++;
            case_open(&c, trained_cases[i], "f32", 0);
            json_t *runs = json_load_file(case_path(c.name, file), 0, NULL);
            assert_true(json_array_size(runs) > 0);
            for (size_t r = 0; r < json_array_size(runs); r++)
                check(&c, (int)r, json_array_get(runs, r));
            json_decref(runs);
            case_close(&c);
        }
        assert_int_equal(found, n);
    }
}

double number_of(const json_t *object, const char *key) {
    assert_true(json_is_number(json_object_get(object, key)));
    return json_number_value(json_object_get(object, key));
}

static int int_of(const json_t *object, const char *key) {
    assert_true(json_is_integer(json_object_get(object, key)));
    return (int)number_of(object, key);
}

void assert_good(txl_status status, const txl_error *error) {
    if (status)
        fail_msg("%s", error->message);
}

txl_settings run_settings(const json_t *run, int threads) {
    return (txl_settings){.tgt_len = int_of(run, "tgt_len"),
                          .mem_len = int_of(run, "mem_len"),
                          .clamp_len = int_of(run, "clamp_len"),
                          .same_length = json_is_true(json_object_get(run, "same_length")),
                          .threads = threads};
}

txl_settings case_settings(const struct model_case *c, int threads) {
    return run_settings(json_array_get(json_object_get(c->expect, "runs"), 0), threads);
}

txl_session *case_session(const struct model_case *c, const txl_settings *settings) {
    txl_error error;
    txl_session *session;
    txl_settings defaults;
    txl_model_defaults(c->model, &defaults);
    if (txl_session_new(c->model, settings ? settings : &defaults, &session, &error))
        fail_msg("%s: %s", c->name, error.message);
    return session;
}

void case_score(const struct model_case *c, txl_session *session, size_t step, float *nats) {
    txl_error error;
    for (size_t i = 0, n; i + 1 < c->n; i += n) {
        n = c->n - 1 - i < step ? c->n - 1 - i : step;
        if (txl_session_score(session, c->ids + i, n, c->ids + i + 1, nats + i, &error))
            fail_msg("%s: %s", c->name, error.message);
    }
}

float *case_nats(const struct model_case *c, const txl_settings *settings, size_t step) {
    txl_session *session = case_session(c, settings);
    float *nats = calloc(c->n, sizeof *nats);
    assert_non_null(nats);
    case_score(c, session, step, nats);
    txl_session_free(session);
    return nats;
}

const char larger_settings[] =
    "{\"family\": \"transformer-xl\", \"tokenizer\": \"words\", \"lower_case\": false, \"unk_id\": "
    "null, \"eos_id\": null, \"n_token\": 3000, \"n_layer\": 2, \"n_head\": 3, \"d_head\": 24, "
    "\"d_model\": 200, \"d_embed\": 200, \"d_inner\": 700, \"attn_type\": 0, \"pre_lnorm\": false, "
    "\"div_val\": 2, \"cutoffs\": [1500], \"tied_weights\": true, \"tied_projections\": [false, "
    "true], \"biases_per_layer\": true, \"tgt_len\": 64, \"mem_len\": 64, \"clamp_len\": -1, "
    "\"same_length\": false, \"memory_start\": \"empty\", \"cluster_order\": \"reversed\"}";
