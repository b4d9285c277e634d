/* Reads protobuf messages, field by field and in place, and writes them. */
#ifndef TXL_PROTOBUF_H
#define TXL_PROTOBUF_H

#include "memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum protobuf_type { PROTOBUF_VARINT = 0, PROTOBUF_64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_32 = 5 };

/* The rest of a message. */
struct protobuf {
    const uint8_t *at, *end;
};

struct protobuf_field {
    uint64_t number;
    unsigned type;
    uint64_t value;      /* of a number */
    const uint8_t *data; /* of PROTOBUF_BYTES */
    size_t length;
};

/* Takes a number of at most 64 bits; false if it does not end within the message or has more. */
bool protobuf_varint(struct protobuf *message, uint64_t *value);

/* Takes the next field; false if it is malformed.  Groups, which are long out of use, count as
 * that. */
bool protobuf_field(struct protobuf *message, struct protobuf_field *field);

/* The message that a field of PROTOBUF_BYTES is. */
struct protobuf protobuf_inside(const struct protobuf_field *field);

/* Append a field to a message; false when there is no memory. */
bool protobuf_append_number(struct buffer *message, unsigned number, uint64_t value);
bool protobuf_append_float(struct buffer *message, unsigned number, float value);
bool protobuf_append_bytes(struct buffer *message, unsigned number, const void *bytes,
                           size_t length);

#endif
