/* TensorFlow's checkpoints: the index, the data, and the file `checkpoint` beside them (the input
 * is laid out in bundle_pack.h).  What is recognised as a small model is converted, and then has to
 * open and to score.  The mutator changes the index's bytes, or names, shapes and places in it, and
 * then repairs the checksums, without which hardly anything changed would be looked at. */
#include "bundle_pack.h"
#include "fuzz.h"

#include "convert/containers/checkpoint_internal.h"
#include "convert/containers/sorted_table.h"
#include "tests/bundle_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder in which all data files that an index of one or two may name are the same. */
static const char *make_folder(void) {
    static const char *const links[] = {"model.ckpt.data-00000-of-00002",
                                        "model.ckpt.data-00001-of-00002"};
    static char folder[128];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s", fuzz_write("tensorflow", NULL, 0));
        fuzz_require(mkdir(folder, 0700) == 0, "no folder");
        for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
            char path[256];
            snprintf(path, sizeof path, "%s/%s", folder, links[i]);
            fuzz_require(symlink("model.ckpt.data-00000-of-00001", path) == 0, "no link");
        }
        fuzz_write("tensorflow/other.index", "", 0);
        fuzz_write("outside.index", "", 0);
    }
    return folder;
}

static void write_data(const struct bundle_input *parts) {
    const char *path =
        fuzz_write("tensorflow/model.ckpt.data-00000-of-00001", parts->data, parts->n_data);
    fuzz_require(truncate(path, (off_t)parts->data_size) == 0, path);
}

/* The checkpoint that the folder leads to is in it. */
static void choose(const char *folder) {
    struct checkpoint *checkpoint;
    txl_error error;
    if (checkpoint_open(folder, &checkpoint, &error))
        return;
    const char *path = checkpoint_path(checkpoint);
    size_t n = strlen(folder);
    fuzz_require(strncmp(path, folder, n) == 0 && strrchr(path, '/') == path + n,
                 "a checkpoint outside its folder");
    checkpoint_close(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bundle_input parts;
    char index[256];
    if (!bundle_split(data, size, &parts))
        return 0;
    const char *folder = make_folder();
    write_data(&parts);
    fuzz_write("tensorflow/checkpoint", parts.list ? parts.list : data, parts.n_list);
    snprintf(index, sizeof index, "%s",
             fuzz_write("tensorflow/model.ckpt.index", parts.index, parts.n_index));
    choose(folder);
    fuzz_checkpoint(index);
    fuzz_convert(index, parts.options);
    return 0;
}

/* ---- The mutator -------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *random, size_t limit) {
    *random = *random * 1664525 + 1013904223;
    return (*random >> 8) % (uint32_t)limit;
}

/* Changes some bytes of a copy. */
static uint8_t *changed(const void *bytes, size_t *n) {
    enum { ROOM = 32 };
    uint8_t *copy = malloc(*n + ROOM);
    fuzz_require(copy, "out of memory");
    memcpy(copy, bytes, *n);
    *n = LLVMFuzzerMutate(copy, *n, *n + ROOM);
    return copy;
}

static int compare_keys(const void *a, const void *b) {
    const struct table_entry *x = a, *y = b;
    size_t n = x->key_length < y->key_length ? x->key_length : y->key_length;
    int order = memcmp(x->key, y->key, n);
    return order ? order : (x->key_length > y->key_length) - (x->key_length < y->key_length);
}

/* Changes an entry, gives it another's value, or leaves it out; returns what the new table has
 * memory in, which the caller frees. */
static uint8_t *change_entry(struct table *table, uint32_t *random) {
    struct table_entry *entry = &table->entries[next_random(random, table->n)];
    const struct table_entry *other = &table->entries[next_random(random, table->n)];
    uint8_t *copy = NULL;
    size_t n;
    switch (next_random(random, 6)) {
    case 0:
        *entry = table->entries[--table->n];
        break;
    case 1:
        entry->value = other->value;
        entry->length = other->length;
        break;
    case 2:
        n = entry->key_length;
        copy = changed(entry->key, &n);
        entry->key = (char *)copy;
        entry->key_length = n;
        break;
    default:
        copy = changed(entry->value, &entry->length);
        entry->value = copy;
    }
    qsort(table->entries, table->n, sizeof *table->entries, compare_keys);
    return copy;
}

/* A table with some other entries; NULL if the index is none. */
static uint8_t *change_table(const uint8_t *index, size_t n, uint32_t *random, size_t *size) {
    char path[] = "index";
    struct mapped_file file = {.path = path, .data = index, .size = n};
    struct table table = {0};
    txl_error error;
    uint8_t *written = NULL, *copies[3];
    size_t n_copy = 0;
    if (table_looks_like(&file) && !table_read(&file, &table, &error)) {
        for (uint32_t i = next_random(random, 3) + 1; i > 0 && table.n > 1; i--)
            copies[n_copy++] = change_entry(&table, random);
        const size_t per_block = next_random(random, 4) ? table.n : table.n / 2 + 1;
        written = bundle_table(table.entries, table.n, per_block, size);
        while (n_copy > 0)
            free(copies[--n_copy]);
    }
    table_free(&table);
    return written;
}

static void repair(uint8_t *input, size_t size) {
    struct bundle_input parts;
    if (!bundle_split(input, size, &parts))
        return;
    uint8_t *data = calloc(1, parts.data_size + 1);
    fuzz_require(data, "out of memory");
    if (parts.n_data > 0)
        memcpy(data, parts.data, parts.n_data);
    bundle_repair(input + (parts.index - input), parts.n_index, data, parts.data_size);
    free(data);
}

size_t LLVMFuzzerCustomMutator(uint8_t *input, size_t size, size_t most, unsigned seed) {
    struct bundle_input parts;
    uint32_t random = seed;
    uint8_t *other = NULL;
    size_t n = 0;
    unsigned way = next_random(&random, 8);
    if (!bundle_split(input, size, &parts) || way == 0)
        return LLVMFuzzerMutate(input, size, most);
    if (way == 1) {
        n = parts.n_list;
        parts.list = other = changed(parts.list, &n);
        parts.n_list = n;
    } else if (way == 2 || !(other = change_table(parts.index, parts.n_index, &random, &n))) {
        n = parts.n_index;
        parts.index = other = changed(parts.index, &n);
        parts.n_index = n;
    } else {
        parts.index = other;
        parts.n_index = n;
    }
    n = bundle_join(&parts, input, most);
    size = n > 0 ? n : size;
    free(other);
    repair(input, size);
    return size;
}
