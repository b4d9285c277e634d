/* The weights file: it is read back bit for bit, in every type and encoding; damage anywhere is
 * refused and does no harm; a failure leaves no file. */
#include "convert/converter.h"
#include "lib/base/numbers.h"
#include "lib/weights/weights.h"
#include "tests/files.h"
#include "tests/model_cases.h"

#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Numbers like trained weights: small, of both signs, of few exponents. */
static float weight_at(uint64_t i) {
    uint64_t state = i * 0x9E3779B97F4A7C15u + 1;
    float sum = 0;
    for (int k = 0; k < 4; k++)
        sum += (float)next_random(&state) * 0x1p-31f - 0.5f;
    return sum * 0.05f;
}

static txl_status read_weights(void *context, uint64_t first, size_t count, float *out,
                               txl_error *error) {
    (void)context;
    (void)error;
    for (size_t i = 0; i < count; i++)
        out[i] = weight_at(first + i);
    return TXL_OK;
}

static txl_status read_value(void *context, uint64_t first, size_t count, float *out,
                             txl_error *error) {
    (void)error;
    for (size_t i = 0; i < count; i++)
        out[i] = first + i == 7 ? *(const float *)context : 0.25f;
    return TXL_OK;
}

static struct weights_source source_of(const char *name, enum weights_type type, uint64_t rows,
                                       uint64_t columns) {
    struct weights_source source = {
        .type = type, .n_dim = 2, .shape = {rows, columns}, .read = read_weights};
    snprintf(source.name, sizeof source.name, "%s", name);
    return source;
}

static txl_status write_file(const char *path, const struct weights_source *source, size_t n,
                             int level, txl_error *error) {
    struct weights_contents contents = {.settings = "{}",
                                        .vocabulary = "",
                                        .source = source,
                                        .n_source = n,
                                        .level = level,
                                        .threads = 2};
    return weights_write(path, &contents, error);
}

static float narrowed(enum weights_type type, float x) {
    return type == WEIGHTS_F32   ? x
           : type == WEIGHTS_F16 ? float_of_f16(f16_of_float(x))
                                 : float_of_bf16(bf16_of_float(x));
}

static float element_of(enum weights_type type, const uint8_t *data, size_t i) {
    if (type == WEIGHTS_F32) {
        float x;
        memcpy(&x, data + 4 * i, 4);
        return x;
    }
    uint16_t half;
    memcpy(&half, data + 2 * i, 2);
    return type == WEIGHTS_F16 ? float_of_f16(half) : float_of_bf16(half);
}

static void assert_tensor(const struct weights *w, const char *name, int level) {
    txl_error error;
    const struct weights_tensor *t = weights_find(w, name);
    assert_non_null(t);
    assert_int_equal(t->raw != NULL, level == 0);
    struct block_coder *coder = block_coder_new(true);
    uint8_t *out = malloc(WEIGHTS_BLOCK_SIZE);
    assert_non_null(coder);
    assert_non_null(out);
    for (uint32_t b = 0; b < t->n_block; b++) {
        uint64_t begin;
        size_t size, element = weights_type_size(t->type);
        weights_block_extent(t, b, &begin, &size);
        if (weights_read_block(w, t, b, coder, out, &error))
            fail_msg("%s", error.message);
        for (size_t i = 0; i < size / element; i++) {
            float expected = narrowed(t->type, weight_at(begin / element + i));
            assert_true(element_of(t->type, out, i) == expected);
            if (t->raw)
                assert_true(element_of(t->type, t->raw, begin / element + i) == expected);
        }
    }
    free(out);
    block_coder_free(coder);
}

TEST(round_trips) {
    static const int levels[] = {0, 1, 9};
    for (size_t l = 0; l < 3; l++) {
        struct weights_source source[] = {
            source_of("one", WEIGHTS_F32, 1, 1),      source_of("a", WEIGHTS_F32, 700, 999),
            source_of("b", WEIGHTS_F16, 1200, 999),   source_of("c", WEIGHTS_BF16, 1024, 1024),
            source_of("odd", WEIGHTS_BF16, 3, 12347),
        };
        const char *path = scratch_path("weights.txl");
        txl_error error;
        struct weights *w;
        if (write_file(path, source, 5, levels[l], &error) || weights_open(path, &w, &error))
            fail_msg("%s", error.message);
        for (size_t i = 0; i < 5; i++)
            if (source[i].shape[1] > 1) /* a single element is not worth compressing */
                assert_tensor(w, source[i].name, levels[l]);
        if (levels[l] > 0) /* the exponents alone save this much */
            assert_true(weights_find(w, "a")->stored < weights_find(w, "a")->size * 9 / 10);
        assert_int_equal(txl_file_verify(path, NULL, NULL, &error), TXL_OK);
        weights_close(w);
        unlink(path);
    }
}

