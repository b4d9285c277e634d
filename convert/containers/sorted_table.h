/* CRC-32C (Castagnoli), the checksum of TensorFlow's checkpoints. */
#ifndef CONVERT_SORTED_TABLE_H
#define CONVERT_SORTED_TABLE_H

#include "lib/base/files.h"
#include "lib/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The checksum of what came before, whose checksum is `before` (0 for nothing), and these bytes. */
uint32_t crc32c(uint32_t before, const void *data, size_t n);

/* The same on any processor. */
uint32_t crc32c_portable(uint32_t before, const void *data, size_t n);

/* Sorted tables of keys and values, as LevelDB has them and TensorFlow's checkpoints begin with. */

enum { TABLE_MAX_KEY = 4096 }; /* bytes */

struct table_entry {
    const char *key; /* with a NUL after it, and perhaps in it */
    size_t key_length;
    const uint8_t *value;
    size_t length;
};

/* All zero: without entries. */
struct table {
    struct table_entry *entries; /* by ascending keys, compared as unsigned bytes */
    size_t n;

    struct buffer keys;
};

/* Whether the file ends as a table does. */
bool table_looks_like(const struct mapped_file *file);

/* Reads the whole table.  Values lie in the mapped file or in the table.  *table is the caller's to
 * free even after a failure. */
txl_status table_read(const struct mapped_file *file, struct table *table, txl_error *error);
void table_free(struct table *table);

/* The entry of that key, or NULL. */
const struct table_entry *table_find(const struct table *table, const char *key, size_t length);

#endif
