/* What may stand where a person pressed Tab: names that begin with what is typed. */
#ifndef CLI_CANDIDATES_H
#define CLI_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

struct candidates {
    const char *typed;
    size_t length; /* of it */
    char **names;  /* [n] */
    size_t n, capacity;
};

/* Adds the name, if it begins with what is typed, and `end` behind it.  When memory is short names
 * are missing. */
void candidates_add(struct candidates *candidates, const char *name, const char *end);

/* Adds the files that the typed path may mean; a folder ends with a slash. */
void candidates_add_files(struct candidates *candidates);

/* Sorts them, and returns how many of their bytes are equal in all: 0 without any. */
size_t candidates_common(struct candidates *candidates);
void candidates_free(struct candidates *candidates);

#endif
