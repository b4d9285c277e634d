/* The inputs that the fuzzers start from: files of tests/fuzz/seeds, and what is made here because
 * it has checksums or lengths, or is a case of tests/cases. */
#include "seeds.h"

#include "bundle_pack.h"
#include "convert/containers/checkpoint_internal.h"
#include "convert/containers/pickle.h"
#include "convert/containers/sorted_table.h"
#include "convert/containers/zip.h"
#include "tests/bundle_table.h"
#include "tiny.h"
#include "torch_pack.h"

#include <glob.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct seeds {
    const char *cases;
    void (*take)(void *context, const uint8_t *data, size_t size);
    void *context;
    size_t *n; /* taken so far */
};

/* Relative to tests/cases. */
#define PICKLES "../fuzz/seeds/pickle/"

static void take(const struct seeds *s, const void *data, size_t size) {
    ++*s->n;
    s->take(s->context, data, size);
}

/* The bytes with a byte before them. */
static void take_after(const struct seeds *s, int first, const void *data, size_t size) {
    uint8_t *both = malloc(size + 1);
    fuzz_require(both, "out of memory");
    both[0] = (uint8_t)first;
    memcpy(both + 1, data, size);
    take(s, both, size + 1);
    free(both);
}

/* A file of tests/cases; the caller frees it. */
static uint8_t *read_case(const struct seeds *s, const char *name, size_t *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", s->cases, name);
    return fuzz_read(path, size);
}

/* ---- Checkpoints -------------------------------------------------------------------------- */

/* Those of them whose pickles are short. */
static const char *const checkpoints[] = {
    "enwik8-zip/model.pt",       "learnable-positions/model.pt",
    "absolute-learned/model.pt", "hf-sharded/pytorch_model-00001-of-00002.bin",
    "hf-bin/pytorch_model.bin",
};

static const char *const vocabularies[] = {
    "vocabularies/cache-legacy.pt",      "vocabularies/cache-python2.pkl",
    "vocabularies/cache-zip.pt",         "vocabularies/vocab-legacy.bin",
    "vocabularies/vocab-protocol0.pkl",  "vocabularies/vocab-protocol2.pkl",
    "vocabularies/vocab-protocol4.pkl",  "vocabularies/vocab-zip.bin",
    "vocabularies/vocab.json",           "vocabularies/vocab.txt",
    "moses/nonbreaking-prefixes-en.txt", "xlnet-tokenizer/tokenizer.json",
};

static void take_pickle(const struct seeds *s, const char *name) {
    size_t size;
    uint8_t *bytes = read_case(s, name, &size);
    struct zip zip;
    uint64_t at = 0, end = 0;
    struct pickle *pickle;
    if (zip_looks_like(bytes, size)) {
        fuzz_require(!zip_open(bytes, size, name, &zip, NULL), name);
        struct zip_entry *entry = NULL;
        for (size_t i = 0; !entry && i < zip.n_entry; i++)
            entry = strstr(zip.entries[i].name, "data.pkl") ? &zip.entries[i] : NULL;
        fuzz_require(entry && !zip_open_entry(&zip, entry, NULL), name);
        take(s, entry->data, entry->size);
        zip_close(&zip);
    } else {
        for (int i = 0; i < 4; i++) { /* of the legacy container the fourth is the object */
            at = end;
            fuzz_require(!pickle_read(bytes, size, at, name, &pickle, &end, NULL), name);
            pickle_free(pickle);
        }
        take(s, bytes + at, end - at);
    }
    free(bytes);
}

static void make_pickles(const struct seeds *s) {
    for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++)
        take_pickle(s, checkpoints[i]);
}

static void take_case(const struct seeds *s, const char *name) {
    size_t size;
    uint8_t *bytes = read_case(s, name, &size);
    take(s, bytes, size);
    free(bytes);
}

static void make_vocabularies(const struct seeds *s) {
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++)
        take_case(s, vocabularies[i]);
}

static void take_safetensors(const struct seeds *s, const struct tiny *model) {
    size_t size;
    uint8_t *bytes = tiny_safetensors(model, &size);
    take(s, bytes, size);
    free(bytes);
}

