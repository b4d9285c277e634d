/* Saved memories: a session that is saved at any point and loaded, from memory or from a file,
 * continues bit for bit as it would have; and any change of the file is detected. */
#include "lib/session/model.h"
#include "tests/files.h"
#include "tests/model_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static void feed(txl_session *session, const int32_t *ids, size_t n) {
    txl_error error;
    if (txl_session_feed(session, ids, n, &error))
        fail_msg("%s", error.message);
}

/* Tokens after which two timelines that were once the same are taken to stay so. */
enum { COMPARED = 40 };

/* Feeds both the same ids in pieces of `step` and compares all that can be asked of them. */
static void assert_same(const struct model_case *c, txl_session *a, txl_session *b, size_t from,
                        size_t step) {
    size_t n = (size_t)txl_model_n_token(c->model);
    float *x = calloc(n, sizeof *x), *y = calloc(n, sizeof *y);
    txl_error error;
    for (size_t i = from; i + step <= c->n && i < from + COMPARED; i += step) {
        feed(a, c->ids + i, step);
        feed(b, c->ids + i, step);
        assert_int_equal(txl_session_logprobs(a, x, &error), TXL_OK);
        assert_int_equal(txl_session_logprobs(b, y, &error), TXL_OK);
        if (memcmp(x, y, n * sizeof *x) != 0)
            fail_msg("%s: the token after %zu differs, saved after %zu", c->name, i + step, from);
    }
    free(x);
    free(y);
}

static const int32_t recent[] = {1, 0, 2};
static const txl_resume resume = {
    .random = {7, 1, 123456789}, .recent = recent, .n_recent = 3, .tail = (char)0xE9};

static txl_memory *save(const txl_session *session) {
    txl_error error;
    txl_memory *memory;
    if (txl_session_save(session, &resume, &memory, &error))
        fail_msg("%s", error.message);
    return memory;
}

/* Through a file, which is gone afterwards. */
static txl_memory *write_and_read(const struct model_case *c, const txl_memory *memory) {
    txl_error error;
    txl_memory *again = NULL;
    const char *path = scratch_path("memory");
    if (txl_memory_write(memory, path, &error) || txl_memory_read(path, c->model, &again, &error))
        fail_msg("%s: %s", c->name, error.message);
    unlink(path);
    return again;
}

static void load(txl_session *session, const txl_memory *memory) {
    txl_error error;
    if (txl_session_load(session, memory, &error))
        fail_msg("%s", error.message);
}

/* Settings under which a case's text runs far beyond memory and segment, by turns. */
static txl_settings some_settings(const struct model_case *c, bool same_length,
                                  txl_memory_type type) {
    txl_settings settings = run_settings(json_object_get(c->expect, "greedy"), 1);
    settings.memory_type = type;
    settings.same_length = same_length && settings.mem_len > 0;
    return settings;
}

static void check_case(const struct model_case *c, const txl_settings *settings) {
    size_t tgt_len = (size_t)settings->tgt_len;
    size_t points[] = {0, 1, tgt_len - 1, tgt_len, tgt_len + 1, c->n / 2, c->n - 12};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        if (points[i] + 12 > c->n)
            continue;
        txl_session *whole = case_session(c, settings), *part = case_session(c, settings);
        if (points[i] > 0)
            feed(whole, c->ids, points[i]);
        txl_memory *memory = save(whole), *again = write_and_read(c, memory);
        load(part, again);
        assert_same(c, whole, part, points[i], i % 2 == 0 ? 1 : 3);
        /* Back to where the session was before. */
        load(whole, memory);
        load(part, again);
        assert_same(c, whole, part, points[i], 2);
        txl_memory_free(memory);
        txl_memory_free(again);
        txl_session_free(whole);
        txl_session_free(part);
    }
}

