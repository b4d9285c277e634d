/* Files that appear whole or not at all: nameless while they are written, where the system can do
 * that. */
#include "output_file.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static txl_status fail(const struct output_file *out, const char *doing, txl_error *error) {
    return txl_fail(error, errno == ENOMEM ? TXL_MEMORY : TXL_IO, "%s: %s: %s", out->path, doing,
                    strerror(errno));
}

txl_status output_file_open(struct output_file *out, const char *path, txl_error *error) {
    *out = (struct output_file){.path = path, .file = -1};
    struct stat info;
    bool exists = stat(path, &info) == 0;
    if (exists && !S_ISREG(info.st_mode))
        return txl_fail(error, TXL_IO, "%s: exists and is not a regular file", path);
    out->target = exists ? realpath(path, NULL) : strdup(path);
    if (!out->target)
        return fail(out, "cannot be created", error);
    const char *slash = strrchr(out->target, '/');
    char *folder = slash ? strndup(out->target, (size_t)(slash - out->target) + 1) : strdup(".");
    size_t size = strlen(out->target) + sizeof ".XXXXXX";
    char *temporary = malloc(size);
    if (!folder || !temporary) {
        free(folder);
        free(temporary);
        return txl_fail_memory(error, "a file name", size);
    }
    snprintf(temporary, size, "%s.XXXXXX", out->target);
    out->file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    free(folder);
    if (out->file < 0) {
        out->file = mkostemp(temporary, O_CLOEXEC);
        if (out->file >= 0) {
            mode_t mask = umask(0);
            umask(mask);
            fchmod(out->file, 0666 & ~mask);
            out->temporary = temporary;
            return TXL_OK;
        }
    }
    free(temporary);
    return out->file < 0 ? fail(out, "cannot be created", error) : TXL_OK;
}

txl_status output_file_write(struct output_file *out, const void *data, size_t size,
                             uint64_t offset, txl_error *error) {
    const char *bytes = data;
    while (size > 0) {
        ssize_t n = pwrite(out->file, bytes, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(out, "cannot be written", error);
        bytes += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return TXL_OK;
}

/* Gives a nameless file a temporary name. */
static txl_status give_name(struct output_file *out, txl_error *error) {
    char from[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", out->file);
    size_t size = strlen(out->target) + 32;
    char *name = malloc(size);
    if (!name)
        return txl_fail_memory(error, "a file name", size);
    for (int i = 0; i < 100; i++) {
        snprintf(name, size, "%s.%ld-%d", out->target, (long)getpid(), i);
        if (linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
            out->temporary = name;
            return TXL_OK;
        }
        if (errno != EEXIST)
            break;
    }
    free(name);
    return fail(out, "cannot be created", error);
}

txl_status output_file_commit(struct output_file *out, txl_error *error) {
    if (fsync(out->file) < 0)
        return fail(out, "cannot be written", error);
    if (!out->temporary) {
        txl_status status = give_name(out, error);
        if (status)
            return status;
    }
    if (rename(out->temporary, out->target) < 0)
        return fail(out, "cannot be renamed into place", error);
    free(out->temporary);
    out->temporary = NULL;
    return TXL_OK;
}

void output_file_close(struct output_file *out) {
    if (out->temporary)
        unlink(out->temporary);
    free(out->temporary);
    free(out->target);
    if (out->file >= 0)
        close(out->file);
}
