/* Files that are read: mapped whole, and found beside a checkpoint. */
#include "files.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps regular files for reading, and never anything else. */
static txl_status check_regular(const char *path, int file, uint64_t *size, txl_error *error) {
    struct stat about;
    if (fstat(file, &about) != 0)
        return txl_fail(error, TXL_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return txl_fail(error, TXL_IO, "%s: Is a directory", path);
    if (!S_ISREG(about.st_mode))
        return txl_fail(error, TXL_IO, "%s: not a regular file", path);
    *size = (uint64_t)about.st_size;
    return TXL_OK;
}

txl_status regular_file_open(const char *path, int *file, uint64_t *size, txl_error *error) {
    /* O_NONBLOCK: opening a pipe must not wait for its writer. */
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return txl_fail(error, TXL_IO, "%s: %s", path, strerror(errno));
    txl_status status = check_regular(path, opened, size, error);
    if (status)
        close(opened);
    else
        *file = opened;
    return status;
}

txl_status mapped_file_open(const char *path, struct mapped_file *file, txl_error *error) {
    *file = (struct mapped_file){.fd = -1};
    file->path = strdup(path);
    if (!file->path)
        return txl_fail_memory(error, "a file name", strlen(path) + 1);
    txl_status status = regular_file_open(path, &file->fd, &file->size, error);
    if (!status && file->size == 0)
        status = txl_fail(error, TXL_FORMAT, "%s: the file is empty; make or fetch it again", path);
    if (!status) {
        void *data = mmap(NULL, (size_t)file->size, PROT_READ, MAP_SHARED, file->fd, 0);
        if (data != MAP_FAILED)
            file->data = data;
        else
            status = txl_fail(error, TXL_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    }
    if (status)
        mapped_file_close(file);
    return status;
}

void mapped_file_close(struct mapped_file *file) {
    if (!file->path)
        return;
    if (file->data)
        munmap((void *)file->data, (size_t)file->size);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    *file = (struct mapped_file){.fd = -1};
}

txl_status mapped_file_check(const struct mapped_file *file, txl_error *error) {
    struct stat about;
    if (fstat(file->fd, &about) != 0)
        return txl_fail(error, TXL_IO, "%s: %s", file->path, strerror(errno));
    if (about.st_size < 0 || (uint64_t)about.st_size < file->size)
        return txl_fail(error, TXL_IO,
                        "%s: shrank from %" PRIu64 " to %" PRIu64 " bytes while it was read",
                        file->path, file->size, (uint64_t)about.st_size);
    return TXL_OK;
}

void mapped_file_release(const unsigned char *start, uint64_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)start + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)start + size) & ~(page - 1);
    if (first < end)
        madvise((void *)first, end - first, MADV_DONTNEED);
}

void mapped_file_set_sparse(struct mapped_file *file) {
    file->sparse = madvise((void *)file->data, (size_t)file->size, MADV_RANDOM) == 0;
}

void mapped_file_expect(const struct mapped_file *file, const unsigned char *start, uint64_t size) {
    enum { ASKED = 1 << 17 }; /* more at once may be cut to the device's usual request */
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t end = (uintptr_t)start + size;
    for (uintptr_t at = (uintptr_t)start & ~(page - 1); file->sparse && at < end; at += ASKED)
        madvise((void *)at, end - at < ASKED ? end - at : ASKED, MADV_WILLNEED);
}

bool mapped_file_same(const char *path, const char *other) {
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* Finds vocabularies and settings beside a checkpoint; opens neither. */

size_t beside_folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The length of the folder's parent by its name, which is not the one that `..` leads to where the
 * folder is a link; the folder's own if the name does not tell. */
static size_t parent_length(const char *folder, size_t length) {
    size_t end = length;
    while (end > 0 && folder[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && folder[begin - 1] != '/')
        begin--;
    const char *name = folder + begin;
    const bool dots = (end - begin == 1 && name[0] == '.') ||
                      (end - begin == 2 && name[0] == '.' && name[1] == '.');
    return begin == end || dots ? length : begin;
}

char *beside(const char *folder, size_t length, size_t i) {
    static const char *const places[BESIDE_N] = {"", "data/", "../data/", "data/"};
    const char *place = places[i];
    if (i == 1) {
        size_t parent = parent_length(folder, length);
        place = parent == length ? "../data/" : place;
        length = parent;
    }
    char *path = NULL;
    return asprintf(&path, "%.*s%s", (int)length, folder, place) < 0 ? NULL : path;
}

txl_status beside_find(const char *folder, size_t length, const char *const *names, size_t n,
                       bool (*is_there)(const char *path), char **found, txl_error *error) {
    *found = NULL;
    for (size_t i = 0; i < BESIDE_N * n; i++) {
        char *place = beside(folder, length, i / n), *path = NULL;
        const bool made = place && asprintf(&path, "%s%s", place, names[i % n]) >= 0;
        free(place);
        if (!made)
            return txl_fail_memory(error, "a file name", length);
        if (is_there(path)) {
            *found = path;
            return TXL_OK;
        }
        free(path);
    }
    return TXL_OK;
}
