/* The file of a training's state: a header with the sizes and checksums of its parts, and the
 * parts. weights-format.md specifies it. */
#ifndef TXL_SAVED_FILE_H
#define TXL_SAVED_FILE_H

#include "lib/base/files.h"
#include "lib/base/output_file.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Version 2 has an ext_len, which readers of version 1 do not know. */
enum { SAVED_MAJOR = 1, SAVED_MAJOR_EXT_LEN = 2 };

enum saved_part {
    PART_DESCRIPTION,
    PART_VOCABULARY,
    PART_WEIGHTS,
    PART_MOMENTS,
    PART_KEPT,
    PART_MEMORY,
    N_PART
};

struct saved_header {
    uint8_t magic[8];
    uint16_t major, minor;
    uint32_t header_size;
    uint64_t file_size;
    struct {
        uint64_t size, checksum; /* XXH3 */
    } part[N_PART];
    uint64_t checksum; /* of everything before */
};

/* ---- Writing ------------------------------------------------------------------------------ */

struct saved_writer {
    struct output_file out;
    struct saved_header header;
    uint64_t end;
};

/* A part of the file consists of one or more pieces of memory. */
struct saved_piece {
    const void *data;
    size_t size;
};

/* Begins a file of version 1; the writer may set another in the header.  Call saved_end afterwards,
 * after a failure too. */
txl_status saved_begin(struct saved_writer *w, const char *path, txl_error *error);

/* Writes the parts one by one, in their order. */
txl_status saved_write_part(struct saved_writer *w, enum saved_part part,
                            const struct saved_piece *piece, size_t n, txl_error *error);

/* Puts the file in place, unless `status` is a failure, which it returns. */
txl_status saved_end(struct saved_writer *w, txl_status status, txl_error *error);

/* ---- Reading ------------------------------------------------------------------------------ */

struct saved_file {
    struct mapped_file mapped;
    struct saved_header header;
    const uint8_t *part[N_PART];
};

/* Maps the file, and checks the sizes and checksums of header and parts.  End with
 * saved_file_close, after a failure too. */
txl_status saved_file_open(struct saved_file *s, const char *path, txl_error *error);
void saved_file_close(struct saved_file *s);

/* Says what is wrong with the file. */
txl_status saved_damaged(const struct saved_file *s, const char *what, txl_error *error);

/* Says why reading or unpacking its description failed: a member is missing or wrong, or memory is
 * short. */
txl_status saved_not_unpacked(const struct saved_file *s, json_error_t *where, txl_error *error);

#endif