TEST(every_case_goes_on_bit_for_bit) {
    for (size_t i = 0; case_names[i]; i++) {
        struct model_case c;
        case_open(&c, case_names[i], NULL, -1);
        static const txl_memory_type types[] = {TXL_MEMORY_F32,  TXL_MEMORY_F32, TXL_MEMORY_F16,
                                                TXL_MEMORY_BF16, TXL_MEMORY_Q8,  TXL_MEMORY_Q8};
        for (int way = 0; way < 6; way++) {
            txl_settings settings = some_settings(&c, way % 2, types[way]);
            check_case(&c, &settings);
        }
        case_close(&c);
    }
}

/* A file of what the session remembers after the case's first 3 ids. */
static void *file_of_three(const struct model_case *c, txl_session *session, size_t *size) {
    txl_error error;
    const char *path = scratch_path("memory");
    feed(session, c->ids, 3);
    txl_memory *memory = save(session);
    assert_int_equal(txl_memory_write(memory, path, &error), TXL_OK);
    txl_memory_free(memory);
    void *file = read_file(path, size);
    unlink(path);
    return file;
}

/* A copy is made first, before which the first tokens have other roundings. */
static txl_session *session_with_positions(const struct model_case *c,
                                           const txl_settings *settings) {
    txl_session *session = case_session(c, settings), *copy;
    txl_error error;
    assert_int_equal(txl_session_copy(session, &copy, &error), TXL_OK);
    txl_session_free(copy);
    return session;
}

/* Also where the first memory is rows of zeros, which later tokens overwrite. */
TEST(a_session_that_was_reset_is_saved_as_a_new_one) {
    static const char *const names[] = {"enwik8-zip", "hf-bin"};
    for (size_t i = 0; i < 8; i++) {
        struct model_case c;
        case_open(&c, names[i / 4], NULL, -1);
        const txl_settings settings =
            some_settings(&c, i % 2, i / 2 % 2 ? TXL_MEMORY_Q8 : TXL_MEMORY_F32);
        txl_session *fresh = session_with_positions(&c, &settings);
        txl_session *used = case_session(&c, &settings);
        size_t fresh_size, used_size;
        void *expected = file_of_three(&c, fresh, &fresh_size);
        for (size_t n = c.n; n > c.n / 5; n -= c.n / 5) {
            feed(used, c.ids, n);
            txl_session_reset(used);
            void *got = file_of_three(&c, used, &used_size);
            assert_int_equal(used_size, fresh_size);
            assert_memory_equal(got, expected, fresh_size);
            txl_session_reset(used);
            free(got);
        }
        free(expected);
        txl_session_free(fresh);
        txl_session_free(used);
        case_close(&c);
    }
}

static uint64_t saved_size(const txl_session *session) {
    txl_error error;
    struct stat file;
    const char *path = scratch_path("memory");
    txl_memory *memory = save(session);
    assert_int_equal(txl_memory_write(memory, path, &error), TXL_OK);
    assert_int_equal(stat(path, &file), 0);
    unlink(path);
    txl_memory_free(memory);
    return (uint64_t)file.st_size;
}

static void check_full_segment(const char *name) {
    struct model_case c;
    case_open(&c, name, NULL, -1);
    const txl_settings settings = {.tgt_len = 8, .mem_len = 4, .clamp_len = -1, .threads = 1};
    txl_session *session = case_session(&c, &settings), *again = case_session(&c, &settings);
    uint64_t size[11] = {0};
    for (size_t n = 8; n <= 10; n++) {
        feed(session, c.ids + (n == 8 ? 0 : n - 1), n == 8 ? 8 : 1);
        size[n] = saved_size(session);
    }
    assert_true(size[9] > size[8]);
    assert_int_equal(size[10] - size[9], size[9] - size[8]);
    txl_session_reset(session);
    feed(session, c.ids, 8);
    txl_memory *memory = save(session);
    load(again, memory);
    assert_same(&c, session, again, 8, 1);
    txl_memory_free(memory);
    txl_session_free(session);
    txl_session_free(again);
    case_close(&c);
}

/* Saves only what a later token sees: a full segment is memory already, of which mem_len positions
 * count, and each token after it is one more. */
