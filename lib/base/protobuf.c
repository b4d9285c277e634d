/* Reads protobuf messages, and never beyond their end. */
#include "protobuf.h"

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
