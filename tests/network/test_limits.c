/* The bounds of lib/base/limits.h and of a session's settings: a value at a bound is accepted, and
 * one more is refused by name, by the loader, random models, sessions and the converter. */
#include "convert/converter.h"
#include "convert/vocabulary_file.h"
#include "lib/base/limits.h"
#include "lib/weights/weights.h"
#include "tests/convert/checkpoint_files.h"

#include <jansson.h>

/* A model of which everything is small; of one symbol, "a". */
static const char small[] =
    "{\"family\": \"transformer-xl\", \"tokenizer\": \"words\", \"lower_case\": false,"
    " \"unk_id\": null, \"eos_id\": null, \"n_token\": 1, \"n_layer\": 1, \"n_head\": 1,"
    " \"d_head\": 2, \"d_model\": 4, \"d_embed\": 4, \"d_inner\": 4, \"attn_type\": 1,"
    " \"pre_lnorm\": false, \"max_klen\": 4, \"div_val\": 1, \"cutoffs\": [],"
    " \"tied_weights\": true, \"tied_projections\": [true], \"biases_per_layer\": true,"
    " \"tgt_len\": 1, \"mem_len\": 1, \"clamp_len\": -1, \"same_length\": false,"
    " \"memory_start\": \"empty\", \"cluster_order\": \"reversed\"}";

static const struct bound {
    const char *key;
    int most;
} bounds[] = {{"n_token", MAX_N_TOKEN},     {"n_layer", MAX_N_LAYER},    {"n_head", MAX_N_HEAD},
              {"d_head", MAX_D_HEAD},       {"d_model", MAX_D_MODEL},    {"d_embed", MAX_D_MODEL},
              {"d_inner", MAX_D_INNER},     {"div_val", MAX_D_MODEL},    {"max_klen", MAX_KLEN},
              {"tgt_len", TXL_MAX_TGT_LEN}, {"mem_len", TXL_MAX_MEM_LEN}};
enum { N_BOUND = sizeof bounds / sizeof *bounds };

/* The small model with one setting changed; the caller frees it. */
static char *changed(const char *key, json_t *value) {
    json_t *settings = json_loads(small, 0, NULL);
    assert_non_null(settings);
    assert_int_equal(json_object_set_new(settings, key, value), 0);
    char *text = json_dumps(settings, 0);
    assert_non_null(text);
    json_decref(settings);
    return text;
}

/* ---- The loader --------------------------------------------------------------------------- */

static txl_status read_zeros(void *context, uint64_t first, size_t count, float *out,
                             txl_error *error) {
    (void)context;
    (void)first;
    (void)error;
    memset(out, 0, count * sizeof *out);
    return TXL_OK;
}

/* Opens a file with that setting and none of the tensors that are needed: it is refused, for the
 * setting or for another reason. */
static void load(const char *key, json_t *value, txl_error *error) {
    static const uint32_t vocabulary[] = {1, 1, 'a'};
    const struct weights_source tensor = {
        .name = "none", .n_dim = 1, .shape = {1, 1, 1, 1}, .read = read_zeros};
    char *settings = changed(key, value);
    const struct weights_contents contents = {.settings = settings,
                                              .vocabulary = vocabulary,
                                              .vocabulary_size = 2 * sizeof *vocabulary + 1,
                                              .source = &tensor,
                                              .n_source = 1,
                                              .threads = 1};
    txl_model *model;
    if (weights_write(scratch_path("limits.txl"), &contents, error))
        fail_msg("%s", error->message);
    assert_int_not_equal(txl_model_open(scratch_path("limits.txl"), 1, &model, error), TXL_OK);
    free(settings);
}

TEST(weights_files_are_bounded) {
    txl_error error;
    for (int i = 0; i < N_BOUND; i++) {
        char message[100];
        snprintf(message, sizeof message, "setting \"%s\" is missing or not an integer from ",
                 bounds[i].key);
        load(bounds[i].key, json_integer(bounds[i].most), &error);
        if (strstr(error.message, message))
            fail_msg("%s", error.message);
        load(bounds[i].key, json_integer(bounds[i].most + 1), &error);
        assert_says(&error, message);
    }
}

