/* Files that appear whole or not at all.  While one is written it has no name, where the system can
 * do that; else a temporary one.  No other user may read it: what it is to replace, or what it is
 * made of, may be private. */
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
#include <sys/xattr.h>
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

/* A mode that no file has. */
enum { UNKNOWN_MODE = 010000 };

enum { PRIVATE = 0600, PUBLIC = 0666 };

/* Finds the mode that the system gives a new file, by the umask or the folder's access list. */
static bool find_mode(struct output_file *out, int file) {
    struct stat info;
    if (fstat(file, &info) != 0)
        return false;
    out->mode = info.st_mode & 07777;
    return true;
}

/* Creates a file of this name where there is none; if its mode is to be found, first an empty one,
 * which anybody may open. */
static bool create(struct output_file *out, const char *name) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    if (out->mode == UNKNOWN_MODE) {
        int empty = open(name, flags, PUBLIC);
        if (empty < 0)
            return false;
        bool found = find_mode(out, empty);
        close(empty);
        unlink(name);
        if (!found)
            return false;
    }
    out->file = open(name, flags, PRIVATE);
    return out->file >= 0;
}

/* Gives the nameless file this name, or creates a file of this name where there is none. */
static bool try_name(struct output_file *out, const char *name) {
    return out->file < 0
               ? create(out, name)
               : linkat(AT_FDCWD, link_of(out->file).path, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

/* A file without a name in the folder; -1 where the system has none, or could not name it later. */
static int open_nameless(const char *folder) {
    int file = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, PUBLIC);
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

/* The folder of the file, to be freed. */
static char *folder_of(const char *target) {
    const char *slash = strrchr(target, '/');
    return slash ? strndup(target, (size_t)(slash - target) + 1) : strdup(".");
}

void output_file_remove_left(const char *path) {
    char *target = output_file_target(path), *folder = target ? folder_of(target) : NULL;
    DIR *listed = folder ? opendir(folder) : NULL;
    const struct dirent *entry;
    const char *slash = target ? strrchr(target, '/') : NULL, *base = slash ? slash + 1 : target;
    while (listed && (entry = readdir(listed)))
        if (is_temporary(entry->d_name, base, strlen(base)))
            remove_left(dirfd(listed), entry->d_name);
    if (listed)
        closedir(listed);
    free(folder);
    free(target);
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
    char *folder = folder_of(out->target);
    if (!folder)
        return txl_fail_memory(error, "a file name", strlen(out->target));
    out->mode = exists ? info.st_mode & 07777 : UNKNOWN_MODE;
    out->file = open_nameless(folder);
    free(folder);
    txl_status status = TXL_OK;
    if (out->file < 0)
        status = take_name(out, error);
    else if (!exists && !find_mode(out, out->file))
        status = fail_output(out, "cannot be created", error);
    if (status)
        return status;
    /* Where there are no locks or modes, nothing is lost without them. */
    flock(out->file, LOCK_EX | LOCK_NB);
    fchmod(out->file, PRIVATE);
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

void output_file_resemble(struct output_file *out, int other) {
    struct stat info;
    if (fstat(other, &info) != 0)
        return;
    bool has_group = fchown(out->file, info.st_uid, info.st_gid) == 0 ||
                     fchown(out->file, (uid_t)-1, info.st_gid) == 0;
    /* With an access list the group's bits are the most that anybody in it has. */
    bool has_list = fgetxattr(other, "system.posix_acl_access", NULL, 0) > 0;
    out->mode = info.st_mode & (has_group && !has_list ? 0777 : 0707);
}

txl_status output_file_finish(struct output_file *out, txl_error *error) {
    if (out->complete)
        return TXL_OK;
    fchmod(out->file, out->mode); /* where there are no modes, nothing is lost */
    if (fsync(out->file) < 0)
        return fail_output(out, "cannot be written", error);
    txl_status status = !out->temporary && !out->keeps_older ? take_name(out, error) : TXL_OK;
    out->complete = !status;
    return status;
}

/* Whether it is the file system that cannot do this. */
static bool is_unsupported(void) {
    return errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
}

/* Puts the file where none is: by a link, which replaces nothing. */
static bool put_new(struct output_file *out) {
    if (!out->temporary)
        return try_name(out, out->target);
    if (link(out->temporary, out->target) == 0) {
        unlink(out->temporary);
        return true;
    }
    return is_unsupported() &&
           renameat2(AT_FDCWD, out->temporary, AT_FDCWD, out->target, RENAME_NOREPLACE) == 0;
}

txl_status output_file_commit(struct output_file *out, txl_error *error) {
    txl_status status = output_file_finish(out, error);
    if (status)
        return status;
    out->committed = out->keeps_older ? put_new(out) : rename(out->temporary, out->target) == 0;
    if (out->committed)
        return TXL_OK;
    if (out->keeps_older && errno == EEXIST)
        return txl_fail(error, TXL_IO, "%s: exists by now, and is left as it is", out->path);
    return fail_output(out, "cannot be put in place", error);
}

txl_status output_file_flush_folder(const char *path, txl_error *error) {
    const struct output_file out = {.path = path};
    char *target = output_file_target(path), *folder = target ? folder_of(target) : NULL;
    int file = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    free(target);
    bool good = file >= 0 && (fsync(file) == 0 || errno == EINVAL); /* EINVAL: it needs none */
    txl_status status =
        good ? TXL_OK : fail_output(&out, "its folder cannot be flushed to the disk", error);
    if (file >= 0)
        close(file);
    return status;
}

void output_file_close(struct output_file *out) {
    if (out->temporary && !out->committed)
        unlink(out->temporary);
    free(out->temporary);
    free(out->target);
    if (out->file >= 0)
        close(out->file);
}
