/* What txl_session_bytes states is what a session asks the system for, to the byte, and what it
 * comes to hold.  The linker puts the functions below between the library and the allocator. */
#include "lib/session/session.h"
#include "lib/transformer_xl/timeline.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Counting ----------------------------------------------------------------------------- */

static uint64_t asked;  /* bytes; only this thread asks */
static uint64_t mapped; /* bytes of the system's that were asked for and not given back */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
void *__real_mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *memory, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *memory, size_t size);

void *__wrap_malloc(size_t size) {
    asked += size;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    asked += n * size;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    asked += size;
    return __real_realloc(memory, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size) {
    asked += size;
    return __real_posix_memalign(memory, alignment, size);
}

/* Addresses that nothing may be written to hold no memory. */
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    if (protection != PROT_NONE)
        asked += size;
    mapped += size;
    return __real_mmap64(at, size, protection, flags, file, offset);
}

int __wrap_munmap(void *memory, size_t size) {
    mapped -= size;
    return __real_munmap(memory, size);
}

/* ---- A session's life --------------------------------------------------------------------- */

enum { N_IDS = 150 };

static txl_session *new_session(const txl_model *model, const txl_settings *settings) {
    txl_session *session;
    txl_error error;
    if (txl_session_new(model, settings, &session, &error))
        fail_msg("%s", error.message);
    return session;
}

/* Asks the session for everything that it can do, for as many tokens as it remembers. */
static void use(txl_session *session, const txl_model *model, size_t n) {
    int32_t *ids = malloc((n + 1) * sizeof *ids), id;
    float *nats = malloc(n * sizeof *nats), logprob;
    size_t n_row = 3, n_token = (size_t)txl_model_n_token(model);
    size_t n_scored = n < 400 ? n : 400; /* some segments */
    float *rows = malloc(n_row * n_token * sizeof *rows);
    txl_error error;
    assert_true(ids && nats && rows);
    for (size_t i = 0; i <= n; i++)
        ids[i] = (int32_t)(i * 7919 % n_token);
    uint64_t before = asked;
    assert_int_equal(txl_session_feed(session, ids, 1, &error), TXL_OK);
    assert_int_equal(txl_session_feed(session, ids, n, &error), TXL_OK);
    assert_int_equal(txl_session_score(session, ids, n_scored, ids + 1, nats, &error), TXL_OK);
    assert_int_equal(txl_session_distributions(session, ids, n_row, rows, &error), TXL_OK);
    const txl_sampling sampling = {.temperature = 0.7f, .top_p = 1, .typical = 0.9f};
    txl_random random = {.seed = 1};
    assert_int_equal(txl_session_sample(session, &sampling, &random, &id, &logprob, &error),
                     TXL_OK);
    assert_int_equal(asked, before);
    free(ids);
    free(nats);
    free(rows);
}

/* The ring of a Transformer-XL's session that remembers, or NULL. */
static const struct kv_ring *ring_of(const txl_session *session, const txl_model *model) {
    bool shares =
        txl_model_family(model) == TXL_FAMILY_TRANSFORMER_XL && model->network->has_memory;
    return shares ? &xl_timeline(session->timeline)->ring : NULL;
}

static uint64_t copy_bytes(txl_session *session, txl_session **copy) {
    txl_error error;
    uint64_t before = asked;
    assert_int_equal(txl_session_copy(session, copy, &error), TXL_OK);
    return asked - before;
}

/* A copy shares the position rows, and is less by at least the room to compute them in.  The first
 * of two also makes the original take new room for keys and values. */
static void assert_copies_exact(txl_session *session, uint64_t stated, const struct kv_ring *ring) {
    txl_session *first, *second;
    uint64_t first_bytes = copy_bytes(session, &first);
    uint64_t second_bytes = copy_bytes(session, &second);
    assert_true(second_bytes < stated);
    bool shares = ring && ring->n_shared > 0;
    assert_int_equal(first_bytes, second_bytes + (shares ? ring_bytes(ring) : 0));
    use(first, first->model, 5);
    txl_session_free(first);
    use(second, second->model, 5);
    txl_session_free(second);
}

static void assert_exact(const txl_model *model, const txl_settings *settings, const char *name) {
    uint64_t stated = txl_session_bytes(model, settings), before = asked, mapped_before = mapped;
    txl_session *session = new_session(model, settings);
    if (asked - before != stated)
        fail_msg("%s: stated %llu bytes, asked for %llu", name, (unsigned long long)stated,
                 (unsigned long long)(asked - before));
    use(session, model, N_IDS);
    assert_copies_exact(session, stated, ring_of(session, model));
    use(session, model, 5);
    txl_session_reset(session);
    txl_session_free(session);
    assert_int_equal(mapped, mapped_before);
}

/* ---- All cases ---------------------------------------------------------------------------- */

/* With one thread and three, memory of each type, short and long. */
static void assert_settings_exact(const txl_model *model, const char *name) {
    txl_settings settings;
    txl_model_defaults(model, &settings);
    bool has_same_length = txl_model_family(model) == TXL_FAMILY_TRANSFORMER_XL;
    settings.same_length = has_same_length && settings.same_length;
    for (int i = 0; i < 8; i++) {
        settings.threads = i % 2 ? 3 : 1;
        settings.memory_type = (txl_memory_type)(i / 2);
        assert_exact(model, &settings, name);
        if (settings.mem_len > 0) {
            settings.mem_len += 131;
            settings.same_length = has_same_length && !settings.same_length;
            settings.clamp_len = 40;
            assert_exact(model, &settings, name);
        }
    }
}

