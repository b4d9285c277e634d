/* Reads names of files. */
#include "files_from.h"

#include "cli/system/input.h"
#include "cli/system/terminal.h"
#include "lib/base/memory.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool read_all(const char *path, struct buffer *text) {
    struct input input;
    if (!input_open(&input, path))
        return false;
    bool good = input_read_all(&input, text, SIZE_MAX);
    input_close(&input);
    return good;
}

/* Whether every line ends in CR LF, as editors for Windows write them. */
static bool ends_in_cr(const struct buffer *text) {
    size_t n = 0, n_cr = 0;
    for (size_t i = 0; i < text->length; i++) {
        n += text->data[i] == '\n';
        n_cr += i > 0 && text->data[i] == '\n' && text->data[i - 1] == '\r';
    }
    return n > 0 && n == n_cr;
}

/* Makes the names strings in place and returns their number; `cr`: a CR before each line's end is
 * no part of the name; `items` NULL: only counts them. */
static size_t split_names(struct buffer *text, char end, bool cr, char **items) {
    size_t n = 0;
    for (size_t i = 0; i < text->length;) {
        char *name = text->data + i, *stop = memchr(name, end, text->length - i);
        size_t length = stop ? (size_t)(stop - name) : text->length - 1 - i;
        i += length + 1;
        length -= cr && stop ? 1 : 0;
        if (length > 0 && items) {
            name[length] = '\0';
            items[n] = name;
        }
        n += length > 0;
    }
    return n;
}

bool files_from_read(const char *path, struct operands *operands) {
    struct buffer text = {0};
    bool good = read_all(path, &text);
    char end = good && text.length > 0 && memchr(text.data, '\0', text.length) ? '\0' : '\n';
    bool cr = end == '\n' && ends_in_cr(&text);
    /* Makes room to end the last name. */
    good = good && (buffer_append(&text, "", 1) || terminal_error("out of memory"));
    operands->text = text.data;
    if (!good)
        return false;
    size_t named = (size_t)operands->n, n = split_names(&text, end, cr, NULL);
    if (n == 0 || n > (size_t)INT_MAX - named) {
        return terminal_error("--files-from %s: %s", path,
                              n == 0 ? "names no file" : "too many files");
    }
    operands->list = calloc(named + n, sizeof *operands->list);
    if (!operands->list)
        return terminal_error("out of memory");
    memcpy(operands->list, operands->items, named * sizeof *operands->list);
    split_names(&text, end, cr, operands->list + named);
    operands->items = operands->list;
    operands->n += (int)n;
    return true;
}
