/* Shared by the harnesses: files in memory, and functions that use what was read. */
#include "fuzz.h"
#include "tiny.h"

#include "convert/containers/checkpoint.h"
#include "convert/converter.h"
#include "convert/recognise.h"
#include "lib/base/numbers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

/* ---- What has to hold --------------------------------------------------------------------- */

void fuzz_require(bool holds, const char *sentence) {
    if (holds)
        return;
    dprintf(STDERR_FILENO, "%s\n", sentence);
    abort();
}

void fuzz_require_ok(txl_status status, const txl_error *error) {
    fuzz_require(!status, status ? error->message : "");
}

void fuzz_silence(void) {
    static bool done;
    if (!done)
        fuzz_require(freopen("/dev/null", "w", stdout) && (stderr = fopen("/dev/null", "w")),
                     "no /dev/null");
    done = true;
}

/* ---- Files -------------------------------------------------------------------------------- */

static void fill(int file, const void *data, size_t size) {
    fuzz_require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size,
                 "a file cannot be written");
}

const char *fuzz_file(const void *data, size_t size) {
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("input", MFD_CLOEXEC);
        fuzz_require(file >= 0, "no file in memory");
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    fill(file, data, size);
    return path;
}

static char folder[64];

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    fuzz_require(system(command) == 0, "the folder cannot be removed");
}

const char *fuzz_write(const char *name, const void *data, size_t size) {
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    if (!folder[0]) {
        const char *in_memory = "/dev/shm";
        snprintf(folder, sizeof folder, "%s/txl-fuzz-XXXXXX",
                 access(in_memory, W_OK) == 0 ? in_memory : "/tmp");
        fuzz_require(mkdtemp(folder) && atexit(remove_folder) == 0, "no folder in memory");
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    if (!data)
        return path;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    fuzz_require(file >= 0, "a file cannot be made");
    fill(file, data, size);
    close(file);
    return path;
}

uint8_t *fuzz_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    fuzz_require(file && fseek(file, 0, SEEK_END) == 0, path);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*size + 1);
    fuzz_require(data && fread(data, 1, *size, file) == *size, path);
    fclose(file);
    return data;
}

/* ---- Checkpoints -------------------------------------------------------------------------- */

enum { READ = 1000 }; /* elements at a time */

static void read_tensor(const struct checkpoint_tensor *t) {
    float floats[READ];
    double doubles[READ];
    txl_error error;
    for (uint64_t at = 0; at < t->n_element; at += READ) {
        uint64_t left = t->n_element - at, n = left < READ ? left : READ;
        if (checkpoint_read_float(t, at, n, floats, &error))
            return;
        if (at == 0)
            checkpoint_read_double(t, at, n, doubles, &error);
    }
    checkpoint_release(t);
}

static void read_tensors(const char *path) {
    struct checkpoint *checkpoint;
    txl_error error;
    if (checkpoint_open(path, &checkpoint, &error))
        return;
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++) {
        const struct checkpoint_tensor *t = checkpoint_tensor_at(checkpoint, i);
        fuzz_require(checkpoint_find(checkpoint, t->name) == t, "a tensor is not found again");
        read_tensor(t);
    }
    checkpoint_close(checkpoint);
}

/* Finds all facts and the pieces of every parameter. */
static void find_facts(const char *path, const struct convert_options *options) {
    struct recognised r;
    txl_error error;
    txl_status status = recognise(path, options, &r, &error);
    if (!status)
        status = recognise_complete(&r, &error);
    if (!status) {
        struct parameter_walk walk = parameter_walk(r.names.table->family->parameters, &r.settings);
        struct parameter_tensor to;
        while (parameter_next(&walk, &to)) {
            struct checkpoint_tensor *piece = NULL;
            int n;
            if (!names_computed(&r.names, to.number, to.i))
                names_pieces(&r.names, &r.settings, &to, &piece, &n, &error);
            free(piece);
        }
    }
    recognised_free(&r);
}

