/* Compares files by device and inode; those that do not exist yet, by their folder and name. */
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "lib/base/output_file.h"
#include "options.h"
#include "own_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The place that a path leads to. */
struct place {
    bool exists;       /* `about` describes the file; else the folder in which it would be made */
    char *target;      /* its path with links followed; NULL: a standard stream, or not to be had */
    struct stat about; /* inode 0: there is no such folder either */
};

/* The part of the path after the last slash. */
static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The folder of the path; NULL: out of memory. */
static char *folder_of(const char *path) {
    size_t length = (size_t)(last_part(path) - path);
    return length > 0 ? strndup(path, length) : strdup(".");
}

static bool is_standard(const struct named_file *file) {
    return strcmp(file->path, "-") == 0 && (file->use == FILE_READ || file->use == FILE_STREAM);
}

static struct place locate(const struct named_file *file) {
    struct place place = {.exists = true};
    if (is_standard(file)) {
        int handle = file->use == FILE_READ ? STDIN_FILENO : STDOUT_FILENO;
        place.exists = fstat(handle, &place.about) == 0;
        return place;
    }
    place.target = output_file_target(file->path);
    if (stat(file->path, &place.about) == 0)
        return place;
    char *folder = place.target ? folder_of(place.target) : NULL;
    place.exists = false;
    if (!folder || stat(folder, &place.about) != 0)
        place.about.st_ino = 0;
    free(folder);
    return place;
}

