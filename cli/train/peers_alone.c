/* Built without MPI, every process is alone.  Several that mpirun starts would all write the same
 * files. */
#include "peers.h"

#include "cli/io/terminal.h"

bool peers_open(const txl_peers **peers) {
    *peers = NULL;
    return !peers_launched() ||
           terminal_error("this txl was built without MPI: processes cannot train together");
}

void peers_close(void) {
}
