/* Counts unknown symbols in constant memory. */
#include "unknown.h"

#include "cli/io/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The most symbols that a note names. */
enum { NAMED = 5 };

void unknown_reset(struct unknown *unknown) {
    unknown->n = unknown->line = unknown->column = 0;
    unknown->n_names = 0;
}

/* The symbol's place in the hash table of names; its n is 0 if it is new. */
static struct unknown_name *find_name(struct unknown *unknown, const txl_symbol *symbol) {
    uint32_t hash = 2166136261; /* FNV-1a */
    size_t kept = symbol->length < UNKNOWN_BYTES ? symbol->length : UNKNOWN_BYTES;
    for (size_t i = 0; i < symbol->length; i++)
        hash = (hash ^ (unsigned char)symbol->text[i]) * 16777619;
    for (size_t i = 0; i < UNKNOWN_NAMES; i++) {
        struct unknown_name *name = &unknown->names[(hash + i) % UNKNOWN_NAMES];
        if (name->n == 0 ||
            (name->length == symbol->length && memcmp(name->text, symbol->text, kept) == 0))
            return name;
    }
    return NULL;
}

void unknown_add(void *context, const txl_symbol *symbol, uint64_t column) {
    struct unknown *unknown = context;
    if (unknown->n++ == 0) {
        memset(unknown->names, 0, sizeof unknown->names);
        unknown->line = symbol->line;
        unknown->column = column;
    }
    struct unknown_name *name = find_name(unknown, symbol);
    if (!name)
        return;
    if (name->n++ == 0) {
        size_t kept = symbol->length < UNKNOWN_BYTES ? symbol->length : UNKNOWN_BYTES;
        memcpy(name->text, symbol->text, kept);
        name->length = symbol->length;
        unknown->n_names++;
    }
}

/* The most frequent symbol that is not among the `n` named ones; the first of equally frequent
 * ones. */
static const struct unknown_name *commonest(const struct unknown *unknown,
                                            const struct unknown_name *const *named, size_t n) {
    const struct unknown_name *best = NULL;
    for (size_t i = 0; i < UNKNOWN_NAMES; i++) {
        const struct unknown_name *name = &unknown->names[i];
        bool taken = false;
        for (size_t k = 0; k < n; k++)
            taken = taken || named[k] == name;
        if (!taken && name->n > 0 && (!best || name->n > best->n))
            best = name;
    }
    return best;
}

/* Invisible characters are written by their number; long names are cut. */
static void add_name(struct fixed_line *line, const struct unknown_name *name) {
    size_t kept = name->length < UNKNOWN_BYTES ? name->length : UNKNOWN_BYTES - 1;
    while (kept < name->length && ((unsigned char)name->text[kept] & 0xc0) == 0x80)
        kept--; /* a whole character */
    fixed_line_add(line, "'");
    for (size_t i = 0; i < kept; i++) {
        unsigned char c = (unsigned char)name->text[i];
        fixed_line_add(line, c < ' ' || c == 127 ? "\\x%02X" : "%c", c);
    }
    fixed_line_add(line, "'%s (%" PRIu64 ")", kept < name->length ? "..." : "", name->n);
}

void unknown_note(const struct unknown *unknown, const char *text, bool replaced) {
    const struct unknown_name *named[NAMED];
    char names[2048]; /* a note needs no memory */
    struct fixed_line line = fixed_line(names, sizeof names);
    size_t n = 0;
    if (unknown->n == 0)
        return;
    for (; n < NAMED && (named[n] = commonest(unknown, named, n)); n++) {
        fixed_line_add(&line, "%s", n > 0 ? ", " : "");
        add_name(&line, named[n]);
    }
    if (unknown->n_names > n)
        fixed_line_add(&line, " and %zu%s others", unknown->n_names - n,
                       unknown->n_names == UNKNOWN_NAMES ? " or more" : "");
    terminal_note("%s: %" PRIu64 " symbol%s that the vocabulary lacks %s %s: %s; the first in line "
                  "%" PRIu64 ", column %" PRIu64,
                  text, unknown->n, unknown->n == 1 ? "" : "s", unknown->n == 1 ? "was" : "were",
                  replaced ? "replaced" : "left out", line.text, unknown->line, unknown->column);
}
