/* Where the authors' downloads have what belongs to a checkpoint: beside its files, or, for a
 * folder model/, in the folder data/ next to it. */
#ifndef TXL_BESIDE_H
#define TXL_BESIDE_H

#include <stddef.h>

enum { BESIDE_N = 4 };

/* The bytes of a file's path that name its folder, with the slash; 0: the working folder. */
size_t beside_folder_length(const char *path);

/* Place i of BESIDE_N, in the order in which they are looked into, for files in the folder of that
 * name: "" or with a slash at its end, as the result is, which the caller frees.  NULL: out of
 * memory. */
char *beside(const char *folder, size_t length, size_t i);

#endif
