/* A saved memory: the whole state of a session, in memory as in a file (see weights-format.md).
 * It is taken and restored, written, and checked as it is read. */
#ifndef TXL_SESSION_SAVED_MEMORY_H
#define TXL_SESSION_SAVED_MEMORY_H

#include "session.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a saved memory is used as it lies in the file, so txl needs a little-endian machine"
#endif

/* Like the weights file's, except for one letter. */
#define MEMORY_MAGIC "\x93TXM\r\n\x1a\n"

enum {
    MEMORY_MAJOR = 2, /* the newest; a memory has that which its model's settings take */
    MEMORY_MINOR = 3,
    MAX_HEADER = 4096,   /* room for members that later versions append */
    MAX_NAME = 255,      /* file names are no longer */
    MAX_RECENT = 1 << 20 /* ids; the longest memory has as many */
};

/* The parts follow the header in this order, without gaps. */
enum { HIDDEN, SEGMENT, RECENT, ROWS, NAME, N_PART };

struct memory_part {
    uint64_t size, checksum; /* XXH3-64 */
};

struct memory_header {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_size; /* of this structure: a later minor version may append to it */
    uint64_t file_size;
    uint64_t model; /* the checksum of its weights file's header */
    int32_t tgt_len, mem_len, clamp_len;
    uint32_t same_length;
    uint32_t memory_type; /* of the rows' elements */
    uint32_t tail;
    uint64_t next, segment_start; /* as in struct timeline */
    uint64_t seed, stream, draw;
    struct memory_part part[N_PART];
    uint64_t checksum; /* of everything before this field */
};
_Static_assert(sizeof(struct memory_header) == 184, "no padding");

/* Follows the header in minor version 1, only for texts that are read in rounds. */
struct memory_rounds {
    uint32_t refresh, round; /* as in txl_resume */
    uint64_t checksum;       /* of both */
};
_Static_assert(sizeof(struct memory_rounds) == 16, "no padding");

/* Follows in minor version 2, for sessions of another arithmetic than the fast one, and in minor
 * version 3, for rows in q8. */
struct memory_arithmetic {
    uint32_t number, zero; /* number: of the exact arithmetic */
    uint64_t checksum;     /* of both */
};
_Static_assert(sizeof(struct memory_arithmetic) == 16, "no padding");

enum { ROUNDS_END = sizeof(struct memory_header) + sizeof(struct memory_rounds) };

struct txl_memory {
    char *name; /* for messages */
    struct memory_header header;
    struct memory_rounds rounds; /* zero: none */
    txl_arithmetic arithmetic;
    uint8_t *bytes; /* the whole file */
};

/* Makes a memory with room for a file of `size` bytes; NULL: out of memory. */
txl_memory *memory_new(const char *name, uint64_t size);

/* Bytes that one position's rows of all layers take. */
uint64_t memory_position_bytes(const txl_model *model, uint32_t memory_type);

/* The number of positions whose rows are saved: those that a later token can see. */
uint64_t memory_positions(const txl_model *model, const struct memory_header *h);

uint8_t *memory_part(const txl_memory *memory, int part);

/* Whether all numbers are finite, and scales not negative; a reader requires it too. */
bool memory_is_finite(const txl_model *model, const txl_memory *memory);

/* Says that the memory was saved with another model, whose name is `saved_with`. */
txl_status memory_refuse_model(const struct memory_header *h, const char *name,
                               const char *saved_with, const txl_model *model, txl_error *error);

#endif
