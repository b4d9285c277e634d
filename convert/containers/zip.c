/* Reads zip archives in memory, as torch.save writes them. */
#include "zip.h"

#include "lib/base/error.h"
#include "lib/base/numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCAL_SIGNATURE = 0x04034b50,
    CENTRAL_SIGNATURE = 0x02014b50,
    END_SIGNATURE = 0x06054b50,
    END64_SIGNATURE = 0x06064b50,
    END64_LOCATOR_SIGNATURE = 0x07064b50,
    LOCAL_SIZE = 30, /* of each record without its variable part */
    CENTRAL_SIZE = 46,
    END_SIZE = 22,
    END64_SIZE = 56,
    END64_LOCATOR_SIZE = 20,
    MAX_COMMENT = 0xffff,
    ZIP64_FIELD = 1,
    FLAG_ENCRYPTED = 1
};

/* Where the central directory lies. */
struct directory {
    uint64_t offset, size, n_entry;
};

bool zip_looks_like(const unsigned char *data, uint64_t size) {
    return size >= 4 && (read_u32(data) == LOCAL_SIGNATURE || read_u32(data) == END_SIGNATURE);
}

static txl_status find_end(const struct zip *zip, uint64_t *end, txl_error *error) {
    uint64_t lowest = zip->size > END_SIZE + MAX_COMMENT ? zip->size - END_SIZE - MAX_COMMENT : 0;
    for (uint64_t at = zip->size < END_SIZE ? 0 : zip->size - END_SIZE + 1; at-- > lowest;) {
        if (read_u32(zip->data + at) == END_SIGNATURE &&
            read_u16(zip->data + at + 20) <= zip->size - at - END_SIZE) {
            *end = at;
            return TXL_OK;
        }
    }
    return txl_fail(error, TXL_FORMAT,
                    "%s: a zip archive without its central directory, so it is cut short; fetch "
                    "it again",
                    zip->path);
}

static txl_status find_directory(const struct zip *zip, struct directory *directory,
                                 txl_error *error) {
    uint64_t end = 0;
    txl_status status = find_end(zip, &end, error);
    if (status)
        return status;
    const unsigned char *record = zip->data + end;
    directory->n_entry = read_u16(record + 10);
    directory->size = read_u32(record + 12);
    directory->offset = read_u32(record + 16);

    if (end >= END64_LOCATOR_SIZE &&
        read_u32(record - END64_LOCATOR_SIZE) == END64_LOCATOR_SIGNATURE) {
        uint64_t end64 = read_u64(record - END64_LOCATOR_SIZE + 8);
        if (end < END64_SIZE || end64 > end - END64_SIZE ||
            read_u32(zip->data + end64) != END64_SIGNATURE)
            return txl_fail(error, TXL_FORMAT,
                            "%s: offset %" PRIu64 ": expected a ZIP64 end of central directory",
                            zip->path, end64);
        directory->n_entry = read_u64(zip->data + end64 + 32);
        directory->size = read_u64(zip->data + end64 + 40);
        directory->offset = read_u64(zip->data + end64 + 48);
    }
    if (directory->offset > end || directory->size > end - directory->offset)
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset %" PRIu64 ": the central directory (%" PRIu64
                        " bytes at %" PRIu64 ") does not lie before its end record",
                        zip->path, end, directory->size, directory->offset);
    if (directory->n_entry > directory->size / CENTRAL_SIZE)
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset %" PRIu64 ": a central directory of %" PRIu64
                        " bytes cannot hold %" PRIu64 " entries",
                        zip->path, directory->offset, directory->size, directory->n_entry);
    return TXL_OK;
}

/* Replaces sizes and offsets that did not fit into 32 bits by those of the ZIP64 field. */
static bool read_zip64_field(const unsigned char *extra, size_t length, struct zip_entry *entry) {
    uint64_t *wanted[3];
    size_t n_wanted = 0;
    if (entry->size == UINT32_MAX)
        wanted[n_wanted++] = &entry->size;
    if (entry->stored == UINT32_MAX)
        wanted[n_wanted++] = &entry->stored;
    if (entry->header == UINT32_MAX)
        wanted[n_wanted++] = &entry->header;
    if (n_wanted == 0)
        return true;

    while (length >= 4) {
        size_t field = read_u16(extra + 2);
        if (field > length - 4)
            return false;
        if (read_u16(extra) == ZIP64_FIELD) {
            if (field < 8 * n_wanted)
                return false;
            for (size_t i = 0; i < n_wanted; i++)
                *wanted[i] = read_u64(extra + 4 + 8 * i);
            return true;
        }
        extra += 4 + field;
        length -= 4 + field;
    }
    return false;
}

/* Reads the entry at `*at` of the directory that ends at `end`, and moves both `*at` and the place
 * for names on. */