static void make_containers(const struct seeds *s) {
    make_vocabularies(s);
    take_safetensors(s, &tiny_models[0]);
    take_case(s, PICKLES "nested");
    size_t length, size;
    uint8_t *pickle = read_case(s, PICKLES "state-dict", &length);
    for (int legacy = 0; legacy < 2; legacy++) {
        uint8_t *packed = torch_pack(pickle, length, legacy, &size);
        fuzz_require(packed, "the state dict cannot be packed");
        take(s, packed, size);
        free(packed);
    }
    free(pickle);
}

static void make_headers(const struct seeds *s) {
    for (const struct tiny *m = tiny_models; m->tokenizer && !m->activation; m++) {
        uint64_t data_size;
        char *header = tiny_header(m, &data_size);
        int options = m->attn_type >= 2 ? 128 : m->cutoffs ? 16 : m->d_model == 64 ? 96 : 0;
        take_after(s, options | m->pre_lnorm | m->untied << 2, header, strlen(header));
        free(header);
    }
}

/* An index that has every tensor of the model in the shard. */
static char *make_index(const struct tiny *model, const char *shard) {
    uint64_t data_size;
    char *header = tiny_header(model, &data_size);
    json_t *tensors = json_loads(header, 0, NULL), *map = json_object();
    const char *name;
    json_t *value;
    json_object_foreach(tensors, name, value) {
        json_object_set_new(map, name, json_string(shard));
    }
    json_t *index = json_pack("{s:o}", "weight_map", map);
    char *text = json_dumps(index, JSON_COMPACT);
    json_decref(index);
    json_decref(tensors);
    free(header);
    return text;
}

/* A config.json, a NUL and the index of a model in one shard. */
static void take_directory(const struct seeds *s, const char *config, const struct tiny *model,
                           const char *shard) {
    char *index = make_index(model, shard);
    size_t before = strlen(config) + 1, size = before + strlen(index);
    uint8_t *both = malloc(size);
    fuzz_require(both, "out of memory");
    memcpy(both, config, before);
    memcpy(both + before, index, size - before);
    take(s, both, size);
    free(both);
    free(index);
}

static void make_directories(const struct seeds *s) {
    static const char config[] =
        "{\"n_head\":2,\"d_head\":2,\"n_layer\":2,\"d_model\":4,\"d_embed\":4,\"d_inner\":6,"
        "\"cutoffs\":[5],\"div_val\":2,\"tie_weight\":false,\"tie_projs\":[false,true],"
        "\"pre_lnorm\":false,\"mem_len\":4,\"tgt_len\":3,\"clamp_len\":5,\"same_length\":true,"
        "\"layer_norm_epsilon\":1e-05,\"sample_softmax\":-1,\"ext_len\":0,\"vocab_size\":12,"
        "\"proj_share_all_but_first\":true,\"attn_type\":0,\"untie_r\":true}";
    take_directory(s, config, &tiny_models[1], "one"); /* as directory.c has them */
    take_directory(s, config, &tiny_models[4], "two");
    for (const struct tiny *m = tiny_models; m->tokenizer; m++) {
        if (m->activation && m->d_model == 4) {
            char *xlnet = tiny_config(m);
            take_directory(s, xlnet, m, m->untied ? "four" : "three");
            free(xlnet);
        }
    }
}

/* ---- TensorFlow's checkpoints ------------------------------------------------------------- */

static void take_bundle(const struct seeds *s, struct bundle_input parts) {
    static const char list[] = "model_checkpoint_path: \"/home/a/model.ckpt\"\n"
                               "all_model_checkpoint_paths: \"model\\056ckpt\"\n";
    uint8_t *data = calloc(1, parts.data_size + 1);
    size_t most = BUNDLE_HEAD + sizeof list + parts.n_index;
    uint8_t *index = malloc(parts.n_index + 1), *input = malloc(most);
    fuzz_require(data && index && input, "out of memory");
    memcpy(index, parts.index, parts.n_index);
    bundle_repair(index, parts.n_index, data, parts.data_size);
    parts.index = index;
    parts.list = (const uint8_t *)list;
    parts.n_list = sizeof list - 1;
    take(s, input, bundle_join(&parts, input, most));
    free(data);
    free(index);
    free(input);
}