/* Whatever the settings' length, tensors and vocabulary stay. */
TEST(settings_are_replaced) {
    char settings[300];
    struct weights_source source[] = {source_of("a", WEIGHTS_F32, 700, 999),
                                      source_of("b", WEIGHTS_F16, 1200, 999)};
    const struct weights_contents contents = {.settings = "{\"long\": [1, 2, 3, 4, 5, 6, 7, 8, 9, "
                                                          "10, 11, 12, 13, 14, 15, 16, 17, 18]}",
                                              .vocabulary = "words",
                                              .vocabulary_size = 5,
                                              .source = source,
                                              .n_source = 2,
                                              .level = 1,
                                              .threads = 1};
    const char *path = scratch_path("weights.txl");
    struct weights *w, *restated;
    txl_error error;
    if (weights_write(path, &contents, &error) || weights_open(path, &w, &error))
        fail_msg("%s", error.message);
    for (int length = 2; length < (int)sizeof settings; length += 31) {
        void *copy;
        size_t size;
        snprintf(settings, sizeof settings, "{%*s", length - 1, "}");
        assert_int_equal(weights_restate(w, settings, &copy, &size, &error), TXL_OK);
        if (weights_open_memory(copy, size, "copy", &restated, &error))
            fail_msg("%s", error.message);
        assert_string_equal(restated->settings, settings);
        assert_int_equal(restated->vocabulary_size, 5);
        assert_memory_equal(restated->vocabulary, "words", 5);
        assert_int_equal(restated->n_block, w->n_block);
        assert_tensor(restated, "a", 1);
        assert_tensor(restated, "b", 1);
        weights_close(restated);
        free(copy);
    }
    /* Nobody else's order of the sections is known. */
    for (int way = 0; way < 4; way++) {
        struct layout_header header;
        struct weights other = *w;
        void *copy = NULL;
        size_t size;
        memcpy(&header, w->data, sizeof header);
        if (way == 0)
            header.settings.offset -= 64; /* within the header */
        else if (way == 1)
            header.vocabulary.offset = header.settings.offset;
        else if (way == 2)
            header.vocabulary.offset += 8; /* where blocks would lose their alignment */
        else
            header.index.offset = header.vocabulary.offset - 64;
        other.data = (const uint8_t *)&header;
        assert_int_equal(weights_restate(&other, "{}", &copy, &size, &error), TXL_UNSUPPORTED);
        assert_null(copy);
    }
    weights_close(w);
    unlink(path);
}

/* All of a tensor; the caller's to free. */
static uint8_t *expand(const struct weights *w, const struct weights_tensor *t) {
    txl_error error;
    struct block_coder *coder = block_coder_new(true);
    uint8_t *out = malloc(t->size);
    assert_true(coder && out);
    for (uint32_t b = 0; b < t->n_block; b++) {
        uint64_t begin;
        size_t size;
        weights_block_extent(t, b, &begin, &size);
        if (weights_read_block(w, t, b, coder, out + begin, &error))
            fail_msg("%s", error.message);
    }
    block_coder_free(coder);
    return out;
}

static void assert_q8(const struct weights *w, const char *name) {
    const struct weights_tensor *t = weights_find(w, name);
    assert_non_null(t);
    uint64_t n = t->n_element, n_col = t->shape[1], scales = (n + 63) / 64 * 64;
    assert_int_equal(t->size, scales + 4 * t->shape[0] * ((n_col + 63) / 64));
    uint8_t *out = expand(w, t);
    if (t->raw)
        assert_memory_equal(t->raw, out, t->size);
    const float *scale = (const float *)(out + scales);
    for (uint64_t i = 0, k; i < n; i += k) {
        float x[Q8_BLOCK];
        for (k = 0; k < Q8_BLOCK && i % n_col + k < n_col; k++)
            x[k] = weight_at(i + k);
        assert_true(*scale == q8_scale(x, k));
        for (uint64_t j = 0; j < k; j++)
            assert_int_equal((int8_t)out[i + j], q8_of_float(x[j], *scale));
        scale++;
    }
    assert_ptr_equal(scale, out + t->size);
    for (uint64_t i = n; i < scales; i++)
        assert_int_equal(out[i], 0);
    free(out);
}