static json_t *numbers(int n) {
    json_t *list = json_array();
    for (int i = 1; i <= n; i++)
        json_array_append_new(list, json_integer(i));
    return list;
}

TEST(cutoffs_are_bounded) {
    txl_error error;
    load("cutoffs", numbers(MAX_BAND - 1), &error);
    assert_says(&error, "the cutoffs do not ascend to below n_token");
    load("cutoffs", numbers(MAX_BAND), &error);
    assert_says(&error, "\"cutoffs\" is missing or not a list of up to 64");
}

TEST(names_are_bounded) {
    static const char most[] = "123456789012345678901234567890123456789012345678901234567890123";
    json_t *wrong[] = {json_string(""), json_integer(1), json_string("a\x1b"), json_string("\x7f"),
                       json_sprintf("%s4", most)};
    txl_error error;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        load("name", wrong[i], &error);
        assert_says(&error, "setting \"name\" is missing or not 1 to 63 bytes of UTF-8");
    }
    load("name", json_string(most), &error);
    assert_null(strstr(error.message, "name"));
}

/* ---- Random models ------------------------------------------------------------------------ */

static txl_status make(const char *key, long long value, txl_model **model, txl_error *error) {
    char *settings = changed(key, json_integer(value));
    txl_status status = txl_model_random(settings, "f16", 1, 1, model, error);
    free(settings);
    return status;
}

TEST(random_models_are_bounded) {
    for (int i = 0; i < N_BOUND; i++) {
        txl_model *model;
        txl_error error;
        bool is_cheap = strcmp(bounds[i].key, "n_token") != 0;
        if (is_cheap) {
            if (make(bounds[i].key, bounds[i].most, &model, &error))
                fail_msg("%s", error.message);
            txl_model_close(model);
        }
        assert_int_not_equal(make(bounds[i].key, bounds[i].most + 1LL, &model, &error), TXL_OK);
        assert_says(&error, bounds[i].key);
        assert_says(&error, "from ");
    }
}

/* ---- Sessions ----------------------------------------------------------------------------- */

static txl_status begin(const txl_model *model, int tgt_len, int mem_len, txl_error *error) {
    const txl_settings settings = {.tgt_len = tgt_len, .mem_len = mem_len, .threads = 1};
    txl_session *session;
    txl_status status = txl_session_new(model, &settings, &session, error);
    if (!status)
        txl_session_free(session);
    return status;
}

TEST(sessions_are_bounded) {
    txl_model *model;
    txl_error error;
    assert_int_equal(make("n_head", 1, &model, &error), TXL_OK);
    assert_int_equal(begin(model, TXL_MAX_TGT_LEN, 0, &error), TXL_OK);
    assert_int_equal(begin(model, 1, TXL_MAX_MEM_LEN, &error), TXL_OK);
    assert_int_equal(begin(model, TXL_MAX_TGT_LEN + 1, 0, &error), TXL_ARGUMENT);
    assert_says(&error, "tgt_len must be from 1 to 1048576, not 1048577");
    assert_int_equal(begin(model, 1, TXL_MAX_MEM_LEN + 1, &error), TXL_ARGUMENT);
    assert_says(&error, "mem_len must be from 0 to 1048576, not 1048577");
    txl_model_close(model);
}

/* 70 TB, which the system might grant piece by piece. */
TEST(sessions_have_to_fit_the_machine) {
    txl_model *model;
    txl_error error;
    assert_int_equal(make("n_head", MAX_N_HEAD, &model, &error), TXL_OK);
    assert_int_equal(begin(model, 1, 1, &error), TXL_OK);
    txl_model_close(model);
    char *settings = changed("n_layer", json_integer(MAX_N_LAYER)), *heads;
    json_t *object = json_loads(settings, 0, NULL);
    json_object_set_new(object, "n_head", json_integer(MAX_N_HEAD));
    heads = json_dumps(object, 0);
    assert_int_equal(txl_model_random(heads, "f16", 1, 1, &model, &error), TXL_OK);
    assert_int_equal(begin(model, 1, TXL_MAX_MEM_LEN, &error), TXL_MEMORY);
    assert_says(&error, "a session of tgt_len 1 and mem_len 1048576 needs ");
    assert_says(&error, "; make them shorter");
    txl_model_close(model);
    json_decref(object);
    free(settings);
    free(heads);
}

