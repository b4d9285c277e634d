/* Finds vocabularies and settings beside a checkpoint; opens neither. */
#include "beside.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
