/* Writes sorted tables (github.com/google/leveldb, doc/table_format.md). */
#include "bundle_table.h"

#include "convert/containers/sorted_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOOTER = 48, RESTART = 3 /* entries from one restart point to the next */ };

static FILE *open_bytes(char **bytes, size_t *size) {
    FILE *out = open_memstream(bytes, size);
    if (!out)
        abort();
    return out;
}

static void put_varint(FILE *out, uint64_t number) {
    for (; number > 127; number >>= 7)
        putc((int)(number & 127) | 128, out);
    putc((int)number, out);
}

static void put_number(FILE *out, int width, uint64_t number) {
    for (int i = 0; i < width; i++)
        putc((int)(number >> 8 * i & 255), out);
}

/* ---- Tables ------------------------------------------------------------------------------- */

struct entry {
    const char *key;
    size_t n_key;
    const void *value;
    size_t n;
};

/* Writes a block, and puts its place. */
static void put_block(FILE *out, const struct entry *entries, size_t n, FILE *place) {
    char *content = NULL;
    size_t size, n_restart = 0;
    uint32_t restarts[4096];
    FILE *block = open_bytes(&content, &size);
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = &entries[i];
        size_t shared = 0;
        if (i % RESTART == 0 && n_restart < sizeof restarts / sizeof *restarts)
            restarts[n_restart++] = (uint32_t)ftell(block);
        else
            while (shared < e->n_key && shared < e[-1].n_key && e->key[shared] == e[-1].key[shared])
                shared++;
        put_varint(block, shared);
        put_varint(block, e->n_key - shared);
        put_varint(block, e->n);
        fwrite(e->key + shared, 1, e->n_key - shared, block);
        fwrite(e->value, 1, e->n, block);
    }
    if (n_restart == 0)
        restarts[n_restart++] = 0;
    for (size_t i = 0; i < n_restart; i++)
        put_number(block, 4, restarts[i]);
    put_number(block, 4, n_restart);
    fclose(block);
    put_varint(place, (uint64_t)ftell(out));
    put_varint(place, size);
    const uint8_t type = 0;
    const uint32_t crc = crc32c(crc32c(0, content, size), &type, 1);
    fwrite(content, 1, size, out);
    putc(type, out);
    put_number(out, 4, (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8));
    free(content);
}

uint8_t *bundle_table(const struct table_entry *entries, size_t n, size_t per_block, size_t *size) {
    static const uint8_t magic[8] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};
    char *bytes = NULL, *foot = NULL;
    size_t n_foot, n_block = 0;
    FILE *out = open_bytes(&bytes, size), *footer = open_bytes(&foot, &n_foot);
    struct entry *list = calloc(2 * n + 1, sizeof *list), *index = list + n;
    if (!list)
        abort();
    for (size_t i = 0; i < n; i++)
        list[i] = (struct entry){entries[i].key, entries[i].key_length, entries[i].value,
                                 entries[i].length};
    for (size_t i = 0; i < n; i += per_block, n_block++) {
        size_t count = n - i < per_block ? n - i : per_block, n_place;
        char *place = NULL;
        FILE *places = open_bytes(&place, &n_place);
        put_block(out, list + i, count, places);
        fclose(places);
        index[n_block] =
            (struct entry){list[i + count - 1].key, list[i + count - 1].n_key, place, n_place};
    }
    put_block(out, NULL, 0, footer); /* the metaindex */
    put_block(out, index, n_block, footer);
    fclose(footer);
    fwrite(foot, 1, n_foot, out);
    put_number(out, 8, 0);
    for (size_t i = n_foot + 8; i < FOOTER - sizeof magic; i++)
        putc(0, out);
    fwrite(magic, 1, sizeof magic, out);
    fclose(out);
    for (size_t i = 0; i < n_block; i++)
        free((void *)index[i].value);
    free(list);
    free(foot);
    return (uint8_t *)bytes;
}