/* ---- The converter ------------------------------------------------------------------------ */

/* The shapes of a checkpoint of which only the header is written, the rest being a hole. */
struct shapes {
    long long n_token, d_embed, d_model, d_inner, n_head, d_head, max_klen, n_layer;
};

static void add_tensor(json_t *header, uint64_t *end, const char *name, int n_dim,
                       const long long *shape) {
    uint64_t size = 2;
    json_t *sizes = json_array();
    for (int d = 0; d < n_dim; d++) {
        size *= (uint64_t)shape[d];
        json_array_append_new(sizes, json_integer(shape[d]));
    }
    json_t *tensor = json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F16", "shape", sizes,
                               "data_offsets", (json_int_t)*end, (json_int_t)(*end + size));
    assert_int_equal(json_object_set_new(header, name, tensor), 0);
    *end += size;
}

static const char *write_header(json_t *header, uint64_t size) {
    char *text = json_dumps(header, JSON_COMPACT);
    const char *path = scratch_path("limits.safetensors");
    uint64_t length = strlen(text);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(&length, sizeof length, 1, file);
    fwrite(text, 1, length, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, (off_t)(sizeof length + length + size)), 0);
    free(text);
    json_decref(header);
    return path;
}

static const char *write_shapes(const struct shapes *s) {
    json_t *header = json_object();
    uint64_t end = 0;
    char last[64];
    snprintf(last, sizeof last, "layers.%lld.bias", s->n_layer - 1);
    add_tensor(header, &end, last, 1, (long long[]){1});
    add_tensor(header, &end, "word_emb.emb_layers.0.weight", 2,
               (long long[]){s->n_token, s->d_embed});
    add_tensor(header, &end, "crit.out_layers.0.bias", 1, (long long[]){s->n_token});
    add_tensor(header, &end, "layers.0.dec_attn.o_net.weight", 2,
               (long long[]){s->d_model, s->n_head * s->d_head});
    add_tensor(header, &end, "layers.0.pos_ff.CoreNet.0.weight", 2,
               (long long[]){s->d_inner, s->d_model});
    add_tensor(header, &end, "r_emb", 4, (long long[]){1, s->max_klen, s->n_head, s->d_head});
    return write_header(header, end);
}

static void converted(const char *path, const char *message, bool says) {
    struct convert_options options;
    txl_error error;
    convert_options_init(&options);
    assert_int_not_equal(convert_checkpoint(path, scratch_path("out.txl"), &options, &error),
                         TXL_OK);
    if (!strstr(error.message, message) == says)
        fail_msg("%sexpected \"%s\" in \"%s\"", says ? "" : "not ", message, error.message);
}

TEST(checkpoints_are_bounded) {
    const struct shapes ordinary = {2, 2, 2, 2, 1, 2, 2, 1};
    static const struct {
        const char *key;
        size_t member;
        int most;
    } shapes[] = {
        {"n_token", offsetof(struct shapes, n_token), MAX_N_TOKEN},
        {"d_embed", offsetof(struct shapes, d_embed), MAX_D_MODEL},
        {"d_model", offsetof(struct shapes, d_model), MAX_D_MODEL},
        {"d_inner", offsetof(struct shapes, d_inner), MAX_D_INNER},
        {"n_head", offsetof(struct shapes, n_head), MAX_N_HEAD},
        {"d_head", offsetof(struct shapes, d_head), MAX_D_HEAD},
        {"max_klen", offsetof(struct shapes, max_klen), MAX_KLEN},
        {"n_layer", offsetof(struct shapes, n_layer), MAX_N_LAYER},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shapes s = ordinary;
        long long *size = (long long *)(void *)((char *)&s + shapes[i].member);
        char message[64];
        *size = shapes[i].most;
        converted(write_shapes(&s), "; txl runs up to ", false);
        *size = shapes[i].most + 1LL;
        snprintf(message, sizeof message, "%s is %lld; txl runs up to %d", shapes[i].key, *size,
                 shapes[i].most);
        converted(write_shapes(&s), message, true);
    }
}

