/* Files that appear whole or not at all.  While one is written it has no name, where the system can
 * do that; else a temporary one. */
#include "output_file.h"
#include "error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A temporary name is the target's, a dot, the process, a number and this. */
#define TEMPORARY ".partial"

static txl_status fail_output(const struct output_file *out, const char *doing, txl_error *error) {
    return txl_fail(error, errno == ENOMEM ? TXL_MEMORY : TXL_IO, "%s: %s: %s", out->path, doing,
                    strerror(errno));
}

/* By this link the file gets a name. */
struct handle_link {
    char path[32];
};

static struct handle_link link_of(int file) {
    struct handle_link link;
    snprintf(link.path, sizeof link.path, "/proc/self/fd/%d", file);
    return link;
}

/* Gives the nameless file this name, or creates a file of this name where there is none. */
static bool try_name(struct output_file *out, const char *name) {
    if (out->file < 0) {
        out->file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        return out->file >= 0;
    }
    return linkat(AT_FDCWD, link_of(out->file).path, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

/* A file without a name in the folder; -1 where the system has none, or could not name it later. */
static int open_nameless(const char *folder) {
    int file = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (file >= 0 && access(link_of(file).path, F_OK) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static txl_status take_name(struct output_file *out, txl_error *error) {
    size_t size = strlen(out->target) + 32;
    char *name = malloc(size);
    if (!name)
        return txl_fail_memory(error, "a file name", size);
    for (int i = 0; i < 100; i++) {
        snprintf(name, size, "%s.%ld-%d" TEMPORARY, out->target, (long)getpid(), i);
        if (try_name(out, name)) {
            out->temporary = name;
            return TXL_OK;
        }
        if (errno != EEXIST)
            break;
    }
    free(name);
    return fail_output(out, "cannot be created", error);
}

/* Whether the name is a temporary one of the file `base`. */
static bool is_temporary(const char *name, const char *base, size_t length) {
    int end = 0;
    if (strncmp(name, base, length) != 0)
        return false;
    return sscanf(name + length, ".%*[0-9]-%*[0-9]" TEMPORARY "%n", &end) == 0 && end > 0 &&
           name[length + (size_t)end] == '\0';
}

/* Removes a file that a dead process left.  A writer locks its file a moment after it is made, so
 * new files stay. */
static void remove_left(int folder, const char *name) {
    const time_t moment = 60;
    struct stat info;
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_mtime + moment < time(NULL) &&
        flock(file, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(file);
}

static void remove_left_files(const char *folder, const char *base) {
    size_t length = strlen(base);
    const struct dirent *entry;
    DIR *listed = opendir(folder);
    if (!listed)
        return;
    while ((entry = readdir(listed)))
        if (is_temporary(entry->d_name, base, length))
            remove_left(dirfd(listed), entry->d_name);
    closedir(listed);
}

/* Where the link leads, from the folder that it stands in; NULL: out of memory, or no link. */
static char *read_link(const char *path) {
    char to[PATH_MAX], *joined = NULL;
    ssize_t length = readlink(path, to, sizeof to);
    const char *slash = strrchr(path, '/');
    int folder = length > 0 && *to != '/' && slash ? (int)(slash - path) + 1 : 0;
    if (length <= 0 || asprintf(&joined, "%.*s%.*s", folder, path, (int)length, to) < 0)
        return NULL;
    return joined;
}

char *output_file_target(const char *path) {
    enum { MAX_LINKS = 40 }; /* as the kernel's */
    struct stat info;
    if (stat(path, &info) == 0)
        return realpath(path, NULL);
    char *target = strdup(path);
    for (int i = 0; target && lstat(target, &info) == 0 && S_ISLNK(info.st_mode); i++) {
        char *next = i < MAX_LINKS ? read_link(target) : NULL;
        errno = i < MAX_LINKS ? errno : ELOOP;
        free(target);
        target = next;
    }
    return target;
}

txl_status output_file_open(struct output_file *out, const char *path, txl_error *error) {
    *out = (struct output_file){.path = path, .file = -1};
    struct stat info;
    bool exists = stat(path, &info) == 0;
    if (exists && !S_ISREG(info.st_mode))
        return txl_fail(error, TXL_IO, "%s: exists and is not a regular file", path);
    out->target = output_file_target(path);
    if (!out->target)
        return fail_output(out, "cannot be created", error);
    const char *slash = strrchr(out->target, '/');
    char *folder = slash ? strndup(out->target, (size_t)(slash - out->target) + 1) : strdup(".");
    if (!folder)
        return txl_fail_memory(error, "a file name", strlen(out->target));
    remove_left_files(folder, slash ? slash + 1 : out->target);
    out->file = open_nameless(folder);
    free(folder);
    txl_status status = out->file < 0 ? take_name(out, error) : TXL_OK;
    if (status)
        return status;
    /* Where there are no locks or modes, nothing is lost without them. */
    flock(out->file, LOCK_EX | LOCK_NB);
    if (exists)
        fchmod(out->file, info.st_mode & 07777);
    return TXL_OK;
}

txl_status output_file_write(struct output_file *out, const void *data, size_t size,
                             uint64_t offset, txl_error *error) {
    const char *bytes = data;
    while (size > 0) {
        ssize_t n = pwrite(out->file, bytes, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_output(out, "cannot be written", error);
        bytes += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return TXL_OK;
}

txl_status output_file_commit(struct output_file *out, txl_error *error) {
    if (fsync(out->file) < 0)
        return fail_output(out, "cannot be written", error);
    if (!out->temporary) {
        txl_status status = take_name(out, error);
        if (status)
            return status;
    }
    if (rename(out->temporary, out->target) < 0)
        return fail_output(out, "cannot be renamed into place", error);
    out->committed = true;
    return TXL_OK;
}

void output_file_close(struct output_file *out) {
    if (out->temporary && !out->committed)
        unlink(out->temporary);
    free(out->temporary);
    free(out->target);
    if (out->file >= 0)
        close(out->file);
}
