/* Lists what can be completed. */
#include "candidates.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void candidates_add(struct candidates *c, const char *name, const char *end) {
    if (strncmp(name, c->typed, c->length) != 0)
        return;
    if (c->n == c->capacity) {
        size_t capacity = 2 * c->capacity + 16;
        char **names = reallocarray(c->names, capacity, sizeof *names);
        if (!names)
            return;
        c->names = names;
        c->capacity = capacity;
    }
    if (asprintf(&c->names[c->n], "%s%s", name, end) >= 0)
        c->n++;
}

/* Adds a file of the folder, whose path, `folder`, ends with a slash or is empty. */
static void add_file(struct candidates *c, const char *folder, const char *name) {
    struct stat status;
    char *path;
    const char *typed = c->typed + strlen(folder);
    bool hidden = name[0] == '.' && c->typed + c->length == typed; /* only if the . was typed */
    if (hidden || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        asprintf(&path, "%s%s", folder, name) < 0)
        return;
    bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    candidates_add(c, path, is_folder ? "/" : "");
    free(path);
}

void candidates_add_files(struct candidates *c) {
    const char *slash = memrchr(c->typed, '/', c->length);
    char *folder = strndup(c->typed, slash ? (size_t)(slash + 1 - c->typed) : 0);
    DIR *directory = folder ? opendir(*folder ? folder : ".") : NULL;
    const struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        add_file(c, folder, entry->d_name);
    if (directory)
        closedir(directory);
    free(folder);
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t candidates_common(struct candidates *c) {
    if (c->n == 0)
        return 0;
    qsort(c->names, c->n, sizeof *c->names, compare);
    const char *first = c->names[0], *last = c->names[c->n - 1];
    size_t n = 0;
    while (first[n] && first[n] == last[n])
        n++;
    while (n > 0 && first[n] && ((unsigned char)first[n] & 0xc0) == 0x80)
        n--; /* no part of a character */
    return n;
}

void candidates_free(struct candidates *c) {
    for (size_t i = 0; i < c->n; i++)
        free(c->names[i]);
    free(c->names);
    *c = (struct candidates){0};
}
