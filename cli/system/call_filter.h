/* The system calls that a confined process may still make.  Every other call fails with EPERM,
 * those of future kernels included.  None of them opens a file for writing, makes, names, renames
 * or removes one. */
#ifndef CLI_CALL_FILTER_H
#define CLI_CALL_FILTER_H

#include <stdbool.h>

/* Applies to all threads, existing and future ones.  False if the kernel or the processor has no
 * such filters.  `sanitized`: the process runs under a sanitizer, which needs more calls. */
bool call_filter_install(bool sanitized);

#endif
