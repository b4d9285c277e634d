/* Finds out whether a launcher started this process with others, and loads what connects them.  For
 * one process MPI would take a while, and start helpers of its own. */
#include "peers_module.h"

#include "cli/io/modules.h"
#include "cli/io/terminal.h"
#include "peers.h"

#include <dlfcn.h>
#include <string.h>

static struct {
    const struct peers_module *module; /* NULL: this process is alone */
    txl_peers peers;
} state;

bool peers_open(const txl_peers **peers) {
    *peers = NULL;
    if (!peers_launched())
        return true;
    const struct peers_module *module =
        module_load("txl-mpi.so", PEERS_MODULE, PEERS_MODULE_SYMBOL);
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
