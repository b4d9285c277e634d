/* --files-from: reads the names of files from a file, because a command line holds only so many. */
#ifndef CLI_FILES_FROM_H
#define CLI_FILES_FROM_H

#include "options.h"

/* Appends the names in the file at `path` ("-": standard input) to the operands: ended by NUL if
 * there is one in it, else a line each; empty ones do not count.  False with the error printed; end
 * with operands_free either way. */
bool files_from_read(const char *path, struct operands *operands);

#endif
