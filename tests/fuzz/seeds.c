/* The inputs that the fuzzers start from. */
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
};

static void take(const struct seeds *s, const void *data, size_t size) {
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
    "moses/nonbreaking-prefixes-en.txt",
};

/* Protocol 0: a state dict of one tensor. */
static const char state_dict[] = "(dS'w'\nctorch._utils\n_rebuild_tensor_v2\n((S'storage'\nctorch\n"
                                 "FloatStorage\nS'0'\nS'cpu'\nI12\ntQI0\n(I3\nI4\nt(I4\nI1\ntI00\n"
                                 "ccollections\nOrderedDict\n(tRtRs.";

/* Of every opcode one. */
static const char opcodes[] =
    "\x80\x05\x95\x10\0\0\0\0\0\0\0(NI1\nI01\nL-2L\nF1.5\nG?\xf0\0\0\0\0\0\0J\1\0\0\0K\1M\1\0"
    "\x88\x89\x8a\1\xff\x8b\1\0\0\0\1S'a\\n\\x41\\101'\nVa\\u00e9\\ud83d\\ude00\nU\1aT\1\0\0\0a"
    "X\1\0\0\0a\x8c\1a\x8d\1\0\0\0\0\0\0\0a\x8e\1\0\0\0\0\0\0\0a\x96\1\0\0\0\0\0\0\0a"
    "B\1\0\0\0aC\1a20]q\0(K\1e]K\1a}r\1\0\0\0(K\1K\2u\x94(NK\1l}K\1K\2s(K\1K\2d\x8f(K\1\x90(K\1\x91"
    ")K\1\x85K\1K\2\x86K\1K\2K\3\x87h\0j\1\0\0\0p9\ng9\n(K\1t(ca\nb\noc__builtin__\nset\n(]tR"
    "(ia\nb\n}bc__builtin__\nobject\n)\x81\x8c\1a\x8c\1b\x93)}\x92(U\6modulecm\nC\nNNtQ(K\1"
    "1Pid\nK\1Q.";

/* Of most functions that are known one call. */
static const char calls[] =
    "(ccollections\nOrderedDict\n(((K\1K\2tltRc__builtin__\ndict\n)Rccollections\ndefaultdict\n"
    "(cc\nd\n}tRc__builtin__\nfrozenset\n((K\1ltRc_codecs\nencode\n(X\2\0\0\0\xc3\xa9U\6latin1tR"
    "c_codecs\nencode\n(U\1aU\5utf-8tRccopy_reg\n_reconstructor\n(ca\nb\nc__builtin__\nobject\nNtR"
    "ctorch\nSize\n((K\1ttRctorch._utils\n_rebuild_parameter\n(N\x88}tRctorch\ndevice\n(U\3cputR"
    "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nca\nb\n(Nt}tRt.";

/* As state_dict, in the form of newer types. */
static const char tensor_v3[] =
    "\x80\2}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v3\n((X\7\0\0\0storagectorch.storage\n"
    "UntypedStorage\nX\1\0\0\0000X\3\0\0\0cpuK\x18tQK\0K\3K\4\x86K\4K\1\x86\x89"
    "ccollections\nOrderedDict\n)Rctorch\nbfloat16\nNtRs.";

/* The same by plain pickle: the storage, of 12 zeros, is a legacy file of its own, 167 bytes long.
 */
static const char nested[] =
    "\x80\3}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\n"
    "B\xa7\0\0\0\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3."
    "\x80\2}X\x0d\0\0\0little_endian\x88s.\x80\2(X\7\0\0\0storagectorch\nFloatStorage\n"
    "X\1\0\0\0000X\3\0\0\0cpuK\x0cNtQ.\x80\2]X\1\0\0\0000a.\x0c\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\x85RK\0K\3K\4\x86K\4K\1\x86\x89"
    "ccollections\nOrderedDict\n)RtRs.";

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
    take(s, state_dict, sizeof state_dict - 1);
    take(s, opcodes, sizeof opcodes - 1);
    take(s, calls, sizeof calls - 1);
    take(s, tensor_v3, sizeof tensor_v3 - 1);
    take(s, nested, sizeof nested - 1);
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
    take(s, nested, sizeof nested - 1);
    for (int legacy = 0; legacy < 2; legacy++) {
        size_t size;
        uint8_t *packed =
            torch_pack((const uint8_t *)state_dict, sizeof state_dict - 1, legacy, &size);
        fuzz_require(packed, "the state dict cannot be packed");
        take(s, packed, size);
        free(packed);
    }
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