static bool same_inode(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_same(const struct place *a, const struct place *b) {
    if (a->exists != b->exists || a->about.st_ino == 0 || !same_inode(&a->about, &b->about))
        return false;
    return a->exists || strcmp(last_part(a->target), last_part(b->target)) == 0;
}

static bool is_regular(const struct place *place) {
    return place->exists && S_ISREG(place->about.st_mode);
}

static bool is_written(const struct named_file *file) {
    return file->use == FILE_WHOLE || file->use == FILE_PRODUCT || file->use == FILE_STREAM;
}

/* ---- One output --------------------------------------------------------------------------- */

static bool cannot_write(const struct named_file *file, int error) {
    return terminal_error("%s: cannot be written: %s", file->path, strerror(error));
}

/* The new file is made beside the one that it replaces: in the folder of a link's target, which is
 * replaced, not the link. */
static bool can_replace(const struct named_file *file, const struct place *place) {
    if (!place->target)
        return cannot_write(file, ELOOP);
    char *folder = folder_of(place->target);
    bool good = folder && access(folder, W_OK | X_OK) == 0;
    int error = errno;
    free(folder);
    if (good && !place->exists && *last_part(place->target) == '\0') {
        good = false;
        error = EISDIR;
    }
    return good || cannot_write(file, error);
}

static bool can_write(const struct named_file *file, const struct place *place) {
    int standard = is_regular(place) ? output_standard_handle(&place->about) : -1;
    if (place->exists && file->use != FILE_STREAM && !S_ISREG(place->about.st_mode))
        return terminal_error("%s: exists and is not a regular file", file->path);
    if (standard >= 0 && file->use == FILE_WHOLE) {
        return terminal_error("%s: standard %s goes to this file, which %s%s would replace; name "
                              "another",
                              file->path, standard == STDOUT_FILENO ? "output" : "error",
                              file->dashes, file->role);
    }
    if (standard >= 0 && file->use == FILE_STREAM)
        return true;
    if (place->exists && S_ISDIR(place->about.st_mode))
        return cannot_write(file, EISDIR);
    if (!place->exists || is_regular(place))
        return can_replace(file, place);
    return is_standard(file) || access(file->path, W_OK) == 0 || cannot_write(file, errno);
}

/* ---- Two files ---------------------------------------------------------------------------- */

static bool is_null_device(const struct place *place) {
    return S_ISCHR(place->about.st_mode) && place->about.st_rdev == makedev(1, 3);
}

/* Two names of one terminal do no harm, as /dev/stdout and /dev/stderr may be. */
static bool do_collide(const struct named_file *a, const struct place *at_a,
                       const struct named_file *b, const struct place *at_b) {
    if (!is_same(at_a, at_b))
        return false;
    if (at_a->exists && S_ISCHR(at_a->about.st_mode))
        return strcmp(a->path, b->path) == 0 && !is_null_device(at_a);
    return true;
}

static bool check_pair(const struct named_file *output, const struct place *at_output,
                       const struct named_file *other, const struct place *at_other) {
    if (other->use == FILE_READ) {
        bool allowed = output->over && strcmp(output->over, other->role) == 0;
        if (allowed || !is_regular(at_other) || !is_same(at_output, at_other))
            return true;
        return terminal_error("%s: %s%s would destroy the file that is read as %s%s; name another",
                              output->path, output->dashes, output->role, other->dashes,
                              other->role);
    }
    if (!do_collide(output, at_output, other, at_other))
        return true;
    return terminal_error("%s: both %s%s and %s%s would write it; name two files", output->path,
                          other->dashes, other->role, output->dashes, output->role);
}

/* ---- What exists --------------------------------------------------------------------------- */

/* Whether the output is the file that it may replace in any case. */
static bool is_over(const struct named_file *files, const struct place *places, size_t n,
                    size_t output) {
    for (size_t i = 0; i < n; i++)
        if (files[i].use == FILE_READ && files[output].over &&
            strcmp(files[output].over, files[i].role) == 0 && is_same(&places[i], &places[output]))
            return true;
    return false;
}

/* Whether what is there may be replaced; prints the error if not. */
static bool may_replace(const struct named_file *file, const struct place *place, bool has_force) {
    const char *name = output_kind_name(file->kind);
    const char *remedy = has_force ? "--force replaces it" : "name another";
    if (file->kind == OUTPUT_ANY || !is_regular(place) || place->about.st_size == 0 ||
        is_standard(file) || output_standard_handle(&place->about) >= 0)
        return true;
    if (!is_own_file(file->path, file->kind, file->columns))
        return terminal_error("%s: exists and is no %s; %s", file->path, name, remedy);
    return !file->kept ||
           terminal_error("%s: exists; --resume of its run continues it, %s", file->path, remedy);
}

static bool check_kinds(const struct named_file *files, const struct place *places, size_t n,
                        const bool *force) {
    for (size_t i = 0; i < n && !(force && *force); i++)
        if (is_written(&files[i]) && !is_over(files, places, n, i) &&
            !may_replace(&files[i], &places[i], force))
            return false;
    return true;
}

int named_files_check(const struct named_file *files, size_t n, const bool *force) {
    static const struct named_file standard_input = {FILE_READ, "", "standard input", "-"};
    int status = STATUS_FAILURE;
    struct place *places = calloc(n + 1, sizeof *places);
    bool good = places;
    if (!good)
        terminal_error("out of memory");
    for (size_t i = 0; i <= n && good; i++)
        places[i] = locate(i < n ? &files[i] : &standard_input);
    for (size_t i = 0; i < n && good; i++) {
        if (!is_written(&files[i]))
            continue;
        good = can_write(&files[i], &places[i]);
        for (size_t k = 0; k <= n && good; k++) {
            const struct named_file *other = k < n ? &files[k] : &standard_input;
            if (k < i || other->use == FILE_READ)
                good = check_pair(&files[i], &places[i], other, &places[k]);
        }
    }
    if (good)
        status = check_kinds(files, places, n, force) ? OPTIONS_RUN : STATUS_USAGE;
    for (size_t i = 0; i < n && status == OPTIONS_RUN; i++)
        if (is_written(&files[i]))
            output_file_remove_left(files[i].path);
    for (size_t i = 0; places && i <= n; i++)
        free(places[i].target);
    free(places);
    return status;
}