void fuzz_checkpoint(const char *path) {
    struct convert_options none, all;
    convert_options_init(&none);
    convert_options_init(&all);
    all.pre_lnorm = all.same_length = CONVERT_NO;
    all.memory_start = "zeros";
    all.cluster_order = "forward";
    all.tgt_len = 4;
    all.mem_len = 0;
    all.has_clamp_len = true;
    read_tensors(path);
    find_facts(path, &none);
    find_facts(path, &all);
}

uint8_t *fuzz_safetensors(const void *header, size_t length, size_t data_size, size_t *size) {
    *size = 8 + length + data_size;
    uint8_t *bytes = calloc(1, *size);
    fuzz_require(bytes, "out of memory");
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(bytes + 8, header, length);
    return bytes;
}

void fuzz_repair_zip(uint8_t *data, size_t size) {
    static const uint8_t directory_entry[] = "PK\1\2";
    for (size_t at = 0; at + 46 <= size; at++) {
        if (memcmp(data + at, directory_entry, 4) != 0)
            continue;
        size_t length = read_u32(data + at + 24), header = read_u32(data + at + 42);
        if (size < 30 || header > size - 30)
            continue;
        size_t start = header + 30 + read_u16(data + header + 26) + read_u16(data + header + 28);
        if (start > size || length > size - start)
            continue;
        uint32_t crc = (uint32_t)crc32_z(crc32_z(0, NULL, 0), data + start, length);
        for (int i = 0; i < 4; i++)
            data[at + 16 + i] = (uint8_t)(crc >> 8 * i);
    }
}

/* ---- Conversions -------------------------------------------------------------------------- */

enum { MAX_TOKEN = 200, MAX_WIDTH = 256 };

static struct convert_options choose_options(unsigned bits) {
    static const char *const types[] = {NULL, "f16", "bf16", "q8", "q4", "q5", "q5:q4", "q4:q8"};
    struct convert_options o;
    convert_options_init(&o);
    o.pre_lnorm = bits & 1 ? CONVERT_YES : CONVERT_NO;
    o.memory_start = bits & 2 ? "zeros" : "empty";
    o.cluster_order = bits & 4 ? "forward" : "reversed";
    o.same_length = bits & 8 ? CONVERT_YES : CONVERT_NO;
    o.cutoffs = bits & 16 ? "3,8" : NULL;
    o.type = types[(bits >> 5 & 3) + (bits >> 6 & 4)];
    o.n_head = bits & 128 ? 2 : 0;
    o.tokenizer = "words";
    o.tgt_len = 3;
    o.mem_len = bits & 128 ? 0 : 4;
    o.has_clamp_len = true;
    o.level = bits % 2;
    o.threads = 1;
    return o;
}

/* Whether the file holds a model that is not too large to be converted thousands of times. */
static bool is_small_model(const char *path, const struct convert_options *options, int *n_token) {
    struct recognised r;
    txl_error error;
    bool small = !recognise(path, options, &r, &error);
    const struct transformer_xl_settings *f = &r.settings.transformer_xl;
    small = small && r.names.table == &transformer_xl_names;
    *n_token = f->model.n_token;
    small = small && f->model.n_token <= MAX_TOKEN && f->d_model <= MAX_WIDTH &&
            f->d_inner <= MAX_WIDTH;
    recognised_free(&r);
    return small;
}

void fuzz_convert(const char *path, unsigned bits) {
    struct convert_options options = choose_options(bits);
    int n_token = 0;
    txl_model *model;
    txl_error error;
    if (!is_small_model(path, &options, &n_token))
        return;
    const char *output = fuzz_write("output.txl", NULL, 0);
    options.vocabulary = tiny_vocabulary("words", n_token);
    if (convert_checkpoint(path, output, &options, &error))
        return;
    fuzz_require_ok(txl_model_open(output, 1, &model, &error), &error);
    fuzz_model(model);
    txl_model_close(model);
}

/* ---- Models ------------------------------------------------------------------------------- */

