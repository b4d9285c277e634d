/* A file that appears whole or not at all: it has no name, or a temporary one, until it is complete
 * and flushed to the disk, and then takes the place of an older file of its path, and its mode.
 * Until then only its owner may read it.
 *
 * The rule for all files that txl is told to write:
 *
 *     An output is put in place whole, and only when nothing that it depends on has failed.
 *
 * - Outputs of one run of a command that come of the same work are put in place together, at its
 *   end (outfiles_commit in cli/io/output.h): one that fails, standard output too, leaves all
 *   older ones.
 * - A FILE that is skipped is no failure.  Ctrl-C, where a command promises what there is until
 *   then, is an end.  So is each evaluation of a training, which puts the best model in place; its
 *   state, log and report fail each for itself, as the next save may make it good.
 * - compress and decompress replace a file only if they are told to, and take owner, group and mode
 *   of the source. */
#ifndef TXL_OUTPUT_FILE_H
#define TXL_OUTPUT_FILE_H

#include "txl.h"

#include <stdbool.h>
#include <sys/stat.h>

struct output_file {
    const char *path; /* the caller's */
    char *target;     /* `path` with links followed: the file is replaced, its links stay */
    int file;         /* -1: not open */
    char *temporary;  /* its name until it is committed; NULL while it has no name */
    mode_t mode;      /* that it gets at the end */
    bool keeps_older; /* set by the caller: where there is a file by then, the commit fails */
    bool complete, committed;
};

/* `path` with links followed, also to a file that does not exist yet; to be freed.  NULL, with
 * errno: out of memory, or links without an end. */
char *output_file_target(const char *path);

/* Removes the temporary files that a process left beside `path` when it was killed. */
void output_file_remove_left(const char *path);

/* Starts a new file for `path`, which must live as long as *out.  Call output_file_close
 * afterwards, after a failure too. */
txl_status output_file_open(struct output_file *out, const char *path, txl_error *error);

/* Writes data[size] at `offset`, in bytes from the file's beginning. */
txl_status output_file_write(struct output_file *out, const void *data, size_t size,
                             uint64_t offset, txl_error *error);

/* Gives the file owner, group and mode of the open file `other`, as far as this process may.  Where
 * the group cannot be kept, or there is an access list, the group gets no rights. */
void output_file_resemble(struct output_file *out, int other);

/* Flushes the file to the disk.  Nothing but its place is missing then. */
txl_status output_file_finish(struct output_file *out, txl_error *error);

/* The same, and gives it its name, in the place of an older file. */
txl_status output_file_commit(struct output_file *out, txl_error *error);

/* Flushes the folder of a committed file to the disk, so that its name outlives a loss of power. */
txl_status output_file_flush_folder(const char *path, txl_error *error);

/* Closes the file.  If it was not committed nothing of it is left, and an older file stays. */
void output_file_close(struct output_file *out);

#endif
