/* Small files that claim much: no file of at most 10 KB makes a reader allocate more than 64 MiB,
 * or work for more than a second, before it is refused.  Each is read in a process of its own,
 * whose memory and time are measured. */
#include "convert/converter.h"
#include "convert/vocabulary_file.h"
#include "faults.h"
#include "lib/base/limits.h"
#include "lib/weights/weights.h"
#include "tests/convert/checkpoint_files.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <xxhash.h>
#include <zstd.h>

enum { MOST_BYTES = 10240, MOST_MEMORY = 64 << 20 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_SECONDS = 10, MEASURES_RESIDENT = 0 }; /* it keeps what is freed */
#else
enum { MOST_SECONDS = 1, MEASURES_RESIDENT = 1 };
#endif

/* ---- Files in the making ------------------------------------------------------------------ */

static struct {
    unsigned char bytes[MOST_BYTES];
    size_t size;
} made;

static bool fits(size_t more) {
    return made.size + more <= sizeof made.bytes;
}

static void put(const void *bytes, size_t size) {
    assert_true(fits(size));
    if (size > 0)
        memcpy(made.bytes + made.size, bytes, size);
    made.size += size;
}

static void put_text(const char *text) {
    put(text, strlen(text));
}

static void put_number(int width, uint64_t number) {
    for (int i = 0; i < width; i++)
        put(&(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}

/* Until the file is as large as it may become, but for `left` bytes. */
static void repeat(const char *bytes, size_t size, size_t left) {
    while (fits(size + left))
        put(bytes, size);
}

static void begin(void) {
    made.size = 0;
}

/* text[size] becomes size - 1 times the character. */
static void fill(char *text, size_t size, char character) {
    memset(text, character, size - 1);
    text[size - 1] = '\0';
}

/* ---- Reading them ------------------------------------------------------------------------- */

typedef txl_status reader(const char *path, txl_error *error);

static txl_status read_checkpoint(const char *path, txl_error *error) {
    struct convert_options options;
    convert_options_init(&options);
    options.threads = 1;
    return convert_checkpoint(path, scratch_path("out.txl"), &options, error);
}

static txl_status read_vocabulary(const char *path, txl_error *error) {
    struct vocabulary_file vocabulary;
    txl_status status = vocabulary_file_read(path, &vocabulary, error);
    if (!status)
        vocabulary_file_free(&vocabulary);
    return status;
}

static txl_status read_weights(const char *path, txl_error *error) {
    txl_model *model;
    txl_status status = txl_model_open(path, 1, &model, error);
    if (!status)
        txl_model_close(model);
    return status;
}

static double mebibytes(size_t bytes) {
    return (double)bytes / (1 << 20);
}

/* Bytes of this process that are in memory. */
static size_t own_resident(void) {
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* What a child process reports. */
struct outcome {
    txl_status status;
    size_t allocated, resident; /* bytes at most, since it began */
    char message[1024];
};

static void read_in_child(reader *read_it, const char *path, int to) {
    struct outcome outcome = {.allocated = 0};
    struct rusage used;
    size_t before = own_resident();
    txl_error error = {.message = ""};
    faults_arm(FAULT_MEMORY, 0, false);
    outcome.status = read_it(path, &error);
    faults_disarm();
    outcome.allocated = faults_peak();
    getrusage(RUSAGE_SELF, &used);
    if (MEASURES_RESIDENT && (size_t)used.ru_maxrss << 10 > before)
        outcome.resident = ((size_t)used.ru_maxrss << 10) - before;
    memcpy(outcome.message, error.message, sizeof outcome.message);
    _exit(write(to, &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
}

static double seconds(const struct timeval *time) {
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* Reads what was made as a file of that name.  It has to be refused, with `message` somewhere in
 * what is said; NULL: it need not. */
static void check(const char *name, reader *read_it, const char *message) {
    int ends[2], how;
    struct rusage used;
    struct outcome outcome = {.allocated = 0};
    const char *path = write_file(name, made.bytes, made.size);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CPU, &(struct rlimit){60, 60});
        read_in_child(read_it, path, ends[1]);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], &outcome, sizeof outcome);
    close(ends[0]);
    assert_int_equal(wait4(child, &how, 0, &used), child);
    double taken = seconds(&used.ru_utime) + seconds(&used.ru_stime);
    if (n != sizeof outcome || how != 0)
        fail_msg("%s: the reader died (%d) after %.1f seconds", name, how, taken);
    print_message("%-20s %6.2f MiB allocated, %6.2f resident, %5.3f s: %s\n", name,
                  mebibytes(outcome.allocated), mebibytes(outcome.resident), taken,
                  outcome.message);
    if (message && (!outcome.status || !strstr(outcome.message, message)))
        fail_msg("%s: status %d, \"%s\", not \"%s\"", name, (int)outcome.status, outcome.message,
                 message);
    if (outcome.allocated > MOST_MEMORY || outcome.resident > MOST_MEMORY || taken > MOST_SECONDS)
        fail_msg("%s: %zu bytes, %zu resident, %.3f seconds", name, outcome.allocated,
                 outcome.resident, taken);
    unlink(path);
}

/* ---- Pickles ------------------------------------------------------------------------------ */

static void begin_pickle(void) {
    begin();
    put("\x80\x04", 2);
}

/* The legacy container up to the object. */
static void begin_legacy(void) {
    begin();
    put("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    put("\x80\x02M\xe9\x03.", 6);
    put("\x80\x02}.", 4);
    put("\x80\x02", 2);
}

/* The rest of it: one storage of so many floats. */
static void end_legacy(unsigned n_float) {
    put("\x80\x02](X\x01\x00\x00\x00"
        "0e.",
        12);
    put_number(8, n_float);
    for (unsigned i = 0; i < n_float; i++)
        put_number(4, 0);
}

/* Ends the pickle and reads it. */
static void check_pickle(const char *name, const char *message) {
    put(".", 1);
    check(name, read_checkpoint, message);
}

static void put_string(const char *text) {
    put("X", 1);
    put_number(4, strlen(text));
    put_text(text);
}

static void put_int(uint64_t number) {
    put("\x8a\x08", 2);
    put_number(8, number);
}

/* A tensor of so many floats, by shape and strides as opcodes. */
static void put_tensor(uint64_t n_float, const char *shape, size_t shape_size, const char *strides,
                       size_t strides_size) {
    put_text("ctorch._utils\n_rebuild_tensor_v2\n((");
    put_string("storage");
    put_text("ctorch\nFloatStorage\n");
    put_string("0");
    put_string("cpu");
    put_int(n_float);
    put("tQK\x00(", 5);
    put(shape, shape_size);
    put("t(", 2);
    put(strides, strides_size);
    put("t\x89}tR", 5);
}

TEST(deep_pickles) {
    begin_pickle();
    repeat("]", 1, made.size + sizeof made.bytes / 2);
    for (size_t i = 0, n = made.size - 3; i < n; i++)
        put("a", 1);
    check_pickle("deep.pkl", "nested deeper");

    /* Each level holds the one below twice: 2^n ways to the bottom. */
    begin_pickle();
    put("]\x94", 2);
    for (int i = 0; i < 90; i++)
        put("0](h", 4), put_number(1, (uint64_t)i), put("h", 1), put_number(1, (uint64_t)i),
            put("e\x94", 2);
    check_pickle("twice.pkl", "refer to each other");

    /* A list that holds itself. */
    begin_pickle();
    put("]\x94h\x00"
        "a",
        5);
    check_pickle("itself.pkl", "not a Transformer-XL");
    begin_pickle();
    repeat("(", 1, 1);
    check_pickle("marks.pkl", "too few values");
}

/* Pickles in which a few opcodes make large objects. */
TEST(greedy_pickles) {
    char name[512];
    fill(name, sizeof name, 'n');

    begin_pickle();
    put("]r", 2), put_number(4, 0xfffffff0);
    check_pickle("memo.pkl", "beyond what the stream can have stored");

    /* The memo's highest entries first. */
    begin_pickle();
    repeat("]", 1, 64);
    put("r", 1), put_number(4, made.size - 4), put(".", 1);
    check("memo-jump.pkl", read_checkpoint, "");

    begin_pickle();
    put("\x8d", 1), put_number(8, UINT64_MAX), put("x", 1);
    check_pickle("string.pkl", "cut short");
    begin_pickle();
    put("\x8b", 1), put_number(4, UINT32_MAX), put("x", 1);
    check_pickle("long.pkl", "cut short");

    /* The same long names again and again. */
    begin_pickle();
    put_string(name);
    put("\x94", 1);
    repeat("h\x00h\x00\x93", 5, 1);
    check_pickle("classes.pkl", "");

    /* The same string decoded again and again. */
    begin_pickle();
    put_text("c_codecs\nencode\n\x94");
    put_string(name);
    put("\x94", 1);
    put_string("latin1");
    put("\x94", 1);
    repeat("h\x00h\x01h\x02\x86R", 8, 1);
    check_pickle("latin1.pkl", "expands to more");

    /* The same list made a set again and again. */
    begin_pickle();
    put_text("cbuiltins\nset\n\x94](");
    repeat("N", 1, sizeof made.bytes / 2);
    put("e\x94", 2);
    repeat("h\x00h\x01\x85R", 6, 1);
    check_pickle("sets.pkl", "expands to more");

    static const struct {
        const char *name, *operations;
    } repeated[] = {
        {"lists.pkl", "](N"},
        {"items.pkl", "]Na"},
        {"pairs.pkl", "}NNs"},
        {"storages.pkl", "NQ"},
    };
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
        begin_pickle();
        repeat(repeated[i].operations, strlen(repeated[i].operations), 1);
        check_pickle(repeated[i].name, "");
    }
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* A dict of one tensor, in a file with a storage of four floats. */
static void check_tensor(const char *name, uint64_t n_float, const char *shape, size_t shape_size,
                         const char *strides, size_t strides_size, const char *message) {
    begin_legacy();
    put("}", 1), put_string("a");
    put_tensor(n_float, shape, shape_size, strides, strides_size);
    put("s.", 2);
    end_legacy(4);
    check(name, read_checkpoint, message);
}

TEST(huge_tensors) {
    check_tensor("huge-shape.pt", 4, "\x8a\x05\x00\x00\x00\x00\x01\x8a\x05\x00\x00\x00\x00\x01", 14,
                 "K\x00K\x00", 4, "more elements than the file has room for");
    check_tensor("huge-storage.pt", INT64_MAX, "K\x02", 2, "K\x01", 2,
                 "more than the file has room for");
    /* Wide strides reach far beyond a short storage. */
    check_tensor("huge-stride.pt", 4, "K\x02", 2, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10,
                 "reaches beyond its storage");
}

/* One tensor under as many long names as there are ways to it, which a long pickle allows. */
TEST(many_names) {
    char key[401], padding[8500];
    fill(key, sizeof key, 'k');
    fill(padding, sizeof padding, 'p');
    begin_legacy();
    put_string(padding);
    put("0", 1);
    put_tensor(4, "K\x02", 2, "K\x01", 2);
    put("q\x00"
        "0",
        3);
    /* 13 times 13 times ... of the dict before, under keys of a byte. */
    for (int level = 0; level < 4; level++) {
        put("}(", 2);
        for (int i = 0; i < 13; i++)
            put("U\x01", 2), put_number(1, (uint64_t)('a' + i)), put("h", 1),
                put_number(1, (uint64_t)level);
        put("uq", 2), put_number(1, (uint64_t)level + 1), put("0", 1);
    }
    put("}", 1);
    put_string(key);
    put("h\x04s.", 4);
    end_legacy(4);
    check("many-names.pt", read_checkpoint, "");
}

/* ---- Containers --------------------------------------------------------------------------- */

static void put_zip_end(unsigned n_entry, uint64_t size, uint64_t offset) {
    put("PK\x05\x06\0\0\0\0", 8);
    put_number(2, n_entry);
    put_number(2, n_entry);
    put_number(4, size);
    put_number(4, offset);
    put_number(2, 0);
}

static void put_zip_entry(const char *name, unsigned method, uint64_t stored, uint64_t size) {
    put("PK\x01\x02", 4);
    put_number(4, 0), put_number(2, 0);
    put_number(2, method);
    put_number(4, 0), put_number(4, 0);
    put_number(4, stored);
    put_number(4, size);
    put_number(2, strlen(name));
    put_number(4, 0), put_number(8, 0), put_number(4, 0);
    put_text(name);
}

TEST(zips) {
    begin();
    put("PK\x03\x04", 4);
    put_zip_end(65535, 4, 0);
    check("entries.pt", read_checkpoint, "cannot hold");

    begin();
    put("PK\x03\x04", 4);
    put_zip_end(1, 0xffff0000, 0);
    check("directory.pt", read_checkpoint, "does not lie before");

    /* A zip bomb: deflated. */
    begin();
    put("PK\x03\x04", 4), put_number(8, 0), put_number(8, 0), put_number(8, 0);
    size_t at = made.size;
    put_zip_entry("a/data.pkl", 8, 100, 0xf0000000);
    put_zip_end(1, made.size - at, at);
    check("bomb.pt", read_checkpoint, "is compressed");

    /* As many entries as there is room for, without a name. */
    begin();
    put("PK\x03\x04", 4);
    at = made.size;
    unsigned n = 0;
    for (; fits(46 + 22 + 4); n++) {
        char name[8];
        snprintf(name, sizeof name, "%u", n);
        put_zip_entry(name, 0, 0, 0);
    }
    put_zip_end(n, made.size - at, at);
    check("many-entries.pt", read_checkpoint, "without data.pkl");
}

static void put_safetensors(const char *before, const char *repeated, const char *after) {
    begin();
    put_number(8, 0);
    put_text(before);
    repeat(repeated, strlen(repeated), strlen(after));
    put_text(after);
    uint64_t length = made.size - 8;
    memcpy(made.bytes, &length, sizeof length);
}

TEST(safetensors) {
    begin();
    put_number(8, 99999999), put_text("{}");
    check("length.safetensors", read_checkpoint, "cut short or damaged");
    put_safetensors("{\"a\":", "[", "");
    check("arrays.safetensors", read_checkpoint, "not JSON");
    put_safetensors("{\"a\":", "{\"\":", "");
    check("objects.safetensors", read_checkpoint, "not JSON");
    put_safetensors("{\"a\":[", "[],", "0]}");
    check("empty.safetensors", read_checkpoint, "dtype");
    put_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1", ",9", "],\"data_offsets\":[0,0]}}");
    check("dimensions.safetensors", read_checkpoint, "more dimensions");
    put_safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
                    "\"data_offsets\":[0,0]}",
                    " ", "}");
    check("shape.safetensors", read_checkpoint, "do not fit its shape");
}

/* ---- Vocabularies ------------------------------------------------------------------------- */

TEST(vocabularies) {
    char name[512];
    fill(name, sizeof name, 'n');
    begin_pickle();
    put("](", 2);
    put_string(name);
    put("\x94", 1);
    repeat("h\x00", 2, 2);
    put("e.", 2);
    check("long.vocabulary", read_vocabulary, "longer than the whole file");

    begin();
    put_text("{\"a\":");
    repeat("[", 1, 0);
    check("deep.json", read_vocabulary, "expected a JSON object");
    begin();
    put_text("{\"a\":1");
    repeat("0", 1, 1);
    put_text("}");
    check("number.json", read_vocabulary, "expected a JSON object");
    begin();
    repeat("\n", 1, 1);
    put_text("a");
    check("lines.txt", read_vocabulary, "expected a symbol");
    begin();
    repeat("\xc2\xa0", 2, 0);
    check("blanks.txt", read_vocabulary, "without symbols");
}

/* ---- Weights files ------------------------------------------------------------------------ */

/* Writes the file's size into its header, and that one's checksum. */
static void set_size(void) {
    struct layout_header header;
    memcpy(&header, made.bytes, sizeof header);
    header.file_size = made.size;
    header.checksum = XXH3_64bits(&header, offsetof(struct layout_header, checksum));
    memcpy(made.bytes, &header, sizeof header);
}

/* A file of three sections, whose checksums are right. */
static void put_weights(const char *settings, const void *vocabulary, size_t vocabulary_size,
                        const void *index, size_t index_size) {
    struct layout_header header = {.magic = LAYOUT_MAGIC,
                                   .major = LAYOUT_MAJOR,
                                   .minor = LAYOUT_MINOR,
                                   .header_size = sizeof header};
    const struct {
        const void *bytes;
        size_t size;
        struct layout_section *section;
    } parts[] = {{settings, strlen(settings), &header.settings},
                 {vocabulary, vocabulary_size, &header.vocabulary},
                 {index, index_size, &header.index}};
    begin();
    put(&header, sizeof header);
    for (size_t i = 0; i < 3; i++) {
        while (made.size % 64 != 0)
            put("", 1);
        *parts[i].section = (struct layout_section){made.size, parts[i].size,
                                                    XXH3_64bits(parts[i].bytes, parts[i].size)};
        put(parts[i].bytes, parts[i].size);
    }
    memcpy(made.bytes, &header, sizeof header);
    set_size();
}

static const char plain_settings[] = "{\"family\":\"transformer-xl\",\"n_token\":16777216,"
                                     "\"unk_id\":null,\"eos_id\":null,\"lower_case\":false,"
                                     "\"tokenizer\":\"words\"}";

TEST(weights_files) {
    const struct layout_index none = {.tensor_size = sizeof(struct layout_tensor),
                                      .block_size = sizeof(struct layout_block),
                                      .expanded_block = 1 << 20};
    struct layout_index many = none;
    many.n_tensor = MAX_TENSOR, many.n_block = UINT32_MAX;
    put_weights("{}", "", 0, &many, sizeof many);
    check("records.txl", read_weights, "shorter than its records");
    many.n_tensor = MAX_TENSOR + 1;
    put_weights("{}", "", 0, &many, sizeof many);
    check("tensors.txl", read_weights, "more than 262144 tensors");
    many.n_tensor = 0, many.tensor_size = UINT32_MAX, many.n_block = 0,
    many.names_size = UINT32_MAX;
    put_weights("{}", "", 0, &many, sizeof many);
    check("names.txl", read_weights, "shorter than its records");

    const uint32_t n_token = MAX_N_TOKEN;
    put_weights(plain_settings, &n_token, sizeof n_token, &none, sizeof none);
    check("vocabulary.txl", read_weights, "in a section of 4 bytes");

    char deep[8192];
    fill(deep, sizeof deep, '[');
    put_weights(deep, "", 0, &none, sizeof none);
    check("settings.txl", read_weights, "not JSON");

    /* One tensor of 2^58 elements, and one of 2^63 by 2^30 that wraps. */
    struct {
        struct layout_index head;
        struct layout_tensor tensor;
        struct layout_block block;
        char name;
    } index = {
        .head = none,
        .tensor = {.name_length = 1, .n_dim = 2, .shape = {1u << 29, 1u << 29}, .n_block = 1},
        .block = {.offset = 1 << 10},
        .name = 'a'};
    index.head.n_tensor = index.head.n_block = index.head.names_size = 1;
    size_t size = offsetof(__typeof__(index), name) + 1;
    put_weights("{}", "", 0, &index, size);
    check("block-place.txl", read_weights, "a block lies outside its place");
    index.head.n_block = 0;
    memcpy(&index.block, "a", 1);
    index.tensor.n_block = 0;
    put_weights("{}", "", 0, &index, size - sizeof index.block);
    check("tensor.txl", read_weights, "do not hold its shape");
    index.tensor.shape[0] = UINT64_C(1) << 63;
    put_weights("{}", "", 0, &index, size - sizeof index.block);
    check("tensor-wraps.txl", read_weights, "is impossible");
}

/* Blocks of zeros, a mebibyte of each 64 bytes, in a tensor of a model that is none. */
TEST(expanding) {
    enum { N_BLOCK = 80 };
    static struct {
        struct layout_index head;
        struct layout_tensor tensor;
        struct layout_block block[N_BLOCK];
        char name[8];
    } index;
    static unsigned char zeros[1 << 20], stored[128];
    size_t size = ZSTD_compress(stored, sizeof stored, zeros, sizeof zeros, 19);
    assert_true(size <= 64);
    index.head = (struct layout_index){.n_tensor = 1,
                                       .tensor_size = sizeof index.tensor,
                                       .n_block = N_BLOCK,
                                       .block_size = sizeof index.block[0],
                                       .names_size = sizeof index.name,
                                       .expanded_block = sizeof zeros};
    index.tensor = (struct layout_tensor){.name_length = sizeof index.name,
                                          .n_dim = 1,
                                          .shape = {N_BLOCK << 18, 1, 1, 1},
                                          .n_block = N_BLOCK};
    memcpy(index.name, "anything", sizeof index.name);
    const uint32_t vocabulary[] = {1, 0};
    for (int i = 0; i < N_BLOCK; i++)
        index.block[i] = (struct layout_block){.offset = 4096 + 64 * (uint64_t)i,
                                               .checksum = XXH3_64bits(stored, size),
                                               .stored = (uint32_t)size,
                                               .encoding = 1};
    put_weights("{\"family\":\"transformer-xl\",\"n_token\":1,\"unk_id\":null,\"eos_id\":null,"
                "\"lower_case\":false,\"tokenizer\":\"words\",\"tgt_len\":1,\"mem_len\":0,"
                "\"clamp_len\":-1,\"same_length\":false}",
                vocabulary, sizeof vocabulary, &index, sizeof index);
    assert_true(made.size <= 4096);
    while (made.size < 4096)
        put("", 1);
    for (int i = 0; i < N_BLOCK; i++) {
        put(stored, size);
        while (made.size % 64 != 0)
            put("", 1);
    }
    set_size();
    check("expanding.txl", read_weights, "setting \"n_layer\" is missing");
}

/* A whole model of zeros, 68 MiB when expanded.  Its last block is damaged. */
TEST(expanding_model) {
    enum { D_MODEL = 8, D_INNER = MAX_D_INNER, MOST_BLOCKS = 96 };
    static const struct {
        const char *name;
        uint32_t rows, columns;
    } tensors[] = {
        {"position.inv_freq", D_MODEL / 2, 1},
        {"embedding.0.weight", 1, D_MODEL},
        {"softmax.0.bias", 1, 1},
        {"layer.0.attention.qkv", 3, D_MODEL},
        {"layer.0.attention.o", D_MODEL, 1},
        {"layer.0.attention.norm.weight", D_MODEL, 1},
        {"layer.0.attention.norm.bias", D_MODEL, 1},
        {"layer.0.feed_forward.1.weight", D_INNER, D_MODEL},
        {"layer.0.feed_forward.1.bias", D_INNER, 1},
        {"layer.0.feed_forward.2.weight", D_MODEL, D_INNER},
        {"layer.0.feed_forward.2.bias", D_MODEL, 1},
        {"layer.0.feed_forward.norm.weight", D_MODEL, 1},
        {"layer.0.feed_forward.norm.bias", D_MODEL, 1},
    };
    enum { N_TENSOR = sizeof tensors / sizeof *tensors };
    static const char settings[] =
        "{\"family\":\"transformer-xl\",\"n_token\":1,\"unk_id\":null,\"eos_id\":null,"
        "\"lower_case\":false,\"tokenizer\":\"words\",\"tgt_len\":1,\"mem_len\":0,"
        "\"clamp_len\":-1,\"same_length\":false,\"n_layer\":1,\"n_head\":1,\"d_head\":1,"
        "\"d_model\":8,\"d_embed\":8,\"d_inner\":1048576,\"attn_type\":2,\"pre_lnorm\":false,"
        "\"div_val\":1,\"cutoffs\":[],\"tied_weights\":true}";
    static struct layout_tensor record[N_TENSOR];
    static struct layout_block block[MOST_BLOCKS];
    static unsigned char zeros[1 << 20], stored[MOST_BLOCKS][64], index[8192];
    struct layout_index head = {.n_tensor = N_TENSOR,
                                .tensor_size = sizeof *record,
                                .block_size = sizeof *block,
                                .expanded_block = sizeof zeros};
    char names[512] = "";
    for (int i = 0; i < N_TENSOR; i++) {
        uint64_t size = (uint64_t)tensors[i].rows * tensors[i].columns * sizeof(float);
        record[i] = (struct layout_tensor){.name_offset = (uint32_t)strlen(names),
                                           .name_length = (uint32_t)strlen(tensors[i].name),
                                           .n_dim = tensors[i].columns > 1 ? 2 : 1,
                                           .shape = {tensors[i].rows, tensors[i].columns, 1, 1},
                                           .first_block = head.n_block};
        if (strstr(tensors[i].name, "qkv") || strstr(tensors[i].name, "n.o"))
            record[i].n_dim = 2;
        strcat(names, tensors[i].name);
        for (uint64_t at = 0; at < size; at += sizeof zeros, record[i].n_block++) {
            uint64_t left = size - at < sizeof zeros ? size - at : sizeof zeros;
            uint32_t b = head.n_block++;
            size_t packed = ZSTD_compress(stored[b], sizeof *stored, zeros, left, 19);
            assert_false(ZSTD_isError(packed));
            block[b] = (struct layout_block){.offset = 5120 + sizeof *stored * (uint64_t)b,
                                             .checksum = XXH3_64bits(stored[b], packed),
                                             .stored = (uint32_t)packed,
                                             .encoding = 1};
        }
    }
    block[head.n_block - 1].checksum++;
    head.names_size = (uint32_t)strlen(names);
    size_t size = 0;
    const struct {
        const void *bytes;
        size_t size;
    } parts[] = {{&head, sizeof head},
                 {record, sizeof record},
                 {block, head.n_block * sizeof *block},
                 {names, head.names_size}};
    for (size_t i = 0; i < 4; size += parts[i++].size)
        memcpy(index + size, parts[i].bytes, parts[i].size);
    put_weights(settings, (const uint32_t[]){1, 0}, 8, index, size);
    assert_true(made.size <= 5120);
    while (made.size < 5120)
        put("", 1);
    put(stored, head.n_block * sizeof *stored);
    set_size();
    check("expanding-model.txl", read_weights, "feed_forward.norm.bias");
}

/* ---- The state of a training -------------------------------------------------------------- */

static txl_status read_state(const char *path, txl_error *error) {
    txl_saved *saved;
    txl_status status = txl_saved_open(path, &saved, error);
    if (!status)
        txl_saved_free(saved);
    return status;
}

/* A state of six parts, of which two are not empty. */
static void put_state(const char *facts, const void *vocabulary, size_t vocabulary_size) {
    enum { N_PART = 6, HEADER = 128 };
    const struct {
        const void *bytes;
        size_t size;
    } parts[N_PART] = {{facts, strlen(facts)}, {vocabulary, vocabulary_size}};
    begin();
    put("\x93TXT\r\n\x1a\n\1\0\0\0\x80\0\0\0", 16);
    put_number(8, HEADER + parts[0].size + parts[1].size);
    for (size_t i = 0; i < N_PART; i++) {
        put_number(8, parts[i].size);
        put_number(8, XXH3_64bits(parts[i].bytes, parts[i].size));
    }
    put_number(8, XXH3_64bits(made.bytes, made.size));
    assert_int_equal(made.size, HEADER);
    for (size_t i = 0; i < N_PART; i++)
        put(parts[i].bytes, parts[i].size);
}

/* Settings of a model of 4 GB, and no weights. */
TEST(training_states) {
    static const char vocabulary[] = "\2\0\0\0\1\0\0\0\2\0\0\0ab";
    put_state("{\"training\":{\"batch\":1,\"tgt_len\":1,\"mem_len\":0,\"clamp_len\":-1,"
              "\"same_length\":false,\"clip\":0.0,\"epsilon\":1e-8,\"dropout\":0.0,"
              "\"dropatt\":0.0,\"bf16\":false,\"seed\":1,\"forget_every\":0,\"muon\":0.0},\"note\":"
              "\"\",\"model\":{"
              "\"family\":\"transformer-xl\",\"n_token\":2,\"unk_id\":null,\"eos_id\":null,"
              "\"lower_case\":false,\"tokenizer\":\"words\",\"tgt_len\":1,\"mem_len\":0,"
              "\"clamp_len\":-1,\"same_length\":false,\"n_layer\":64,\"n_head\":1,\"d_head\":1,"
              "\"d_model\":8,\"d_embed\":8,\"d_inner\":1048576,\"attn_type\":0,"
              "\"pre_lnorm\":false,\"div_val\":1,\"cutoffs\":[],\"tied_weights\":true,"
              "\"tied_projections\":[false],\"biases_per_layer\":false,\"type\":\"f32\","
              "\"memory_start\":\"empty\",\"cluster_order\":\"forward\"}}",
              vocabulary, sizeof vocabulary - 1);
    check("training.state", read_state, "bytes of weights, and there are 0");
}

int main(void) {
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
