/* Finds out whether a launcher started this process with others, and loads what connects them.  For
 * one process MPI would take a while, and start helpers of its own. */
#include "peers_module.h"

#include "cli/io/terminal.h"
#include "peers.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    const struct peers_module *module; /* NULL: this process is alone */
    txl_peers peers;
} state;

/* The module beside a program that is not installed, else the installed one. */
static void *load_module(void) {
    static const char name[] = "txl-mpi.so";
    char path[PATH_MAX + sizeof name];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    while (length > 0 && path[length - 1] != '/')
        length--;
    if (length > 0) {
        memcpy(path + length, name, sizeof name);
        if (access(path, F_OK) == 0)
            return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return dlopen(PEERS_MODULE, RTLD_NOW | RTLD_GLOBAL);
}

bool peers_open(const txl_peers **peers) {
    *peers = NULL;
    if (!peers_launched())
        return true;
    void *library = load_module();
    const struct peers_module *module = library ? dlsym(library, PEERS_MODULE_SYMBOL) : NULL;
    if (!module) {
        return terminal_error(
            "processes that train together need MPI's module (Debian: the package "
            "txl-mpi): %s",
            dlerror());
    }
    if (strcmp(module->version, TXL_VERSION) != 0) {
        return terminal_error(
            "MPI's module is of txl %s, and this is txl %s; install them together", module->version,
            TXL_VERSION);
    }
    state.module = module;
    if (!module->open(&state.peers))
        return terminal_error("MPI cannot be initialised");
    if (state.peers.rank > 0)
        terminal_keep_errors();
    if (state.peers.n > 1)
        *peers = &state.peers;
    return true;
}

void peers_close(void) {
    if (state.module)
        state.module->close();
}
