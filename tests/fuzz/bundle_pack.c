/* TensorFlow checkpoints in the inputs of their harness. */
#include "bundle_pack.h"
#include "fuzz.h"

#include "convert/containers/sorted_table.h"
#include "lib/base/numbers.h"
#include "lib/base/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { FOOTER = 48, TRAILER = 5 };

/* ---- Inputs ------------------------------------------------------------------------------- */

static size_t take(const uint8_t **at, size_t *left, size_t n, const uint8_t **part) {
    n = n < *left ? n : *left;
    *part = *at;
    *at += n;
    *left -= n;
    return n;
}

bool bundle_split(const uint8_t *input, size_t size, struct bundle_input *parts) {
    if (size < BUNDLE_HEAD)
        return false;
    const uint8_t *at = input + BUNDLE_HEAD;
    size_t left = size - BUNDLE_HEAD, data_size = (size_t)BUNDLE_UNIT * read_u16(input + 6);
    *parts = (struct bundle_input){.options = read_u16(input)};
    parts->n_list = take(&at, &left, read_u16(input + 2), &parts->list);
    parts->n_index = take(&at, &left, read_u16(input + 4), &parts->index);
    parts->data_size = data_size < BUNDLE_MAX_DATA ? data_size : BUNDLE_MAX_DATA;
    parts->n_data = take(&at, &left, parts->data_size, &parts->data);
    return true;
}

static void put(uint8_t *at, int width, uint64_t number) {
    for (int i = 0; i < width; i++)
        at[i] = (uint8_t)(number >> 8 * i);
}

static uint8_t *add(uint8_t *at, const uint8_t *part, size_t n) {
    if (n > 0)
        memmove(at, part, n);
    return at + n;
}

size_t bundle_join(const struct bundle_input *parts, uint8_t *input, size_t most) {
    size_t size = BUNDLE_HEAD + parts->n_list + parts->n_index + parts->n_data;
    if (size > most || parts->n_list > UINT16_MAX || parts->n_index > UINT16_MAX)
        return 0;
    uint8_t *copy = malloc(size);
    fuzz_require(copy, "out of memory");
    put(copy, 2, parts->options);
    put(copy + 2, 2, parts->n_list);
    put(copy + 4, 2, parts->n_index);
    put(copy + 6, 2, (parts->data_size + BUNDLE_UNIT - 1) / BUNDLE_UNIT);
    uint8_t *at = add(copy + BUNDLE_HEAD, parts->list, parts->n_list);
    at = add(at, parts->index, parts->n_index);
    add(at, parts->data, parts->n_data);
    memcpy(input, copy, size);
    free(copy);
    return size;
}

/* ---- Checksums ---------------------------------------------------------------------------- */

static uint32_t masked(uint32_t crc) {
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void repair_tensor(struct protobuf entry, uint8_t *index, const uint8_t *start,
                          const uint8_t *data, size_t n_data) {
    struct protobuf_field field;
    uint64_t offset = 0, size = 0;
    size_t crc = 0;
    while (entry.at < entry.end && protobuf_field(&entry, &field)) {
        if (field.type == PROTOBUF_VARINT && field.number == 4)
            offset = field.value;
        if (field.type == PROTOBUF_VARINT && field.number == 5)
            size = field.value;
        if (field.type == PROTOBUF_32 && field.number == 6)
            crc = (size_t)(entry.at - start) - 4;
    }
    if (crc > 0 && offset <= n_data && size <= n_data - offset)
        put(index + crc, 4, masked(crc32c(0, data + offset, size)));
}

/* The content of the block in `place`; false if it does not lie in the index. */
static bool find_block(uint8_t *index, size_t n, struct protobuf place, struct protobuf *block) {
    uint64_t offset, size;
    if (!protobuf_varint(&place, &offset) || !protobuf_varint(&place, &size) ||
        offset > n - TRAILER || size > n - TRAILER - offset)
        return false;
    *block = (struct protobuf){index + offset, index + offset + size};
    return true;
}

static void repair_block(uint8_t *index, struct protobuf block) {
    size_t at = (size_t)(block.at - index), n = (size_t)(block.end - block.at);
    put(index + at + n + 1, 4, masked(crc32c(0, block.at, n + 1)));
}

/* The block without its restart points. */
static struct protobuf entries_of(struct protobuf block) {
    uint64_t n = (uint64_t)(block.end - block.at), restarts = n < 4 ? 0 : read_u32(block.end - 4);
    if (n >= 4 && restarts <= n / 4 - 1)
        block.end -= 4 + 4 * restarts;
    return block;
}

static bool next_value(struct protobuf *entries, struct protobuf *value) {
    uint64_t shared, fresh, length, left;
    if (!protobuf_varint(entries, &shared) || !protobuf_varint(entries, &fresh) ||
        !protobuf_varint(entries, &length))
        return false;
    left = (uint64_t)(entries->end - entries->at);
    if (fresh > left || length > left - fresh)
        return false;
    *value = (struct protobuf){entries->at + fresh, entries->at + fresh + length};
    entries->at = value->end;
    return true;
}

void bundle_repair(uint8_t *index, size_t n, const uint8_t *data, size_t n_data) {
    if (n < FOOTER + TRAILER)
        return;
    struct protobuf foot = {index + n - FOOTER, index + n - 8}, top, block, place, value;
    uint64_t metaindex;
    if (!protobuf_varint(&foot, &metaindex) || !protobuf_varint(&foot, &metaindex) ||
        !find_block(index, n - FOOTER, foot, &top))
        return;
    for (struct protobuf places = entries_of(top); next_value(&places, &place);) {
        if (!find_block(index, n - FOOTER, place, &block))
            continue;
        for (struct protobuf entries = entries_of(block); next_value(&entries, &value);)
            repair_tensor(value, index, index, data, n_data);
        repair_block(index, block);
    }
    repair_block(index, top);
}
