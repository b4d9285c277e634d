/* Recognises files by what they begin with: a magic number, a header, the keys of an object. */
#include "own_files.h"

#include "lib/base/memory.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The most that is read of a file: a table's first row may have a long text. */
enum { MOST_HEAD = 1 << 20, PAGE_HEAD = 1 << 10, MOST_COLUMNS = 4000 };

static const struct {
    const char *name;
    char magic[9]; /* as lib writes it; empty: it has none */
} kinds[] = {[OUTPUT_ANY] = {"file", ""},
             [OUTPUT_WEIGHTS] = {"weights file", "\x93TXL\r\n\x1a\n"},
             [OUTPUT_STATE] = {"state of txl train", "\x93TXT\r\n\x1a\n"},
             [OUTPUT_MEMORY] = {"saved memory", "\x93TXM\r\n\x1a\n"},
             [OUTPUT_PAGE] = {"page of txl's", ""},
             [OUTPUT_TABLE] = {"table of txl's", ""},
             [OUTPUT_LOG] = {"log of txl train", ""}};

const char *output_kind_name(enum output_kind kind) {
    return kinds[kind].name;
}

/* ---- Columns ------------------------------------------------------------------------------ */

static size_t word_length(const char *columns) {
    return strcspn(columns, " ");
}

static const char *next_word(const char *columns) {
    columns += word_length(columns);
    return columns + strspn(columns, " ");
}

static bool is_word(const char *name, const char *columns, size_t length) {
    return strlen(name) == length && memcmp(name, columns, length) == 0;
}

/* Whether the names after a table's own columns are those of a person's items. */
static bool are_items(const char *const *names, size_t n) {
    return n == 0 ||
           (n >= 2 && strcmp(names[n - 2], "item") == 0 && strcmp(names[n - 1], "condition") == 0);
}

static bool match(const char *const *names, size_t n, const char *columns) {
    for (; *columns != '\0'; columns = next_word(columns)) {
        size_t length = word_length(columns);
        if (is_word("]", columns, length))
            continue;
        if (is_word("*", columns, length))
            return are_items(names, n);
        if (is_word("[", columns, length)) {
            const char *after = strchr(columns, ']') + 1;
            if (match(names, n, after + strspn(after, " ")))
                return true;
        } else if (columns[length - 1] == '*') {
            for (; n > 0 && strncmp(names[0], columns, length - 1) == 0; n--)
                names++;
        } else {
            if (n == 0 || !is_word(names[0], columns, length))
                return false;
            names++;
            n--;
        }
    }
    return n == 0;
}

bool own_columns_match(const char *const *names, size_t n, const char *columns) {
    if (*columns != '*')
        return match(names, n, columns);
    columns = next_word(columns);
    for (size_t k = 0; k <= n; k++)
        if (match(names + k, n - k, columns))
            return true;
    return false;
}

/* Takes the header apart in place: names[room], quoted or not.  Returns how many there are. */
static size_t part_header(char *line, char separator, const char **names, size_t room) {
    size_t n = 0;
    for (char *at = line, *to; n < room; at++) {
        bool quoted = *at == '"';
        at += quoted;
        names[n++] = to = at;
        for (; *at != '\0' && (quoted || *at != separator); at++) {
            if (quoted && *at == '"' && at[1] != '"') {
                quoted = false;
                continue;
            }
            at += quoted && *at == '"';
            *to++ = *at;
        }
        bool last = *at == '\0';
        *to = '\0';
        if (last)
            break;
    }
    return n;
}

static bool ends_in(const char *path, const char *end) {
    size_t length = strlen(path), n = strlen(end);
    return length >= n && strcasecmp(path + length - n, end) == 0;
}

/* The columns of the first object, which must live. */
static size_t list_keys(json_t *object, const char **names, size_t room) {
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) if (n < room) names[n++] = key;
    return n;
}

static json_t *first_object(const char *head, size_t length) {
    const char *end = memchr(head, '\n', length);
    return json_loadb(head, end ? (size_t)(end - head) : length, JSON_ALLOW_NUL, NULL);
}

static bool is_table(const char *path, char *head, size_t length, const char *const *columns) {
    const char **names = calloc(MOST_COLUMNS, sizeof *names);
    json_t *object = NULL;
    size_t n = 0;
    if (names && ends_in(path, ".jsonl")) {
        object = first_object(head, length);
        n = object ? list_keys(object, names, MOST_COLUMNS) : 0;
    } else if (names) {
        head[strcspn(head, "\r\n")] = '\0';
        n = part_header(head, strchr(head, '\t') && !ends_in(path, ".csv") ? '\t' : ',', names,
                        MOST_COLUMNS);
    }
    bool is = false;
    for (; n > 0 && *columns && !is; columns++)
        is = own_columns_match(names, n, *columns);
    json_decref(object);
    free(names);
    return is;
}

static bool is_log(const char *head, size_t length) {
    json_t *object = first_object(head, length);
    bool is = object && json_object_get(object, "step");
    json_decref(object);
    return is;
}

/* ---- Files -------------------------------------------------------------------------------- */

/* The file's first bytes, ended by NUL; NULL: they cannot be read. */
static char *read_start(const char *path, size_t *length) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *head = file >= 0 ? malloc(MOST_HEAD + 1) : NULL;
    ssize_t n = 1;
    *length = 0;
    while (head && n > 0 && *length < MOST_HEAD) {
        n = read(file, head + *length, MOST_HEAD - *length);
        *length += n > 0 ? (size_t)n : 0;
    }
    if (file >= 0)
        close(file);
    if (n < 0) {
        free(head);
        return NULL;
    }
    if (head)
        head[*length] = '\0';
    return head;
}

bool is_own_file(const char *path, enum output_kind kind, const char *const *columns) {
    static const char generator[] = "<meta name=\"generator\" content=\"txl ";
    size_t length;
    char *head = read_start(path, &length);
    const char *magic = kinds[kind].magic;
    bool is = head && length == 0;
    if (head && length > 0 && *magic != '\0')
        is = length >= strlen(magic) && memcmp(head, magic, strlen(magic)) == 0;
    else if (head && length > 0 && kind == OUTPUT_PAGE)
        is = memmem(head, length < PAGE_HEAD ? length : PAGE_HEAD, generator,
                    sizeof generator - 1) != NULL;
    else if (head && length > 0 && kind == OUTPUT_TABLE)
        is = is_table(path, head, length, columns);
    else if (head && length > 0 && kind == OUTPUT_LOG)
        is = is_log(head, length);
    free(head);
    return is;
}
