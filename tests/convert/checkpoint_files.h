/* Files for the tests of convert/: the made cases, and hand-made ones in a folder of their own. */
#ifndef TESTS_CHECKPOINT_FILES_H
#define TESTS_CHECKPOINT_FILES_H

#include "convert/containers/checkpoint.h"
#include "convert/containers/pickle.h"
#include "convert/converter.h"
#include "tests/files.h"
#include "txl.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder that setup makes and teardown removes. */
static char scratch[64];

static inline int make_scratch(void **state) {
    (void)state;
    strcpy(scratch, "/tmp/txl-test-XXXXXX");
    return mkdtemp(scratch) ? 0 : -1;
}

static inline int remove_scratch(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

/* The path of a case's file; valid for three more calls. */
static inline const char *case_path(const char *name) {
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    const char *cases = getenv("TXL_TEST_CASES");
    snprintf(path, sizeof paths[0], "%s/%s", cases ? cases : "tests/cases", name);
    return path;
}

/* The same, of a file in the folder of that name. */
static inline const char *case_file(const char *folder, const char *file) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s", folder, file);
    return case_path(name);
}

/* The path of a file in the scratch folder; valid for three more calls. */
static inline const char *scratch_path(const char *name) {
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

/* Writes a file into the scratch folder, and returns its path. */
static inline const char *write_file(const char *name, const void *data, size_t size) {
    const char *path = scratch_path(name);
    put_file(path, data, size);
    return path;
}

/* Writes a safetensors file: the length of its header, the header, and data[size]. */
static inline const char *write_safetensors(const char *name, const char *header, const void *data,
                                            size_t size) {
    uint64_t length = strlen(header);
    char *file = malloc(sizeof length + length + size);
    assert_non_null(file);
    memcpy(file, &length, sizeof length);
    memcpy(file + sizeof length, header, length);
    memcpy(file + sizeof length + length, data, size);
    const char *path = write_file(name, file, sizeof length + length + size);
    free(file);
    return path;
}

static inline void assert_says(const txl_error *error, const char *text) {
    if (!strstr(error->message, text))
        fail_msg("expected \"%s\" in \"%s\"", text, error->message);
}

static inline struct checkpoint *open_or_fail(const char *path) {
    struct checkpoint *checkpoint;
    txl_error error;
    if (checkpoint_open(path, &checkpoint, &error))
        fail_msg("%s", error.message);
    return checkpoint;
}

static inline void assert_not_opened(const char *path, txl_status status, const char *text) {
    struct checkpoint *checkpoint;
    txl_error error = {0};
    txl_status found = checkpoint_open(path, &checkpoint, &error);
    if (found != status)
        fail_msg("expected \"%s\", found status %d, \"%s\"", text, found, error.message);
    assert_says(&error, text);
    assert_null(checkpoint);
}

/* All elements as double; the caller frees them. */
static inline double *doubles_of(const struct checkpoint_tensor *tensor) {
    double *elements = calloc(tensor->n_element + 1, sizeof *elements);
    txl_error error;
    assert_non_null(elements);
    if (checkpoint_read_double(tensor, 0, tensor->n_element, elements, &error))
        fail_msg("%s", error.message);
    return elements;
}

/* ---- Conversions -------------------------------------------------------------------------- */

static inline const char *output_path(void) {
    static char path[128];
    snprintf(path, sizeof path, "%s/out.txl", scratch);
    return path;
}

/* Fails with this status and text in one line, and leaves nothing that begins with the output's
 * name. */
static inline void assert_not_converted(const char *source, const struct convert_options *options,
                                        txl_status status, const char *text) {
    txl_error error;
    unlink(output_path()); /* of a test that failed */
    txl_status got = convert_checkpoint(source, output_path(), options, &error);
    if (got != status)
        fail_msg("%s: status %d (%s), expected %d, \"%s\"", source, got,
                 got ? error.message : "converted", status, text);
    assert_says(&error, text);
    DIR *folder = opendir(scratch);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        assert_int_not_equal(strncmp(entry->d_name, "out.txl", 7), 0);
    closedir(folder);
}

static inline txl_model *convert_or_fail(const char *source,
                                         const struct convert_options *options) {
    txl_error error;
    txl_model *model = NULL;
    if (convert_checkpoint(source, output_path(), options, &error) ||
        txl_model_open(output_path(), 1, &model, &error))
        fail_msg("%s: %s", source, error.message);
    assert_int_equal(unlink(output_path()), 0);
    return model;
}

/* Scores expect's tokens with the model's own settings, which are those of the run, and compares
 * with the run's nats. */
static inline void assert_run(const txl_model *model, const json_t *expect, const json_t *run,
                              double tolerance, const char *name) {
    const json_t *tokens = json_object_get(expect, "tokens"), *nats = json_object_get(run, "nats");
    const size_t n = json_array_size(nats);
    int32_t *ids = calloc(n + 1, sizeof *ids);
    float *scores = calloc(n, sizeof *scores);
    txl_settings settings;
    txl_session *session;
    txl_error error;
    assert_true(ids && scores && n > 0 && n < json_array_size(tokens));
    for (size_t i = 0; i <= n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    txl_model_defaults(model, &settings);
    assert_int_equal(settings.tgt_len, json_integer_value(json_object_get(run, "tgt_len")));
    assert_int_equal(settings.mem_len, json_integer_value(json_object_get(run, "mem_len")));
    assert_int_equal(settings.clamp_len, json_integer_value(json_object_get(run, "clamp_len")));
    assert_int_equal(settings.same_length, json_is_true(json_object_get(run, "same_length")));
    settings.threads = 1;
    assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);
    assert_int_equal(txl_session_score(session, ids, n, ids + 1, scores, &error), TXL_OK);
    for (size_t i = 0; i < n; i++) {
        double wanted = json_real_value(json_array_get(nats, i));
        if (!(fabs(scores[i] - wanted) <= tolerance))
            fail_msg("%s: token %zu has %.7f nats, not %.7f", name, i, (double)scores[i], wanted);
    }
    txl_session_free(session);
    free(ids);
    free(scores);
}

/* ---- Damage ------------------------------------------------------------------------------- */

/* Pseudo-random numbers (xorshift64*), the same in every run. */
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Calls `open` on a copy of the file again and again: cut to every length (in steps that grow with
 * the file), and `n_altered` times with some of its first `size_altered` bytes changed.  Any result
 * is accepted, as long as there is one and no sanitizer reports an error. */
static inline void abuse_file(const char *path, const char *copy_name, size_t size_altered,
                              int n_altered, void (*open_it)(const char *path)) {
    size_t size;
    unsigned char *data = read_file(path, &size);
    const char *copy = write_file(copy_name, data, size);
    size_t step = size < 4096 ? 1 : size / 500;
    for (size_t length = size; length >= step; length -= step) {
        assert_int_equal(truncate(copy, (off_t)length), 0);
        open_it(copy);
    }

    write_file(copy_name, data, size);
    int file = open(copy, O_WRONLY);
    assert_true(file >= 0);
    uint64_t random = size;
    size_t range = size_altered < size ? size_altered : size;
    for (int i = 0; i < n_altered; i++) {
        size_t at[3];
        int n = 1 + (int)(next_random(&random) % 3);
        for (int k = 0; k < n; k++) {
            /* A zip's directory is at its end. */
            at[k] = next_random(&random) % range;
            if (next_random(&random) % 4 == 0)
                at[k] = size - 1 - at[k];
            unsigned char byte =
                next_random(&random) % 2
                    ? (unsigned char)next_random(&random)
                    : (unsigned char)(data[at[k]] ^ 1u << next_random(&random) % 8);
            assert_int_equal(pwrite(file, &byte, 1, (off_t)at[k]), 1);
        }
        open_it(copy);
        for (int k = 0; k < n; k++)
            assert_int_equal(pwrite(file, data + at[k], 1, (off_t)at[k]), 1);
    }
    close(file);
    free(data);
}

#endif
