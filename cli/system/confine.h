/* Least privilege: a command that reads strangers' files gives up what it does not need for that,
 * so that a mistake in a reader would give them nothing more. */
#ifndef CLI_CONFINE_H
#define CLI_CONFINE_H

/* From here on the process, and every thread that it starts, can
 *     read the file `source` and the files beside it, or those in the folder `source`,
 *     read the file `alone`,
 *     make, write, rename and remove files in the folder of `output` and in those below,
 * and open no others, run no program, open no socket, and reach no other process.  Each may be
 * NULL.  Files that are open stay so.  A kernel that cannot do a part of this leaves
 * that part out. */
void confine(const char *source, const char *alone, const char *output);

#endif
