/* The module through which the processes of a run talk: a shared object of its own, so that the
 * program needs no MPI where it trains alone. */
#ifndef CLI_PEERS_MODULE_H
#define CLI_PEERS_MODULE_H

#include "txl.h"

#include <stdbool.h>

struct peers_module {
    const char *version; /* TXL_VERSION, which is the program's too */
    /* Joins the others.  False: MPI cannot be initialised. */
    bool (*open)(txl_peers *peers);
    void (*close)(void);
};

/* The one symbol of the module. */
#define PEERS_MODULE_SYMBOL "txl_peers_module"
extern const struct peers_module txl_peers_module;

#endif
