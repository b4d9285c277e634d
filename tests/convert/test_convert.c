/* Recognition and conversion: facts that a checkpoint states, facts that options must state, and
 * what is refused.  The cases are altered: their tensors are rewritten as safetensors files, their
 * pickles patched. */
#include "checkpoint_files.h"
#include "convert/converter.h"
#include "lib/transformer_xl/parameters.h"

/* ---- Tensors of a case, to be altered and written as a safetensors file ------------------- */

enum { MOST_TENSORS = 128 };

struct tensor {
    char name[160];
    char dtype[8]; /* as safetensors says; "F64" or "F32" as a rule */
    int n_dim;
    uint64_t shape[CHECKPOINT_MAX_DIM];
    size_t n;
    float *x;
};

struct state {
    struct tensor tensor[MOST_TENSORS];
    size_t n;
};

static void read_state(struct state *state, const char *path) {
    struct checkpoint *checkpoint;
    txl_error error;
    state->n = 0;
    if (checkpoint_open(path, &checkpoint, &error))
        fail_msg("%s", error.message);
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++) {
        const struct checkpoint_tensor *from = checkpoint_tensor_at(checkpoint, i);
        assert_true(state->n < MOST_TENSORS);
        struct tensor *to = &state->tensor[state->n++];
        *to = (struct tensor){.dtype = "F32", .n_dim = from->n_dim, .n = from->n_element};
        snprintf(to->name, sizeof to->name, "%s", from->name);
        memcpy(to->shape, from->shape, sizeof to->shape);
        to->x = malloc(to->n * sizeof *to->x);
        assert_non_null(to->x);
        assert_int_equal(checkpoint_read_float(from, 0, to->n, to->x, &error), TXL_OK);
    }
    checkpoint_close(checkpoint);
}

static void free_state(struct state *state) {
    for (size_t i = 0; i < state->n; i++)
        free(state->tensor[i].x);
    state->n = 0;
}

