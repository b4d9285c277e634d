/* The files that a training writes belong to it while it runs: another one is refused. */
#ifndef CLI_CLAIM_H
#define CLI_CLAIM_H

#include <stdbool.h>

struct claim {
    char *name; /* of the lock's file; NULL: nothing is claimed */
    int file;
};

/* Claims the file at `path`, which need not exist, by a lock on an empty file beside it.  The lock
 * ends with the process, however that ends.  False with the error printed; nothing is claimed for
 * NULL. */
bool claim_take(struct claim *claim, const char *path);

/* Removes the lock's file. */
void claim_drop(struct claim *claim);

#endif
