/* Reads protobuf messages, and never beyond their end; writes them. */
#include "protobuf.h"

#include <endian.h>
#include <string.h>

bool protobuf_varint(struct protobuf *message, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
        uint8_t byte = *message->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return shift < 63 || byte <= 1;
    }
    return false;
}

static bool read_fixed(struct protobuf *message, size_t size, uint64_t *value) {
    if ((size_t)(message->end - message->at) < size)
        return false;
    *value = 0;
    for (size_t i = 0; i < size; i++)
        *value |= (uint64_t)*message->at++ << (8 * i);
    return true;
}

bool protobuf_field(struct protobuf *message, struct protobuf_field *field) {
    uint64_t key;
    if (!protobuf_varint(message, &key))
        return false;
    *field = (struct protobuf_field){.number = key >> 3, .type = key & 7};
    switch (field->type) {
    case PROTOBUF_VARINT:
        return protobuf_varint(message, &field->value);
    case PROTOBUF_64:
        return read_fixed(message, 8, &field->value);
    case PROTOBUF_32:
        return read_fixed(message, 4, &field->value);
    case PROTOBUF_BYTES:
        if (!protobuf_varint(message, &field->value) ||
            field->value > (uint64_t)(message->end - message->at))
            return false;
        field->data = message->at;
        field->length = (size_t)field->value;
        message->at += field->length;
        return true;
    default:
        return false;
    }
}

struct protobuf protobuf_inside(const struct protobuf_field *field) {
    return (struct protobuf){field->data, field->data + field->length};
}

/* ---- Writing ------------------------------------------------------------------------------ */

static bool append_varint(struct buffer *message, uint64_t value) {
    unsigned char bytes[10];
    size_t n = 0;
    for (; value > 0x7f; value >>= 7)
        bytes[n++] = (unsigned char)(value | 0x80);
    bytes[n++] = (unsigned char)value;
    return buffer_append(message, bytes, n);
}

static bool append_key(struct buffer *message, unsigned number, enum protobuf_type type) {
    return append_varint(message, number << 3 | type);
}

bool protobuf_append_number(struct buffer *message, unsigned number, uint64_t value) {
    return append_key(message, number, PROTOBUF_VARINT) && append_varint(message, value);
}

bool protobuf_append_float(struct buffer *message, unsigned number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = htole32(bits);
    return append_key(message, number, PROTOBUF_32) && buffer_append(message, &bits, sizeof bits);
}

bool protobuf_append_bytes(struct buffer *message, unsigned number, const void *bytes,
                           size_t length) {
    return append_key(message, number, PROTOBUF_BYTES) && append_varint(message, length) &&
           buffer_append(message, bytes, length);
}