/* Blocks of a mebibyte cut blocks of columns and scales alike. */
TEST(q8_round_trips) {
    static const int levels[] = {0, 1};
    for (size_t l = 0; l < 2; l++) {
        struct weights_source source[] = {
            source_of("one", WEIGHTS_Q8, 1, 1),         source_of("long", WEIGHTS_Q8, 3, 812347),
            source_of("wide", WEIGHTS_Q8, 2900, 410),   source_of("even", WEIGHTS_Q8, 1024, 1024),
            source_of("narrow", WEIGHTS_Q8, 299999, 3), source_of("f32", WEIGHTS_F32, 5, 70),
            source_of("small", WEIGHTS_Q8, 7, 65),
        };
        const char *path = scratch_path("weights.txl");
        txl_error error;
        struct weights *w;
        if (write_file(path, source, 7, levels[l], &error) || weights_open(path, &w, &error))
            fail_msg("%s", error.message);
        for (size_t i = 0; i < 7; i++)
            if (source[i].type == WEIGHTS_Q8)
                assert_q8(w, source[i].name);
        assert_int_equal(weights_find(w, "even")->raw != NULL, levels[l] == 0);
        assert_int_equal(txl_file_verify(path, NULL, NULL, &error), TXL_OK);
        weights_close(w);
        unlink(path);
    }
    struct weights_source vector = source_of("v", WEIGHTS_Q8, 64, 1);
    txl_error error;
    vector.n_dim = 1;
    assert_int_equal(write_file(scratch_path("v.txl"), &vector, 1, 0, &error), TXL_FORMAT);
}

static void assert_tiles(const struct weights *w, const char *name) {
    const struct weights_tensor *t = weights_find(w, name);
    assert_non_null(t);
    const int top = t->type == WEIGHTS_Q5 ? Q5_TOP : Q4_TOP;
    const size_t n_row = (size_t)t->shape[0], n_col = (size_t)t->shape[1];
    const size_t row = (n_col + 63) / 64 * (top == Q5_TOP ? 704 : 576);
    assert_int_equal(t->size, (n_row + 15) / 16 * row + 8 * n_row);
    uint8_t *out = expand(w, t), *tiles = malloc(row);
    float *x = malloc(16 * n_col * sizeof *x);
    double *scratch = malloc(tiles_scratch(n_col, NULL) * sizeof *scratch);
    assert_true(tiles && x && scratch);
    if (t->raw)
        assert_memory_equal(t->raw, out, t->size);
    for (uint32_t b = 0; b + 1 < t->n_block; b++) {
        uint64_t begin;
        size_t size;
        weights_block_extent(t, b, &begin, &size);
        assert_int_equal(size % (row / ((n_col + 63) / 64)), 0);
    }
    for (size_t first = 0; first < n_row; first += 16) {
        const size_t n = n_row - first < 16 ? n_row - first : 16;
        float factors[32];
        for (size_t i = 0; i < n * n_col; i++)
            x[i] = weight_at(first * n_col + i);
        assert_true(tiles_round(top, n, n_col, x, NULL, scratch, tiles, factors));
        assert_memory_equal(tiles, out + first / 16 * row, row);
        assert_memory_equal(factors, out + (n_row + 15) / 16 * row + 8 * first, 8 * n);
    }
    free(scratch);
    free(x);
    free(tiles);
    free(out);
}

/* Blocks of whole tiles cut rows of tiles and factors alike; matrices follow each other, and
 * others. */
