/* Signals: the first Ctrl-C (or SIGTERM, SIGHUP) asks the work to end with what it has made, the
 * second kills.  A mapped file that shrinks (SIGBUS) is an error with a message.  Before the
 * program is killed it removes its temporary files. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

void signals_install(void);

/* With `end` a signal interrupts a waiting system call (EINTR); without, the call is restarted.
 * Reads that wait for somebody should end, writes should go on. */
void signals_end_reads(bool end);

/* True once the work was asked to end. */
bool signals_stopped(void);

/* The status to exit with after that: 128 plus the signal's number, so 130 after Ctrl-C. */
int signals_status(void);

/* Forgets a Ctrl-C, so that the work may go on with something else.  False when it was another
 * signal, or none. */
bool signals_forget_interrupt(void);

/* Set what happens when a signal kills the program: the message names the mapped file (NULL: none),
 * and the temporary files are removed.  The strings must stay in place. */
void signals_set_mapped(const char *name);
void signals_add_temporary(const char *path);
void signals_drop_temporary(const char *path);

#endif
