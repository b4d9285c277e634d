/* Locks on the files that a training writes, so that no other training writes them too. */
#ifndef CLI_TRAIN_LOCK_H
#define CLI_TRAIN_LOCK_H

#include <stdbool.h>

/* A lock on a file beside one that a training replaces: a file that is replaced as a whole cannot
 * keep a lock itself. */
struct lock {
    char *name; /* of the lock's file; NULL: nothing is locked */
    int file;
};

/* Locks the file at `path`, which need not exist, by an empty file beside it.  The lock ends with
 * the process, however that ends.  False with the error printed; NULL locks nothing. */
bool lock_take(struct lock *lock, const char *path);

/* Removes the lock's file. */
void lock_drop(struct lock *lock);

#endif