/* A case's index, over zeros; again in compressed blocks. */
static void take_bundle_case(const struct seeds *s, const char *path) {
    struct bundle_input parts = {.options = 32 | 8, .data_size = BUNDLE_MAX_DATA};
    uint8_t *index = fuzz_read(path, &parts.n_index);
    char name[] = "index";
    struct mapped_file file = {.path = name, .data = index, .size = parts.n_index};
    struct table table = {0};
    txl_error error;
    parts.index = index;
    take_bundle(s, parts);
    if (table_looks_like(&file) && !table_read(&file, &table, &error)) {
        uint8_t *packed = bundle_table(table.entries, table.n, (table.n + 2) / 3, &parts.n_index);
        parts.index = packed;
        take_bundle(s, parts);
        free(packed);
    }
    table_free(&table);
    free(index);
}

static void make_bundles(const struct seeds *s) {
    static const char *const patterns[] = {"tf-*/model/*.index", "xlnet-*/*.index",
                                           "hostile/*.index"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char pattern[4096];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/tensorflow/%s", s->cases, patterns[i]);
        fuzz_require(glob(pattern, 0, NULL, &found) == 0, pattern);
        for (size_t k = 0; k < found.gl_pathc; k++)
            take_bundle_case(s, found.gl_pathv[k]);
        globfree(&found);
    }
}

/* ---- Weights and memory ------------------------------------------------------------------- */

static void make_weights(const struct seeds *s) {
    for (const struct tiny *m = tiny_models; m->tokenizer; m++) {
        size_t size;
        uint8_t *bytes = tiny_weights(m, &size);
        take(s, bytes, size);
        free(bytes);
    }
}

static void take_memory(const struct seeds *s, int number, const txl_model *model,
                        txl_settings settings, size_t n) {
    const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const bool xlnet = txl_model_family(model) == TXL_FAMILY_XLNET;
    const txl_resume resume = {.random = {1, 2, 3},
                               .recent = ids,
                               .n_recent = 4,
                               .tail = 'a',
                               .refresh = xlnet ? 4 : 0,
                               .round = xlnet ? 2 : 0};
    txl_session *session;
    txl_memory *memory;
    txl_error error;
    const char *path = fuzz_write("seed.txm", NULL, 0);
    fuzz_require_ok(txl_session_new(model, &settings, &session, &error), &error);
    fuzz_require_ok(txl_session_feed(session, ids, n, &error), &error);
    fuzz_require_ok(txl_session_save(session, &resume, &memory, &error), &error);
    fuzz_require_ok(txl_memory_write(memory, path, &error), &error);
    size_t size;
    uint8_t *bytes = fuzz_read(path, &size);
    take_after(s, number, bytes, size);
    free(bytes);
    txl_memory_free(memory);
    txl_session_free(session);
}

static void make_memories(const struct seeds *s) {
    for (int i = 0; tiny_models[i].tokenizer; i++) {
        size_t size;
        txl_model *model;
        txl_settings settings;
        txl_error error;
        uint8_t *bytes = tiny_weights(&tiny_models[i], &size);
        fuzz_require_ok(txl_model_open(fuzz_write("seed.txl", bytes, size), 1, &model, &error),
                        &error);
        free(bytes);
        txl_model_defaults(model, &settings);
        settings.threads = 1;
        settings.memory_type = (txl_memory_type)(i % (TXL_MEMORY_Q8 + 1));
        take_memory(s, i, model, settings, 0);
        take_memory(s, i, model, settings, 2);
        settings.same_length = settings.mem_len > 0 && !tiny_models[i].activation;
        take_memory(s, i, model, settings, 9);
        txl_model_close(model);
    }
}

/* Before and after a step, and with the best weights beside the last; of one model with tokens that
 * are read again. */