static struct tensor *tensor_of(struct state *state, const char *name) {
    for (size_t i = 0; i < state->n; i++)
        if (strcmp(state->tensor[i].name, name) == 0)
            return &state->tensor[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void drop(struct state *state, const char *name) {
    struct tensor *tensor = tensor_of(state, name);
    free(tensor->x);
    *tensor = state->tensor[--state->n];
}

static void rename_all(struct state *state, const char *prefix) {
    char name[160];
    for (size_t i = 0; i < state->n; i++) {
        snprintf(name, sizeof name, "%s%.100s", prefix, state->tensor[i].name);
        strcpy(state->tensor[i].name, name);
    }
}

/* Writes element i of `size` bytes to `at`. */
static void put_element(const struct tensor *tensor, size_t i, size_t size, unsigned char *at) {
    float x = tensor->x[i];
    double wide = x;
    int64_t whole = strcmp(tensor->dtype, "I64") == 0 ? (int64_t)x : 0;
    const void *from = strcmp(tensor->dtype, "F64") == 0    ? (const void *)&wide
                       : strcmp(tensor->dtype, "I64") == 0  ? (const void *)&whole
                       : strcmp(tensor->dtype, "BF16") == 0 ? (const char *)&x + 2
                                                            : (const void *)&x;
    memcpy(at, from, size);
}

/* Writes the tensors into the scratch folder. */
static const char *write_state(const struct state *state, const char *name) {
    json_t *header = json_object();
    size_t offset = 0;
    unsigned char *data = malloc(1);
    for (size_t i = 0; i < state->n; i++) {
        const struct tensor *t = &state->tensor[i];
        size_t size = t->dtype[1] == '6' ? 8 : t->dtype[0] == 'B' ? 2 : 4;
        json_t *shape = json_array();
        for (int d = 0; d < t->n_dim; d++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        json_object_set_new(header, t->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape,
                                      "data_offsets", (json_int_t)offset,
                                      (json_int_t)(offset + size * t->n)));
        data = realloc(data, offset + size * t->n + 1);
        assert_non_null(data);
        for (size_t k = 0; k < t->n; k++, offset += size)
            put_element(t, k, size, data + offset);
    }
    char *text = json_dumps(header, 0);
    assert_non_null(text);
    const char *path = write_safetensors(name, text, data, offset);
    free(data);
    free(text);
    json_decref(header);
    return path;
}

/* ---- Patching pickles --------------------------------------------------------------------- */

struct buffer {
    unsigned char *data;
    size_t size;
};

static void *find_bytes(const struct buffer *file, const void *wanted, size_t length) {
    unsigned char *found = memmem(file->data, file->size, wanted, length);
    assert_non_null(found);
    return found;
}

/* Where a pickle first spells a name; the source code in a legacy file does not count. */
static unsigned char *find_name(const struct buffer *file, const char *name) {
    char wanted[64] = {'X', (char)strlen(name), 0, 0, 0};
    memcpy(wanted + 5, name, strlen(name));
    unsigned char *at = find_bytes(file, wanted, 5 + strlen(name));
    return at + 5;
}

/* The opcode of the value that the attribute is set to. */
static unsigned char *find_value(const struct buffer *file, const char *name) {
    unsigned char *at = find_name(file, name) + strlen(name);
    return at + (*at == 'q' ? 2 : 5); /* after BINPUT or LONG_BINPUT */
}

static void patch_int(struct buffer *file, const char *key, int32_t value) {
    unsigned char *at = find_value(file, key);
    if (*at == 'K') { /* BININT1 */
        assert_true(value >= 0 && value < 256);
        at[1] = (unsigned char)value;
    } else {
        assert_int_equal(*at, 'J'); /* BININT */
        memcpy(at + 1, &value, sizeof value);
    }
}

static struct buffer read_bytes(const char *path) {
    struct buffer file;
    file.data = read_file(path, &file.size);
    return file;
}

static const char *write_bytes(struct buffer *file, const char *name) {
    const char *path = write_file(name, file->data, file->size);
    free(file->data);
    return path;
}

/* The legacy file with the pickle of its object between `head` and `tail`. */
static const char *wrap(const char *path, const char *name, const char *head, size_t n_head,
                        const char *tail, size_t n_tail) {
    struct buffer file = read_bytes(path);
    uint64_t begin = 0, end = 0;
    for (int i = 0; i < 4; i++) {
        struct pickle *pickle;
        txl_error error;
        begin = end;
        assert_int_equal(pickle_read(file.data, file.size, begin, path, &pickle, &end, &error),
                         TXL_OK);
        pickle_free(pickle);
    }
    struct buffer wrapped = {.data = malloc(file.size + n_head + n_tail)};
    assert_non_null(wrapped.data);
    const struct {
        const void *bytes;
        size_t n;
    } part[] = {{file.data, begin + 2}, /* up to and with the protocol */
                {head, n_head},
                {file.data + begin + 2, end - 1 - (begin + 2)},
                {tail, n_tail},
                {file.data + end - 1, file.size - (end - 1)}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        memcpy(wrapped.data + wrapped.size, part[i].bytes, part[i].n);
        wrapped.size += part[i].n;
    }
    free(file.data);
    return write_bytes(&wrapped, name);
}

#define WRAP(path, name, head, tail) wrap(path, name, head, sizeof head - 1, tail, sizeof tail - 1)

/* ---- Converting --------------------------------------------------------------------------- */

static struct convert_options options_for(const char *vocabulary) {
    struct convert_options options;
    static char path[4096];
    convert_options_init(&options);
    options.threads = 1;
    if (vocabulary) {
        snprintf(path, sizeof path, "%s", case_path(vocabulary));
        options.vocabulary = path;
    }
    return options;
}

/* States all facts that the state dict of a case does not have, from its expect.json. */
static void state_all(struct convert_options *o, const char *name) {
    static char cutoffs[128];
    json_t *expect = json_load_file(case_file(name, "expect.json"), 0, NULL);
    json_t *model = json_object_get(expect, "model"), *cutoff;
    size_t i;
    assert_non_null(model);
    cutoffs[0] = '\0';
    json_array_foreach(json_object_get(model, "cutoffs"), i, cutoff) {
        snprintf(cutoffs + strlen(cutoffs), sizeof cutoffs - strlen(cutoffs), "%s%d",
                 i > 0 ? "," : "", (int)json_integer_value(cutoff));
    }
    bool zeros = strcmp(json_string_value(json_object_get(model, "mem_init")), "zeros") == 0;
    o->cutoffs = cutoffs;
    o->n_head = (int)json_integer_value(json_object_get(model, "n_head"));
    o->attn_type = (int)json_integer_value(json_object_get(model, "attn_type"));
    o->pre_lnorm = json_is_true(json_object_get(model, "pre_lnorm")) ? CONVERT_YES : CONVERT_NO;
    o->same_length = json_is_true(json_object_get(model, "same_length")) ? CONVERT_YES : CONVERT_NO;
    o->memory_start = zeros ? "zeros" : "empty";
    o->cluster_order = zeros ? "forward" : "reversed";
    o->tgt_len = (int)json_integer_value(json_object_get(model, "tgt_len"));
    o->mem_len = (int)json_integer_value(json_object_get(model, "mem_len"));
    o->has_clamp_len = true;
    o->clamp_len = (int)json_integer_value(json_object_get(model, "clamp_len"));
    json_decref(expect);
}

/* Reads the state dict of a case; the options have its vocabulary, and state what it lacks. */
static struct convert_options read_case(struct state *state, const char *name) {
    char vocabulary[128];
    snprintf(vocabulary, sizeof vocabulary, "%s/cache.pt", name);
    read_state(state, case_file(name, "model.pt"));
    struct convert_options options = options_for(vocabulary);
    state_all(&options, name);
    return options;
}

static void assert_state_refused(const struct state *state, const struct convert_options *options,
                                 txl_status status, const char *text) {
    assert_not_converted(write_state(state, "a.safetensors"), options, status, text);
}

/* The first run of a case's expect.json, which has the settings that it was trained with. */
static void assert_scores(const txl_model *model, const char *name) {
    json_t *expect = json_load_file(case_file(name, "expect.json"), 0, NULL);
    assert_non_null(expect);
    assert_run(model, expect, json_array_get(json_object_get(expect, "runs"), 0), 2e-4, name);
    json_decref(expect);
}

static void assert_converts_to(const char *source, const struct convert_options *options,
                               const char *name) {
    txl_model *model = convert_or_fail(source, options);
    assert_scores(model, name);
    txl_model_close(model);
}

/* Compares a setting of the converted file with compact JSON. */
static void assert_setting(const txl_model *model, const char *key, const char *expected) {
    json_t *settings = json_loads(txl_model_settings_json(model), 0, NULL);
    char *text = json_dumps(json_object_get(settings, key), JSON_ENCODE_ANY | JSON_COMPACT);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
    json_decref(settings);
}

static void assert_setting_of(const char *source, const struct convert_options *options,
                              const char *key, const char *expected) {
    txl_model *model = convert_or_fail(source, options);
    assert_setting(model, key, expected);
    txl_model_close(model);
}

/* ---- Bare state dicts --------------------------------------------------------------------- */

/* One of each kind of attention and of softmax. */
static const struct bare {
    const char *name, *file, *vocabulary;
    const char *asked; /* the whole of it */
} bare[] = {
    {"enwik8-zip", "enwik8-zip/model.pt", "enwik8-zip/cache.pt",
     ": --pre-lnorm yes|no --memory-start empty|zeros --tgt-len N --mem-len N --clamp-len N "
     "--same-length yes|no"},
    {"pre-lnorm", "pre-lnorm/model.pt", "pre-lnorm/cache.pt", ": --pre-lnorm yes|no"},
    {"learnable-positions", "learnable-positions/model.pt", "learnable-positions/cache.pt",
     ": --pre-lnorm yes|no --memory-start empty|zeros --tgt-len"},
    {"absolute-sinusoid", "absolute-sinusoid/model.pt", "absolute-sinusoid/cache.pt",
     ": --n-head N --pre-lnorm yes|no --tgt-len N --mem-len N"},
    {"absolute-learned", "absolute-learned/model.pt", "absolute-learned/cache.pt",
     ": --pre-lnorm yes|no --tgt-len N --mem-len N"},
    {"wt103-zip", "wt103-zip/model.pt", "wt103-zip/cache.pt",
     ": --pre-lnorm yes|no --memory-start empty|zeros --cluster-order reversed|forward --tgt-len N "
     "--mem-len N --clamp-len N --same-length yes|no"},
    {"projected-div1", "projected-div1/model.pt", "projected-div1/cache.pt",
     ": --cutoffs N,N,... --pre-lnorm yes|no --memory-start empty|zeros --cluster-order "
     "reversed|forward --tgt-len N"},
    {"untied", "untied/model.pt", "untied/cache.pt", ": --pre-lnorm yes|no --memory-start"},
    {"hf-bin", "hf-bin/pytorch_model.bin", "hf-bin/vocab.bin", ": --pre-lnorm yes|no"},
    {"hf-safetensors", "hf-safetensors/model.safetensors", "hf-safetensors/vocab.pkl",
     ": --pre-lnorm yes|no"},
};

TEST_EACH(bare_state_dicts_ask_for_what_they_lack, bare) {
    struct state state;
    read_state(&state, case_path(row->file));
    const char *path = write_state(&state, "bare.safetensors");
    struct convert_options options = options_for(row->vocabulary);
    assert_not_converted(path, &options, TXL_ARGUMENT, row->asked);
    state_all(&options, row->name);
    assert_converts_to(path, &options, row->name);

    options.mem_len = -1;
    assert_not_converted(path, &options, TXL_ARGUMENT, "trained with: --mem-len N");
    options.n_head = row->name[0] == 'a' ? 7 : 5;
    assert_not_converted(path, &options,
                         strcmp(row->name, "absolute-sinusoid") == 0 ? TXL_FORMAT : TXL_ARGUMENT,
                         "heads");
    free_state(&state);
}

static const char *const prefixes[] = {"module.", "model.", "_orig_mod.module.transformer."};

TEST_EACH(prefixes_are_seen_through, prefixes) {
    struct state state;
    struct convert_options options = read_case(&state, "wt103-zip");
    rename_all(&state, *row);
    assert_converts_to(write_state(&state, "a.safetensors"), &options, "wt103-zip");
    free_state(&state);
}

/* The head of a dict around the state dict. */
static const struct {
    const char *head;
    size_t n;
} dicts[] = {{"}X\x0b\0\0\0model_state", 17},
             {"}X\x05\0\0\0epochK\x03sX\x0a\0\0\0state_dict", 29},
             {"}X\x05\0\0\0model", 11}};

TEST_EACH(dicts_are_seen_through, dicts) {
    struct convert_options options = options_for("hf-bin/vocab.bin");
    const char *path =
        wrap(case_path("hf-bin/pytorch_model.bin"), "a.bin", row->head, row->n, "s", 1);
    assert_not_converted(path, &options, TXL_ARGUMENT, "--memory-start empty|zeros");
    state_all(&options, "hf-bin");
    assert_converts_to(path, &options, "hf-bin");
}

/* A safetensors file begins with the length of its header, here with the byte of a pickle. */
TEST(headers_may_begin_like_pickles) {
    struct buffer file = read_bytes(case_path("hf-safetensors/model.safetensors")), longer;
    uint64_t length, wanted;
    memcpy(&length, file.data, sizeof length);
    wanted = (length | 0xff) + 0x81;
    longer = (struct buffer){malloc(file.size + wanted - length), file.size + wanted - length};
    assert_non_null(longer.data);
    memcpy(longer.data, &wanted, sizeof wanted);
    memcpy(longer.data + 8, file.data + 8, length);
    memset(longer.data + 8 + length, ' ', wanted - length);
    memcpy(longer.data + 8 + wanted, file.data + 8 + length, file.size - 8 - length);
    assert_int_equal(longer.data[0], 0x80);
    free(file.data);
    struct convert_options options = options_for("hf-safetensors/vocab.pkl");
    state_all(&options, "hf-safetensors");
    assert_converts_to(write_bytes(&longer, "a.safetensors"), &options, "hf-safetensors");
}

TEST(modules_are_found_in_wrappers) {
    const char *from = case_path("wt103-legacy/model.pt");
    struct convert_options options = options_for("wt103-legacy/cache.pt");
#define PARALLEL                                                                                   \
    "ctorch.nn.parallel.data_parallel\nDataParallel\n)\x81}X\x08\0\0\0_modules}"                   \
    "X\x06\0\0\0module"
    assert_converts_to(WRAP(from, "a.pt", PARALLEL, "ssb"), &options, "wt103-legacy");
    assert_converts_to(WRAP(from, "a.pt", "}X\x05\0\0\0model", "s"), &options, "wt103-legacy");
    assert_converts_to(WRAP(from, "a.pt", "}X\x03\0\0\0net" PARALLEL, "ssbs"), &options,
                       "wt103-legacy");
#undef PARALLEL
}

/* ---- Flags over what the checkpoint says -------------------------------------------------- */

TEST(flags_override_richer_checkpoints) {
    static const char *const sources[] = {"wt103-zip", "hf-bin"};
    for (size_t i = 0; i < 2; i++) {
        const char *source = case_path(sources[i]);
        bool hf = i == 1;
        struct convert_options o = options_for(NULL);
        o.pre_lnorm = CONVERT_YES;
        assert_setting_of(source, &o, "pre_lnorm", "true");
        o.same_length = CONVERT_NO;
        assert_setting_of(source, &o, "same_length", "false");
        o.memory_start = hf ? "empty" : "zeros";
        assert_setting_of(source, &o, "memory_start", hf ? "\"empty\"" : "\"zeros\"");
        o.cluster_order = hf ? "reversed" : "forward";
        assert_setting_of(source, &o, "cluster_order", hf ? "\"reversed\"" : "\"forward\"");
        o.tokenizer = "characters";
        assert_setting_of(source, &o, "tokenizer", "\"characters\"");
        o.tgt_len = 7;
        assert_setting_of(source, &o, "tgt_len", "7");
        o.mem_len = 0;
        assert_setting_of(source, &o, "mem_len", "0");
        o.has_clamp_len = true;
        o.clamp_len = 0;
        assert_setting_of(source, &o, "clamp_len", "-1");
        o.clamp_len = 3;
        assert_setting_of(source, &o, "clamp_len", "3");
        o.tokenizer = "letters";
        assert_not_converted(source, &o, TXL_ARGUMENT, "unknown tokenizer \"letters\"");
        o.tokenizer = NULL;
        o.type = "q7";
        assert_not_converted(source, &o, TXL_ARGUMENT, "unknown type of weights \"q7\"");
        o.type = NULL;
        o.attn_type = ATTENTION_LEARNED_DISTANCE;
        assert_not_converted(source, &o, TXL_ARGUMENT, "attention type 1 is claimed");
    }
    struct convert_options o = options_for(NULL);
    o.n_head = 1; /* with attention type 2 it does not follow from shapes */
    assert_setting_of(case_path("absolute-sinusoid"), &o, "n_head", "1");
    o = options_for(NULL);
    o.cutoffs = "10, 20 30";
    assert_setting_of(case_path("projected-div1"), &o, "cutoffs", "[10,20,30]");
}

static const struct {
    const char *cutoffs, *message;
    txl_status status;
} wrong_cutoffs[] = {
    {"10,20", "2 cutoffs, but the tensors are those of 4 bands", TXL_FORMAT},
    {"10,20,30,40", "4 cutoffs, but", TXL_FORMAT},
    {"", "0 cutoffs, but", TXL_FORMAT},
    {"10,30,20", "cutoff 20:", TXL_FORMAT},
    {"10,10,20", "cutoff 10:", TXL_FORMAT},
    {"0,10,20", "cutoff 0:", TXL_FORMAT},
    {"-5,10,20", "cutoff -5:", TXL_FORMAT},
    {"10,20,99999", "cutoff 99999:", TXL_FORMAT},
    {"10;20;30", "--cutoffs takes numbers", TXL_ARGUMENT},
    {"ten", "--cutoffs takes numbers", TXL_ARGUMENT},
    {"99999999999999999999", "--cutoffs takes numbers", TXL_ARGUMENT},
};

TEST_EACH(cutoffs_have_to_fit, wrong_cutoffs) {
    struct convert_options o = options_for(NULL);
    o.cutoffs = row->cutoffs;
    assert_not_converted(case_path("projected-div1"), &o, row->status, row->message);
}

TEST(cutoffs_have_to_fit_the_bands) {
    struct convert_options o = options_for(NULL);
    o.cutoffs = "1,2,3";
    assert_not_converted(case_path("wt103-zip"), &o, TXL_FORMAT, "the embeddings' sizes make it");
    char many[1024] = "1";
    for (int i = 2; i < 200; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    o.cutoffs = many;
    assert_not_converted(case_path("projected-div1"), &o, TXL_FORMAT, "199 cutoffs");
    o.cutoffs = "5";
    assert_not_converted(case_path("enwik8-zip"), &o, TXL_FORMAT, "1 cutoffs, but the tensors");
}

/* ---- Whole modules ------------------------------------------------------------------------ */

static const char *patched_module(const char *name, const char *key, int value) {
    struct buffer file = read_bytes(case_file(name, "model.pt"));
    patch_int(&file, key, value);
    return write_bytes(&file, "patched.pt");
}

static const struct {
    const char *key;
    int value;
    txl_status status;
    const char *message;
} wrong_attributes[] = {
    {"sample_softmax", 7, TXL_UNSUPPORTED, "trained with sample_softmax"},
    {"ext_len", 5, TXL_UNSUPPORTED, "ext_len is 5"},
    {"attn_type", 1, TXL_FORMAT, "attention type 1 is claimed"},
    {"n_layer", 99, TXL_FORMAT, "n_layer is stated as 99"},
    {"n_layer", 0, TXL_FORMAT, "n_layer is stated as 0"},
    {"div_val", 3, TXL_FORMAT, "div_val is stated as 3"},
    {"tgt_len", 0, TXL_FORMAT, "tgt_len 0"},
};

TEST_EACH(attributes_are_checked, wrong_attributes) {
    struct convert_options o = options_for("wt103-legacy/cache.pt");
    assert_not_converted(patched_module("wt103-legacy", row->key, row->value), &o, row->status,
                         row->message);
}

TEST(attributes_may_be_missing) {
    struct convert_options o = options_for("enwik8-legacy/cache.pt");
    struct buffer file = read_bytes(case_path("enwik8-legacy/model.pt"));
    find_name(&file, "same_length")[0] = 'S';
    assert_not_converted(write_bytes(&file, "a.pt"), &o, TXL_ARGUMENT, ": --same-length yes|no");
    file = read_bytes(case_path("enwik8-legacy/model.pt"));
    *find_value(&file, "same_length") = 'N';
    assert_not_converted(write_bytes(&file, "a.pt"), &o, TXL_ARGUMENT, ": --same-length yes|no");

    /* Another class's dialect is not known. */
    file = read_bytes(case_path("enwik8-legacy/model.pt"));
    static const char class_name[] = "\nMemTransformerLM\n";
    unsigned char *found = find_bytes(&file, class_name, strlen(class_name));
    found[1] = 'm';
    assert_not_converted(write_bytes(&file, "a.pt"), &o, TXL_ARGUMENT,
                         "--memory-start empty|zeros");
}

TEST(modules_without_cutoffs_ask_for_them) {
    struct convert_options o = options_for("wt103-legacy/cache.pt");
    struct buffer file = read_bytes(case_path("wt103-legacy/model.pt"));
    find_name(&file, "cutoffs")[0] = 'C';
    assert_converts_to(write_bytes(&file, "a.pt"), &o, "wt103-legacy"); /* the sizes show it */
}

/* ---- config.json -------------------------------------------------------------------------- */

/* A folder with hf-safetensors' tensors and its config.json, in which `key` has the value `json`,
 * or is missing. */
static const char *hf_folder(const char *key, const char *json) {
    struct state state;
    mkdir(scratch_path("hf"), 0777);
    read_state(&state, case_path("hf-safetensors/model.safetensors"));
    write_state(&state, "hf/model.safetensors");
    free_state(&state);
    json_t *config = json_load_file(case_path("hf-safetensors/config.json"), 0, NULL);
    assert_non_null(config);
    if (json)
        assert_int_equal(json_object_set_new(config, key, json_loads(json, JSON_DECODE_ANY, NULL)),
                         0);
    else
        json_object_del(config, key);
    assert_int_equal(json_dump_file(config, scratch_path("hf/config.json"), 0), 0);
    json_decref(config);
    return scratch_path("hf");
}

static const struct {
    const char *key, *json;
    const char *setting; /* of the model; NULL: it is the case's */
} hf_understood[] = {
    {"none", NULL, NULL},
    /* The published file's list ends with the vocabulary's size. */
    {"cutoffs", "[262, 524, 786, 1573]", NULL},
    {"cutoffs", NULL, NULL},
    {"same_length", "1", NULL},
    {"tie_projs", NULL, NULL},
    {"n_token", "1573", NULL},
    {"clamp_len", "-1", "-1"},
    {"same_length", "0", "false"},
    {"pre_lnorm", "true", "true"},
};

TEST_EACH(hf_configurations_are_understood, hf_understood) {
    struct convert_options o = options_for("hf-safetensors/vocab.pkl");
    const char *folder = hf_folder(row->key, row->json);
    if (row->setting)
        assert_setting_of(folder, &o, row->key, row->setting);
    else
        assert_converts_to(folder, &o, "hf-safetensors");
}

static const struct {
    const char *key, *json;
    txl_status status;
    const char *message;
} hf_refused[] = {
    {"tgt_len", NULL, TXL_ARGUMENT, ": --tgt-len N"},
    {"tgt_len", "null", TXL_ARGUMENT, ": --tgt-len N"},
    {"mem_len", NULL, TXL_ARGUMENT, ": --mem-len N"},
    {"mem_len", "null", TXL_ARGUMENT, ": --mem-len N"},
    {"clamp_len", NULL, TXL_ARGUMENT, ": --clamp-len N"},
    {"clamp_len", "null", TXL_ARGUMENT, ": --clamp-len N"},
    {"same_length", NULL, TXL_ARGUMENT, ": --same-length yes|no"},
    {"same_length", "null", TXL_ARGUMENT, ": --same-length yes|no"},
    {"pre_lnorm", NULL, TXL_ARGUMENT, ": --pre-lnorm yes|no"},
    {"pre_lnorm", "null", TXL_ARGUMENT, ": --pre-lnorm yes|no"},
    {"sample_softmax", "8", TXL_UNSUPPORTED, "config.json: trained with sample_softmax"},
    {"ext_len", "4", TXL_UNSUPPORTED, "config.json: ext_len is 4"},
    {"layer_norm_epsilon", "2.0", TXL_FORMAT,
     "config.json: layer normalisation's epsilon is 2, expected 0 to 1"},
    {"n_head", "5", TXL_FORMAT, "config.json: n_head is stated as 5"},
    {"vocab_size", "9", TXL_FORMAT, "config.json: vocab_size is stated as 9"},
    {"d_inner", "9", TXL_FORMAT, "config.json: d_inner is stated as 9"},
    {"n_layer", "9", TXL_FORMAT, "config.json: n_layer is stated as 9"},
    {"div_val", "2", TXL_FORMAT, "config.json: div_val is stated as 2"},
    {"div_val", "0", TXL_FORMAT, "config.json: div_val is stated as 0"},
    {"cutoffs", "[262, 524]", TXL_FORMAT, "config.json: 2 cutoffs"},
    {"cutoffs", "[262, 524, \"x\"]", TXL_FORMAT, "config.json: cutoff 0"},
    {"tie_weight", "false", TXL_FORMAT, "crit.out_layers.0.weight is missing"},
    {"tie_projs", "[false, true, false, true]", TXL_FORMAT, "crit.out_projs.2 is missing"},
    {"mem_len", "-3", TXL_FORMAT, "config.json: tgt_len 12 and mem_len -3"},
};

TEST_EACH(hf_configurations_are_checked, hf_refused) {
    struct convert_options o = options_for("hf-safetensors/vocab.pkl");
    assert_not_converted(hf_folder(row->key, row->json), &o, row->status, row->message);
}

TEST(hf_projections_may_be_shared_but_for_the_first) {
    struct convert_options o = options_for("hf-safetensors/vocab.pkl");
    hf_folder("tie_projs", NULL);
    json_t *config = json_load_file(scratch_path("hf/config.json"), 0, NULL);
    json_object_set_new(config, "proj_share_all_but_first", json_false());
    json_dump_file(config, scratch_path("hf/config.json"), 0);
    json_decref(config);
    assert_not_converted(scratch_path("hf"), &o, TXL_FORMAT, "crit.out_projs.1 is missing");
}

static const struct {
    const char *text, *message;
} broken_configurations[] = {{"", "config.json: the file is empty"},
                             {"{\"n_layer\": 3,\n \"n_head\" 2}", "config.json: line 2"},
                             {"[1, 2]", "config.json: expected a JSON object"},
                             {"<html>", "config.json: line 1"}};

TEST_EACH(broken_hf_configurations_are_refused, broken_configurations) {
    struct convert_options o = options_for("hf-safetensors/vocab.pkl");
    hf_folder("none", NULL);
    write_file("hf/config.json", row->text, strlen(row->text));
    assert_not_converted(scratch_path("hf"), &o, TXL_FORMAT, row->message);
}

TEST(hf_configurations_are_files) {
    struct convert_options o = options_for("hf-safetensors/vocab.pkl");
    hf_folder("none", NULL);
    unlink(scratch_path("hf/config.json"));
    mkdir(scratch_path("hf/config.json"), 0777);
    assert_not_converted(scratch_path("hf"), &o, TXL_IO, "config.json: Is a directory");
    rmdir(scratch_path("hf/config.json"));
    assert_int_equal(mkfifo(scratch_path("hf/config.json"), 0600), 0);
    assert_not_converted(scratch_path("hf"), &o, TXL_IO, "config.json: not a regular file");
    unlink(scratch_path("hf/config.json"));
}

/* More bands than a weights file may have. */
TEST(too_many_bands_are_refused) {
    struct state state;
    struct convert_options o = read_case(&state, "projected-div1");
    struct tensor *clusters = tensor_of(&state, "crit.cluster_weight");
    clusters->shape[0] = 70;
    clusters->n = (size_t)(70 * clusters->shape[1]);
    clusters->x = realloc(clusters->x, clusters->n * sizeof *clusters->x);
    memset(clusters->x, 0, clusters->n * sizeof *clusters->x);
    assert_state_refused(&state, &o, TXL_UNSUPPORTED, "up to 65 bands");
    free_state(&state);

    o = read_case(&state, "wt103-zip");
    strcpy(tensor_of(&state, "crit.out_layers.3.weight")->name, "crit.out_layers.99.weight");
    assert_state_refused(&state, &o, TXL_UNSUPPORTED, "more than 65 bands");
    free_state(&state);
}

/* ---- Tied tensors ------------------------------------------------------------------------- */

TEST(ties_are_found) {
    struct state state;
    struct convert_options o = read_case(&state, "wt103-zip");

    /* Copies. */
    txl_model *model = convert_or_fail(write_state(&state, "a.safetensors"), &o);
    assert_setting(model, "tied_weights", "true");
    assert_setting(model, "tied_projections", "[false,true,true,true]");
    txl_model_close(model);

    /* Stored once, under either name. */
    drop(&state, "crit.out_layers.0.weight");
    drop(&state, "word_emb.emb_layers.1.weight");
    drop(&state, "word_emb.emb_projs.1");
    drop(&state, "crit.out_projs.2");
    model = convert_or_fail(write_state(&state, "a.safetensors"), &o);
    assert_setting(model, "tied_weights", "true");
    assert_setting(model, "tied_projections", "[false,true,true,true]");
    assert_scores(model, "wt103-zip");
    txl_model_close(model);

    /* One band's own weights untie them all. */
    tensor_of(&state, "crit.out_layers.2.weight")->x[5] += 1;
    tensor_of(&state, "crit.out_projs.3")->x[5] += 1;
    model = convert_or_fail(write_state(&state, "a.safetensors"), &o);
    assert_setting(model, "tied_weights", "false");
    assert_setting(model, "tied_projections", "[false,true,true,false]");
    txl_model_close(model);

    /* Neither name. */
    drop(&state, "crit.out_projs.1");
    assert_state_refused(&state, &o, TXL_FORMAT, "word_emb.emb_projs.1 is missing");
    free_state(&state);

    /* With one band of d_embed other than d_model the first projection serves all. */
    o = read_case(&state, "projected-div1");
    drop(&state, "word_emb.emb_projs.0");
    assert_converts_to(write_state(&state, "a.safetensors"), &o, "projected-div1");
    free_state(&state);
}

/* ---- Tensors that are missing or wrong ---------------------------------------------------- */

static const char *const whole[] = {"wt103-zip", "learnable-positions", "absolute-learned",
                                    "absolute-sinusoid", "enwik8-zip"};

TEST_EACH(every_missing_tensor_is_named, whole) {
    struct state state;
    struct convert_options o = read_case(&state, *row);
    for (size_t i = 0; i < state.n; i++) {
        char name[160];
        strcpy(name, state.tensor[i].name);
        /* A tied one's twin stands in for it, and the frequencies follow from d_model. */
        bool spare = strstr(name, "emb_projs") || strstr(name, "emb_layers") ||
                     strstr(name, "out_projs") || strstr(name, "inv_freq") ||
                     (strstr(name, "out_layers") && strstr(name, "weight"));
        strcpy(state.tensor[i].name, "elsewhere");
        const char *path = write_state(&state, "a.safetensors");
        txl_error error = {.message = ""};
        txl_status status = convert_checkpoint(path, output_path(), &o, &error);
        if (!spare && !status)
            fail_msg("%s: converted without %s", *row, name);
        /* Without the tensor that identifies it, the model is another one. */
        bool identifies =
            (o.attn_type == ATTENTION_LEARNED_POSITION && strcmp(name, "r_emb") == 0) ||
            strcmp(name, "crit.cluster_weight") == 0 || strstr(name, "out_layers");
        if (!spare && !identifies && !strstr(error.message, name))
            fail_msg("%s without %s: %s", *row, name, error.message);
        unlink(output_path());
        strcpy(state.tensor[i].name, name);
    }
    free_state(&state);
}

static const char *const shaped[] = {"wt103-zip", "learnable-positions", "absolute-sinusoid"};

TEST_EACH(wrong_shapes_are_named, shaped) {
    struct state state;
    struct convert_options o = read_case(&state, *row);
    for (size_t i = 0; i < state.n; i++) {
        struct tensor *t = &state.tensor[i];
        struct tensor kept = *t;
        if (t->n_dim == 2 && t->shape[0] != t->shape[1]) { /* as many elements, transposed */
            t->shape[0] = kept.shape[1];
            t->shape[1] = kept.shape[0];
        } else { /* or flat */
            t->n_dim = t->n_dim == 1 ? 2 : 1;
            t->shape[0] = t->n;
            t->shape[1] = 1;
        }
        txl_error error = {.message = ""};
        const char *path = write_state(&state, "a.safetensors");
        if (!convert_checkpoint(path, output_path(), &o, &error))
            fail_msg("%s: converted with another shape of %s", *row, t->name);
        *t = kept;
    }
    free_state(&state);
}

/* Learned positions are added to what the heads see, so the heads are as wide as the model. */
TEST(heads_of_positions_are_as_wide_as_the_model) {
    static const struct {
        const char *name;
        int dimension; /* that is halved */
    } narrow[] = {{"q_net.weight", 0}, {"kv_net.weight", 0}, {"o_net.weight", 1}, {"r_emb", 3}};
    struct state state;
    struct convert_options o = read_case(&state, "absolute-learned");
    for (size_t i = 0; i < state.n; i++) {
        struct tensor *t = &state.tensor[i];
        for (size_t k = 0; k < sizeof narrow / sizeof *narrow; k++) {
            if (strstr(t->name, narrow[k].name)) {
                t->shape[narrow[k].dimension] /= 2;
                t->n /= 2;
            }
        }
    }
    assert_state_refused(&state, &o, TXL_FORMAT, "2 heads of 4 are not as wide as the model, 16");
    free_state(&state);
}

TEST(layers_have_no_gaps) {
    struct state state;
    struct convert_options o = read_case(&state, "enwik8-zip");
    for (size_t i = 0; i < state.n; i++) {
        char *name = state.tensor[i].name;
        if (strncmp(name, "layers.1.", 9) == 0)
            name[7] = '9';
    }
    assert_state_refused(&state, &o, TXL_FORMAT, "tensor layers.");
    strcpy(tensor_of(&state, "layers.9.pos_ff.CoreNet.0.bias")->name, "layers.99999999999999.bias");
    assert_state_refused(&state, &o, TXL_UNSUPPORTED, "n_layer is");
    free_state(&state);
}

TEST(weights_are_finite_numbers) {
    static const char *const names[] = {"layers.1.pos_ff.CoreNet.0.weight", "crit.out_projs.0",
                                        "r_w_bias", "crit.out_layers.3.bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct state state;
        char message[160];
        struct convert_options o = read_case(&state, "wt103-zip");
        struct tensor *t = tensor_of(&state, names[i]);
        t->x[7] = i % 2 ? NAN : INFINITY;
        snprintf(message, sizeof message, "a.safetensors: tensor %s: element 7 is ", names[i]);
        assert_state_refused(&state, &o, TXL_FORMAT, message);
        t->x[7] = 1;
        strcpy(t->dtype, "I64");
        assert_state_refused(&state, &o, TXL_UNSUPPORTED, "type int64");
        free_state(&state);
    }
}

TEST(settings_have_to_be_possible) {
    struct convert_options o = options_for(NULL);
    o.mem_len = 5;
    assert_not_converted(case_path("absolute-learned"), &o, TXL_UNSUPPORTED, "--mem-len 0");
    assert_not_converted(case_path("absolute-sinusoid"), &o, TXL_UNSUPPORTED, "--mem-len 0");
    o = options_for(NULL);
    o.tgt_len = 17;
    assert_not_converted(case_path("absolute-learned"), &o, TXL_UNSUPPORTED,
                         "there are 16 positions");
    o.tgt_len = 16;
    assert_converts_to(case_path("absolute-learned"), &o, "absolute-learned");
}

/* ---- Vocabularies, types, files ----------------------------------------------------------- */

TEST(vocabularies_have_to_fit) {
    struct convert_options o = options_for("text8/cache.pt");
    assert_not_converted(case_path("hf-bin"), &o, TXL_FORMAT, ": 27 symbols, but the model in ");
    assert_not_converted(case_path("hf-bin"), &o, TXL_FORMAT, " has 1573: ");
    o.vocabulary = scratch_path("none");
    assert_not_converted(case_path("hf-bin"), &o, TXL_IO, "none");
    struct state state;
    o = options_for(NULL);
    state_all(&o, "text8");
    mkdir(scratch_path("alone"), 0777);
    read_state(&state, case_path("text8/model.pt"));
    write_state(&state, "alone/model.safetensors");
    free_state(&state);
    assert_not_converted(scratch_path("alone"), &o, TXL_IO, "alone");
}

TEST(types_follow_the_source) {
    struct state state;
    struct convert_options o = options_for("half-precision/cache.pt");
    assert_setting_of(case_path("half-precision"), &o, "type", "\"f16\"");
    o = read_case(&state, "half-precision");
    for (size_t i = 0; i < state.n; i++)
        strcpy(state.tensor[i].dtype, "F64");
    txl_model *model = convert_or_fail(write_state(&state, "a.safetensors"), &o);
    assert_setting(model, "type", "\"f32\"");
    assert_scores(model, "half-precision");
    txl_model_close(model);
    for (size_t i = 0; i < state.n; i++)
        strcpy(state.tensor[i].dtype, "BF16");
    const char *path = write_state(&state, "a.safetensors");
    assert_setting_of(path, &o, "type", "\"bf16\"");
    o.type = "f32";
    assert_setting_of(path, &o, "type", "\"f32\"");
    o.type = NULL;

    /* One wider matrix: narrowing it would lose something. */
    strcpy(tensor_of(&state, "word_emb.emb_layers.0.weight")->dtype, "F32");
    assert_setting_of(write_state(&state, "a.safetensors"), &o, "type", "\"f32\"");

    struct tensor *t = tensor_of(&state, "layers.0.dec_attn.o_net.weight");
    t->x[3] = 70000;
    o.type = "f16";
    assert_state_refused(&state, &o, TXL_FORMAT, "f16 ends at 65504");
    strcpy(t->dtype, "F32");
    t->x[3] = 3.4e38f;
    o.type = "bf16";
    assert_state_refused(&state, &o, TXL_FORMAT, "bf16 ends there");
    free_state(&state);
}

/* The type of one tensor of what the checkpoint becomes in q8. */
static void assert_q8_makes(const struct state *state, const struct convert_options *o,
                            const char *name, const char *type) {
    txl_model *model = convert_or_fail(write_state(state, "a.safetensors"), o);
    assert_setting(model, "type", "\"q8\"");
    bool found = false;
    for (size_t i = 0; i < txl_model_n_tensor(model); i++) {
        txl_tensor t;
        txl_model_tensor(model, i, &t);
        if (strcmp(t.name, name) == 0) {
            assert_string_equal(t.type, type);
            found = true;
        }
    }
    assert_true(found);
    txl_model_close(model);
}

/* Narrow matrices and learned positions are f16, or f32 where that ends too early. */
TEST(q8_leaves_what_it_does_not_serve) {
    static const char *const dtypes[] = {"F32", "F64", "BF16"};
    struct state state;
    struct convert_options o = read_case(&state, "learnable-positions");
    o.type = "q8";
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < state.n; i++)
            strcpy(state.tensor[i].dtype, dtypes[d]);
        assert_q8_makes(&state, &o, "layer.0.attention.r_emb", "f16");
    }
    tensor_of(&state, "r_emb")->x[0] = 70000;
    assert_q8_makes(&state, &o, "layer.0.attention.r_emb", "f32");
    assert_q8_makes(&state, &o, "layer.1.attention.r_emb", "f16");
    tensor_of(&state, "layers.1.dec_attn.o_net.weight")->x[5] = -70000;
    assert_q8_makes(&state, &o, "layer.1.attention.o", "f32");
    assert_q8_makes(&state, &o, "layer.0.attention.o", "f16");
    tensor_of(&state, "r_emb")->x[1] = NAN;
    assert_state_refused(&state, &o, TXL_FORMAT, "must be finite");
    o.type = "q3";
    assert_state_refused(&state, &o, TXL_ARGUMENT, "f32, f16, bf16, q8, q5 and q4");
    free_state(&state);
}

TEST(other_models_are_refused) {
    struct state state;
    struct convert_options o = options_for(NULL);
    read_state(&state, case_path("text8/model.pt"));
    struct tensor *bias = tensor_of(&state, "crit.out_layers.0.bias");
    strcpy(bias->name, "out_layer.bias"); /* where sampled softmaxes have it */
    assert_state_refused(&state, &o, TXL_UNSUPPORTED, "sample_softmax");
    strcpy(bias->name, "head.bias");
    assert_state_refused(&state, &o, TXL_UNSUPPORTED,
                         "a Transformer-XL without its softmax (no tensor crit.out_layers.0.bias)");
    struct state part = {.tensor = {*bias}, .n = 1};
    assert_state_refused(&part, &o, TXL_UNSUPPORTED,
                         "not a Transformer-XL: no tensor named layers.0.");
    part.n = 0;
    assert_state_refused(&part, &o, TXL_UNSUPPORTED, "not a Transformer-XL");
    free_state(&state);
}

/* A dict with model_state is a checkpoint, although it has a vocabulary too. */
TEST(unusable_checkpoints_say_why) {
    struct convert_options o = options_for(NULL);
    const char *path = WRAP(case_path("wt103-legacy/cache.pt"), "a.pt",
                            "}X\x0b\0\0\0model_stateX\x01\0\0\0xsX\x05\0\0\0vocab", "s");
    assert_not_converted(path, &o, TXL_UNSUPPORTED,
                         "not a Transformer-XL: no tensor named layers.0.dec_attn.o_net.weight");
}

static bool stop_at_once(void *context, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    ++*(int *)context;
    return false;
}

TEST(stopping_leaves_nothing) {
    int calls = 0;
    struct convert_options o = options_for(NULL);
    o.progress = stop_at_once;
    o.progress_context = &calls;
    assert_not_converted(case_path("wt103-zip"), &o, TXL_STOPPED, "stopped");
    assert_int_equal(calls, 1);
}

TEST(sources_are_not_overwritten) {
    txl_error error;
    struct convert_options o = options_for("text8/cache.pt");
    struct buffer file = read_bytes(case_path("text8/model.pt"));
    size_t size = file.size;
    const char *path = write_bytes(&file, "model.pt");
    assert_int_equal(convert_checkpoint(path, path, &o, &error), TXL_ARGUMENT);
    assert_says(&error, "cannot be the output too");
    file = read_bytes(path);
    assert_int_equal(file.size, size);
    free(file.data);
    o.vocabulary = scratch_path("vocabulary");
    file = read_bytes(case_path("text8/cache.pt"));
    write_bytes(&file, "vocabulary");
    assert_int_equal(convert_checkpoint(path, o.vocabulary, &o, &error), TXL_ARGUMENT);
    assert_not_converted(scratch_path("nowhere"), &o, TXL_IO, "nowhere");
}

int main(void) {
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
