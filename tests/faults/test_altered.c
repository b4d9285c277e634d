/* Weights files with any byte altered or cut at any length, and checkpoints cut at every percent:
 * each is refused, in one line that says where it is wrong, or gives the same scores. */
#include "convert/converter.h"
#include "lib/weights/weights.h"
#include "tests/files.h"
#include "tests/model_cases.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Under a sanitizer, which takes its time, not every byte. */
#ifdef __SANITIZE_ADDRESS__
enum { STEP = 23 };
#else
enum { STEP = 1 };
#endif

/* ---- A weights file that can be altered --------------------------------------------------- */

enum { N_ID = 24 };

struct file {
    char path[4096];
    uint8_t *bytes; /* of the file itself */
    size_t size;
    struct weights *weights; /* of a copy that stays as it is */
    float nats[N_ID];        /* what the unaltered model gives */
};

static txl_status score(const char *path, float nats[N_ID], txl_error *error) {
    int32_t ids[N_ID + 1];
    txl_settings settings;
    txl_model *model;
    txl_session *session;
    txl_status status = txl_model_open(path, 1, &model, error);
    if (status)
        return status;
    for (int i = 0; i <= N_ID; i++)
        ids[i] = i * 7 % txl_model_n_token(model);
    txl_model_defaults(model, &settings);
    settings.threads = 1;
    status = txl_session_new(model, &settings, &session, error);
    if (!status) {
        status = txl_session_score(session, ids, N_ID, ids + 1, nats, error);
        txl_session_free(session);
    }
    txl_model_close(model);
    return status;
}

static void convert_to(const char *path, int level) {
    txl_error error;
    char source[4096];
    struct convert_options options;
    convert_options_init(&options);
    options.type = "bf16"; /* fewer bytes */
    options.level = level;
    options.threads = 1;
    snprintf(source, sizeof source, "%s", case_path("text8", "."));
    if (convert_checkpoint(source, path, &options, &error))
        fail_msg("%s", error.message);
}

