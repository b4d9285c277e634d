/* The authors' TensorFlow checkpoints: how their folders are laid out, and what becomes of them. */
#include "checkpoint_files.h"
#include "convert/convert.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>

static const char *output_path(const char *name) {
    static char paths[2][128];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

static void convert_to(const char *source, const struct convert_options *options,
                       const char *output) {
    txl_error error;
    if (convert_checkpoint(source, output, options, &error) != TXL_OK)
        fail_msg("%s: %s", source, error.message);
}

static void assert_refused(const char *source, const struct convert_options *options,
                           txl_status status, const char *text) {
    txl_error error;
    const char *output = output_path("refused.txl");
    txl_status got = convert_checkpoint(source, output, options, &error);
    if (got == TXL_OK)
        fail_msg("%s: converted, where \"%s\" was expected", source, text);
    assert_says(&error, text);
    assert_int_equal(got, status);
    assert_int_not_equal(access(output, F_OK), 0);
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
static void an_xlnet_is_that_of_pytorch(void **state) {
    (void)state;
    static const char *const names[] = {"one-bias", "half-precision", "sharded", "narrow-heads"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct convert_options o = defaults();
        char other[64], vocabulary[64];
        snprintf(other, sizeof other, "xlnet/%s", names[i]);
        snprintf(vocabulary, sizeof vocabulary, "xlnet/%s/spiece.model", names[i]);
        o.vocabulary = case_path(vocabulary);
        char of_pytorch[128], of_tensorflow[128];
        snprintf(of_pytorch, sizeof of_pytorch, "%s", output_path("a.txl"));
        snprintf(of_tensorflow, sizeof of_tensorflow, "%s", output_path("b.txl"));
        convert_to(case_path(other), &o, of_pytorch);
        snprintf(other, sizeof other, "tensorflow/xlnet-%s", names[i]);
        convert_to(case_path(other), &o, of_tensorflow);
        size_t n, m;
        unsigned char *a = read_file(of_pytorch, &n), *b = read_file(of_tensorflow, &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
    }
}

static const char xlnet[] = "tensorflow/xlnet-one-bias";

static void an_xlnet_agrees_with_its_config(void **state) {
    (void)state;
    static const struct {
        const char *alter, *message;
    } altered[] = {
        {"sed -i 's/\"n_head\": 2/\"n_head\": 3/' xlnet_config.json",
         "xlnet_config.json's n_head is 3, but the tensors are those of 2"},
        {"sed -i 's/\"n_token\": 300/\"n_token\": 301/' xlnet_config.json",
         "xlnet_config.json's n_token is 301, but the tensors are those of 300"},
        {"sed -i 's/\"untie_r\": false/\"untie_r\": true/' xlnet_config.json",
         "xlnet_config.json's untie_r is true, but model/transformer/r_w_bias is one for all"},
        {"rm xlnet_config.json", "add --activation"},
    };
    struct convert_options o = defaults();
    char vocabulary[4096];
    snprintf(vocabulary, sizeof vocabulary, "%s", case_path("xlnet/one-bias/spiece.model"));
    o.vocabulary = vocabulary;
    for (size_t i = 0; i < sizeof altered / sizeof *altered; i++) {
        const char *folder = copy_case(xlnet);
        run(folder, altered[i].alter);
        assert_refused(folder, &o, i == 3 ? TXL_ARGUMENT : TXL_FORMAT, altered[i].message);
    }
    /* Everything but the activation follows from the tensors. */
    o.activation = "gelu-tanh";
    convert_to(scratch_path("copy"), &o, output_path("a.txl"));
}

/* ---- Where a checkpoint is ---------------------------------------------------------------- */

static void assert_path(const char *source, const char *expected) {
    struct convert_description d;
    txl_error error;
    if (convert_describe(source, &d, &error) != TXL_OK)
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

static void a_source_has_many_forms(void **state) {
    (void)state;
    static const char *const forms[] = {
        "", "/", "/model", "/model/", "/model/xlnet_model.ckpt", "/model/xlnet_model.ckpt.index"};
    char source[256];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(source, sizeof source, "%s%s", lay_out(), forms[i]);
        assert_path(source, "copy/model/../data/spiece.model");
    }
    /* The .index beside data/. */
    const char *folder = lay_out();
    run(folder, "mv model/* .");
    assert_path(folder, "copy/data/spiece.model");
    assert_path(scratch_path("copy/xlnet_model.ckpt"), "copy/data/spiece.model");
    struct convert_options o = defaults();
    assert_refused(scratch_path("copy/xlnet_model"), &o, TXL_IO, "copy/xlnet_model: No such file");
}

/* The file `checkpoint` names the newest, by the last part of a path of the publisher's. */
static void the_newest_checkpoint_is_taken(void **state) {
    (void)state;
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
        if (lists[i].status == TXL_OK)
            assert_path(folder, "/../data/spiece.model");
        else
            assert_refused(folder, &o, lists[i].status, "copy/model: has 2 TensorFlow checkpoints");
    }
    run(folder, "rm model/other.index model/checkpoint");
    assert_path(folder, "/../data/spiece.model");
}

/* ---- What is refused by name -------------------------------------------------------------- */

/* Names tell a model in every container: these are in one that is easily written. */
static const char *safetensors_of(const char *names) {
    char header[1024];
    snprintf(header, sizeof header, "{%s}", names);
    uint64_t length = strlen(header);
    FILE *file = fopen(scratch_path("a.safetensors"), "wb");
    assert_non_null(file);
    fwrite(&length, sizeof length, 1, file);
    fwrite(header, 1, length, file);
    fwrite("\0\0\0\0", 1, 4, file);
    assert_int_equal(fclose(file), 0);
    return scratch_path("a.safetensors");
}

#define TENSOR(name) "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1,1,1],\"data_offsets\":[0,4]}"

#define EMPTY(name) "\"" name "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}"

static void other_models_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *names, *message;
    } models[] = {
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
    };
    struct convert_options o = defaults();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        assert_refused(safetensors_of(models[i].names), &o, TXL_UNSUPPORTED, models[i].message);

    write_file("xlnet_config.json", "{\"n_layer\": 12, \"untie_r\": true}", 32);
    const char *shared = safetensors_of(
        TENSOR("model/transformer/layer_0/rel_attn/q/kernel") "," EMPTY("model/lm_loss/bias"));
    assert_refused(shared, &o, TXL_UNSUPPORTED, "12 layers that share their weights, an ALXLNet");
    assert_int_equal(unlink(scratch_path("xlnet_config.json")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_xlnet_is_that_of_pytorch),
        cmocka_unit_test(an_xlnet_agrees_with_its_config),
        cmocka_unit_test(a_source_has_many_forms),
        cmocka_unit_test(the_newest_checkpoint_is_taken),
        cmocka_unit_test(other_models_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("tensorflow", tests, make_scratch, remove_scratch);
}