static void make_states(const struct seeds *s) {
    for (unsigned i = 0; tiny_models[i].tokenizer; i++) {
        const txl_training how = {.batch = 1 + (int)i % 3,
                                  .tgt_len = 3,
                                  .ext_len = i == 1 ? 2 : 0,
                                  .mem_len = i == 1 ? 0 : 4,
                                  .clamp_len = -1,
                                  .clip = 0.25,
                                  .epsilon = 1e-8,
                                  .dropout = i % 2 * 0.1,
                                  .threads = 1,
                                  .forget_every = i == 2};
        txl_trainer *trainer;
        txl_step step;
        txl_error error;
        txl_ids *ids = tiny_ids(txl_model_n_token(tiny_model(i)));
        if (!txl_trainer_new(tiny_model(i), ids, &how, &trainer, &error)) {
            for (int n = 0; n < 3; n++) {
                size_t size;
                const char *path = fuzz_write("seed.state", NULL, 0);
                fuzz_require_ok(txl_trainer_save(trainer, path, "{\"a\":1}", &error), &error);
                uint8_t *bytes = fuzz_read(path, &size);
                take(s, bytes, size);
                free(bytes);
                fuzz_require_ok(txl_trainer_step(trainer, 0.01, &step, &error), &error);
                txl_trainer_keep(trainer);
            }
            txl_trainer_free(trainer);
        }
        txl_ids_free(ids);
    }
    static const float rows[3 * 2] = {1, -2, 3};
    for (size_t n = 0; n < 4; n += 3) {
        size_t size;
        txl_error error;
        const char *path = fuzz_write("seed.state", NULL, 0);
        fuzz_require_ok(txl_rows_save(path, "{\"a\":1}", rows, n, 2, &error), &error);
        uint8_t *bytes = fuzz_read(path, &size);
        take(s, bytes, size);
        free(bytes);
    }
}

/* ---- Text ---------------------------------------------------------------------------- */

static const char *const texts[] = {
    "the Mr. a\r\n\n  b\t1,000 the <eos> <unk>\n",
    "\xef\xbb\xbfthe\xc2\xa0word \xe3\x80\x80 \xff\xe2\x82 \xf0\x9f\x98\x80\ra\r",
    "“Hello,” said Mr. O'Neil — it costs $23,000 (1.80m)! Don't well-known e.g. U.S. a/b & 3-4.\n",
    "ΟΔΟΣ Σ İstanbul ﬁ 中文 한국어 한 ... etc. [a|b] 'tis \"quoted\" it's 50% @-@\n",
    ("The lines of a\036paragraph, which\036\"were wrapped\"\0361,000 the \036. "
     "a\r\036Σ\036\n\036Mr.\036"),
    "anarchism originated as a term of abuse first used against early working class radicals",
};

static void make_texts(const struct seeds *s) {
    enum { PLAIN = 64, RAW = 64 | 8, PROMPT = 64 | 16, SPLIT = 8, LOWER_CASE = 128 };
    static const uint8_t modes[] = {
        PLAIN, RAW, PROMPT, SPLIT, PLAIN | LOWER_CASE, RAW | PROMPT | 32};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (size_t mode = 0; mode < sizeof modes; mode++) {
            for (int kind = 0; kind < 5; kind++) {
                char input[512];
                int n = snprintf(input, sizeof input, "%c%s", (int)(3 + 2 * i + mode), texts[i]);
                take_after(s, modes[mode] | kind, input, (size_t)n);
            }
        }
    }
}

/* ---- Pieces ------------------------------------------------------------------------------- */

/* The bytes of a number in a protobuf. */
static size_t varint(const uint8_t *data, size_t size, uint64_t *value) {
    size_t n = 0;
    *value = 0;
    do
        *value |= (uint64_t)(data[n] & 127) << (7 * n);
    while (data[n++] >= 128 && n < size && n < 9);
    return n;
}

/* Of a model its first `n` pieces and all of the rest; returns the bytes written. */
static size_t cut_model(const uint8_t *model, size_t size, int n, uint8_t *out) {
    size_t written = 0;
    for (size_t at = 0, bytes; at < size; at += bytes) {
        uint64_t key, length;
        bytes = varint(model + at, size - at, &key);
        bytes += varint(model + at + bytes, size - at - bytes, &length);
        bytes += (size_t)length;
        if (key >> 3 != 1 || n-- > 0) {
            memcpy(out + written, model + at, bytes);
            written += bytes;
        }
    }
    return written;
}

/* Models as small as they come: of a few pieces of each type, and of each byte with the rules of
 * a normaliser. */
