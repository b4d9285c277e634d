/* Counts unknown symbols in constant memory. */
#include "unknown.h"

#include "cli/system/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many are named. */
enum { NAMED = 5 };

void unknown_reset(struct unknown *unknown) {
    unknown->n = unknown->line = unknown->column = 0;
    unknown->n_names = 0;
}

/* The place of the symbol: a hash into the names, and on from there; n is 0 where it is new. */
static struct unknown_name *find(struct unknown *unknown, const txl_symbol *symbol) {
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
    struct unknown_name *name = find(unknown, symbol);
    if (!name)
        return;
    if (name->n++ == 0) {
        size_t kept = symbol->length < UNKNOWN_BYTES ? symbol->length : UNKNOWN_BYTES;
        memcpy(name->text, symbol->text, kept);
        name->length = symbol->length;
        unknown->n_names++;
    }
}

/* The commonest that is not among the `n` named yet; of equally common ones the first in the table.
 */
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

/* In text, what shows nothing is written by its number, a long one cut. */
static void print_name(FILE *out, const struct unknown_name *name) {
    size_t kept = name->length < UNKNOWN_BYTES ? name->length : UNKNOWN_BYTES - 1;
    while (kept < name->length && ((unsigned char)name->text[kept] & 0xc0) == 0x80)
        kept--; /* a whole character */
    fputc('\'', out);
    for (size_t i = 0; i < kept; i++) {
        unsigned char c = (unsigned char)name->text[i];
        if (c < ' ' || c == 127)
            fprintf(out, "\\x%02X", c);
        else
            fputc(c, out);
    }
    fprintf(out, "'%s (%" PRIu64 ")", kept < name->length ? "..." : "", name->n);
}

void unknown_note(const struct unknown *unknown, const char *text, bool replaced) {
    if (unknown->n == 0)
        return;
    char *line = NULL;
    size_t size;
    FILE *out = open_memstream(&line, &size);
    if (!out)
        return; /* no memory for a note */
    const struct unknown_name *named[NAMED];
    size_t n = 0;
    for (; n < NAMED && (named[n] = commonest(unknown, named, n)); n++) {
        fputs(n > 0 ? ", " : "", out);
        print_name(out, named[n]);
    }
    if (unknown->n_names > n)
        fprintf(out, " and %zu%s others", unknown->n_names - n,
                unknown->n_names == UNKNOWN_NAMES ? " or more" : "");
    if (fclose(out) == 0)
        terminal_note("%s: %" PRIu64 " symbol%s that the vocabulary lacks %s %s: %s; the first in "
                      "line %" PRIu64 ", column %" PRIu64,
                      text, unknown->n, unknown->n == 1 ? "" : "s",
                      unknown->n == 1 ? "was" : "were", replaced ? "replaced" : "left out", line,
                      unknown->line, unknown->column);
    free(line);
}
