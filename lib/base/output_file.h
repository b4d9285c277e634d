/* A file that appears whole or not at all: it has no name, or a temporary one, until it is complete
 * and flushed to the disk, and then takes the place of an older file of its path, and its mode. */
#ifndef TXL_OUTPUT_FILE_H
#define TXL_OUTPUT_FILE_H

#include "txl.h"

#include <stdbool.h>

struct output_file {
    const char *path; /* the caller's */
    char *target;     /* `path` with links followed: the file is replaced, its links stay */
    int file;         /* -1: not open */
    char *temporary;  /* its name until it is committed; NULL while it has no name */
    bool committed;
};

/* `path` with links followed, also to a file that does not exist yet; to be freed.  NULL, with
 * errno: out of memory, or links without an end. */
char *output_file_target(const char *path);

/* Begins a new file for `path`, which must live as long as *out, and removes temporary files that a
 * process left there when it was killed.  Call output_file_close afterwards, after a failure too.
 */
txl_status output_file_open(struct output_file *out, const char *path, txl_error *error);

/* Writes data[size] at `offset`, in bytes from the file's beginning. */
txl_status output_file_write(struct output_file *out, const void *data, size_t size,
                             uint64_t offset, txl_error *error);

/* Flushes the file to the disk and gives it its name, in the place of an older file. */
txl_status output_file_commit(struct output_file *out, txl_error *error);

/* Closes the file.  If it was not committed nothing of it is left, and an older file stays. */
void output_file_close(struct output_file *out);

#endif
