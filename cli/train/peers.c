/* The processes of a run: whether a launcher started them, the module that connects them, and what
 * they agree on, which are sums of what each contributes. */
#include "peers.h"

#include "cli/io/modules.h"
#include "cli/io/terminal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ---- Joining ------------------------------------------------------------------------------ */

bool peers_launched(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (getenv(sizes[i]))
            return atoi(getenv(sizes[i])) > 1;
    return getenv("PMIX_RANK"); /* which says no size */
}

/* For one process MPI would take a while, and start helpers of its own: so it is a module, loaded
 * for several alone. */
#ifdef PEERS_MODULE

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

#else

/* Built without MPI, every process is alone.  Several that mpirun starts would all write the same
 * files. */
bool peers_open(const txl_peers **peers) {
    *peers = NULL;
    return !peers_launched() ||
           terminal_error("this txl was built without MPI: processes cannot train together");
}

void peers_close(void) {
}

#endif

/* ---- What the processes agree on ---------------------------------------------------------- */

static bool sum_over_peers(const txl_peers *peers, double *x, size_t n, bool prints) {
    txl_error error;
    if (!peers->sum_doubles(peers->context, x, n, &error))
        return true;
    if (prints)
        terminal_error("%s", error.message);
    return false;
}

/* The error of the lowest process that failed, printed by the first: its characters are summed up
 * with the others' zeros. */
static void tell_failure(const txl_peers *peers, bool failed) {
    enum { LENGTH = 512 };
    double message[LENGTH] = {0}, lowest = failed ? 1 : 0;
    for (int rank = 0; rank < peers->n; rank++) {
        double one = peers->rank == rank ? lowest : 0;
        if (!sum_over_peers(peers, &one, 1, true))
            return;
        if (one == 0)
            continue;
        if (rank == 0)
            return; /* it has printed its own */
        const char *kept = terminal_last_error();
        for (int i = 0; peers->rank == rank && i < LENGTH - 1 && kept[i] != '\0'; i++)
            message[i] = (unsigned char)kept[i];
        if (!sum_over_peers(peers, message, LENGTH, true))
            return;
        char text[LENGTH];
        for (int i = 0; i < LENGTH; i++)
            text[i] = (char)(unsigned char)message[i];
        terminal_error("process %d of %d: %s", rank, peers->n, text);
        return;
    }
}

txl_status peers_agree(const txl_peers *peers, txl_status status) {
    bool stopped = status == TXL_STOPPED, failed = status && !stopped;
    double counts[2] = {failed, stopped};
    if (!peers)
        return status;
    if (!sum_over_peers(peers, counts, 2, !failed))
        return TXL_IO;
    if (counts[0] > 0) {
        tell_failure(peers, failed);
        return failed ? status : TXL_IO;
    }
    return counts[1] > 0 ? TXL_STOPPED : TXL_OK;
}

double peers_first(const txl_peers *peers, double value) {
    double first = peers && peers->rank > 0 ? 0 : value;
    return peers && !sum_over_peers(peers, &first, 1, true) ? value : first;
}

bool peers_same(const txl_peers *peers, uint64_t value) {
    bool same = peers_first(peers, (double)(value >> 32)) == (double)(value >> 32);
    double low = (double)(value & 0xffffffff);
    return peers_first(peers, low) == low && same;
}