static void make_file(struct file *file, int level) {
    txl_error error;
    struct stat about;
    snprintf(file->path, sizeof file->path, "%s", scratch_path("copy.txl"));
    convert_to(file->path, level);
    assert_int_equal(weights_open(file->path, &file->weights, &error), TXL_OK);
    unlink(file->path); /* it stays mapped */
    snprintf(file->path, sizeof file->path, "%s", scratch_path("altered.txl"));
    convert_to(file->path, level);
    assert_int_equal(score(file->path, file->nats, &error), TXL_OK);
    int handle = open(file->path, O_RDWR);
    assert_true(handle >= 0);
    assert_int_equal(fstat(handle, &about), 0);
    file->size = (size_t)about.st_size;
    file->bytes = mmap(NULL, file->size, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    assert_true(file->bytes != MAP_FAILED);
    close(handle);
}

static void remove_file(struct file *file) {
    munmap(file->bytes, file->size);
    weights_close(file->weights);
    unlink(file->path);
}

/* ---- What is said of it ------------------------------------------------------------------- */

/* Where the byte is: in a tensor's block, or NULL. */
static const struct weights_tensor *tensor_at(const struct weights *w, size_t at) {
    for (size_t i = 0; i < w->n_tensor; i++) {
        const struct weights_tensor *t = &w->tensor[i];
        for (uint32_t b = t->first_block; b < t->first_block + t->n_block; b++)
            if (at >= w->block[b].offset && at < w->block[b].offset + w->block[b].stored)
                return t;
    }
    return NULL;
}

static bool is_between_sections(const struct file *file, size_t at) {
    return file->bytes[at] == 0 && !tensor_at(file->weights, at);
}

/* Returns whether nothing was found. */
static bool check_verified(const struct file *file, size_t at) {
    txl_error error;
    txl_status status = txl_file_verify(file->path, NULL, NULL, &error);
    const struct weights_tensor *tensor = tensor_at(file->weights, at);
    if (!status && tensor)
        fail_msg("byte %zu of tensor %s: not noticed", at, tensor->name);
    if (!status)
        return true; /* check_opened compares the scores */
    if (!strstr(error.message, file->path) || strchr(error.message, '\n'))
        fail_msg("byte %zu: \"%s\"", at, error.message);
    char place[512] = "";
    if (tensor)
        snprintf(place, sizeof place, "tensor %s, at byte %llu", tensor->name,
                 (unsigned long long)file->weights->block[tensor->first_block].offset);
    if (!strstr(error.message, place))
        fail_msg("byte %zu is in %s: \"%s\"", at, place, error.message);
    return false;
}

/* Raw elements are read only when they are used; any other change is harmless or refused. */
static void check_opened(const struct file *file, size_t at) {
    txl_error error;
    float nats[N_ID];
    const struct weights_tensor *tensor = tensor_at(file->weights, at);
    if (score(file->path, nats, &error))
        assert_false(strchr(error.message, '\n'));
    else if (!(tensor && tensor->raw) && memcmp(nats, file->nats, sizeof nats) != 0)
        fail_msg("byte %zu: not noticed, and the scores differ", at);
}

TEST(altering) {
    for (int level = 0; level < 2; level++) {
        struct file file;
        size_t n_harmless = 0;
        make_file(&file, level);
        /* The file's first blocks begin after what has no tensor. */
        size_t data = (size_t)file.weights->block[0].offset;
        for (size_t at = 0; at < file.size; at += STEP) {
            bool filler = is_between_sections(&file, at);
            file.bytes[at] ^= (uint8_t)(1 << at % 8);
            n_harmless += check_verified(&file, at);
            if (at < data ? at % 16 == 0 || filler : at % 128 == 0)
                check_opened(&file, at);
            file.bytes[at] ^= (uint8_t)(1 << at % 8);
        }
        print_message("level %d: %zu bytes, %zu of %zu were not missed\n", level, file.size,
                      n_harmless, file.size / STEP);
        assert_true(n_harmless < file.size / STEP / 8);
        assert_int_equal(txl_file_verify(file.path, NULL, NULL, NULL), TXL_OK);
        remove_file(&file);
    }
}

TEST(cutting) {
    struct file file;
    txl_model *model;
    txl_error error;
    make_file(&file, 1);
    for (size_t size = file.size; size-- > 0;) {
        assert_int_equal(truncate(file.path, (off_t)size), 0);
        txl_status opened = txl_model_open(file.path, 1, &model, &error);
        txl_status verified = txl_file_verify(file.path, NULL, NULL, NULL);
        if (opened != TXL_FORMAT || verified != TXL_FORMAT || !strstr(error.message, file.path))
            fail_msg("%zu bytes of %zu: %d, %d, \"%s\"", size, file.size, (int)opened,
                     (int)verified, error.message);
    }
    remove_file(&file);
}

/* ---- Checkpoints -------------------------------------------------------------------------- */

static void copy_file(const char *from, const char *to, size_t *size) {
    void *bytes = read_file(from, size);
    put_file(to, bytes, *size);
    free(bytes);
}

static void join(char *path, size_t size, const char *folder, const char *name) {
    assert_true((size_t)snprintf(path, size, "%s/%s", folder, name) < size);
}

/* Calls `each` with the name of every file of the folder. */
static void for_files(const char *folder, void (*each)(const char *, const char *, void *),
                      void *context) {
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.')
            each(folder, entry->d_name, context);
    closedir(entries);
}

static void copy_into(const char *folder, const char *name, void *to) {
    char from[8192], copy[8192];
    size_t size;
    join(from, sizeof from, folder, name);
    join(copy, sizeof copy, to, name);
    copy_file(from, copy, &size);
}

static void remove_from(const char *folder, const char *name, void *context) {
    (void)context;
    char path[8192];
    join(path, sizeof path, folder, name);
    unlink(path);
}

static void cut_checkpoint(const char *name, const char *cut) {
    char folder[4096], victim[8192], original[8192], output[4096];
    txl_error error;
    size_t size;
    struct convert_options options;
    convert_options_init(&options);
    options.threads = 1;
    snprintf(folder, sizeof folder, "%s", scratch_path(name));
    snprintf(output, sizeof output, "%s", scratch_path("cut.txl"));
    snprintf(original, sizeof original, "%s", case_path(name, "."));
    assert_int_equal(mkdir(folder, 0700), 0);
    for_files(original, copy_into, folder);
    join(victim, sizeof victim, folder, cut);
    snprintf(original, sizeof original, "%s", case_path(name, cut));
    for (int percent = 99; percent >= 0; percent--) {
        copy_file(original, victim, &size);
        assert_int_equal(truncate(victim, (off_t)(size * (size_t)percent / 100)), 0);
        txl_status status = convert_checkpoint(folder, output, &options, &error);
        if (!status || !strstr(error.message, folder) || strchr(error.message, '\n'))
            fail_msg("%s: %d %% of %s: %d, \"%s\"", name, percent, cut, (int)status, error.message);
        assert_int_not_equal(access(output, F_OK), 0);
    }
    for_files(folder, remove_from, NULL);
    assert_int_equal(rmdir(folder), 0);
}

TEST(cutting_checkpoints) {
    const struct {
        const char *name, *cut;
    } files[] = {
        {"text8", "model.pt"},
        {"text8", "cache.pt"},
        {"wt103-legacy", "model.pt"},
        {"hf-bin", "vocab.bin"},
        {"hf-bin", "config.json"},
        {"hf-safetensors", "model.safetensors"},
        {"hf-safetensors", "vocab.pkl"},
        {"hf-sharded", "pytorch_model-00001-of-00002.bin"},
        {"hf-sharded", "pytorch_model-00002-of-00002.bin"},
        {"hf-sharded", "pytorch_model.bin.index.json"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        cut_checkpoint(files[i].name, files[i].cut);
}

int main(void) {
    /* Blocks' buffers are not to come from the system anew for each byte. */
    mallopt(M_MMAP_THRESHOLD, 1 << 26);
    mallopt(M_TRIM_THRESHOLD, 1 << 27);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
