/* Zip archives in memory, as far as torch.save writes them: the central directory, ZIP64, entries
 * that are stored.  (PKWARE's APPNOTE.TXT is the format's specification.) */
#ifndef CONVERT_ZIP_H
#define CONVERT_ZIP_H

#include "txl.h"

struct zip_entry {
    const char *name;
    const unsigned char *data; /* set by zip_open_entry */
    uint64_t size;
    uint32_t crc32; /* of the data */
    uint16_t flags;
    uint16_t method;
    uint64_t stored; /* bytes in the archive */
    uint64_t header; /* offset of the local header */
};

struct zip {
    const unsigned char *data; /* the archive, the caller's */
    uint64_t size;
    const char *path; /* for messages, the caller's */
    size_t n_entry;
    struct zip_entry *entries; /* sorted by name, no two the same */
    char *names;
};

/* Whether data begins like a zip archive. */
bool zip_looks_like(const unsigned char *data, uint64_t size);

/* Reads the central directory of an archive in memory; `data` and `path` must outlive the zip,
 * which is the caller's to close even after a failure. */
txl_status zip_open(const unsigned char *data, uint64_t size, const char *path, struct zip *zip,
                    txl_error *error);

void zip_close(struct zip *zip);

/* The entry of that name, or NULL. */
struct zip_entry *zip_find(const struct zip *zip, const char *name);

/* Sets entry->data.  Refuses entries that are compressed, encrypted, or beyond the archive. */
txl_status zip_open_entry(const struct zip *zip, struct zip_entry *entry, txl_error *error);

#endif
