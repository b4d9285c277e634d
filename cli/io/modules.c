/* Loading a module. */
#include "modules.h"

#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static void *open_module(const char *name, const char *installed) {
    char path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    while (length > 0 && path[length - 1] != '/')
        length--;
    if (length > 0) {
        snprintf(path + length, sizeof path - (size_t)length, "%s", name);
        if (access(path, F_OK) == 0)
            return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return dlopen(installed, RTLD_NOW | RTLD_GLOBAL);
}

const void *module_load(const char *name, const char *installed, const char *symbol) {
    void *library = open_module(name, installed);
    return library ? dlsym(library, symbol) : NULL;
}