TEST(a_full_segment_is_saved_as_memory) {
    check_full_segment("enwik8-zip");
    check_full_segment("xlnet/base-zip");
}

TEST(settings_and_the_callers_part_come_back) {
    struct model_case c;
    case_open(&c, "enwik8-zip", NULL, -1);
    txl_settings settings = {
        .tgt_len = 5, .mem_len = 9, .clamp_len = 4, .threads = 1, .memory_type = TXL_MEMORY_F16};
    txl_settings back;
    txl_resume kept;
    txl_session *session = case_session(&c, &settings);
    feed(session, c.ids, 8);
    txl_memory *memory = save(session), *again = write_and_read(&c, memory);
    txl_memory_settings(again, &back);
    settings.threads = 0;
    assert_memory_equal(&back, &settings, sizeof back);
    txl_memory_resume(again, &kept);
    assert_memory_equal(&kept.random, &resume.random, sizeof kept.random);
    assert_int_equal(kept.n_recent, 3);
    assert_memory_equal(kept.recent, recent, sizeof recent);
    assert_int_equal(kept.tail, resume.tail);
    txl_memory_free(memory);
    txl_memory_free(again);
    txl_session_free(session);
    case_close(&c);
}

TEST(other_settings_are_refused) {
    struct model_case c;
    txl_error error;
    case_open(&c, "enwik8-zip", NULL, -1);
    const txl_settings settings = {.tgt_len = 5, .mem_len = 9, .clamp_len = 4, .threads = 1};
    txl_session *session = case_session(&c, &settings);
    feed(session, c.ids, 8);
    txl_memory *memory = save(session);
    for (int i = 0; i < 5; i++) {
        txl_settings other = settings;
        other.tgt_len += i == 0;
        other.mem_len += i == 1;
        other.clamp_len += i == 2;
        other.same_length = i == 3;
        other.memory_type = i == 4 ? TXL_MEMORY_F16 : TXL_MEMORY_F32;
        txl_session *stranger = case_session(&c, &other);
        assert_int_equal(txl_session_load(stranger, memory, &error), TXL_ARGUMENT);
        assert_non_null(strstr(error.message, "mem_len 9"));
        txl_session_free(stranger);
    }
    txl_memory_free(memory);
    txl_session_free(session);
    case_close(&c);
}

TEST(another_model_is_refused_by_name) {
    struct model_case c, other;
    txl_error error;
    txl_memory *again;
    case_open(&c, "enwik8-zip", NULL, -1);
    case_open(&other, "enwik8-zip", NULL, 0); /* the same weights in another file */
    txl_settings settings = some_settings(&c, false, TXL_MEMORY_F32);
    txl_session *session = case_session(&c, &settings), *stranger = case_session(&other, &settings);
    txl_memory *memory = save(session);
    const char *path = scratch_path("memory");
    assert_int_equal(txl_memory_write(memory, path, &error), TXL_OK);
    assert_int_equal(txl_memory_read(path, other.model, &again, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "-case.txl"));
    unlink(path);
    assert_int_equal(txl_session_load(stranger, memory, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "-case.txl"));
    txl_memory_free(memory);
    txl_session_free(session);
    txl_session_free(stranger);
    case_close(&c);
    case_close(&other);
}

/* ---- Damage ------------------------------------------------------------------------------- */

static void assert_refused(const struct model_case *c, const char *path, const char *why,
                           size_t at) {
    txl_error error;
    txl_memory *memory;
    if (!txl_memory_read(path, c->model, &memory, &error))
        fail_msg("%s: %s at byte %zu goes unnoticed", c->name, why, at);
    assert_non_null(strstr(error.message, path));
}

/* A case and the file of a small memory of it. */
struct small {
    struct model_case c;
    char path[4096];
    uint8_t *bytes; /* [n], and a NUL */
    size_t n;
};

