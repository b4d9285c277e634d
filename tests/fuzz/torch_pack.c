/* Pickles in the containers of torch.save, with storages of zeros. */
#include "torch_pack.h"

#include "convert/containers/pickle.h"
#include "convert/containers/torch_save.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    MAX_STORAGES = 256,
    MAX_ZEROS = 1 << 16 /* bytes of a storage */
};

static const uint8_t zeros[MAX_ZEROS];

struct storages {
    struct torch_reference at[MAX_STORAGES];
    size_t n;
    uint64_t largest; /* bytes */
};

static bool is_known(const struct storages *storages, const struct pickle_string *key) {
    for (size_t i = 0; i < storages->n; i++) {
        const struct pickle_string *known = &storages->at[i].key;
        if (known->length == key->length && memcmp(known->bytes, key->bytes, key->length) == 0)
            return true;
    }
    return false;
}

/* What the pickle refers to; false if that cannot be packed. */
static bool list_storages(const struct pickle *pickle, struct storages *storages) {
    char name[] = "input";
    struct checkpoint_source source = {.where = name};
    for (size_t i = 0; i < pickle->persistent.count; i++) {
        struct torch_reference *reference = &storages->at[storages->n];
        if (storages->n == MAX_STORAGES - 1 ||
            torch_read_reference(&source, pickle->persistent.at[i], reference, NULL))
            return false;
        size_t size = checkpoint_dtype_size(reference->dtype);
        if (reference->n_item > MAX_ZEROS / size)
            return false;
        if (is_known(storages, &reference->key))
            continue;
        if (reference->n_item * size > storages->largest)
            storages->largest = reference->n_item * size;
        storages->n++;
    }
    return true;
}

static void put(FILE *out, int width, uint64_t number) {
    for (int i = 0; i < width; i++)
        putc((int)(number >> 8 * i & 0xff), out);
}

/* ---- The zip container -------------------------------------------------------------------- */

struct entry {
    const char *folder;
    struct pickle_string name;
    uint32_t crc32, size, header;
};

static uint32_t checksum(const void *data, size_t size) {
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, size);
}

static void put_local(FILE *out, const void *data, size_t size) {
    put(out, 4, 0x04034b50);
    for (int i = 0; i < 26; i++)
        putc(0, out);
    fwrite(data, 1, size, out);
}

static void put_central(FILE *out, const struct entry *entry) {
    size_t length = strlen(entry->folder) + entry->name.length;
    put(out, 4, 0x02014b50);
    put(out, 8, 0); /* versions, flags, method */
    put(out, 4, 0); /* date */
    put(out, 4, entry->crc32);
    put(out, 4, entry->size);
    put(out, 4, entry->size);
    put(out, 2, length);
    put(out, 8, 0); /* extra, comment, disk, internal attributes */
    put(out, 4, 0);
    put(out, 2, 0);
    put(out, 4, entry->header);
    fputs(entry->folder, out);
    fwrite(entry->name.bytes, 1, entry->name.length, out);
}

/* All storages are the same zeros: an archive's entries may share their bytes. */
static void pack_zip(FILE *out, const uint8_t *data, size_t size, const struct storages *storages) {
    struct entry pickle = {.folder = "m/",
                           .name = {"data.pkl", 8},
                           .crc32 = checksum(data, size),
                           .size = (uint32_t)size};
    struct entry storage = {.folder = "m/data/",
                            .crc32 = checksum(zeros, storages->largest),
                            .size = (uint32_t)storages->largest,
                            .header = 30 + (uint32_t)size};
    put_local(out, data, size);
    put_local(out, zeros, storages->largest);
    long start = ftell(out);
    put_central(out, &pickle);
    for (size_t i = 0; i < storages->n; i++) {
        storage.name = storages->at[i].key;
        put_central(out, &storage);
    }
    long end = ftell(out);
    put(out, 4, 0x06054b50);
    put(out, 4, 0);
    put(out, 2, storages->n + 1);
    put(out, 2, storages->n + 1);
    put(out, 4, (uint64_t)(end - start));
    put(out, 4, (uint64_t)start);
    put(out, 2, 0);
}

/* ---- The legacy container ----------------------------------------------------------------- */

static void pack_legacy(FILE *out, const uint8_t *data, size_t size,
                        const struct storages *storages) {
    static const char magic[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                "\x80\x02M\xe9\x03."
                                "\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    fwrite(magic, 1, sizeof magic - 1, out);
    fwrite(data, 1, size, out);
    fputs("\x80\x02]", out);
    for (size_t i = 0; i < storages->n; i++) {
        const struct pickle_string *key = &storages->at[i].key;
        putc('X', out);
        put(out, 4, key->length);
        fwrite(key->bytes, 1, key->length, out);
        putc('a', out);
    }
    putc('.', out);
    for (size_t i = 0; i < storages->n; i++) {
        const struct torch_reference *reference = &storages->at[i];
        put(out, 8, reference->n_item);
        fwrite(zeros, checkpoint_dtype_size(reference->dtype), reference->n_item, out);
    }
}

/* ------------------------------------------------------------------------------------------- */

uint8_t *torch_pack(const uint8_t *data, size_t size, bool legacy, size_t *packed_size) {
    struct storages storages = {.n = 0};
    struct pickle *pickle;
    uint64_t end = 0;
    char *packed = NULL;
    FILE *out = NULL;
    if (pickle_read(data, size, 0, "input", &pickle, &end, NULL))
        return NULL;
    if (list_storages(pickle, &storages))
        out = open_memstream(&packed, packed_size);
    if (out) {
        (legacy ? pack_legacy : pack_zip)(out, data, (size_t)end, &storages);
        fclose(out);
    }
    pickle_free(pickle);
    return (uint8_t *)packed;
}