/* Of the vanilla Transformer only an option tells how many heads there are. */
TEST(stated_heads_are_bounded) {
    static const struct {
        int n_head, d_head;
        bool refused;
    } heads[] = {{MAX_N_HEAD, 2, false},
                 {2 * MAX_N_HEAD, 1, true},
                 {2, MAX_D_HEAD, false},
                 {1, 2 * MAX_D_HEAD, true}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        json_t *header = json_object();
        uint64_t end = 0;
        add_tensor(header, &end, "word_emb.emb_layers.0.weight", 2, (long long[]){2, 2});
        add_tensor(header, &end, "crit.out_layers.0.bias", 1, (long long[]){2});
        add_tensor(header, &end, "layers.0.dec_attn.o_net.weight", 2,
                   (long long[]){2, (long long)heads[i].n_head * heads[i].d_head});
        add_tensor(header, &end, "layers.0.dec_attn.q_net.weight", 1, (long long[]){1});
        add_tensor(header, &end, "layers.0.pos_ff.CoreNet.0.weight", 2, (long long[]){2, 2});
        const char *path = write_header(header, end);
        struct convert_options options;
        txl_error error;
        convert_options_init(&options);
        options.n_head = heads[i].n_head;
        assert_int_not_equal(convert_checkpoint(path, scratch_path("out.txl"), &options, &error),
                             TXL_OK);
        assert_says(&error, heads[i].refused ? "; txl runs up to 4096 of up to 16384"
                                             : "does not state all of its settings");
    }
}

TEST(stated_lengths_are_bounded) {
    struct convert_options options;
    txl_error error;
    convert_options_init(&options);
    options.threads = 1;
    for (int i = 0; i < 4; i++) {
        options.tgt_len = i < 2 ? TXL_MAX_TGT_LEN + i : 1;
        options.mem_len = i < 2 ? 1 : TXL_MAX_MEM_LEN + i - 2;
        const char *out = scratch_path("lengths.txl");
        txl_status status = convert_checkpoint(case_path("text8"), out, &options, &error);
        assert_int_equal(status, i % 2 == 0 ? TXL_OK : TXL_FORMAT);
        if (status)
            assert_says(&error, "are not from 1 to 1048576 and from 0 to 1048576; correct them");
    }
}

TEST(bands_are_bounded) {
    for (int i = 0; i < 2; i++) {
        json_t *header = json_object();
        uint64_t end = 0;
        char name[64];
        snprintf(name, sizeof name, "crit.out_layers.%d.bias", MAX_BAND - 1 + i);
        add_tensor(header, &end, "crit.out_layers.0.bias", 1, (long long[]){2});
        add_tensor(header, &end, name, 1, (long long[]){2});
        add_tensor(header, &end, "layers.0.dec_attn.o_net.weight", 2, (long long[]){2, 2});
        converted(write_header(header, end), "more than 65 bands", i == 1);
    }
}

TEST(tensors_are_bounded) {
    char *header;
    size_t size;
    uint64_t length;
    FILE *text = open_memstream(&header, &size);
    assert_non_null(text);
    fwrite("\0\0\0\0\0\0\0\0{", 1, sizeof length + 1, text);
    for (int n = 0; n <= MAX_TENSOR; n++)
        fprintf(text, "%s\"%d\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]}",
                n > 0 ? "," : "", n);
    fputc('}', text);
    assert_int_equal(fclose(text), 0);
    length = size - sizeof length;
    memcpy(header, &length, sizeof length);
    converted(write_file("limits.safetensors", header, size), "more than 262144 tensors", true);
    free(header);
}

TEST(symbols_are_bounded) {
    struct vocabulary_file vocabulary;
    txl_error error;
    size_t size = 2 * ((size_t)MAX_N_TOKEN + 1);
    char *lines = malloc(size);
    assert_non_null(lines);
    for (size_t i = 0; i < size; i += 2)
        memcpy(lines + i, "a\n", 2);
    const char *path = write_file("vocab.txt", lines, size);
    free(lines);
    assert_int_equal(vocabulary_file_read(path, &vocabulary, &error), TXL_UNSUPPORTED);
    assert_says(&error, "more than 16777216 symbols");
    vocabulary_file_free(&vocabulary);
}

int main(void) {
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