static void open_small(struct small *small, const char *name, txl_memory_type type) {
    txl_error error;
    txl_settings settings = {.tgt_len = 3, .mem_len = 2, .threads = 1, .memory_type = type};
    if (strncmp(name, "absolute", strlen("absolute")) == 0)
        settings.mem_len = 0;
    case_open(&small->c, name, NULL, -1);
    snprintf(small->path, sizeof small->path, "%s", scratch_path("memory"));
    txl_session *session = case_session(&small->c, &settings);
    feed(session, small->c.ids, 4);
    txl_memory *memory = save(session);
    assert_int_equal(txl_memory_write(memory, small->path, &error), TXL_OK);
    txl_memory_free(memory);
    txl_session_free(session);
    small->bytes = read_file(small->path, &small->n);
}

static void close_small(struct small *small) {
    unlink(small->path);
    free(small->bytes);
    case_close(&small->c);
}

static const char *const damaged_cases[] = {"enwik8-zip", "absolute-learned"};

TEST(every_altered_byte_is_noticed) {
    for (size_t k = 0; k < 3; k++) {
        struct small s;
        open_small(&s, damaged_cases[k % 2], k < 2 ? TXL_MEMORY_F32 : TXL_MEMORY_Q8);
        for (size_t i = 0; i < s.n; i += i < 400 ? 1 : 997) {
            s.bytes[i] ^= 0x20;
            put_file(s.path, s.bytes, s.n);
            assert_refused(&s.c, s.path, "an altered byte", i);
            s.bytes[i] ^= 0x20;
        }
        close_small(&s);
    }
}

TEST(every_other_length_is_noticed) {
    for (size_t k = 0; k < 2; k++) {
        struct small s;
        open_small(&s, damaged_cases[k], TXL_MEMORY_F32);
        for (size_t length = 0; length <= s.n + 1; length += length < 400 ? 1 : 997) {
            if (length == s.n)
                continue;
            put_file(s.path, s.bytes, length);
            assert_refused(&s.c, s.path, "another length", length);
        }
        close_small(&s);
    }
}

/* Offsets of weights-format.md. */
enum {
    MINOR = 10,
    HEADER_SIZE = 12,
    TGT_LEN = 32,
    MEM_LEN = 36,
    SAME_LENGTH = 44,
    MEMORY_TYPE = 48,
    TAIL = 52,
    NEXT = 56,
    SEGMENT_START = 64,
    REFRESH = 96,
    ARITHMETIC = 104,
    PARTS = 112,
    HEADER_CHECKSUM = 192,
    HEADER = 200
};

static uint64_t load_u64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t load_u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void seal(uint8_t *bytes, size_t n, uint64_t header) {
    uint64_t at = header;
    for (int i = 0; i < 5; i++) {
        uint64_t size = load_u64(bytes + PARTS + 16 * i);
        if (at <= n && size <= n - at) {
            uint64_t checksum = XXH3_64bits(bytes + at, size);
            memcpy(bytes + PARTS + 16 * i + 8, &checksum, sizeof checksum);
        }
        at += size;
    }
    uint64_t checksum = XXH3_64bits(bytes, HEADER_CHECKSUM);
    memcpy(bytes + HEADER_CHECKSUM, &checksum, sizeof checksum);
}

