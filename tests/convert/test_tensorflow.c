/* The authors' TensorFlow checkpoints: how their folders are laid out, and what becomes of them. */
#include "checkpoint_files.h"
#include "convert/converter.h"
#include "lib/session/session.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>

static void convert_to(const char *source, const struct convert_options *options,
                       const char *output) {
    txl_error error;
    if (convert_checkpoint(source, output, options, &error))
        fail_msg("%s: %s", source, error.message);
}

static struct convert_options defaults(void) {
    struct convert_options o;
    convert_options_init(&o);
    o.threads = 1;
    return o;
}

/* A copy of a case's folder in the scratch folder. */
static const char *copy_case(const char *name) {
    static char path[128];
    char command[8192];
    snprintf(path, sizeof path, "%s/copy", scratch);
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", path, case_path(name),
             path);
    assert_int_equal(system(command), 0);
    return path;
}

/* Runs a shell's command in the folder. */
static void run(const char *folder, const char *what) {
    char command[8192];
    snprintf(command, sizeof command, "cd '%s' && %s", folder, what);
    assert_int_equal(system(command), 0);
}

/* ---- XLNet -------------------------------------------------------------------------------- */

/* The same network as in the PyTorch case: the file is the same to the byte. */
static const char *const xlnets[] = {"one-bias", "half-precision", "sharded", "narrow-heads"};

