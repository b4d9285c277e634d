/* The symbols that a vocabulary lacks: how often each occurred, and where the first one was. */
#ifndef CLI_UNKNOWN_H
#define CLI_UNKNOWN_H

#include "txl.h"

enum { UNKNOWN_NAMES = 4096, UNKNOWN_BYTES = 48 };

struct unknown {
    uint64_t n; /* in all */
    uint64_t line, column;
    size_t n_names; /* number of different ones; the first UNKNOWN_NAMES are counted */
    struct unknown_name {
        char text[UNKNOWN_BYTES]; /* its beginning */
        size_t length;            /* of all of it */
        uint64_t n;
    } names[UNKNOWN_NAMES];
};

/* For txl_encoding; `unknown` is the context of its unknown_context. */
void unknown_add(void *unknown, const txl_symbol *symbol, uint64_t column);

/* Forgets all of them. */
void unknown_reset(struct unknown *unknown);

/* Prints a note if there were any: the most frequent ones, the place of the first, and whether they
 * were `replaced` or left out. */
void unknown_note(const struct unknown *unknown, const char *text, bool replaced);

#endif
