/* Least privilege: a command that reads strangers' files gives up every right that it does not
 * need, so that a bug in a reader gains an attacker little. */
#ifndef CLI_CONFINE_H
#define CLI_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

struct confinement {
    const char *const *sources; /* [n_source] */
    const char *const *alone;   /* [n_alone] */
    size_t n_source, n_alone;
    bool serves; /* accepts connections at a socket that is open, and talks on them */
};

/* From here on the process, and every thread that it starts, can
 *     read each file of `sources` and the files beside it, or those in it if it is a folder,
 *     read each file of `alone`,
 * and open no others, change, name or remove no file, run no program, open no socket, and reach no
 * other process.  Files that are open stay so.  What a kernel cannot do of this is left out; a note
 * then says what it does. */
void confine(const struct confinement *confinement);

#endif