/* Before and after a step, and with the best weights beside the last. */
static void make_states(const struct seeds *s) {
    for (unsigned i = 0; tiny_models[i].tokenizer; i++) {
        const txl_training how = {.batch = 1 + (int)i % 3,
                                  .tgt_len = 3,
                                  .mem_len = 4,
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
}

/* ---- Text and options --------------------------------------------------------------------- */

static const char *const texts[] = {
    "the Mr. a\r\n\n  b\t1,000 the <eos> <unk>\n",
    "\xef\xbb\xbfthe\xc2\xa0word \xe3\x80\x80 \xff\xe2\x82 \xf0\x9f\x98\x80\ra\r",
    "“Hello,” said Mr. O'Neil — it costs $23,000 (1.80m)! Don't well-known e.g. U.S. a/b & 3-4.\n",
    "ΟΔΟΣ Σ İstanbul ﬁ 中文 한국어 한 ... etc. [a|b] 'tis \"quoted\" it's 50% @-@\n",
    "The lines of a\036paragraph, which\036\"were wrapped\"\0361,000 the \036. "
    "a\r\036Σ\036\n\036Mr.\036",
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

static void make_ids(const struct seeds *s) {
    static const char *const lines[] = {"0 1 2\n3\n\n11", "5\t007\r\n 4\f\v9 \n", "12\n", "1 -2",
                                        ""};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        take_after(s, (int)i, lines[i], strlen(lines[i]));
        take_after(s, 7 * (int)i, lines[i], strlen(lines[i]));
    }
}

/* Commands by their number in main.c; blanks stand for the ends of arguments. */
static void make_options(const struct seeds *s) {
    static const struct {
        int command;
        const char *line;
    } lines[] = {
        {0, "-n 5 --temperature 0.5 --top-k 3 --top-p 0.9 --stop x --stop y --seed 7 --greedy"},
        {0, "--prompt-text a --eos stop --json --logprobs 3 --memory-type f16 --interactive -q"},
        {0, "--min-p 1e-3 --typical .5 --repetition-penalty 2 --no-repeat-ngram 3 --help"},
        {1, "a.txt b.txt --tgt-len 3 --mem-len 4 --clamp-len -1 --same-length yes --batch=2"},
        {1, "--preset published --sweep-memory 1,2,3 --fail-above 1.5 --sliding-window 8 -"},
        {2, "--decode --ids --text raw -- --odd"},
        {3, "source -o out.txl --type q8 --level 19 --cutoffs 1,2 --cluster-order forward"},
        {4, "file --json --tensors"},
        {5, "file"},
        {6, "--shape wt103-large --type f32 --json --threads 2"},
        {7, "bash"},
        {8, "generate"},
        {9, "convert"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char input[256];
        size_t length = strlen(lines[i].line);
        memcpy(input, lines[i].line, length + 1);
        for (char *blank = input; (blank = strchr(blank, ' ')); blank++)
            *blank = '\0';
        take_after(s, lines[i].command, input, length);
    }
}

/* ---- Compressed texts --------------------------------------------------------------------- */

static txl_status add_bytes(void *context, const void *bytes, size_t n, txl_error *error) {
    (void)error;
    return fwrite(bytes, 1, n, context) == n ? TXL_OK : TXL_IO;
}

/* A short text of each model, one of several streams, and two one after the other. */
static void make_compressed(const struct seeds *s) {
    static const char text[] =
        "a b a  c\n b\tab 1 97 98 \xe2\x96\x81 \xff\r\nabab a b a b a b a b\n";
    for (int i = 0; tiny_models[i].tokenizer; i++) {
        char *file = NULL;
        size_t size = 0;
        txl_error error;
        FILE *out = open_memstream(&file, &size);
        const txl_compression how = {
            .streams = 1 + i % 3, .threads = 1, .write = add_bytes, .context = out};
        txl_compressor *compressor;
        fuzz_require(out, "out of memory");
        if (!txl_compressor_new(tiny_model((unsigned)i), &how, &compressor, &error)) {
            for (int twice = 0; twice <= i % 2; twice++) {
                for (int n = 0; n < 1 + i * 4; n++)
                    fuzz_require_ok(txl_compressor_feed(compressor, text, sizeof text - 1, &error),
                                    &error);
                fuzz_require_ok(txl_compressor_finish(compressor, &error), &error);
            }
            txl_compressor_free(compressor);
        }
        fclose(out);
        if (size > 0)
            take_after(s, i, file, size);
        free(file);
    }
}

/* ---- Results ------------------------------------------------------------------------------ */

/* A shard's result, as txl ppl --shard I/N --json prints it. */
static void print_shard(FILE *out, int number, int of, int threads, bool ids) {
    fprintf(out, "{\"file\":\"a.txt\",\"tokens\":%d,\"predicted\":9,", 10 * of + 1);
    fputs(
        ids ? "\"unknown\":null,\"invalid\":null,\"bytes\":null,\"characters\":null,\"words\":null,"
              "\"known_predicted\":null,\"known_characters\":null,\"known_nats\":null,"
            : "\"unknown\":1,\"invalid\":0,\"bytes\":50,\"characters\":49,\"words\":7,"
              "\"known_predicted\":8,\"known_characters\":45,\"known_nats\":19.25,",
        out);
    fprintf(out,
            "\"nats\":20.5,\"seconds\":0.25,\"settings\":{\"tgt_len\":8,\"mem_len\":8,"
            "\"clamp_len\":-1,\"same_length\":false,\"same_length_reach\":\"mem_len\","
            "\"layer_norm_eps\":1e-5,\"memory_start\":\"empty\",\"cluster_order\":\"reversed\","
            "\"arithmetic\":\"fast\",\"type\":\"f32\",\"memory_type\":\"f32\","
            "\"threads\":%d,\"streams\":%d,\"checksum\":\"0123456789abcdef\","
            "\"mode\":\"segments\",\"text\":\"tokens\"},\"shard\":{\"number\":%d,\"of\":%d,"
            "\"mean\":2.25,"
            "\"squares\":3.5,\"checksum\":\"0123456789abcdef\",\"model\":\"m.txl\","
            "\"mode\":\"segments\",\"text\":\"tokens\",\"kernels\":\"k%d\",\"blas\":\"b\","
            "\"words\":%s,\"replaces_unknown\":true}}",
            threads, of, number, of, threads, ids ? "true" : "false");
    fputc('\0', out);
}

static void make_results(const struct seeds *s) {
    for (int of = 1; of <= 4; of++) {
        char *files = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&files, &size);
        fuzz_require(out, "out of memory");
        for (int i = of; i >= 1; i--)
            print_shard(out, i, of, of == 3 ? i : 1, of % 2 == 0);
        fclose(out);
        take(s, files, size);
        free(files);
    }
}

/* ---- Prompts ------------------------------------------------------------------------------ */

static void make_prompts(const struct seeds *s) {
    static const char *const lines[] = {
        "{\"prompt\": \"the\", \"n\": 3, \"stop\": [\"a\", \"b\"]}\n\r\n{\"prompt\": \"\"}",
        "\xef\xbb\xbf{\"prompt\": \"a\", \"seed\": 1, \"temperature\": 0.5, \"top_k\": 9, "
        "\"top_p\": 0.9}\n",
        "{\"prompt\": \"b\", \"greedy\": true, \"eos\": \"stop\", \"end\": \"sentence\"}\n{\"n\": "
        "1}\n[]\n{",
        "{\"prompt\": \"c\", \"min_p\": 0.1, \"typical\": 1, \"allow_unk\": false, \"stop\": "
        "\"x\"}\n",
        "{\"prompt\": \"d\", \"repetition_penalty\": 1.2, \"repeat_last\": 8, \"no_repeat_ngram\": "
        "3}\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        take(s, lines[i], strlen(lines[i]));
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void make_requests(const struct seeds *s) {
    static const char *const requests[] = {
        "\x40{\"prompt\": \"the\", \"max_tokens\": 3, \"stop\": [\"a\", \"b\"], \"echo\": true, "
        "\"logprobs\": 2, \"seed\": 1}",
        "\x44{\"prompt\": [[1, 2], [3]], \"max_tokens\": 1, \"logprobs\": 1, \"n\": 2, \"stream\": "
        "true, \"stream_options\": {\"include_usage\": true}}",
        "\x48{\"prompt\": [\"a \", \"\\u00e9\"], \"temperature\": 0, \"end\": \"sentence\", "
        "\"return_tokens_as_token_ids\": true, \"x\": null}",
        "\x4c{\"prompt\": [0], \"arithmetic\": \"exact\", \"repeat_penalty\": 1.5, "
        "\"repeat_last_n\": 3, \"typical_p\": 0.5, "
        "\"top_k\": 3, \"min_p\": 0.2, \"top_p\": 0.5, \"no_repeat_ngram\": 2, "
        "\"add_special_tokens\": false}",
        "\x41{\"items\": [{\"item\": 1, \"text\": \"a |b\", \"context\": \"c\"}], \"logprobs\": 1}",
        "\x45{\"text\": \"a\", \"stream\": true, \"no_eos\": true, \"mem_len\": 0}",
        "\x42{\"prompt\": \"a b\", \"return_token_strs\": true, \"add_special_tokens\": true}",
        "\x43{\"tokens\": [0, 1, 2]}",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        take(s, requests[i], strlen(requests[i]));
}

/* ---- Tables of items ---------------------------------------------------------------------- */

static void make_items(const struct seeds *s) {
    static const char *const tables[] = {
        "\x08item,condition,text,x\r\n1,a,\"a | \"\"b\"\" \\|\",7\n,,,\n2,b,c|d,\n",
        "\x09sep=;\nitem;condition;text;context\n1;a;b |c;d \n\n2;a;;\n",
        "\x0b# made\n#\nitem\tcondition\ttext\n1\ta\t|b||\n\"",
        "\x0a{\"item\": 12345678901234567890, \"condition\": \"a\", \"text\": \"b\"}\n{\"x\": [1, "
        "{\"y\": \"\\\"\"}], \"text\": \"|c\", \"item\": 1.5e3, \"condition\": true}\n[\n",
        "\x0b{\"sentence_good\": \"a\", \"UID\": \"u\", \"sentence_bad\": \"b\", \"pairID\": 0}\n"
        "{\"sentence_good\": \"\", \"z\": null, \"sentence_bad\": \"\\u00e9\"}\n",
        "\x0citem,condition,r,text\n1,a,2,b |\n1,a,1,\n2,a,v,c\n2,a,n,d\n1,b,1,e\n1,b,1,f\n",
        "\x0e{\"item\": 1, \"condition\": \"a\", \"r\": 2, \"text\": \"b\"}\n{\"r\": 1, \"item\": "
        "1, "
        "\"condition\": \"a\", \"text\": \" c\", \"q\": 1}",
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        take(s, tables[i], strlen(tables[i]));
}

/* ------------------------------------------------------------------------------------------- */

bool seeds_make(const char *harness, const char *cases,
                void (*take_seed)(void *context, const uint8_t *data, size_t size), void *context) {
    static const struct {
        const char *harness;
        void (*make)(const struct seeds *seeds);
    } makers[] = {
        {"bundle", make_bundles},
        {"compressed", make_compressed},
        {"pickle", make_pickles},
        {"container", make_containers},
        {"safetensors", make_headers},
        {"directory", make_directories},
        {"weights", make_weights},
        {"memory", make_memories},
        {"vocabulary", make_vocabularies},
        {"text", make_texts},
        {"options", make_options},
        {"ids", make_ids},
        {"results", make_results},
        {"pieces", make_pieces},
        {"prompts", make_prompts},
        {"requests", make_requests},
        {"state", make_states},
        {"items", make_items},
    };
    const struct seeds seeds = {cases, take_seed, context};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strcmp(makers[i].harness, harness) == 0) {
            makers[i].make(&seeds);
            return true;
        }
    }
    return false;
}