TEST_EACH(an_xlnet_is_that_of_pytorch, xlnets) {
    struct convert_options o = defaults();
    char of_pytorch[64], of_tensorflow[64];
    snprintf(of_pytorch, sizeof of_pytorch, "xlnet/%s", *row);
    snprintf(of_tensorflow, sizeof of_tensorflow, "tensorflow/xlnet-%s", *row);
    o.vocabulary = case_file(of_pytorch, "spiece.model");
    convert_to(case_path(of_pytorch), &o, scratch_path("a.txl"));
    convert_to(case_path(of_tensorflow), &o, scratch_path("b.txl"));
    size_t n, m;
    unsigned char *a = read_file(scratch_path("a.txl"), &n);
    unsigned char *b = read_file(scratch_path("b.txl"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

enum { N_ID = 40 };

static void score_some(const char *file, float nats[N_ID]) {
    txl_model *model;
    txl_session *session;
    txl_settings settings;
    txl_error error;
    int32_t ids[N_ID + 1];
    for (int i = 0; i <= N_ID; i++)
        ids[i] = 7 * i % 300;
    assert_int_equal(txl_model_open(file, 1, &model, &error), TXL_OK);
    txl_model_defaults(model, &settings);
    settings.tgt_len = settings.mem_len = 16;
    settings.threads = 1;
    assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);
    assert_int_equal(txl_session_score(session, ids, N_ID, ids + 1, nats, &error), TXL_OK);
    txl_session_free(session);
    txl_model_close(model);
}

/* All of a text is one segment, which moves every score of a query alike. */
TEST(segments_play_no_part) {
    float with[N_ID], without[N_ID];
    struct convert_options o = defaults();
    o.vocabulary = case_path("xlnet/one-bias/spiece.model");
    convert_to(case_path("tensorflow/xlnet-one-bias"), &o, scratch_path("a.txl"));
    convert_to(case_path("tensorflow/xlnet-no-segments"), &o, scratch_path("b.txl"));
    score_some(scratch_path("a.txl"), with);
    score_some(scratch_path("b.txl"), without);
    for (int i = 0; i < N_ID; i++)
        assert_float_equal(with[i], without[i], 1e-4); /* f32 arithmetic */
}

static const char xlnet[] = "tensorflow/xlnet-one-bias";

static const struct {
    const char *alter, *message;
} altered_configs[] = {
    {"sed -i 's/\"n_head\": 2/\"n_head\": 3/' xlnet_config.json",
     "xlnet_config.json: n_head is stated as 3, but the tensors are those of 2"},
    {"sed -i 's/\"n_token\": 300/\"n_token\": 301/' xlnet_config.json",
     "xlnet_config.json: n_token is stated as 301, but the tensors are those of 300"},
    {"sed -i 's/\"untie_r\": false/\"untie_r\": true/' xlnet_config.json",
     "xlnet_config.json's untie_r is true, but model/transformer/r_w_bias is one for all"},
};

TEST_EACH(an_xlnet_agrees_with_its_config, altered_configs) {
    struct convert_options o = defaults();
    char vocabulary[4096];
    snprintf(vocabulary, sizeof vocabulary, "%s", case_path("xlnet/one-bias/spiece.model"));
    o.vocabulary = vocabulary;
    const char *folder = copy_case(xlnet);
    run(folder, row->alter);
    assert_not_converted(folder, &o, TXL_FORMAT, row->message);
}

TEST(an_xlnet_without_its_config_has_no_activation) {
    struct convert_options o = defaults();
    char vocabulary[4096];
    snprintf(vocabulary, sizeof vocabulary, "%s", case_path("xlnet/one-bias/spiece.model"));
    o.vocabulary = vocabulary;
    const char *folder = copy_case(xlnet);
    run(folder, "rm xlnet_config.json");
    assert_not_converted(folder, &o, TXL_ARGUMENT, "add --activation");
    /* Everything else follows from the tensors. */
    o.activation = "gelu-tanh";
    convert_to(folder, &o, scratch_path("a.txl"));
}

TEST(an_xlnet_takes_no_facts_of_a_transformer_xl) {
    struct convert_options o = defaults();
    o.layer_norm_eps = 1e-12;
    assert_not_converted(case_path(xlnet), &o, TXL_ARGUMENT,
                         "--layer-norm-eps means nothing to an XLNet");
    o = defaults();
    o.same_length_reach = "mem_len";
    assert_not_converted(case_path(xlnet), &o, TXL_ARGUMENT,
                         "--same-length-reach means nothing to an XLNet");
}

/* ---- Transformer-XL ----------------------------------------------------------------------- */

static int number_of(const json_t *object, const char *key) {
    assert_true(json_is_integer(json_object_get(object, key)));
    return (int)json_integer_value(json_object_get(object, key));
}

/* States the settings of a run: neither tensors nor a published evaluation show them. */
static void state_lengths(struct convert_options *o, const json_t *run) {
    o->tgt_len = number_of(run, "tgt_len");
    o->mem_len = number_of(run, "mem_len");
    o->has_clamp_len = true;
    o->clamp_len = number_of(run, "clamp_len");
    o->same_length = json_is_true(json_object_get(run, "same_length")) ? CONVERT_YES : CONVERT_NO;
}

static json_t *load(const char *folder, const char *name) {
    char path[4200];
    json_error_t where;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *json = json_load_file(path, 0, &where);
    if (!json)
        fail_msg("%s: %s", path, where.text);
    return json;
}

/* Converts the folder for each run, and scores with the settings that the file then has. */
static void assert_case(const char *folder, double tolerance) {
    json_t *expect = load(folder, "tf_expect.json"), *run_of;
    size_t i;
    assert_true(json_array_size(json_object_get(expect, "runs")) > 0);
    json_array_foreach(json_object_get(expect, "runs"), i, run_of) {
        struct convert_options o = defaults();
        state_lengths(&o, run_of);
        const bool is_xlnet = strstr(folder, "xlnet") != NULL;
        if (is_xlnet)
            o.same_length = CONVERT_UNSET; /* it sees both sides */
        txl_model *model = convert_or_fail(folder, &o);
        assert_string_equal(txl_model_same_length_reach(model), is_xlnet ? "" : "mem_len + 1");
        assert_true(txl_model_layer_norm_eps(model) == 1e-12);
        assert_run(model, expect, run_of, tolerance, folder);
        txl_model_close(model);
    }
    json_decref(expect);
}

static const char *const transformer_xls[] = {"tf-text8",
                                              "tf-enwik8-adam",
                                              "tf-half",
                                              "tf-lm1b",
                                              "tf-lm1b-shared",
                                              "tf-projected",
                                              "tf-projected-div1",
                                              "tf-characters",
                                              "tf-tied-biases",
                                              "tf-wt103",
                                              "tf-wt103-big-endian",
                                              "tf-wt103-partitioned",
                                              "tf-wt103-two-shards"};

TEST_EACH(every_token_is_as_in_tensorflow, transformer_xls) {
    assert_case(case_file("tensorflow", *row), 2e-4);
}

/* ---- Adam's moments ----------------------------------------------------------------------- */

static txl_status set_squares(void *learner, const char *tensor, uint64_t first, const float *x,
                              size_t n, txl_error *error) {
    return txl_learner_set_squares(learner, tensor, first, x, n, error);
}

static double real_of(const json_t *run, const char *key) {
    return json_number_value(json_object_get(run, key));
}

/* A model that learns by these moments, against the reference; the tolerances are those of
 * tests/train/test_learner.c. */
static void assert_learns(const char *folder, const json_t *tokens, const json_t *run) {
    const json_t *expected = json_object_get(run, "nats");
    const size_t n = json_array_size(expected);
    struct convert_options o = defaults();
    const txl_learning learning = {.method = TXL_LEARNING_RMS,
                                   .rate = real_of(run, "lr"),
                                   .decay = real_of(run, "decay"),
                                   .epsilon = real_of(run, "epsilon")};
    double total = 0, difference = 0;
    int32_t *ids = calloc(n + 1, sizeof *ids);
    float *nats = calloc(n, sizeof *nats);
    txl_settings settings;
    txl_model *model;
    txl_learner *learner;
    txl_error error;
    assert_true(ids && nats && n > 100);
    for (size_t i = 0; i <= n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    state_lengths(&o, run);
    convert_to(folder, &o, scratch_path("a.txl"));
    assert_int_equal(txl_model_open(scratch_path("a.txl"), 1, &model, &error), TXL_OK);
    txl_model_defaults(model, &settings);
    assert_int_equal(txl_learner_new(model, &settings, &learning, &learner, &error), TXL_OK);
    if (convert_read_moments(folder, txl_model_settings_json(model), set_squares, learner, &error))
        fail_msg("%s", error.message);
    txl_learner_start(learner);
    size_t tgt_len = (size_t)settings.tgt_len;
    for (size_t at = 0; at < n; at += tgt_len) {
        size_t length = n - at < tgt_len ? n - at : tgt_len;
        assert_int_equal(
            txl_learner_score(learner, ids + at, length, ids + at + 1, nats + at, NULL, &error),
            TXL_OK);
    }
    for (size_t i = 0; i < n; i++) {
        double off = fabs(nats[i] - json_number_value(json_array_get(expected, i)));
        if (i < 3 * tgt_len && !(off <= 2e-4))
            fail_msg("%s: token %zu differs by %g", folder, i, off);
        difference += off / (double)n;
        total += nats[i];
    }
    if (!(difference <= 1e-4) || !(fabs(total / real_of(run, "total") - 1) <= 1e-5) ||
        !(fabs(txl_learner_drift(learner) / real_of(run, "drift") - 1) <= 1e-4))
        fail_msg("%s: nats differ by %g in the mean, their sum is %.7g, and the drift %.7g", folder,
                 difference, total, txl_learner_drift(learner));
    txl_learner_free(learner);
    txl_model_close(model);
    free(ids);
    free(nats);
}

static const char *const with_moments[] = {"tensorflow/tf-enwik8-adam", "tensorflow/tf-wt103"};

TEST_EACH(models_learn_by_moments, with_moments) {
    const char *folder = case_path(*row);
    json_t *runs = load(folder, "dynamic.json"), *run_of;
    json_t *expect = load(folder, "tf_expect.json");
    size_t r;
    assert_int_equal(json_array_size(runs), 2);
    json_array_foreach(runs, r, run_of) {
        assert_learns(folder, json_object_get(expect, "tokens"), run_of);
    }
    json_decref(runs);
    json_decref(expect);
}

static txl_status take_nothing(void *context, const char *tensor, uint64_t first, const float *x,
                               size_t n, txl_error *error) {
    (void)tensor, (void)first, (void)x, (void)n, (void)error;
    ++*(int *)context;
    return TXL_OK;
}

/* The settings that the source would have; the caller frees them. */
static char *described(const char *source) {
    struct convert_description d;
    txl_error error;
    if (convert_describe(source, &d, &error))
        fail_msg("%s: %s", source, error.message);
    char *settings = strdup(d.settings);
    convert_description_free(&d);
    assert_non_null(settings);
    return settings;
}

static const struct {
    const char *source, *model, *message;
} others[] = {
    {"tensorflow/tf-wt103", "tensorflow/tf-enwik8-adam", "another model's: its n_token is not"},
    {"tensorflow/tf-wt103", "tensorflow/tf-tied-biases", "another model's: its "},
    {"tensorflow/xlnet-clamp", "tensorflow/tf-wt103", "another model's: its family is not"},
    {"tensorflow/tf-text8", "tensorflow/tf-text8", "/Adam_1 is missing"},
    {"hf-bin", "hf-bin", "not a TensorFlow checkpoint; only these have moments"},
};

TEST_EACH(moments_of_others_are_refused, others) {
    char *settings = described(case_path(row->model));
    txl_error error;
    int taken = 0;
    if (!convert_read_moments(case_path(row->source), settings, take_nothing, &taken, &error))
        fail_msg("%s: taken for %s", row->source, row->model);
    assert_says(&error, row->message);
    assert_int_equal(taken, 0);
    free(settings);
}

enum { N_GENUINE = 4, N_GENUINE_TRANSFORMER_XL = 3 };

struct folder {
    char text[4096];
};

/* The folder of a genuine checkpoint, outside the project; without one the test is skipped. */
static struct folder genuine_folder(size_t i) {
    static const char *const names[N_GENUINE] = {"txl-div_1", "txl-div_2", "txl-div_2_cutoffs_3",
                                                 "xlnet-pre"};
    const char *genuine = getenv("TXL_TENSORFLOW_FILES");
    struct folder folder = {0};
    if (genuine)
        snprintf(folder.text, sizeof folder.text, "%s/%s", genuine, names[i]);
    else
        skip();
    return folder;
}

/* Genuine checkpoints, scored as TensorFlow itself did. */
TEST(genuine_checkpoints_are_as_in_tensorflow) {
    for (size_t i = 0; i < N_GENUINE; i++)
        assert_case(genuine_folder(i).text, 1e-5);
}

/* The elements of an array that numpy saved, in row-major order; the caller frees them. */
static double *read_npy(const char *folder, const char *name, size_t *n) {
    enum { START = 10 }; /* the magic number, the version, the length of the description */
    char path[4200], about[256] = {0};
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unsigned char *file = read_file(path, &size);
    size_t data = START + file[8] + 256U * file[9];
    assert_true(data < size);
    memcpy(about, file + START, data - START < sizeof about ? data - START : sizeof about - 1);
    const bool f4 = strstr(about, "'<f4'") != NULL, i8 = strstr(about, "'<i8'") != NULL;
    assert_true(f4 || i8 || strstr(about, "'<f8'"));
    assert_non_null(strstr(about, "'fortran_order': False"));
    *n = (size - data) / (f4 ? 4 : 8);
    double *x = calloc(*n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < *n; i++) {
        float single;
        int64_t whole;
        memcpy(&single, file + data + 4 * i, f4 ? sizeof single : 0);
        memcpy(&whole, file + data + 8 * i, i8 ? sizeof whole : 0);
        if (!f4 && !i8)
            memcpy(&x[i], file + data + 8 * i, sizeof *x);
        else
            x[i] = f4 ? (double)single : (double)whole;
    }
    free(file);
    return x;
}

/* Keys and values, head by head, that a layer makes of an input to it. */
static void project(const struct checkpoint *checkpoint, int layer, const double *input,
                    float *row) {
    txl_error error;
    char name[64];
    snprintf(name, sizeof name, "transformer/layer_%d/rel_attn/qkv/kernel", layer);
    const struct checkpoint_tensor *kernel = checkpoint_find(checkpoint, name);
    assert_non_null(kernel);
    const size_t d_model = kernel->shape[0], all = kernel->shape[1], width = all / 3;
    double *w = calloc(kernel->n_element, sizeof *w);
    assert_non_null(w);
    assert_int_equal(checkpoint_read_double(kernel, 0, kernel->n_element, w, &error), TXL_OK);
    for (size_t k = 0; k < 2 * width; k++) {
        double sum = 0;
        for (size_t i = 0; i < d_model; i++)
            sum += input[i] * w[i * all + width + k];
        row[k] = (float)sum;
    }
    free(w);
}

/* TensorFlow's outputs for tokens behind a memory of its own: the probabilities of the next tokens,
 * and the memory after them. */
static void assert_outputs(const char *folder) {
    enum { LENGTH = 10 }; /* of the segment, and of the memory */
    struct convert_options o = defaults();
    struct checkpoint *checkpoint;
    size_t n, n_softmax, n_memory;
    txl_settings settings;
    txl_session *session;
    txl_model *model;
    txl_error error;
    o.tgt_len = o.mem_len = LENGTH;
    o.has_clamp_len = true;
    o.clamp_len = 1000;
    o.same_length = CONVERT_NO;
    convert_to(folder, &o, scratch_path("a.txl"));
    assert_int_equal(txl_model_open(scratch_path("a.txl"), 1, &model, &error), TXL_OK);
    assert_int_equal(checkpoint_open(folder, &checkpoint, &error), TXL_OK);
    txl_model_defaults(model, &settings);
    settings.threads = 1;
    assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);

    const int n_layer = model->network->n_layer;
    const size_t n_token = (size_t)txl_model_n_token(model), width = model->network->row_width;
    float *row = calloc(2 * width, sizeof *row), *out = calloc(LENGTH * n_token, sizeof *out);
    assert_true(row && out);
    session_begin_behind(session, LENGTH);
    const uint64_t start = session->timeline->next;
    for (int layer = 0; layer < n_layer; layer++) {
        char name[32];
        snprintf(name, sizeof name, "memory_%d.npy", layer);
        double *memory = read_npy(folder, name, &n_memory);
        for (size_t i = 0; i < LENGTH; i++) {
            project(checkpoint, layer, memory + i * (n_memory / LENGTH), row);
            model->family->import_row(session->timeline, layer, start - LENGTH + i, row);
        }
        free(memory);
    }

    double *tokens = read_npy(folder, "tokens.npy", &n);
    double *softmax = read_npy(folder, "softmax.npy", &n_softmax);
    int32_t ids[LENGTH];
    assert_true(n == LENGTH && n_softmax == LENGTH * n_token);
    for (size_t i = 0; i < LENGTH; i++)
        ids[i] = (int32_t)tokens[i];
    assert_int_equal(txl_session_distributions(session, ids, LENGTH, out, &error), TXL_OK);
    for (size_t i = 0; i < n_softmax; i++)
        if (!(fabs(exp(out[i]) - softmax[i]) <= 1e-5))
            fail_msg("%s: token %zu, id %zu: %.7f, expected %.7f", folder, i / n_token, i % n_token,
                     exp(out[i]), softmax[i]);
    for (int layer = 0; layer < n_layer; layer++) {
        char name[32];
        snprintf(name, sizeof name, "new_memory_%d.npy", layer);
        double *memory = read_npy(folder, name, &n_memory);
        for (size_t i = 0; i < 2 * LENGTH; i++) {
            project(checkpoint, layer, memory + i * (n_memory / 2 / LENGTH), row);
            model->family->export_row(session->timeline, layer, start - LENGTH + i, row + width);
            for (size_t k = 0; k < width; k++)
                if (!(fabsf(row[k] - row[width + k]) <= 1e-5F))
                    fail_msg("%s: %s, row %zu: %.7f, expected %.7f", folder, name, i,
                             (double)row[width + k], (double)row[k]);
        }
        free(memory);
    }
    free(tokens);
    free(softmax);
    free(row);
    free(out);
    txl_session_free(session);
    checkpoint_close(checkpoint);
    txl_model_close(model);
}

TEST(genuine_outputs_are_tensorflow_s) {
    for (size_t i = 0; i < N_GENUINE_TRANSFORMER_XL; i++)
        assert_outputs(genuine_folder(i).text);
}

static const struct {
    const char *name;
    const char *settings[6];
} shapes[] = {
    {"tf-lm1b",
     {"\"tied_projections\":[false,false,false]", "\"proj_same_dim\":false", "\"div_val\":4",
      "\"cutoffs\":[393,786]", "\"biases_per_layer\":false", "\"tokenizer\":\"lm1b\""}},
    {"tf-projected-div1",
     {"\"tied_projections\":[false,true,true,true]", "\"div_val\":1", "\"cutoffs\":[262,524,786]",
      "\"tied_weights\":true", "\"pre_lnorm\":false", "\"memory_start\":\"zeros\""}},
    {"tf-text8",
     {"\"tied_projections\":[false]", "\"cutoffs\":[]", "\"cluster_order\":\"forward\"",
      "\"tokenizer\":\"text8\"", "\"same_length_reach\":\"mem_len + 1\"",
      "\"layer_norm_eps\":9.99"}},
    {"tf-wt103-partitioned",
     {"\"tied_projections\":[false,true,true,true]", "\"div_val\":4", "\"cutoffs\":[262,524,786]",
      "\"tokenizer\":\"words\"", "\"mem_len\":null", "\"tgt_len\":null"}},
};

TEST_EACH(the_tensors_tell_the_shape, shapes) {
    char *settings = described(case_file("tensorflow", row->name));
    for (size_t k = 0; k < 6; k++)
        if (!strstr(settings, row->settings[k]))
            fail_msg("%s: %s is not in %s", row->name, row->settings[k], settings);
    free(settings);
}

static const struct {
    const char *alter, *message;
    txl_status status;
} altered_corpora[] = {
    {"sed -i 's/1573,/1574,/' data/corpus-info.json",
     "corpus-info.json: vocab_size is stated as 1574, but the tensors are those of 1573",
     TXL_FORMAT},
    {"sed -i 's/ 393,/ 394,/' data/corpus-info.json",
     "corpus-info.json: cutoff 394, but the embeddings' sizes make it 393", TXL_FORMAT},
    {"sed -i 's/ 393,//' data/corpus-info.json",
     "corpus-info.json: 1 cutoffs, but the tensors are those of 3 bands", TXL_FORMAT},
    {"sed -i 's/ 1573]/ 1574]/' data/corpus-info.json",
     "corpus-info.json: the last of the cutoffs is 1574, but the vocabulary's size is 1573",
     TXL_FORMAT},
    {"sed -i 's/ 1573,/ 99999999999,/' data/corpus-info.json",
     "corpus-info.json: vocab_size is not a whole number from 1 to 16777216", TXL_FORMAT},
    {"sed -i 's/ 1573,/ 1573.5,/' data/corpus-info.json",
     "corpus-info.json: vocab_size is not a whole number from 1 to 16777216", TXL_FORMAT},
    {"sed -i 's/ 1573,/ 0,/' data/corpus-info.json",
     "corpus-info.json: vocab_size is not a whole number from 1 to 16777216", TXL_FORMAT},
    {"sed -i 's/\\[.*\\]/393/' data/corpus-info.json",
     "corpus-info.json: cutoffs is not a list of numbers", TXL_FORMAT},
    {"echo 'version https://git-lfs.github.com/spec/v1' >data/corpus-info.json",
     "corpus-info.json: a git-LFS pointer, which stands for the file", TXL_UNSUPPORTED},
    {"sed -i 's/lm1b/novels/' data/corpus-info.json",
     "a vocabulary of the dataset \"novels\", whose kind of text is not known; add "
     "--tokenizer",
     TXL_ARGUMENT},
};

TEST_EACH(a_transformer_xl_agrees_with_its_corpus, altered_corpora) {
    struct convert_options o = defaults();
    o.tgt_len = 8;
    o.mem_len = 8;
    o.has_clamp_len = true;
    o.same_length = CONVERT_YES;
    const char *folder = copy_case("tensorflow/tf-lm1b");
    run(folder, row->alter);
    assert_not_converted(folder, &o, row->status, row->message);
}

TEST(no_option_overrides_the_corpus) {
    struct convert_options o = defaults();
    o.tgt_len = 8;
    o.mem_len = 8;
    o.has_clamp_len = true;
    o.same_length = CONVERT_YES;
    o.cutoffs = "393,787"; /* nor do options override tensors */
    assert_not_converted(copy_case("tensorflow/tf-lm1b"), &o, TXL_FORMAT,
                         "cutoff 787, but the embeddings' sizes make it 786");
    o = defaults();
    assert_not_converted(copy_case("tensorflow/tf-lm1b"), &o, TXL_ARGUMENT,
                         "add what it was trained with: --tgt-len N --mem-len N --clamp-len N "
                         "--same-length yes|no");
}

/* ---- Where a checkpoint is ---------------------------------------------------------------- */

static void assert_path(const char *source, const char *expected) {
    struct convert_description d;
    txl_error error;
    if (convert_describe(source, &d, &error))
        fail_msg("%s: %s", source, error.message);
    assert_non_null(d.vocabulary);
    if (!strstr(d.vocabulary, expected))
        fail_msg("%s: vocabulary %s, expected %s", source, d.vocabulary, expected);
    convert_description_free(&d);
}

/* The authors' download: model/ beside data/. */
static const char *lay_out(void) {
    const char *folder = copy_case(xlnet);
    char vocabulary[4096], *full = realpath(case_path("xlnet/one-bias/spiece.model"), NULL);
    assert_non_null(full);
    snprintf(vocabulary, sizeof vocabulary,
             "mkdir model data && mv checkpoint xlnet* model && cp '%.4000s' data", full);
    free(full);
    run(folder, vocabulary);
    return folder;
}

TEST(a_source_has_many_forms) {
    static const char *const forms[] = {
        "", "/", "/model", "/model/", "/model/xlnet_model.ckpt", "/model/xlnet_model.ckpt.index"};
    char source[256];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(source, sizeof source, "%s%s", lay_out(), forms[i]);
        assert_path(source, "copy/data/spiece.model");
    }
    /* What is before `..` is not the folder above. */
    run(lay_out(), "mkdir -p model/x/data && cp data/spiece.model model/x/data");
    assert_path(scratch_path("copy/model/x/.."), "copy/model/x/../../data/spiece.model");
    /* The .index beside data/. */
    const char *folder = lay_out();
    run(folder, "mv model/* .");
    assert_path(folder, "copy/data/spiece.model");
    assert_path(scratch_path("copy/xlnet_model.ckpt"), "copy/data/spiece.model");
    struct convert_options o = defaults();
    assert_not_converted(scratch_path("copy/xlnet_model"), &o, TXL_IO,
                         "copy/xlnet_model: No such file");
}

/* Data beside the link that model/ is comes before data beside what it leads to. */
TEST(model_may_be_a_link) {
    const char *folder = lay_out();
    run(folder, "mkdir far && mv model far/m && ln -s far/m model");
    assert_path(folder, "copy/data/spiece.model");
    assert_path(scratch_path("copy/model/xlnet_model.ckpt"), "copy/data/spiece.model");
    run(folder, "mv data far");
    assert_path(folder, "copy/model/../data/spiece.model");
    assert_path(scratch_path("copy/model/."), "copy/model/./../data/spiece.model");
}

static const char *const parts[] = {"copy/model/checkpoint", "copy/model/xlnet_model.ckpt.index",
                                    "copy/model/xlnet_model.ckpt.data-00000-of-00001",
                                    "copy/model/xlnet_config.json", "copy/data/spiece.model"};

TEST_EACH(the_output_is_no_part_of_a_checkpoint, parts) {
    const struct convert_options o = defaults();
    const char *folder = lay_out();
    txl_error error;
    run(folder, "echo 'model_checkpoint_path: \"xlnet_model.ckpt\"' >model/checkpoint");
    assert_int_equal(convert_checkpoint(folder, scratch_path(*row), &o, &error), TXL_ARGUMENT);
    assert_says(&error, "is read, and cannot be the output too");
}

/* The file `checkpoint` names the newest, by the last part of a path of the publisher's. */
TEST(the_newest_checkpoint_is_taken) {
    static const struct {
        const char *newest;
        txl_status status;
    } lists[] = {
        {"model_checkpoint_path: \"xlnet_model.ckpt\"\n", TXL_OK},
        {"model_checkpoint_path: \"/home/zihang/exp/xlnet_model.ckpt\"", TXL_OK},
        {"model_checkpoint_path: \"../../../xlnet_model\\056ckpt\"\nall: \"x\"\n", TXL_OK},
        {"model_checkpoint_path: \"model.ckpt\"\n", TXL_ARGUMENT}, /* not there */
        {"model_checkpoint_path: \"xlnet_model.ckpt", TXL_ARGUMENT},
        {"model_checkpoint_path: \"\"\n", TXL_ARGUMENT},
        {"\377\376\n", TXL_ARGUMENT},
        {"", TXL_ARGUMENT},
    };
    const char *folder = lay_out();
    struct convert_options o = defaults();
    /* A second one, which is no checkpoint at all: it must not be opened. */
    run(folder, "echo x >model/other.index");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        write_file("copy/model/checkpoint", lists[i].newest, strlen(lists[i].newest));
        if (!lists[i].status)
            assert_path(folder, "copy/data/spiece.model");
        else
            assert_not_converted(folder, &o, lists[i].status,
                                 "copy/model: has 2 TensorFlow checkpoints");
    }
    run(folder, "rm model/other.index model/checkpoint");
    assert_path(folder, "copy/data/spiece.model");
}