static void assert_case_exact(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s", scratch_path("bytes.txl"));
    for (int compressed = 0; compressed < 2; compressed++) {
        txl_model *model;
        txl_error error;
        case_convert(name, compressed ? "q8" : "f32", compressed, path);
        txl_status status = compressed ? txl_model_open_compressed(path, 1, &model, &error)
                                       : txl_model_open(path, 1, &model, &error);
        if (status)
            fail_msg("%s: %s", name, error.message);
        assert_settings_exact(model, name);
        txl_model_close(model);
        unlink(path);
    }
}

TEST(every_case_is_exact) {
    for (int i = 0; case_names[i]; i++)
        assert_case_exact(case_names[i]);
    assert_case_exact("xlnet/base-zip");
    assert_case_exact("xlnet/clamp");
}

/* Takes the reference. */
static txl_model *random_model_in(const char *type, json_t *settings) {
    txl_model *model;
    txl_error error;
    char *text = json_dumps(settings, 0);
    assert_non_null(text);
    if (txl_model_random(text, type, 1, 2, &model, &error))
        fail_msg("%s", error.message);
    free(text);
    json_decref(settings);
    return model;
}

static txl_model *random_model(json_t *settings) {
    return random_model_in("f16", settings);
}

/* A small network over a vocabulary of that size, in three bands. */
static json_t *wide_settings(int n_token, int d_model, int mem_len) {
    return json_pack(
        "{s:s, s:s, s:b, s:n, s:n, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:[i, i], s:b,"
        " s:i, s:i, s:i, s:b}",
        "family", txl_family_name(TXL_FAMILY_TRANSFORMER_XL), "tokenizer", "words", "lower_case", 0,
        "unk_id", "eos_id", "n_token", n_token, "n_layer", 3, "n_head", 4, "d_head", d_model / 4,
        "d_model", d_model, "d_embed", d_model, "d_inner", 2 * d_model, "attn_type", 0, "pre_lnorm",
        0, "div_val", 4, "cutoffs", n_token / 20, n_token / 4, "tied_weights", 1, "tgt_len", 128,
        "mem_len", mem_len, "clamp_len", -1, "same_length", 0);
}

static txl_model *wide_model(int n_token, int d_model, int mem_len) {
    return random_model(wide_settings(n_token, d_model, mem_len));
}

static txl_model *xlnet_model(int n_token, int d_model, int mem_len) {
    return random_model(json_pack(
        "{s:s, s:s, s:b, s:n, s:n, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:b, s:s, s:i, s:i,"
        " s:i, s:b}",
        "family", txl_family_name(TXL_FAMILY_XLNET), "tokenizer", "words", "lower_case", 0,
        "unk_id", "eos_id", "n_token", n_token, "n_layer", 3, "n_head", 4, "d_head", d_model / 4,
        "d_model", d_model, "d_inner", 2 * d_model, "ff_activation", "relu", "attn_type", "bi",
        "layer_norm_eps", 1e-12, "tied_weights", 1, "memory_start", "empty", "tgt_len", 128,
        "mem_len", mem_len, "clamp_len", -1, "same_length", 0));
}

TEST(a_large_vocabulary_is_exact) {
    txl_model *model = wide_model(793471, 32, 64);
    txl_settings settings;
    txl_model_defaults(model, &settings);
    settings.threads = 2;
    assert_exact(model, &settings, "793,471 symbols");
    txl_model_close(model);
}

/* The arithmetic in integers packs the weights, and copies share them. */
TEST(packed_weights_are_exact) {
    json_t *wide = wide_settings(3000, 256, 100);
    json_object_set_new(wide, "div_val", json_integer(1)); /* narrow bands are in f16 */
    txl_model *model = random_model_in("q8", wide);
    txl_settings settings;
    txl_model_defaults(model, &settings);
    settings.threads = 2;
    settings.memory_type = TXL_MEMORY_Q8;
    const uint64_t plain = txl_session_bytes(model, &settings);
    settings.arithmetic = TXL_ARITHMETIC_INTEGERS;
    assert_true(txl_session_bytes(model, &settings) > plain + 3 * 6 * 256 * 256);
    assert_exact(model, &settings, "packed weights");
    txl_model_close(model);
}

/* ---- What it holds ------------------------------------------------------------------------ */

/* Bytes of the process that are in memory. */
static int64_t resident(void) {
    long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &all, &pages), 2);
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* A session that has been used as far as it goes holds what is stated, within 1 %.  Another one
 * before it has made OpenBLAS and the allocator take what they keep.  Closes the model. */
static void assert_holds_what_is_stated(txl_model *model, txl_memory_type type) {
    txl_settings settings;
    txl_model_defaults(model, &settings);
    settings.threads = 2;
    settings.memory_type = type;
    double stated = (double)txl_session_bytes(model, &settings);
    assert_true(stated > 10e6);
    for (int second = 0; second < 2; second++) {
        int64_t before = resident();
        txl_session *session = new_session(model, &settings);
        use(session, model, (size_t)settings.mem_len + 1000);
        double grown = (double)(resident() - before);
        txl_session_free(session);
        if (second && !(grown > 0.99 * stated && grown < 1.01 * stated))
            fail_msg("stated %.0f bytes, grown by %.0f", stated, grown);
    }
    txl_model_close(model);
}

TEST(a_session_holds_what_is_stated) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own memory grows besides */
#endif
    assert_holds_what_is_stated(wide_model(50000, 256, 2000), TXL_MEMORY_F32);
    assert_holds_what_is_stated(wide_model(2000, 512, 3000), TXL_MEMORY_F16);
    assert_holds_what_is_stated(wide_model(200000, 64, 5000), TXL_MEMORY_BF16);
    assert_holds_what_is_stated(wide_model(2000, 512, 3000), TXL_MEMORY_Q8);
    assert_holds_what_is_stated(xlnet_model(3000, 256, 2000), TXL_MEMORY_F32);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
