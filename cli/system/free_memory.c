/* The system's account of memory, and the process's limit. */
#include "free_memory.h"

#include <stdio.h>
#include <sys/resource.h>

double free_memory(void) {
    unsigned long long kib = 0;
    char line[256];
    struct rlimit limit;
    double bytes = 1e18;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            bytes = 1024 * (double)kib;
    if (file)
        fclose(file);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && (double)limit.rlim_cur < bytes)
        bytes = (double)limit.rlim_cur;
    return bytes;
}
