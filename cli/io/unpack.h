/* Expands gzip and zstd data piece by piece, in constant memory: any number of members or frames,
 * as gzip -c and zstd -c append them. */
#ifndef CLI_UNPACK_H
#define CLI_UNPACK_H

#include <stddef.h>
#include <sys/types.h>

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

/* Gives the next bytes of the packed data: their number, 0 at the end, -1 after a failure. */
typedef ssize_t (*unpack_source)(void *context, char *buffer, size_t size);

/* The most bytes that may be read before an unpacker is made. */
enum { UNPACK_FIRST = 1 << 16 };

struct unpacker;

/* What the first bytes of a file say. */
enum packing unpack_packing(const char *first, size_t n);

/* `first`: the n bytes that the data begin with, as far as they are read.  NULL: no memory. */
struct unpacker *unpacker_new(enum packing packing, const char *first, size_t n);
void unpacker_free(struct unpacker *unpacker);

/* Expands the next bytes, of data that `source` gives after the first ones: their number; 0 at the
 * end; -1 after a failure of the source; -2 if the data are damaged, with the reason in `*problem`,
 * which lives as long as the unpacker. */
ssize_t unpacker_read(struct unpacker *unpacker, unpack_source source, void *context, char *buffer,
                      size_t size, const char **problem);

#endif
