/* Every call on a file fails once, disks are full at every size, reads and writes are short or
 * interrupted.  Each failure says what failed and where, leaves an older file unchanged, and leaves
 * no other file. */
#include "convert/converter.h"
#include "faults.h"
#include "tests/files.h"
#include "tests/model_cases.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[128], output[160];
static txl_model *model;
static txl_session *session;
static txl_memory *memory;
static txl_ids *ids;
static txl_trainer *trainer;

/* ---- What is done ------------------------------------------------------------------------- */

static txl_status convert(txl_error *error) {
    char source[4096];
    struct convert_options options;
    convert_options_init(&options);
    options.threads = 1;
    snprintf(source, sizeof source, "%s", case_path("text8", "."));
    return convert_checkpoint(source, output, &options, error);
}

static txl_status write_memory(txl_error *error) {
    return txl_memory_write(memory, output, error);
}

static txl_status write_training(txl_error *error) {
    return txl_trainer_save(trainer, output, "note", error);
}

static txl_status write_trained(txl_error *error) {
    return txl_model_write(txl_trainer_model(trainer), output, "f32", 1, error);
}

static txl_status write_rows(txl_error *error) {
    static const float rows[4 * 8] = {1, 2, 3};
    return txl_rows_save(output, "note", rows, 4, 8, error);
}

static txl_status read_rows(txl_error *error) {
    txl_rows *rows;
    txl_status status = txl_rows_open(output, &rows, error);
    if (!status)
        txl_rows_free(rows);
    return status;
}

static txl_status read_training(txl_error *error) {
    txl_saved *saved;
    txl_status status = txl_saved_open(output, &saved, error);
    if (!status)
        txl_saved_free(saved);
    return status;
}

/* Reading what convert and write_memory have written. */
static txl_status open_model(txl_error *error) {
    txl_model *opened;
    txl_status status = txl_model_open(output, 1, &opened, error);
    if (!status)
        txl_model_close(opened);
    return status;
}

static txl_status verify(txl_error *error) {
    return txl_file_verify(output, NULL, NULL, error);
}

static txl_status read_memory(txl_error *error) {
    txl_memory *read;
    txl_status status = txl_memory_read(output, model, &read, error);
    if (!status)
        txl_memory_free(read);
    return status;
}

/* ---- What is left ------------------------------------------------------------------------- */

struct content {
    char *bytes;
    size_t size;
};

static struct content content_of(const char *path) {
    struct content content;
    content.bytes = read_file(path, &content.size);
    return content;
}

static void assert_content(const char *path, const struct content *expected, const char *when) {
    struct content found = content_of(path);
    if (found.size != expected->size || memcmp(found.bytes, expected->bytes, found.size) != 0)
        fail_msg("%s: %s is not what it was to be", when, path);
    free(found.bytes);
}

/* The folder contains only the output, if there is one. */
static void assert_no_other_file(const char *when) {
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "output") != 0)
            fail_msg("%s: left %s", when, entry->d_name);
    closedir(entries);
}

static const struct content older = {(char *)"an older file", 13};

/* One run of what writes `whole`, perhaps over an older file: the status that it returned, and the
 * file that it left. */
static txl_status run_writing(txl_status (*run)(txl_error *), enum fault_kind kind, long n,
                              bool over, const struct content *whole, txl_error *error) {
    char when[64];
    snprintf(when, sizeof when, "fault %d at call %ld", (int)kind, n);
    if (over)
        put_file(output, older.bytes, older.size);
    else
        unlink(output);
    faults_arm(kind, n, false);
    txl_status status = run(error);
    faults_disarm();
    if (over || !status)
        assert_content(output, status ? &older : whole, when);
    else
        assert_int_equal(access(output, F_OK), -1);
    assert_no_other_file(when);
    return status;
}

static void assert_reported(txl_status status, const txl_error *error, const char *name, long n) {
    if (status && (status != TXL_IO || error->status != status || !strchr(error->message, ':') ||
                   strchr(error->message, '\n')))
        fail_msg("%s: call %ld: status %d, \"%s\"", name, n, (int)status, error->message);
}

/* ---- Writing ------------------------------------------------------------------------------ */

static long count_calls(txl_status (*run)(txl_error *), enum fault_kind kind) {
    txl_error error;
    faults_arm(kind, 0, false);
    txl_status status = run(&error);
    long n_call = faults_disarm();
    if (status)
        fail_msg("%s", error.message);
    return n_call;
}