static txl_status read_entry(const struct zip *zip, uint64_t *at, uint64_t end, char **names,
                             struct zip_entry *entry, txl_error *error) {
    const unsigned char *record = zip->data + *at;
    uint64_t left = end - *at;
    if (left < CENTRAL_SIZE || read_u32(record) != CENTRAL_SIGNATURE)
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset %" PRIu64 ": expected an entry of the central directory",
                        zip->path, *at);
    size_t name_length = read_u16(record + 28);
    size_t extra_length = read_u16(record + 30);
    uint64_t total = CENTRAL_SIZE + name_length + extra_length + read_u16(record + 32);
    if (total > left)
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset %" PRIu64 ": the entry exceeds the central directory",
                        zip->path, *at);

    const unsigned char *name = record + CENTRAL_SIZE;
    if (memchr(name, 0, name_length))
        return txl_fail(error, TXL_FORMAT, "%s: offset %" PRIu64 ": an entry's name holds a NUL",
                        zip->path, *at);
    *entry = (struct zip_entry){
        .name = *names,
        .size = read_u32(record + 24),
        .crc32 = read_u32(record + 16),
        .flags = read_u16(record + 8),
        .method = read_u16(record + 10),
        .stored = read_u32(record + 20),
        .header = read_u32(record + 42),
    };
    memcpy(*names, name, name_length);
    (*names)[name_length] = '\0';
    *names += name_length + 1;
    if (!read_zip64_field(name + name_length, extra_length, entry))
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset %" PRIu64 ": the entry needs a ZIP64 field and has none",
                        zip->path, *at);
    *at += total;
    return TXL_OK;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const struct zip_entry *)a)->name, ((const struct zip_entry *)b)->name);
}

static txl_status read_directory(struct zip *zip, const struct directory *directory,
                                 txl_error *error) {
    uint64_t at = directory->offset;
    char *names = zip->names;
    for (; zip->n_entry < directory->n_entry; zip->n_entry++) {
        txl_status status = read_entry(zip, &at, directory->offset + directory->size, &names,
                                       &zip->entries[zip->n_entry], error);
        if (status)
            return status;
    }
    qsort(zip->entries, zip->n_entry, sizeof *zip->entries, compare_entries);
    for (size_t i = 1; i < zip->n_entry; i++) {
        if (strcmp(zip->entries[i - 1].name, zip->entries[i].name) == 0)
            return txl_fail(error, TXL_FORMAT, "%s: two entries are named %s", zip->path,
                            zip->entries[i].name);
    }
    return TXL_OK;
}

txl_status zip_open(const unsigned char *data, uint64_t size, const char *path, struct zip *zip,
                    txl_error *error) {
    *zip = (struct zip){.data = data, .size = size, .path = path};
    struct directory directory = {0};
    txl_status status = find_directory(zip, &directory, error);
    if (status)
        return status;

    /* A name and its NUL take less room than its entry in the directory. */
    zip->names = malloc((size_t)directory.size + 1);
    zip->entries = calloc((size_t)directory.n_entry + 1, sizeof *zip->entries);
    if (!zip->names || !zip->entries)
        return txl_fail_memory(error, "the directory of a zip archive",
                               directory.size + directory.n_entry * sizeof *zip->entries);
    return read_directory(zip, &directory, error);
}

void zip_close(struct zip *zip) {
    free(zip->entries);
    free(zip->names);
    *zip = (struct zip){0};
}

struct zip_entry *zip_find(const struct zip *zip, const char *name) {
    struct zip_entry key = {.name = name};
    return bsearch(&key, zip->entries, zip->n_entry, sizeof key, compare_entries);
}

txl_status zip_open_entry(const struct zip *zip, struct zip_entry *entry, txl_error *error) {
    if (entry->flags & FLAG_ENCRYPTED)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: entry %s is encrypted", zip->path,
                        entry->name);
    if (entry->method != 0 || entry->size != entry->stored)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: entry %s is compressed (method %d), which torch.save never does; "
                        "unpack the archive and pack it again with `zip -0 -r`",
                        zip->path, entry->name, entry->method);
    if (zip->size < LOCAL_SIZE || entry->header > zip->size - LOCAL_SIZE ||
        read_u32(zip->data + entry->header) != LOCAL_SIGNATURE)
        return txl_fail(error, TXL_FORMAT,
                        "%s: entry %s: expected its local header at offset %" PRIu64, zip->path,
                        entry->name, entry->header);
    const unsigned char *header = zip->data + entry->header;
    uint64_t start = entry->header + LOCAL_SIZE + read_u16(header + 26) + read_u16(header + 28);
    if (start > zip->size || entry->size > zip->size - start)
        return txl_fail(error, TXL_FORMAT,
                        "%s: entry %s (%" PRIu64 " bytes at offset %" PRIu64
                        ") exceeds the file's %" PRIu64 " bytes",
                        zip->path, entry->name, entry->size, start, zip->size);
    entry->data = zip->data + start;
    return TXL_OK;
}