/* ---- Refusals by name --------------------------------------------------------------------- */

/* Names identify a model in every container; a safetensors file is easily written. */
static const char *safetensors_of(const char *names) {
    char header[1024];
    snprintf(header, sizeof header, "{%s}", names);
    return write_safetensors("a.safetensors", header, "\0\0\0\0", 4);
}

#define TENSOR(name) "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1,1,1],\"data_offsets\":[0,4]}"

#define EMPTY(name) "\"" name "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}"

static const struct {
    const char *names, *message;
} other_models[] = {
    {TENSOR("model/transformer/layer_0/rel_attn/q/kernel"),
     "an XLNet without tensor model/lm_loss/bias: it is no language model; convert the model "
     "that it was made from"},
    {TENSOR("model/transformer/layer_0/rel_attn/q/kernel") "," EMPTY(
         "model/sequnece_summary/summary/kernel"),
     "model/lm_loss/bias, fine-tuned for classification: it is no language model"},
    {TENSOR("model/transformer/layer_0/rel_attn/q/kernel") "," EMPTY("start_logits/dense/bias"),
     "fine-tuned for answering questions"},
    {TENSOR("layer-1/bias/.ATTRIBUTES/VARIABLE_VALUE"),
     "an object-based checkpoint of TensorFlow 2, of other code than the published models"},
    {TENSOR("transformer/layer_0/rel_attn/qkv/kernel") "," EMPTY("transformer/normal_softmax/bias"),
     "the layers are a Transformer-XL's, but there is no tensor named "
     "transformer/adaptive_softmax/bias: its variables are those of other code, such as "
     "REMI's; save it again under the names of the authors' tf/model.py"},
};

TEST_EACH(other_models_are_refused_by_name, other_models) {
    struct convert_options o = defaults();
    assert_not_converted(safetensors_of(row->names), &o, TXL_UNSUPPORTED, row->message);
}

TEST(alxlnets_are_refused) {
    struct convert_options o = defaults();
    write_file("xlnet_config.json", "{\"n_layer\": 12, \"untie_r\": true}", 32);
    const char *shared = safetensors_of(
        TENSOR("model/transformer/layer_0/rel_attn/q/kernel") "," EMPTY("model/lm_loss/bias"));
    assert_not_converted(shared, &o, TXL_UNSUPPORTED,
                         "12 layers that share their weights, an ALXLNet");
    assert_int_equal(unlink(scratch_path("xlnet_config.json")), 0);
}

int main(void) {
    return cmocka_run_group_tests_name("tensorflow", tests, make_scratch, remove_scratch);
}
