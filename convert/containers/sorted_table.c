/* Reading sorted tables (github.com/google/leveldb, doc/table_format.md).
 *
 *     data block ... metaindex block, index block, footer
 *
 * The index has an entry for each data block: a key, not below the block's last, and its place. The
 * footer has the places of the metaindex, which is empty, and of the index.  Each block is followed
 * by a byte, its compression, and a checksum.  The file is a stranger's. */
#include "sorted_table.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/memory.h"
#include "lib/base/numbers.h"
#include "lib/base/protobuf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- CRC-32C, with the processor's instruction where it has one ---------------------------- */

/* Bits in reversed order. */
#define POLYNOMIAL UINT32_C(0x82f63b78)

uint32_t crc32c_portable(uint32_t before, const void *data, size_t n) {
    /* table[k][b]: what byte b adds when k bytes follow it. */
    uint32_t table[8][256];
    const unsigned char *at = data;
    uint32_t crc = ~before;
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        table[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word = read_u64(at) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= table[7 - k][word >> 8 * k & 0xff];
    }
    for (; n > 0; n--, at++)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
    return ~crc;
}

#ifdef __x86_64__

#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t before,
                                                               const unsigned char *at, size_t n) {
    uint64_t crc = ~before;
    for (; n >= 8; n -= 8, at += 8)
        crc = _mm_crc32_u64(crc, read_u64(at));
    for (; n > 0; n--, at++)
        crc = _mm_crc32_u8((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

uint32_t crc32c(uint32_t before, const void *data, size_t n) {
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(before, data, n)
                                            : crc32c_portable(before, data, n);
}

#else

uint32_t crc32c(uint32_t before, const void *data, size_t n) {
    return crc32c_portable(before, data, n);
}

#endif

enum {
    FOOTER = 48,
    TRAILER = 5,
    MAX_ENTRY = MAX_TENSOR,
    MAX_KEYS = 1 << 24 /* bytes of all keys */
};

static const unsigned char magic[8] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};

struct handle {
    uint64_t offset, size;
};

/* A block whose entries are being read. */
struct block {
    uint64_t offset; /* in the file, for messages */
    struct protobuf left;
    unsigned char key[TABLE_MAX_KEY + 1]; /* with a NUL after it */
    size_t key_length;
    bool begun;
};

struct reader {
    const struct mapped_file *file;
    struct table *table;
    struct block index, data; /* the blocks that are being read */
    struct block before;      /* the key of the index's entry before */
    txl_error *error;
};

static txl_status damaged(const struct reader *r, uint64_t offset, const char *what) {
    return txl_fail(r->error, TXL_FORMAT,
                    "%s: offset %" PRIu64 ": %s; the file is damaged, fetch it again",
                    r->file->path, offset, what);
}

/* ---- Blocks ------------------------------------------------------------------------------- */

static bool read_handle(struct protobuf *bytes, struct handle *handle) {
    return protobuf_varint(bytes, &handle->offset) && protobuf_varint(bytes, &handle->size);
}

/* Finds the block's content, compared with its checksum. */
static txl_status find_content(struct reader *r, struct handle handle, struct protobuf *content) {
    uint64_t room = r->file->size - FOOTER;
    if (room < TRAILER || handle.offset > room - TRAILER ||
        handle.size > room - TRAILER - handle.offset)
        return damaged(r, handle.offset, "a block of the index reaches beyond it");
    const unsigned char *start = r->file->data + handle.offset, *end = start + handle.size;
    uint32_t crc = crc32c(0, start, handle.size + 1);
    if (read_u32(end + 1) != (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8))
        return damaged(r, handle.offset, "a block's checksum differs");
    *content = (struct protobuf){start, end};
    if (*end == 0)
        return TXL_OK;
    return txl_fail(r->error, TXL_UNSUPPORTED,
                    "%s: offset %" PRIu64
                    ": a block is compressed%s (%d), as no published language "
                    "model's is; save the checkpoint again with TensorFlow's own Saver",
                    r->file->path, handle.offset, *end == 1 ? " with Snappy" : "", *end);
}

/* A block ends with the offsets of entries that share nothing with the one before, and their
 * number. */
static txl_status open_block(struct reader *r, struct handle handle, struct block *block) {
    struct protobuf content = {NULL, NULL};
    txl_status status = find_content(r, handle, &content);
    if (status)
        return status;
    uint64_t size = (uint64_t)(content.end - content.at);
    uint64_t n = size < 4 ? 0 : read_u32(content.end - 4);
    if (n == 0 || n > size / 4 - 1)
        return damaged(r, handle.offset, "a block's restart points do not fit it");
    block->offset = handle.offset;
    block->left = (struct protobuf){content.at, content.end - 4 - 4 * n};
    block->key_length = 0;
    block->begun = false;
    return TXL_OK;
}

static int compare_bytes(const void *a, size_t n_a, const void *b, size_t n_b) {
    int order = memcmp(a, b, smaller(n_a, n_b));
    return order != 0 ? order : (n_a > n_b) - (n_a < n_b);
}

/* Takes the block's next entry: block->key, and its value. */
static txl_status next_entry(const struct reader *r, struct block *block, struct protobuf *value) {
    struct protobuf *left = &block->left;
    uint64_t shared, fresh, length;
    if (!protobuf_varint(left, &shared) || !protobuf_varint(left, &fresh) ||
        !protobuf_varint(left, &length))
        return damaged(r, block->offset, "a block's entry does not end within it");
    uint64_t room = (uint64_t)(left->end - left->at);
    if (fresh > room || length > room - fresh)
        return damaged(r, block->offset, "a block's entry does not end within it");
    if (shared > block->key_length)
        return damaged(r, block->offset, "a key shares more with the one before than that has");
    if (fresh > TABLE_MAX_KEY - shared)
        return txl_fail(r->error, TXL_UNSUPPORTED,
                        "%s: offset %" PRIu64 ": a name of %" PRIu64 " bytes; at most %d are read",
                        r->file->path, block->offset, shared + fresh, TABLE_MAX_KEY);
    if (block->begun &&
        compare_bytes(block->key + shared, block->key_length - shared, left->at, fresh) >= 0)
        return damaged(r, block->offset, "its keys are not in order");
    if (fresh > 0)
        memcpy(block->key + shared, left->at, fresh);
    block->key_length = shared + fresh;
    block->key[block->key_length] = '\0';
    block->begun = true;
    *value = (struct protobuf){left->at + fresh, left->at + fresh + length};
    left->at = value->end;
    return TXL_OK;
}

/* ---- The table ---------------------------------------------------------------------------- */

static txl_status add_entry(struct reader *r, const struct block *block, struct protobuf value) {
    struct table *t = r->table;
    size_t begin = t->keys.length;
    if (t->n >= MAX_ENTRY || block->key_length + 1 > MAX_KEYS - begin)
        return txl_fail(r->error, TXL_UNSUPPORTED, "%s: more than %d names, or %d bytes of names",
                        r->file->path, MAX_ENTRY, MAX_KEYS);
    if ((t->n & (t->n - 1)) == 0) { /* full: it grows by powers of 2 */
        size_t room = (t->n > 0 ? 2 * t->n : 1) * sizeof *t->entries;
        void *memory = realloc(t->entries, room);
        if (!memory)
            return txl_fail_memory(r->error, "a list of names", room);
        t->entries = memory;
    }
    if (!buffer_append(&t->keys, block->key, block->key_length + 1))
        return txl_fail_memory(r->error, "a list of names", t->keys.length);
    t->entries[t->n++] = (struct table_entry){.key_length = block->key_length,
                                              .value = value.at,
                                              .length = (size_t)(value.end - value.at)};
    return TXL_OK;
}

/* Reads the block of the index's entry.  The entry's key must lie between the block's last key and
 * the next block's first, so no block can be named twice. */
static txl_status read_data(struct reader *r, struct protobuf place) {
    const struct block *before = &r->before, *index = &r->index;
    struct block *data = &r->data;
    struct handle handle;
    struct protobuf value;
    if (!read_handle(&place, &handle))
        return damaged(r, index->offset, "the place of a block is malformed");
    txl_status status = open_block(r, handle, data);
    while (!status && data->left.at < data->left.end) {
        bool first = !data->begun;
        status = next_entry(r, data, &value);
        if (!status && first && before->begun &&
            compare_bytes(before->key, before->key_length, data->key, data->key_length) >= 0)
            status = damaged(r, handle.offset, "its keys are not in order");
        if (!status)
            status = add_entry(r, data, value);
    }
    if (!status && (!data->begun ||
                    compare_bytes(data->key, data->key_length, index->key, index->key_length) > 0))
        status = damaged(r, handle.offset, "a block does not fit its entry in the index");
    return status;
}

static txl_status read_blocks(struct reader *r) {
    struct block *index = &r->index;
    struct protobuf foot = {r->file->data + r->file->size - FOOTER, NULL}, place;
    foot.end = foot.at + FOOTER - sizeof magic;
    struct handle handle;
    if (!read_handle(&foot, &handle) || !read_handle(&foot, &handle))
        return damaged(r, r->file->size - FOOTER, "the footer is malformed");
    txl_status status = open_block(r, handle, index);
    while (!status && index->left.at < index->left.end) {
        status = next_entry(r, index, &place);
        if (!status)
            status = read_data(r, place);
        r->before = *index;
    }
    return status;
}

bool table_looks_like(const struct mapped_file *file) {
    return file->size >= FOOTER &&
           memcmp(file->data + file->size - sizeof magic, magic, sizeof magic) == 0;
}

txl_status table_read(const struct mapped_file *file, struct table *table, txl_error *error) {
    struct reader r = {.file = file, .table = table, .error = error};
    *table = (struct table){0};
    txl_status status = read_blocks(&r);
    const char *key = table->keys.data;
    for (size_t i = 0; i < table->n; key += table->entries[i++].key_length + 1)
        table->entries[i].key = key;
    return status;
}

void table_free(struct table *table) {
    free(table->entries);
    buffer_free(&table->keys);
    *table = (struct table){0};
}

static int compare_entries(const void *a, const void *b) {
    const struct table_entry *x = a, *y = b;
    return compare_bytes(x->key, x->key_length, y->key, y->key_length);
}

const struct table_entry *table_find(const struct table *table, const char *key, size_t length) {
    const struct table_entry wanted = {.key = key, .key_length = length};
    return table->n > 0 ? bsearch(&wanted, table->entries, table->n, sizeof wanted, compare_entries)
                        : NULL;
}
