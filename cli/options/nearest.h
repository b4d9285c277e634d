/* Finds the name that somebody meant who mistyped it. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *typed;
    const char *name; /* the best so far; NULL: none */
    size_t distance;  /* of it */
};

/* Begins a search; `typed` and all names tried must stay in place until its end. */
struct nearest nearest_to(const char *typed);

void nearest_try(struct nearest *nearest, const char *name);

/* The nearest of the names tried (of several the first), or NULL when none is near enough to be
 * meant. */
const char *nearest_name(const struct nearest *nearest);

#endif
