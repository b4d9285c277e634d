/* The byte layout of weights-format.md. */
#ifndef TXL_WEIGHTS_LAYOUT_H
#define TXL_WEIGHTS_LAYOUT_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are used where they are mapped, so txl needs a little-endian machine"
#endif

/* The first byte is not ASCII, and the line ends reveal a transfer that treated the file as
 * text. */
#define LAYOUT_MAGIC "\x93TXL\r\n\x1a\n"
#define LAYOUT_MAJOR 2 /* the newest; a file has 1 unless a setting takes a later one */
#define LAYOUT_MINOR_OF_1 2
#define LAYOUT_MINOR_OF_2 0
/* A file with a tensor in q4 or q5 has the next minor version. */

struct layout_section {
    uint64_t offset, size, checksum; /* XXH3-64 */
};

struct layout_header {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_size; /* of this structure: a later minor version may append to it */
    uint64_t file_size;
    struct layout_section settings, vocabulary, index;
    uint64_t checksum; /* XXH3-64 of everything before this field */
};

struct layout_index {
    uint32_t n_tensor,
        tensor_size; /* number of records, and bytes of each: later versions may make them longer */
    uint32_t n_block, block_size;
    uint32_t names_size;
    uint32_t expanded_block; /* expanded bytes of every block of a tensor but its last */
};

struct layout_tensor {
    uint32_t name_offset, name_length; /* in the names, which follow the records */
    uint32_t type, n_dim;
    uint64_t shape[4]; /* 1 beyond n_dim */
    uint32_t first_block, n_block;
};

struct layout_block {
    uint64_t offset, checksum; /* XXH3-64 of the stored bytes */
    uint32_t stored;           /* bytes in the file */
    uint32_t first_part;       /* BLOCK_PLANES: stored bytes of the exponent plane; else 0 */
    uint32_t encoding;         /* enum block_encoding; only floats have planes */
    uint32_t reserved;         /* 0 */
};

_Static_assert(sizeof(struct layout_header) == 104, "no padding");
_Static_assert(sizeof(struct layout_index) == 24, "no padding");
_Static_assert(sizeof(struct layout_tensor) == 56, "no padding");
_Static_assert(sizeof(struct layout_block) == 32, "no padding");

#endif