static void describe(const txl_model *model) {
    uint64_t stored, expanded;
    txl_tensor tensor;
    txl_model_bytes(model, &stored, &expanded);
    for (size_t i = 0; i < txl_model_n_tensor(model); i++)
        txl_model_tensor(model, i, &tensor);
    for (int32_t id = 0; id < txl_model_n_token(model); id++) {
        size_t length = 0;
        const char *symbol = txl_model_symbol(model, id, &length);
        int32_t found = txl_model_id(model, symbol, length);
        fuzz_require(found <= id, "a symbol is found as a later one");
    }
    int32_t context = txl_model_first_context(model);
    fuzz_require(context >= 0 && context < txl_model_n_token(model), "the context is no id");
}

static int at_most(int value, int limit) {
    return value < limit ? value : limit;
}

static struct fuzz_scores score(txl_session *session, const txl_model *model) {
    int32_t ids[FUZZ_TOKENS + 1];
    struct fuzz_scores scores = {.best = 0};
    float logprob;
    txl_error error;
    for (int i = 0; i <= FUZZ_TOKENS; i++)
        ids[i] = (int32_t)((int64_t)i * 5 % txl_model_n_token(model));
    if (txl_session_score(session, ids, FUZZ_TOKENS, ids + 1, scores.nats, &error) ||
        txl_session_top(session, 1, &scores.best, &logprob, &error))
        scores = (struct fuzz_scores){.best = 0};
    txl_session_reset(session);
    txl_session_feed(session, ids, 1, &error);
    return scores;
}

/* Fills the gaps of a segment from the right, after a block. */
static txl_status fill_gaps(txl_session *session, size_t n, struct fuzz_scores *scores) {
    const int32_t before[] = {1, 0, 1, 0}, ids[FUZZ_SEGMENT] = {TXL_GAP, 1, TXL_GAP};
    txl_error error;
    txl_session_reset(session);
    txl_status status =
        txl_session_feed_block(session, before, sizeof before / sizeof *before, &error);
    if (!status)
        status = txl_session_feed_gaps(session, ids, n, &error);
    for (size_t gap = n; gap-- > 0 && !status;) {
        int32_t best;
        if (ids[gap] != TXL_GAP)
            continue;
        status = txl_session_ask(session, &gap, 1, NULL, &error);
        if (!status)
            status = txl_session_top(session, 1, &best, &scores->filled[gap], &error);
        if (!status)
            status = txl_session_fill(session, gap, best, &error);
    }
    return status ? status : txl_session_feed(session, before, 1, &error);
}

/* What it makes of blocks and gaps; numbers so large that results are not finite leave zeros. */
static void see_both_sides(txl_session *session, struct fuzz_scores *scores) {
    const int32_t ids[2 * FUZZ_SEGMENT] = {1, 0, 1};
    txl_settings settings;
    txl_error error;
    txl_session_settings(session, &settings);
    size_t known = (size_t)at_most(settings.tgt_len, FUZZ_SEGMENT);
    size_t n = (size_t)at_most(settings.mem_len + 1, FUZZ_SEGMENT);
    if (txl_session_score_block(session, ids, known, n, scores->after, NULL, &error))
        memset(scores->after, 0, sizeof scores->after);
    if (fill_gaps(session, known, scores))
        memset(scores->filled, 0, sizeof scores->filled);
}

struct fuzz_scores fuzz_model(const txl_model *model) {
    struct fuzz_scores scores = {.best = 0};
    txl_settings settings;
    txl_session *session;
    txl_error error;
    describe(model);
    txl_model_defaults(model, &settings);
    settings.tgt_len = at_most(settings.tgt_len, 3);
    settings.mem_len = at_most(settings.mem_len, 5);
    settings.threads = 1;
    if (txl_session_bytes(model, &settings) > UINT64_C(64) << 20 ||
        txl_session_new(model, &settings, &session, &error))
        return scores;
    scores = score(session, model);
    if (txl_model_family(model) == TXL_FAMILY_XLNET && txl_model_n_token(model) > 1)
        see_both_sides(session, &scores);
    txl_session_free(session);
    return scores;
}
