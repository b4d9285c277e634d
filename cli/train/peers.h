/* The processes of a run that mpirun started.  Only the first one prints and writes files. */
#ifndef CLI_PEERS_H
#define CLI_PEERS_H

#include "txl.h"

#include <stdbool.h>

/* Whether a launcher (mpirun, srun) started this process, and perhaps others. */
bool peers_launched(void);

/* Joins the others.  *peers is NULL where this process is alone.  False with the error printed;
 * end with peers_close either way. */
bool peers_open(const txl_peers **peers);

/* Leaves the others; if one was lost, ends the others too. */
void peers_close(void);

/* ---- All of these are called by all processes in the same order --------------------------- */

/* Agrees on a common status: TXL_STOPPED if a process was stopped; if one failed, its own failure
 * or TXL_IO, with the first process's error printed.  Returns `status` if `peers` is NULL. */
txl_status peers_agree(const txl_peers *peers, txl_status status);

/* The first process's `value`. */
double peers_first(const txl_peers *peers, double value);

/* Whether all have this value. */
bool peers_same(const txl_peers *peers, uint64_t value);

/* ---- The module ----------------------------------------------------------------------------- */

/* The module through which the processes of a run talk: a shared object of its own, so that the
 * program needs no MPI where it trains alone. */

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
