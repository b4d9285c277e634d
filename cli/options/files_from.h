/* --files-from: reads the names of files from a file, because the length of a command line is
 * limited. */
#ifndef CLI_FILES_FROM_H
#define CLI_FILES_FROM_H

#include "options.h"

/* Appends the names in the file at `path` ("-": standard input) to the operands: each ended by NUL
 * if the file has a NUL, else each on a line; empty names are skipped.  False with the error
 * printed; end with operands_free either way. */
bool files_from_read(const char *path, struct operands *operands);

#endif