/* Values that a stranger may write, with correct checksums. */
TEST(impossible_values_are_refused) {
    static const struct {
        const char *what;
        size_t offset, size;
        uint64_t value;
    } lies[] = {
        {"header size 0", HEADER_SIZE, 4, 0},
        {"header size beyond the file", HEADER_SIZE, 4, UINT32_MAX},
        {"header size too odd", HEADER_SIZE, 4, HEADER + 1},
        {"tgt_len 0", TGT_LEN, 4, 0},
        {"negative tgt_len", TGT_LEN, 4, 0x80000000},
        {"tgt_len beyond all", TGT_LEN, 4, TXL_MAX_TGT_LEN + 1},
        {"negative mem_len", MEM_LEN, 4, UINT32_MAX},
        {"more memory than rows", MEM_LEN, 4, 4},
        {"same_length 2", SAME_LENGTH, 4, 2},
        {"memory type 2", MEMORY_TYPE, 4, 2},
        {"memory type 1", MEMORY_TYPE, 4, 1},
        {"tail beyond a byte", TAIL, 4, 256},
        {"position 0", NEXT, 8, 0},
        {"position beyond the segment", NEXT, 8, 1000},
        {"position beyond all", NEXT, 8, UINT64_MAX},
        {"segment in the future", SEGMENT_START, 8, UINT64_MAX},
        {"token 1 of a round of 1", REFRESH, 8, UINT64_C(1) << 32 | 1},
        {"another arithmetic", ARITHMETIC, 4, TXL_ARITHMETIC_EXACT + 1},
        {"huge hidden state", PARTS, 8, UINT64_MAX},
        {"no rows", PARTS + 48, 8, 0},
        {"huge rows", PARTS + 48, 8, UINT64_MAX - 8},
        {"negative recent id", HEADER, 0, 0},
        {"recent id beyond the vocabulary", HEADER, 1, 0},
        {"a hidden state that is no number", HEADER, 2, 0},
        {"an infinite key", HEADER, 3, 0},
    };
    struct small s;
    open_small(&s, "enwik8-zip", TXL_MEMORY_F32);
    const uint8_t *bytes = s.bytes;
    uint8_t *forged = calloc(s.n, 1);
    assert_non_null(forged);
    size_t recent_at = HEADER + load_u64(bytes + PARTS) + load_u64(bytes + PARTS + 16);
    size_t rows_at = recent_at + load_u64(bytes + PARTS + 32);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const float numbers[] = {(float)NAN, (float)INFINITY};
        const int32_t ids[] = {-1, txl_model_n_token(s.c.model)};
        memcpy(forged, bytes, s.n);
        if (lies[i].offset < HEADER)
            memcpy(forged + lies[i].offset, &lies[i].value, lies[i].size);
        else if (lies[i].size < 2)
            memcpy(forged + recent_at, &ids[lies[i].size], sizeof ids[0]);
        else
            memcpy(forged + (lies[i].size == 2 ? HEADER : rows_at), &numbers[lies[i].size - 2],
                   sizeof numbers[0]);
        seal(forged, s.n, HEADER);
        put_file(s.path, forged, s.n);
        assert_refused(&s.c, s.path, lies[i].what, lies[i].offset);
    }
    /* The forger's tool itself makes files that are read. */
    memcpy(forged, bytes, s.n);
    seal(forged, s.n, HEADER);
    assert_memory_equal(forged, bytes, s.n);
    free(forged);
    close_small(&s);
}

/* Puts the bytes, sealed, into the file, and reads it. */
static txl_status read_forged(const struct small *s, uint8_t *bytes, txl_error *error) {
    txl_memory *memory = NULL;
    seal(bytes, s->n, load_u32(bytes + HEADER_SIZE));
    put_file(s->path, bytes, s->n);
    txl_status status = txl_memory_read(s->path, s->c.model, &memory, error);
    txl_memory_free(memory);
    return status;
}

/* A file whose first memory is not zeros leaves nothing of it behind. */
TEST(a_first_memory_stays_zeros) {
    static const txl_settings settings = {
        .tgt_len = 3, .mem_len = 8, .clamp_len = -1, .threads = 1};
    static const float forged = 1;
    struct model_case c;
    txl_error error;
    txl_memory *memory;
    case_open(&c, "hf-bin", NULL, -1);
    txl_session *session = session_with_positions(&c, &settings);
    struct small s = {.c = c};
    s.bytes = file_of_three(&c, session, &s.n);
    void *expected = malloc(s.n);
    assert_non_null(expected);
    memcpy(expected, s.bytes, s.n);
    size_t rows_at = load_u32(s.bytes + HEADER_SIZE), size;
    for (int i = 0; i < 3; i++)
        rows_at += load_u64(s.bytes + PARTS + 16 * i);
    assert_true(memcmp(s.bytes + rows_at, &(float){0}, sizeof forged) == 0);
    memcpy(s.bytes + rows_at, &forged, sizeof forged);
    seal(s.bytes, s.n, load_u32(s.bytes + HEADER_SIZE));
    snprintf(s.path, sizeof s.path, "%s", scratch_path("memory"));
    put_file(s.path, s.bytes, s.n);
    assert_int_equal(txl_memory_read(s.path, c.model, &memory, &error), TXL_OK);
    load(session, memory);
    txl_session_reset(session);
    void *got = file_of_three(&c, session, &size);
    assert_int_equal(size, s.n);
    assert_memory_equal(got, expected, size);
    txl_memory_free(memory);
    txl_session_free(session);
    unlink(s.path);
    free(got);
    free(expected);
    free(s.bytes);
    case_close(&c);
}

