/* The system calls that a confined process may still make.  Every other call fails with EPERM,
 * those of future kernels included. */
#ifndef CLI_CALL_FILTER_H
#define CLI_CALL_FILTER_H

#include <stdbool.h>

/* Holds for all threads, those that exist already and those to come.  A kernel or a processor
 * without such filters is left as it is.  `sanitized`: a sanitizer works in this process, which
 * takes more.
 */
void call_filter_install(bool sanitized);

#endif
