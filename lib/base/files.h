/* Files that are read: mapped whole, and found beside a checkpoint. */
#ifndef TXL_BASE_FILES_H
#define TXL_BASE_FILES_H

#include "txl.h"

#include <stdbool.h>
#include <string.h>

/* Opens a file to be mapped, or read in parts.  It must be a regular file, so that its size is
 * known and reading never waits. */
/* Opens the regular file at `path` for reading.  Anything else is refused (TXL_IO), and at once: a
 * pipe without a writer does not make the caller wait.  The caller closes *file. */
txl_status regular_file_open(const char *path, int *file, uint64_t *size, txl_error *error);

struct mapped_file {
    char *path;
    int fd; /* stays open, to see whether the file has become shorter */
    const unsigned char *data;
    uint64_t size; /* never 0 */
    bool sparse;   /* see mapped_file_set_sparse */
};

/* Maps the regular file at `path`; an empty one is refused (TXL_FORMAT). */
txl_status mapped_file_open(const char *path, struct mapped_file *file, txl_error *error);

/* Unmaps what mapped_file_open filled; a zeroed struct is fine. */
void mapped_file_close(struct mapped_file *file);

/* Fails if the file has become shorter than it was when mapped: reading on would be a SIGBUS. */
txl_status mapped_file_check(const struct mapped_file *file, txl_error *error);

/* Lets the system take back the memory of the pages that lie wholly in these bytes of the map.
 * They may be read again, from the disk. */
void mapped_file_release(const unsigned char *start, uint64_t size);

/* Most of the file will not be read: pages that are touched bring in no others around them.
 * mapped_file_expect tells of bytes that are about to be read, and does nothing with other files.
 */
void mapped_file_set_sparse(struct mapped_file *file);
void mapped_file_expect(const struct mapped_file *file, const unsigned char *start, uint64_t size);

/* Whether both paths lead to one file. */
bool mapped_file_same(const char *path, const char *other);

/* Where the authors' downloads have what belongs to a checkpoint: beside its files, or, for a
 * folder model/, in the folder data/ next to it. */

enum { BESIDE_N = 4 };

/* The bytes of a file's path that name its folder, with the slash; 0: the working folder. */
size_t beside_folder_length(const char *path);

/* Place i of BESIDE_N, in the order in which they are looked into, for files in the folder of that
 * name: "" or with a slash at its end, as the result is, which the caller frees.  NULL: out of
 * memory. */
char *beside(const char *folder, size_t length, size_t i);

/* Finds the first of the n names that is there, in the first place that has one: its path, which
 * the caller frees, or NULL. */
txl_status beside_find(const char *folder, size_t length, const char *const *names, size_t n,
                       bool (*is_there)(const char *path), char **found, txl_error *error);

/* Whether a text ends in another. */

static inline bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && memcmp(text + length - tail, end, tail) == 0;
}

#endif