static void make_pieces(const struct seeds *s) {
    static const char text[] =
        "ab aba. 1, a1,b\r\n\n <mask>. ab<eop>b``a'' e\xcc\x81\xef\xac\x81\xff "
        "\xe2\x96\x81 \xe2\x80\x94  ";
    static const int choices[] = {32, 33, 33 | 16 | 8, 32 | 4, 32 | 64, 33 | 64};
    size_t size;
    uint8_t *file = read_case(s, "pieces/small.model", &size);
    uint8_t *input = malloc(size + tiny_pieces_size + sizeof text + 2);
    fuzz_require(input, "out of memory");
    for (int model = 0; model < 2; model++) {
        for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
            input[0] = sizeof text - 1;
            input[1] = (uint8_t)(7 * i);
            size_t n = 2;
            if (model == 0) {
                memcpy(input + n, tiny_pieces, tiny_pieces_size);
                n += tiny_pieces_size;
            } else {
                n += cut_model(file, size, 300, input + n);
            }
            memcpy(input + n, text, sizeof text - 1);
            take_after(s, choices[i], input, n + sizeof text - 1);
        }
    }
    free(input);
    free(file);
}

/* ---- Compressed texts --------------------------------------------------------------------- */

static txl_status add_bytes(void *context, const void *bytes, size_t n, txl_error *error) {
    (void)error;
    return fwrite(bytes, 1, n, context) == n ? TXL_OK : TXL_IO;
}

/* A short text of each model, one of several streams, and two one after the other. */
static void take_compressed(const struct seeds *s, int model, bool no_cache) {
    static const char text[] =
        "a b a  c\n b\tab 1 97 98 \xe2\x96\x81 \xff\r\nabab a b a b a b a b\n";
    char *file = NULL;
    size_t size = 0;
    txl_error error;
    FILE *out = open_memstream(&file, &size);
    const txl_compression how = {.streams = 1 + model % 3,
                                 .threads = 1,
                                 .no_cache = no_cache,
                                 .write = add_bytes,
                                 .context = out};
    txl_compressor *compressor;
    fuzz_require(out, "out of memory");
    if (!txl_compressor_new(tiny_model((unsigned)model), &how, &compressor, &error)) {
        for (int twice = 0; twice <= model % 2; twice++) {
            for (int n = 0; n < 1 + model * 4; n++)
                fuzz_require_ok(txl_compressor_feed(compressor, text, sizeof text - 1, &error),
                                &error);
            fuzz_require_ok(txl_compressor_finish(compressor, &error), &error);
        }
        txl_compressor_free(compressor);
    }
    fclose(out);
    if (size > 0)
        take_after(s, model, file, size);
    free(file);
}

/* In every form that a frame has. */
static void make_compressed(const struct seeds *s) {
    for (int i = 0; tiny_models[i].tokenizer; i++)
        for (int no_cache = 0; no_cache < 2; no_cache++)
            take_compressed(s, i, no_cache);
}

/* ------------------------------------------------------------------------------------------- */

/* Takes what is written by hand: of the harnesses whose inputs are text, all. */
static void take_files(const struct seeds *s, const char *harness) {
    char pattern[4096];
    glob_t files;
    snprintf(pattern, sizeof pattern, "%s/../fuzz/seeds/%s/*", s->cases, harness);
    int failed = glob(pattern, 0, NULL, &files);
    fuzz_require(!failed || failed == GLOB_NOMATCH, pattern);
    for (size_t i = 0; !failed && i < files.gl_pathc; i++) {
        size_t size;
        uint8_t *bytes = fuzz_read(files.gl_pathv[i], &size);
        take(s, bytes, size);
        free(bytes);
    }
    if (!failed)
        globfree(&files);
}

bool seeds_make(const char *harness, const char *cases,
                void (*take_seed)(void *context, const uint8_t *data, size_t size), void *context) {
    static const struct {
        const char *harness;
        void (*make)(const struct seeds *seeds);
    } makers[] = {
        {"bundle", make_bundles},          {"compressed", make_compressed},
        {"pickle", make_pickles},          {"container", make_containers},
        {"safetensors", make_headers},     {"directory", make_directories},
        {"weights", make_weights},         {"memory", make_memories},
        {"vocabulary", make_vocabularies}, {"text", make_texts},
        {"pieces", make_pieces},           {"state", make_states},
    };
    size_t n = 0;
    const struct seeds seeds = {cases, take_seed, context, &n};
    take_files(&seeds, harness);
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].harness, harness) == 0)
            makers[i].make(&seeds);
    return n > 0;
}
