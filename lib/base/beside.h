/* Where the authors' downloads have what belongs to a checkpoint: beside its files, or, for a
 * folder model/, in the folder data/ next to it. */
#ifndef TXL_BESIDE_H
#define TXL_BESIDE_H

#include "txl.h"

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

#endif
