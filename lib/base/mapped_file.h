/* A file of somebody else's, mapped for reading. */
#ifndef TXL_MAPPED_FILE_H
#define TXL_MAPPED_FILE_H

#include "txl.h"

struct mapped_file {
    char *path;
    int fd;
    const unsigned char *data;
    uint64_t size; /* never 0 */
};

/* Maps the regular file at `path`; an empty one is refused. */
txl_status mapped_file_open(const char *path, struct mapped_file *file, txl_error *error);

/* Unmaps what mapped_file_open filled; a zeroed struct is fine. */
void mapped_file_close(struct mapped_file *file);

/* Fails if the file has become shorter than it was when mapped: reading on would be a SIGBUS. */
txl_status mapped_file_check(const struct mapped_file *file, txl_error *error);

/* Lets the system take back the memory of the pages that lie wholly in these bytes of the map.
 * They may be read again, from the disk. */
void mapped_file_release(const unsigned char *start, uint64_t size);

/* Whether both paths lead to one file. */
bool mapped_file_same(const char *path, const char *other);

#endif