/* In q8 each head's scale is before its integers. */
TEST(impossible_scales_are_refused) {
    static const float scales[] = {(float)NAN, (float)INFINITY, -1e-30F};
    struct small s;
    txl_error error;
    open_small(&s, "enwik8-zip", TXL_MEMORY_Q8);
    const size_t n_head = s.c.model->network->row_heads;
    const size_t head = sizeof(float) + s.c.model->network->row_width / n_head;
    size_t rows_at = load_u32(s.bytes + HEADER_SIZE), size = load_u64(s.bytes + PARTS + 48);
    for (int i = 0; i < 3; i++)
        rows_at += load_u64(s.bytes + PARTS + 16 * i);
    assert_int_equal(rows_at - load_u64(s.bytes + PARTS) - load_u64(s.bytes + PARTS + 16) -
                         load_u64(s.bytes + PARTS + 32),
                     HEADER);
    assert_int_equal(size % (head * n_head), 0);
    assert_int_equal(read_forged(&s, s.bytes, &error), TXL_OK);
    for (size_t at = rows_at; at < rows_at + size; at += head) {
        float scale;
        memcpy(&scale, s.bytes + at, sizeof scale);
        assert_true(scale > 0 && scale < 1);
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
            memcpy(s.bytes + at, &scales[i], sizeof scale);
            assert_int_equal(read_forged(&s, s.bytes, &error), TXL_FORMAT);
        }
        memcpy(s.bytes + at, &scale, sizeof scale);
        memset(s.bytes + at + sizeof scale, 0x80, head - sizeof scale); /* any integer will do */
        assert_int_equal(read_forged(&s, s.bytes, &error), TXL_OK);
    }
    /* A type that comes later is named, not taken for damage. */
    s.bytes[MEMORY_TYPE] = TXL_MEMORY_Q8 + 1;
    assert_int_equal(read_forged(&s, s.bytes, &error), TXL_FORMAT);
    s.bytes[MINOR]++;
    assert_int_equal(read_forged(&s, s.bytes, &error), TXL_UNSUPPORTED);
    assert_non_null(strstr(error.message, "version 1.1"));
    close_small(&s);
}

TEST(what_cannot_be_written_leaves_the_old) {
    struct model_case c;
    txl_error error;
    case_open(&c, "enwik8-zip", NULL, -1);
    txl_settings settings = some_settings(&c, false, TXL_MEMORY_F32);
    txl_session *session = case_session(&c, &settings);
    txl_memory *memory = save(session);
    assert_int_equal(txl_memory_write(memory, "/nonexistent/memory", &error), TXL_IO);
    assert_non_null(strstr(error.message, "/nonexistent/memory"));
    assert_int_equal(txl_memory_write(memory, "/dev/null", &error), TXL_IO);
    assert_int_equal(txl_memory_read("/dev/null", c.model, &memory, &error), TXL_IO);
    assert_int_equal(txl_memory_read(case_path("enwik8-zip", "text.txt"), c.model, &memory, &error),
                     TXL_FORMAT);
    txl_resume long_one = {.n_recent = SIZE_MAX};
    txl_memory *none;
    assert_int_equal(txl_session_save(session, &long_one, &none, &error), TXL_ARGUMENT);
    txl_memory_free(memory);
    txl_session_free(session);
    case_close(&c);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
