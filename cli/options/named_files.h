/* The files that a command line names, and what may be written where.  One rule for all commands:
 *
 *     No output is the same regular file as an input, the model or another output, whatever links
 *     lead to it, and each output can be created.  This is known before any work is done.
 *
 * Standard output and error are not named: the shell has opened them.  But an output that leads to
 * one of them, such as /dev/stdout, is an output like another. */
#ifndef CLI_NAMED_FILES_H
#define CLI_NAMED_FILES_H

#include <stdbool.h>
#include <stddef.h>

enum file_use {
    FILE_NONE,    /* not a file's name */
    FILE_READ,    /* "-" is standard input */
    FILE_MODEL,   /* of tables alone: a weights file to read, or BUILT_IN, which names no file */
    FILE_WHOLE,   /* renamed into place when it is complete: a regular file, or a new one */
    FILE_PRODUCT, /* the same, and it may be the regular file that standard output is */
    FILE_STREAM   /* written from the start: a FIFO or device too; "-" is standard output */
};

struct named_file {
    enum file_use use;
    const char *dashes; /* before the role: "--" of an option, else "" */
    const char *role;   /* what the command line names it by: "report", "FILE" */
    const char *path;
    const char *over; /* the role of the input that this output may replace; NULL: none */
};

/* Whether the rule holds for files[n] and, as an input, for standard input.  Prints the error if
 * not.  If it does, what a killed process left beside the outputs is removed. */
bool named_files_check(const struct named_file *files, size_t n);

#endif