static void check_writing(const char *name, txl_status (*run)(txl_error *)) {
    txl_error error;
    if (run(&error))
        fail_msg("%s: %s", name, error.message);
    struct content whole = content_of(output);
    unlink(output);
    for (int over = 0; over < 2; over++) {
        if (over)
            put_file(output, older.bytes, older.size);
        long n_call = count_calls(run, FAULT_FILE), n_failed = 0;
        for (long n = 1; n <= n_call; n++) {
            txl_status status = run_writing(run, FAULT_FILE, n, over, &whole, &error);
            assert_reported(status, &error, name, n);
            n_failed += status ? 1 : 0;
        }
        /* Not every file system has nameless files; that is no failure. */
        assert_true(n_failed >= n_call - 1);
        print_message("%s%s: %ld calls\n", name, over ? ", over an older file" : "", n_call);
    }
    long n_cut = count_calls(run, FAULT_SIGNAL);
    for (long n = 1; n <= n_cut; n++) {
        assert_int_equal(run_writing(run, FAULT_SIGNAL, n, true, &whole, &error), TXL_OK);
        assert_int_equal(run_writing(run, FAULT_CUT, n, true, &whole, &error), TXL_OK);
    }
    free(whole.bytes);
}

TEST(writing) {
    check_writing("convert", convert);
    check_writing("save", write_memory);
    check_writing("save a training", write_training);
    check_writing("write what was trained", write_trained);
    check_writing("save rows", write_rows);
    unlink(output);
}

/* ---- A full disk -------------------------------------------------------------------------- */

static void limit_files(rlim_t size) {
    struct rlimit limit = {.rlim_cur = size, .rlim_max = RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size < limit.rlim_max ? size : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void check_full_disk(const char *name, txl_status (*run)(txl_error *)) {
    txl_error error;
    if (run(&error))
        fail_msg("%s: %s", name, error.message);
    struct content whole = content_of(output);
    for (size_t room = 0; room < whole.size; room += whole.size / 25 + 1) {
        put_file(output, older.bytes, older.size);
        limit_files(room);
        txl_status status = run(&error);
        limit_files(RLIM_INFINITY);
        assert_int_equal(status, TXL_IO);
        assert_reported(status, &error, name, (long)room);
        assert_non_null(strstr(error.message, output));
        assert_content(output, &older, "a full disk");
        assert_no_other_file("a full disk");
    }
    free(whole.bytes);
}

TEST(full_disk) {
    signal(SIGXFSZ, SIG_IGN);
    check_full_disk("convert", convert);
    check_full_disk("save", write_memory);
    check_full_disk("save a training", write_training);
    check_full_disk("write what was trained", write_trained);
    check_full_disk("save rows", write_rows);
    unlink(output);
}

/* ---- Reading ------------------------------------------------------------------------------ */

static void check_reading(const char *name, txl_status (*run)(txl_error *)) {
    txl_error error;
    long n_call = count_calls(run, FAULT_FILE);
    assert_true(n_call > 0);
    for (long n = 1; n <= n_call; n++) {
        faults_arm(FAULT_FILE, n, false);
        txl_status status = run(&error);
        faults_disarm();
        assert_int_not_equal(status, TXL_OK);
        assert_reported(status, &error, name, n);
    }
    faults_arm(FAULT_CUT, 1, true);
    txl_status cut = run(&error);
    faults_arm(FAULT_SIGNAL, 1, false);
    txl_status interrupted = run(&error);
    faults_disarm();
    assert_int_equal(cut, TXL_OK);
    assert_int_equal(interrupted, TXL_OK);
}

TEST(reading) {
    txl_error error;
    assert_int_equal(convert(&error), TXL_OK);
    check_reading("open", open_model);
    check_reading("verify", verify);
    assert_int_equal(write_memory(&error), TXL_OK);
    check_reading("load", read_memory);
    assert_int_equal(write_training(&error), TXL_OK);
    check_reading("go on with a training", read_training);
    assert_int_equal(write_rows(&error), TXL_OK);
    check_reading("go on with rows", read_rows);
    unlink(output);
}

/* ---- All of it ---------------------------------------------------------------------------- */

static int set_up(void **state) {
    (void)state;
    txl_error error;
    txl_settings settings;
    snprintf(folder, sizeof folder, "%s", scratch_path("faults"));
    snprintf(output, sizeof output, "%s/output", folder);
    if (mkdir(folder, 0700) != 0 || convert(&error) || txl_model_open(output, 1, &model, &error))
        return -1;
    txl_model_defaults(model, &settings);
    settings.threads = 1;
    if (txl_session_new(model, &settings, &session, &error) ||
        txl_session_feed(session, (const int32_t[]){1, 2, 3}, 3, &error) ||
        txl_session_save(session, NULL, &memory, &error))
        return -1;
    const txl_training training = {
        .batch = 1, .tgt_len = 4, .mem_len = 4, .epsilon = 1e-8, .threads = 1};
    txl_step step;
    int32_t text[20];
    for (int i = 0; i < 20; i++)
        text[i] = i % 7;
    if (txl_ids_new(txl_model_n_token(model), &ids, &error) || txl_ids_add(ids, text, 20, &error) ||
        txl_trainer_new(model, ids, &training, &trainer, &error) ||
        txl_trainer_step(trainer, 1e-3, &step, &error))
        return -1;
    return unlink(output);
}

static int tear_down(void **state) {
    (void)state;
    txl_trainer_free(trainer);
    txl_ids_free(ids);
    txl_memory_free(memory);
    txl_session_free(session);
    txl_model_close(model);
    return rmdir(folder);
}

int main(void) {
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
