/* Finds the name that a mistyped one most likely means. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *typed;
    const char *name; /* the best so far; NULL: none */
    size_t distance;  /* of it */
};

/* Begins a search; `typed` and all names tried must live until its end. */
struct nearest nearest_to(const char *typed);

void nearest_try(struct nearest *nearest, const char *name);

/* The nearest of the names tried (the first of equally near ones), or NULL if none is near
 * enough. */
const char *nearest_name(const struct nearest *nearest);

#endif
