/* Looks at the beginning of an input to tell tables from texts. */
#include "source_kind.h"
#include "cli/io/terminal.h"
#include "lib/base/white_space.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 1 << 16, SENTENCE = 200, LEAST_SENTENCES = 3 };

/* ---- The name ----------------------------------------------------------------------------- */

/* Whether path[*length] ends so; then that is taken off it. */
static bool drop_ending(const char *path, size_t *length, const char *ending) {
    const size_t n = strlen(ending);
    const bool ends = *length >= n && strncasecmp(path + *length - n, ending, n) == 0;
    *length -= ends ? n : 0;
    return ends;
}

static bool ends_as_table(const char *path) {
    static const char *const endings[] = {".csv", ".tsv", ".jsonl", ".json"};
    size_t length = strlen(path);
    bool ends = false;
    if (!drop_ending(path, &length, ".gz"))
        drop_ending(path, &length, ".zst");
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !ends; i++)
        ends = drop_ending(path, &length, endings[i]);
    return ends;
}

/* The file descriptor that the path names, or -1. */
static int handle_of(const char *path) {
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0)
        return STDIN_FILENO;
    int64_t handle;
    return strncmp(path, "/dev/fd/", 8) == 0 && number_integer(path + 8, &handle) && handle >= 0 &&
                   handle <= INT32_MAX
               ? (int)handle
               : -1;
}

/* ---- The first line ----------------------------------------------------------------------- */

/* Whether --columns calls a column so. */
static bool is_given(const struct string_list *columns, const char *name, size_t length) {
    for (size_t i = 0; i < columns->n; i++)
        for (const char *part = columns->items[i]; part; part = strchr(part, ',')) {
            part += *part == ',';
            const char *equals = strchr(part, '=');
            const size_t n = equals ? strcspn(equals + 1, ",") : 0;
            if (n == length && n > 0 && strncasecmp(equals + 1, name, n) == 0)
                return true;
        }
    return false;
}

/* Whether the line is a header with a column of texts.  R's write.table puts quotes and blanks. */
static bool is_header(const char *line, size_t length, const struct string_list *columns) {
    const char *const separators = length > 0 && *line == '"' ? ",;\t " : ",;\t";
    for (size_t i = 0, n; i <= length; i += n + 1) {
        for (n = 0; i + n < length && !strchr(separators, line[i + n]);)
            n++;
        const char *name = line + i;
        size_t kept = n;
        while (kept > 0 && (isspace((unsigned char)*name) || *name == '"'))
            name++, kept--;
        while (kept > 0 && (isspace((unsigned char)name[kept - 1]) || name[kept - 1] == '"'))
            kept--;
        if ((kept == 4 && strncasecmp(name, "text", 4) == 0) || is_given(columns, name, kept))
            return true;
    }
    return false;
}

static bool begins_as_table(const char *text, size_t length, const struct string_list *columns) {
    const size_t at = byte_order_mark_length(text, length);
    const char *end = memchr(text + at, '\n', length - at);
    const size_t line = (end ? (size_t)(end - text) : length) - at;
    size_t first = at;
    while (first < at + line && isspace((unsigned char)text[first]))
        first++;
    return (first < at + line && text[first] == '{') || is_header(text + at, line, columns);
}

bool source_is_table(const char *path, const struct string_list *columns,
                     const struct input_form *form, bool *is_table) {
    const int handle = handle_of(path);
    const struct input_form unchecked = {.binary = true, .encoding = form->encoding};
    struct input input = {.name = strcmp(path, "-") == 0 ? "standard input" : path,
                          .handle = handle};
    *is_table = handle < 0 && ends_as_table(path);
    if (handle < 0)
        return true;
    char *text = malloc(HEADER);
    bool good = text ? input_make_seekable(&input) : terminal_error("out of memory");
    if (good && input_open_text(&input, path, false, &unchecked)) {
        const ssize_t n = input_read(&input, text, HEADER);
        *is_table = n > 0 && begins_as_table(text, (size_t)n, columns);
        good = n >= 0 && input_rewind(&input);
        input_close(&input);
    } else {
        good = false;
    }
    free(text);
    return good;
}

/* ---- Sentences ---------------------------------------------------------------------------- */

/* Whether text[length] ends as a sentence does. */
static bool ends_sentence(const char *text, size_t length) {
    static const char *const quotes[] = {"\"", "'", "\xe2\x80\x9d", "\xe2\x80\x99", "\xc2\xbb"};
    if (length > 0 && strchr(".!?", text[length - 1]))
        return true;
    for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++) {
        const size_t n = strlen(quotes[i]);
        if (length >= n && memcmp(text + length - n, quotes[i], n) == 0)
            return true;
    }
    return false;
}

/* A regular file of which only the beginning is looked at; `file` is NULL for all else: to open a
 * pipe would wait for its writer, and end it then. */
struct glance {
    FILE *file;
    int handle; /* of the path, or -1 */
    off_t at;   /* where the handle stands: a copy shares its place */
};

static struct glance glance_at(const char *path) {
    struct glance g = {.handle = handle_of(path), .at = -1};
    struct stat about;
    const bool regular = (g.handle >= 0 ? fstat(g.handle, &about) : stat(path, &about)) == 0 &&
                         S_ISREG(about.st_mode);
    const int copy = !regular        ? -1
                     : g.handle >= 0 ? dup(g.handle)
                                     : open(path, O_RDONLY | O_CLOEXEC);
    g.at = copy >= 0 ? lseek(copy, 0, SEEK_CUR) : -1;
    g.file = g.at >= 0 ? fdopen(copy, "r") : NULL;
    if (!g.file && copy >= 0)
        close(copy);
    return g;
}

static void glance_end(struct glance *g) {
    if (g->file)
        fclose(g->file);
    if (g->handle >= 0 && g->at >= 0)
        lseek(g->handle, g->at, SEEK_SET);
}

bool source_has_header(const char *path, const struct string_list *columns) {
    struct glance g = glance_at(path);
    char line[4096];
    const size_t n = g.file && fgets(line, sizeof line, g.file) ? strcspn(line, "\n") : 0;
    glance_end(&g);
    return n > 0 && begins_as_table(line, n, columns);
}

bool source_has_sentences(const char *path) {
    struct glance g = glance_at(path);
    char line[4 * SENTENCE + 8]; /* characters have at most four bytes */
    size_t n = 0, sentences = 0;
    bool good = g.file;
    while (good && fgets(line, sizeof line, g.file)) {
        size_t length = strcspn(line, "\n"), characters = 0;
        good = line[length] == '\n' || feof(g.file); /* else it is longer */
        while (length > 0 && isspace((unsigned char)line[length - 1]))
            length--;
        for (size_t i = 0; i < length; i++)
            characters += ((unsigned char)line[i] & 0xc0) != 0x80;
        good = good && characters > 0 && characters <= SENTENCE;
        n++;
        sentences += ends_sentence(line, length);
    }
    glance_end(&g);
    return good && n >= LEAST_SENTENCES && 10 * sentences >= 9 * n;
}
