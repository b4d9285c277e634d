/* Signals: the first Ctrl-C (or SIGTERM, SIGHUP) asks the work to end with what it has made, the
 * second kills; a mapped file that shrinks (SIGBUS) is an error like any other.  A run that is
 * killed so removes its temporary files first. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

void signals_install(void);

/* With `end` a signal ends a system call that waits (EINTR); without, the call goes on.  Reads that
 * wait for somebody are to end, writes to go on. */
void signals_end_reads(bool end);

/* True once the work was asked to end. */
bool signals_stopped(void);

/* The status to exit with after that: 128 and the signal's number, so 130 after Ctrl-C. */
int signals_status(void);

/* Forgets a Ctrl-C, so that the work may go on with something else.  False when it was another
 * signal, or none. */
bool signals_forget_interrupt(void);

/* What to do when a signal kills the program: name the mapped file in the message (NULL: none is
 * mapped), and remove the temporary files.  The strings must stay in place. */
void signals_set_mapped(const char *name);
void signals_add_temporary(const char *path);
void signals_drop_temporary(const char *path);

#endif