TEST(tiles_round_trip) {
    for (int level = SANITIZED; level < 2; level++) {
        struct weights_source source[] = {
            source_of("one", WEIGHTS_Q4, 1, 1),        source_of("long", WEIGHTS_Q5, 3, 312347),
            source_of("wide", WEIGHTS_Q4, 2900, 810),  source_of("q8", WEIGHTS_Q8, 100, 130),
            source_of("even", WEIGHTS_Q5, 1024, 1024), source_of("narrow", WEIGHTS_Q4, 99999, 3),
            source_of("f32", WEIGHTS_F32, 5, 70),      source_of("small", WEIGHTS_Q5, 17, 65),
        };
        const char *path = scratch_path("weights.txl");
        txl_error error;
        struct weights *w;
        if (write_file(path, source, 8, level, &error) || weights_open(path, &w, &error))
            fail_msg("%s", error.message);
        for (size_t i = 0; i < 8; i++)
            if (source[i].type >= WEIGHTS_Q4)
                assert_tiles(w, source[i].name);
        assert_int_equal(weights_find(w, "even")->raw != NULL, level == 0);
        assert_int_equal(txl_file_verify(path, NULL, NULL, &error), TXL_OK);
        weights_close(w);
        unlink(path);
    }
    struct weights_source vector = source_of("v", WEIGHTS_Q4, 64, 1);
    txl_error error;
    vector.n_dim = 1;
    assert_int_equal(write_file(scratch_path("v.txl"), &vector, 1, 0, &error), TXL_FORMAT);
    /* With their padding they would have more bytes than numbers count. */
    const uint64_t many[] = {UINT64_C(1) << 58, 1, 1, 1}, few[] = {UINT64_C(1) << 20, 1, 1, 1};
    assert_int_equal(weights_expanded_size(WEIGHTS_Q5, 2, many), 0);
    assert_int_equal(weights_expanded_size(WEIGHTS_Q5, 2, few),
                     (UINT64_C(1) << 16) * 704 + (8 << 20));
}

