/* Locks on the files that a training writes. */
#include "lock.h"

#include "cli/io/terminal.h"
#include "lib/base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* "FILE.lock", with links of FILE followed. */
static char *lock_name(const char *path) {
    char *target = output_file_target(path), *name = NULL;
    if (target && asprintf(&name, "%s.lock", target) < 0)
        name = NULL;
    free(target);
    return name;
}

/* Whether the open file still has its name: another process may have removed it. */
static bool has_name(int file, const char *name) {
    struct stat opened, named;
    return fstat(file, &opened) == 0 && stat(name, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

bool lock_take(struct lock *lock, const char *path) {
    *lock = (struct lock){.file = -1};
    if (!path)
        return true;
    char *name = lock_name(path);
    if (!name)
        return terminal_error("%s: %s", path, strerror(errno));
    lock->name = name;
    do {
        if (lock->file >= 0)
            close(lock->file);
        lock->file = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (lock->file >= 0 && flock(lock->file, LOCK_EX | LOCK_NB) == 0)
            continue;
        if (lock->file >= 0 && errno != EWOULDBLOCK)
            return true; /* a file system without locks */
        if (lock->file < 0) {
            terminal_error("%s: %s", name, strerror(errno));
        } else {
            terminal_error("%s: another training writes this file", path);
            close(lock->file);
        }
        free(name);
        lock->name = NULL;
        return false;
    } while (!has_name(lock->file, name));
    return true;
}

void lock_drop(struct lock *lock) {
    struct stat info;
    if (!lock->name)
        return;
    /* A file of this name that is not empty is somebody's own. */
    if (fstat(lock->file, &info) == 0 && info.st_size == 0)
        unlink(lock->name);
    close(lock->file);
    free(lock->name);
    *lock = (struct lock){.file = -1};
}
