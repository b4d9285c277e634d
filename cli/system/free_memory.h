/* How much memory there is for a command that takes much. */
#ifndef CLI_FREE_MEMORY_H
#define CLI_FREE_MEMORY_H

/* Bytes of available memory, or what is left of the process's own limit. */
double free_memory(void);

#endif