TEST(impossible_weights_are_refused) {
    struct {
        float value;
        enum weights_type type;
        const char *says;
    } bad[] = {{NAN, WEIGHTS_F32, "element 7"},      {INFINITY, WEIGHTS_BF16, "element 7"},
               {NAN, WEIGHTS_Q8, "element 7"},       {NAN, WEIGHTS_Q4, "element 7"},
               {-INFINITY, WEIGHTS_Q8, "element 7"}, {INFINITY, WEIGHTS_Q4, "element 7"},
               {-INFINITY, WEIGHTS_Q5, "element 7"}, {65520, WEIGHTS_F16, "65504"},
               {3.4e38f, WEIGHTS_BF16, "bf16"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct weights_source source = source_of("w", bad[i].type, 4, 4);
        const char *path = scratch_path("bad.txl");
        txl_error error;
        source.read = read_value;
        source.context = &bad[i].value;
        assert_int_equal(write_file(path, &source, 1, 1, &error), TXL_FORMAT);
        assert_non_null(strstr(error.message, bad[i].says));
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* Their line begins half a step below the least. */
static txl_status read_extremes(void *context, uint64_t first, size_t count, float *out,
                                txl_error *error) {
    const float most = 0x1.fffffep127f;
    (void)context;
    (void)error;
    for (uint64_t i = first; i < first + count; i++)
        out[i - first] = i == 0 ? -most : i < 21 ? most * (0.55f / 15 - 1) : 0;
    return TXL_OK;
}

TEST(a_minimum_beyond_the_largest_number_is_refused) {
    struct weights_source source = source_of("w", WEIGHTS_Q4, 1, 32);
    txl_error error;
    source.read = read_extremes;
    assert_int_equal(write_file(scratch_path("bad.txl"), &source, 1, 1, &error), TXL_FORMAT);
    assert_non_null(strstr(error.message, "too large for q4"));
}

TEST(too_many_blocks_are_refused) {
    struct weights_source source = source_of("w", WEIGHTS_F32, UINT64_C(1) << 30, 1 << 21);
    txl_error error;
    const char *path = scratch_path("huge.txl");
    assert_int_equal(write_file(path, &source, 1, 1, &error), TXL_UNSUPPORTED);
    assert_non_null(strstr(error.message, "more than 2^32 blocks"));
    assert_int_equal(access(path, F_OK), -1);
}

static size_t files_like(const char *path) {
    char pattern[4200];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s*", path);
    size_t n = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

static bool stop_at_once(void *context, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    (*(int *)context)++;
    return false;
}

TEST(failures_leave_no_file) {
    char path[4096];
    snprintf(path, sizeof path, "%s", scratch_path("failing.txl"));
    struct weights_source source = source_of("w", WEIGHTS_F32, 3000, 1000);
    txl_error error;
    /* A full disk, as far as the program can tell. */
    struct rlimit before, small = {1 << 20, 1 << 20};
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(write_file(path, &source, 1, 0, &error), TXL_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_non_null(strstr(error.message, path));
    assert_int_equal(files_like(path), 0);

    int calls = 0;
    struct weights_contents contents = {.settings = "{}",
                                        .vocabulary = "",
                                        .source = &source,
                                        .n_source = 1,
                                        .threads = 1,
                                        .progress = stop_at_once,
                                        .progress_context = &calls};
    assert_int_equal(weights_write(path, &contents, &error), TXL_STOPPED);
    assert_int_equal(calls, 1);
    assert_int_equal(files_like(path), 0);

    assert_int_equal(write_file("/nonexistent/folder/x.txl", &source, 1, 0, &error), TXL_IO);
    assert_int_equal(write_file("/dev/null", &source, 1, 0, &error), TXL_IO);
}

/* ---- Damage ------------------------------------------------------------------------------- */

struct image {
    uint8_t *data; /* aligned to WEIGHTS_ALIGNMENT */
    size_t size;
};

static struct image load_file(const char *path) {
    struct image image;
    image.data = read_file(path, &image.size);
    unlink(path);
    return image;
}

static struct image load_case(const char *name, const char *type, int level) {
    txl_error error;
    struct convert_options options;
    char source[4096];
    convert_options_init(&options);
    options.type = type;
    options.level = level;
    options.threads = 1;
    snprintf(source, sizeof source, "%s", case_path(name, "."));
    const char *path = scratch_path("image.txl");
    if (convert_checkpoint(source, path, &options, &error))
        fail_msg("%s", error.message);
    return load_file(path);
}

/* Opens it, and uses it if that succeeds: nothing may crash. */
static txl_status try_image(const uint8_t *data, size_t size) {
    txl_error error = {0};
    txl_model *model;
    uint8_t *copy = aligned_alloc(WEIGHTS_ALIGNMENT, (size + 63) / 64 * 64 + 64);
    assert_non_null(copy);
    memcpy(copy, data, size);
    txl_status status = txl_model_open_memory(copy, size, "image", 1, &model, &error);
    if (status) {
        assert_true(strlen(error.message) > 0);
    } else {
        txl_settings settings;
        txl_session *session;
        float nats;
        int32_t id = 0;
        txl_model_defaults(model, &settings);
        settings.threads = 1;
        if (!txl_session_new(model, &settings, &session, &error)) {
            txl_session_score(session, &id, 1, &id, &nats, &error);
            txl_session_free(session);
        }
        txl_model_close(model);
    }
    free(copy);
    return status;
}

TEST(truncated_files_are_refused) {
    struct image image = load_case("enwik8-zip", NULL, 1);
    assert_int_equal(try_image(image.data, image.size), TXL_OK);
    for (size_t size = 1; size < image.size; size += size < 4096 ? 7 : 1009)
        assert_int_not_equal(try_image(image.data, size), TXL_OK);
    free(image.data);
}

/* Every section has a checksum, so a changed byte is noticed wherever it can matter. */
TEST(changed_bytes_are_refused) {
    struct image image = load_case("wt103-zip", NULL, 1);
    struct layout_header header;
    memcpy(&header, image.data, sizeof header);
    size_t end = header.index.offset + header.index.size;
    for (size_t i = 0; i < end; i += i < 200 ? 1 : 211) {
        image.data[i] ^= 0x55;
        bool padding = i >= sizeof header && i < header.settings.offset;
        padding |=
            i >= header.settings.offset + header.settings.size && i < header.vocabulary.offset;
        padding |=
            i >= header.vocabulary.offset + header.vocabulary.size && i < header.index.offset;
        if (!padding && !try_image(image.data, image.size))
            fail_msg("a change of byte %zu went unnoticed", i);
        image.data[i] ^= 0x55;
    }
    free(image.data);
}

static void seal(struct image *image) {
    struct layout_header header;
    memcpy(&header, image->data, sizeof header);
    struct layout_section *section[] = {&header.settings, &header.vocabulary, &header.index};
    for (int i = 0; i < 3; i++)
        if (section[i]->offset <= image->size &&
            section[i]->size <= image->size - section[i]->offset)
            section[i]->checksum = XXH3_64bits(image->data + section[i]->offset, section[i]->size);
    header.checksum = XXH3_64bits(&header, offsetof(struct layout_header, checksum));
    memcpy(image->data, &header, sizeof header);
}

static void assert_refused(const struct image *image, const char *says) {
    txl_model *model;
    txl_error error = {.message = ""};
    txl_status status = txl_model_open_memory(image->data, image->size, "image", 1, &model, &error);
    if (status != TXL_FORMAT || !strstr(error.message, says))
        fail_msg("status %d, \"%s\", expected \"%s\"", (int)status, error.message, says);
}

TEST(sections_have_to_lie_in_the_file) {
    struct image image = load_case("enwik8-zip", NULL, 1);
    struct layout_header header;
    memcpy(&header, image.data, sizeof header);
    const struct {
        struct layout_section index;
        const char *says;
    } wrong[] = {
        {{image.size + 8, 0, 0}, "the index entries reach beyond the end of the file"},
        {{header.index.offset, image.size, 0},
         "the index entries reach beyond the end of the file"},
        {{header.index.offset + 1, 64, 0}, "the index entries are not aligned"},
        {{header.index.offset, sizeof(struct layout_index) - 1, 0}, "the index is too short"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct layout_header altered = header;
        altered.index = wrong[i].index;
        memcpy(image.data, &altered, sizeof altered);
        seal(&image);
        assert_refused(&image, wrong[i].says);
    }
    txl_model *model;
    txl_error error;
    assert_int_equal(
        txl_model_open_memory(image.data + 8, image.size - 8, "image", 1, &model, &error),
        TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "aligned to 64 bytes"));
    free(image.data);
}

/* Overwrites the beginning of the settings, or what stands there from `from` on. */
static void alter_settings(struct image *image, const char *from, const char *to) {
    struct layout_header header;
    memcpy(&header, image->data, sizeof header);
    uint8_t *settings = image->data + header.settings.offset;
    uint8_t *place = memmem(settings, header.settings.size, from, strlen(from));
    assert_non_null(place);
    assert_true(place + strlen(to) <= settings + header.settings.size);
    memcpy(place, to, strlen(to));
    seal(image);
}

TEST(impossible_settings_are_refused) {
    static const struct {
        const char *name, *from, *to, *says;
    } wrong[] = {
        {"wt103-zip", "  524,", "  262,", "the cutoffs do not ascend"},
        {"wt103-zip", "\"n_head\": 3", "\"n_head\": ?", "the settings are not JSON"},
        {"wt103-zip", "\"d_model\": 64", "\"d_model\": 63", "d_model is 63, an odd number"},
        {"absolute-learned", "\"n_head\": 2", "\"n_head\": 3",
         "heads of 8 are not as wide as the model, "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct image image = load_case(wrong[i].name, NULL, 1);
        alter_settings(&image, wrong[i].from, wrong[i].to);
        assert_refused(&image, wrong[i].says);
        free(image.data);
    }
    struct image image = load_case("wt103-zip", NULL, 1);
    struct layout_header header;
    memcpy(&header, image.data, sizeof header);
    memset(image.data + header.settings.offset, ' ', header.settings.size);
    memcpy(image.data + header.settings.offset, "[]", 2);
    seal(&image);
    assert_refused(&image, "the settings are not a JSON object");
    free(image.data);
}

/* Raw weights are used without comparing their checksums; NaN is detected in the results. */
TEST(results_have_to_be_finite) {
    static const char *const tensors[] = {"layer.0.feed_forward.2.weight", "softmax.3.projection"};
    for (size_t i = 0; i < 2; i++) {
        struct image image = load_case("wt103-zip", NULL, 0);
        struct weights *w;
        txl_model *model;
        txl_session *session;
        txl_settings settings;
        txl_error error;
        assert_int_equal(weights_open_memory(image.data, image.size, "image", &w, &error), TXL_OK);
        const struct weights_tensor *t = weights_find(w, tensors[i]);
        assert_true(t && t->raw && t->type == WEIGHTS_F32);
        memset(image.data + ((const uint8_t *)t->raw - image.data), 0xff, t->size);
        weights_close(w);
        assert_int_equal(txl_model_open_memory(image.data, image.size, "image", 1, &model, &error),
                         TXL_OK);
        txl_model_defaults(model, &settings);
        settings.threads = 1;
        assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);
        enum { N_TOKEN = 1573 }; /* all of them, so that all bands are asked */
        static int32_t ids[N_TOKEN];
        static float logprobs[N_TOKEN];
        int32_t id = N_TOKEN - 1;
        float nats;
        assert_int_equal(txl_session_score(session, &id, 1, &id, &nats, &error), TXL_FORMAT);
        assert_non_null(strstr(error.message, "image: the network's results are not finite"));
        assert_int_equal(txl_session_distributions(session, &id, 1, logprobs, &error), TXL_FORMAT);
        assert_non_null(strstr(error.message, "image: the network's results are not finite"));
        assert_int_equal(txl_session_feed(session, &id, 1, &error), TXL_OK);
        assert_int_equal(txl_session_top(session, N_TOKEN, ids, logprobs, &error), TXL_FORMAT);
        assert_non_null(strstr(error.message, "image: the network's results are not finite"));
        txl_session_free(session);
        txl_model_close(model);
        free(image.data);
    }
}

TEST(verification_may_be_stopped) {
    struct weights_source source = source_of("w", WEIGHTS_F32, 1000, 1000);
    const char *path = scratch_path("verified.txl");
    txl_error error;
    int n_call = 0;
    assert_int_equal(write_file(path, &source, 1, 1, &error), TXL_OK);
    assert_int_equal(txl_file_verify(path, stop_at_once, &n_call, &error), TXL_STOPPED);
    assert_int_equal(n_call, 1);
    unlink(path);
}

/* A hostile file has checksums that fit: then the checks behind them must hold. */
TEST(hostile_files_do_no_harm) {
    uint64_t random = 42;
    static const char *const cases[] = {"enwik8-zip", "wt103-zip", "learnable-positions",
                                        "wt103-zip", "hf-bin"};
    for (size_t c = 0; c < 5; c++) {
        struct image image = load_case(cases[c], c < 3 ? NULL : c == 3 ? "q8" : "q4", (int)(c % 2));
        struct image copy = {malloc(image.size), image.size};
        assert_non_null(copy.data);
        struct layout_header header;
        memcpy(&header, image.data, sizeof header);
        const struct layout_section *section[] = {&header.settings, &header.vocabulary,
                                                  &header.index};
        for (int i = 0; i < 400; i++) {
            memcpy(copy.data, image.data, image.size);
            const struct layout_section *s = section[i % 3];
            for (uint32_t k = next_random(&random) % 4 + 1; k > 0; k--) {
                size_t place = s->offset + next_random(&random) % s->size;
                copy.data[place] = i % 2 ? (uint8_t)next_random(&random) : (uint8_t)(i % 5 * 63);
            }
            seal(&copy);
            try_image(copy.data, copy.size);
        }
        free(copy.data);
        free(image.data);
    }
}

/* Overwrites four bytes of the only tensor's only block, whose checksum then fits, and tells how
 * reading it ends. */
static txl_status read_altered(const struct image *image, size_t offset, const void *bytes,
                               uint32_t encoding) {
    struct image copy = {aligned_alloc(WEIGHTS_ALIGNMENT, (image->size + 63) / 64 * 64),
                         image->size};
    assert_non_null(copy.data);
    memcpy(copy.data, image->data, image->size);
    struct layout_header header;
    struct layout_block record;
    memcpy(&header, copy.data, sizeof header);
    uint8_t *place = copy.data + header.index.offset + sizeof(struct layout_index) +
                     sizeof(struct layout_tensor);
    memcpy(&record, place, sizeof record);
    memcpy(copy.data + record.offset + offset, bytes, 4);
    record.checksum = XXH3_64bits(copy.data + record.offset, record.stored);
    record.encoding = encoding;
    memcpy(place, &record, sizeof record);
    seal(&copy);
    struct weights *w;
    txl_error error;
    uint8_t out[1024];
    if (weights_open_memory(copy.data, copy.size, "image", &w, &error))
        fail_msg("%s", error.message);
    struct block_coder *coder = block_coder_new(true);
    assert_non_null(coder);
    assert_true(w->tensor[0].size <= sizeof out);
    txl_status status = weights_read_block(w, &w->tensor[0], 0, coder, out, &error);
    block_coder_free(coder);
    weights_close(w);
    free(copy.data);
    return status;
}

TEST(impossible_scales_are_refused) {
    struct weights_source source = source_of("w", WEIGHTS_Q8, 2, 65);
    txl_error error;
    const char *path = scratch_path("scales.txl");
    assert_int_equal(write_file(path, &source, 1, 0, &error), TXL_OK);
    struct image image = load_file(path);
    const size_t last = 192 + 3 * sizeof(float);
    const float good[] = {0, 1e30f}, bad[] = {NAN, INFINITY, -1e-3f};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(read_altered(&image, last, &good[i], BLOCK_RAW), TXL_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(read_altered(&image, 192, &bad[i], BLOCK_RAW), TXL_FORMAT);
        assert_int_equal(read_altered(&image, last, &bad[i], BLOCK_RAW), TXL_FORMAT);
    }
    assert_int_equal(read_altered(&image, 0, "\x80\x80\x80\x80", BLOCK_RAW), TXL_OK);
    assert_int_equal(read_altered(&image, last, &good[0], BLOCK_PLANES), TXL_FORMAT);
    free(image.data);
}

TEST(impossible_factors_are_refused) {
    struct weights_source source = source_of("w", WEIGHTS_Q4, 2, 33);
    txl_error error;
    const char *path = scratch_path("factors.txl");
    assert_int_equal(write_file(path, &source, 1, 0, &error), TXL_OK);
    struct image image = load_file(path);
    const float good[] = {0, 1e30f}, bad[] = {NAN, INFINITY, -1e-3f};
    for (size_t at = 576; at < 576 + 16; at += 12) { /* the first and the last */
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(read_altered(&image, at, &good[i], BLOCK_RAW), TXL_OK);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(read_altered(&image, at, &bad[i], BLOCK_RAW), TXL_FORMAT);
    }
    assert_int_equal(read_altered(&image, 572, "\xff\xff\xff\xff", BLOCK_RAW), TXL_OK);
    assert_int_equal(read_altered(&image, 576, &good[0], BLOCK_PLANES), TXL_FORMAT);
    free(image.data);
}

TEST(raw_blocks_have_their_tensors_size) {
    static const uint8_t stored[3] = {1, 2, 3};
    struct layout_block block = {.stored = sizeof stored,
                                 .encoding = BLOCK_RAW,
                                 .checksum = XXH3_64bits(stored, sizeof stored)};
    struct block_coder *coder = block_coder_new(true);
    uint8_t out[4];
    txl_error error;
    assert_non_null(coder);
    assert_int_equal(block_decode(coder, WEIGHTS_F32, &block, stored, out, sizeof out, &error),
                     TXL_FORMAT);
    assert_string_equal(error.message, "a raw block has 3 bytes, not 4");
    block_coder_free(coder);
}

TEST(versions_are_told_apart) {
    struct image image = load_case("enwik8-zip", NULL, 1);
    struct layout_header header;
    memcpy(&header, image.data, sizeof header);
    header.minor = 7;
    memcpy(image.data, &header, sizeof header);
    seal(&image);
    assert_int_equal(try_image(image.data, image.size), TXL_OK);
    static const uint16_t others[] = {0, 2};
    for (int i = 0; i < 2; i++) {
        header.major = others[i];
        memcpy(image.data, &header, sizeof header);
        seal(&image);
        assert_int_equal(try_image(image.data, image.size), TXL_UNSUPPORTED);
    }
    free(image.data);
}

/* A whole frame with a right checksum, of fewer bytes than the tensor needs. */
TEST(frames_have_their_blocks_size) {
    enum { SIZE = 4096 };
    static float zeros[SIZE / 4], out[SIZE / 2];
    txl_error error;
    struct layout_block block = {0};
    struct block_coder *coder = block_coder_new(true);
    char *stored = malloc(block_bound(SIZE));
    assert_non_null(coder);
    assert_non_null(stored);
    assert_int_equal(block_encode(coder, WEIGHTS_F32, 1, zeros, SIZE, stored, &block, &error),
                     TXL_OK);
    assert_int_equal(block.encoding, BLOCK_ZSTD);
    assert_int_equal(block_decode(coder, WEIGHTS_F32, &block, stored, out, SIZE, &error), TXL_OK);
    assert_int_equal(block_decode(coder, WEIGHTS_F32, &block, stored, out, 2 * SIZE, &error),
                     TXL_FORMAT);
    assert_string_equal(error.message, "a block expands to 4096 bytes, not 8192");
    free(stored);
    block_coder_free(coder);
}

TEST(halves_round_to_nearest_even) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7c00) != 0x7c00)
            assert_int_equal(f16_of_float(float_of_f16((uint16_t)h)), h);
        if ((h & 0x7f80) != 0x7f80)
            assert_int_equal(bf16_of_float(float_of_bf16((uint16_t)h)), h);
    }
    assert_true(float_of_f16(0xfc00) == -INFINITY);
    assert_true(isnan(float_of_f16(0x7e00)));
    assert_int_equal(f16_of_float(1 + 0x1p-11f), 0x3c00);     /* halfway, to the even one below */
    assert_int_equal(f16_of_float(1 + 3 * 0x1p-11f), 0x3c02); /* halfway, to the even one above */
    assert_int_equal(f16_of_float(0x1p-25f), 0);
    assert_int_equal(f16_of_float(0x1.8p-25f), 1);
    assert_int_equal(f16_of_float(65519), 0x7bff);
    assert_int_equal(f16_of_float(65520), 0x7c00);
    assert_int_equal(bf16_of_float(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(bf16_of_float(1 + 3 * 0x1p-8f), 0x3f82);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
