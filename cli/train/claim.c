/* Locks on files beside those that a training replaces: a file that is replaced as a whole cannot
 * keep a lock itself. */
#include "claim.h"

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

bool claim_take(struct claim *claim, const char *path) {
    *claim = (struct claim){.file = -1};
    if (!path)
        return true;
    char *name = lock_name(path);
    if (!name)
        return terminal_error("%s: %s", path, strerror(errno));
    claim->name = name;
    do {
        if (claim->file >= 0)
            close(claim->file);
        claim->file = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (claim->file >= 0 && flock(claim->file, LOCK_EX | LOCK_NB) == 0)
            continue;
        if (claim->file >= 0 && errno != EWOULDBLOCK)
            return true; /* a file system without locks */
        if (claim->file < 0) {
            terminal_error("%s: %s", name, strerror(errno));
        } else {
            terminal_error("%s: another training writes this file", path);
            close(claim->file);
        }
        free(name);
        claim->name = NULL;
        return false;
    } while (!has_name(claim->file, name));
    return true;
}

void claim_drop(struct claim *claim) {
    struct stat info;
    if (!claim->name)
        return;
    /* A file of this name that is not empty is somebody's own. */
    if (fstat(claim->file, &info) == 0 && info.st_size == 0)
        unlink(claim->name);
    close(claim->file);
    free(claim->name);
    *claim = (struct claim){.file = -1};
}
