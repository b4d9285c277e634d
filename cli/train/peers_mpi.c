/* Processes that mpirun started, connected by MPI.  It is only initialised if a launcher's
 * variables say that there are others: for one process it would take a while, and start helpers of
 * its own. */
#include "peers.h"

#include "cli/system/terminal.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    txl_peers peers;
    bool lost;
} state;

/* Elements of one call: MPI counts in ints, and its buffers stay small. */
enum { PIECE = 1 << 24 };

static txl_status fail(txl_error *error) {
    state.lost = true;
    snprintf(error->message, sizeof error->message,
             "a process of the run is lost; --resume goes on from the last state");
    return error->status = TXL_IO;
}

static txl_status sum(void *context, float *x, size_t n, txl_error *error) {
    (void)context;
    for (size_t i = 0; i < n; i += PIECE) {
        int count = n - i < PIECE ? (int)(n - i) : PIECE;
        if (MPI_Allreduce(MPI_IN_PLACE, x + i, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) !=
            MPI_SUCCESS)
            return fail(error);
    }
    return TXL_OK;
}

static txl_status sum_doubles(void *context, double *x, size_t n, txl_error *error) {
    (void)context;
    if (MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
        return fail(error);
    return TXL_OK;
}

static bool is_launched(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

bool peers_open(const txl_peers **peers) {
    int provided;
    *peers = NULL;
    if (!is_launched())
        return true;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        terminal_error("MPI cannot be initialised");
        return false;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    state.peers = (txl_peers){.sum = sum, .sum_doubles = sum_doubles};
    MPI_Comm_rank(MPI_COMM_WORLD, &state.peers.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &state.peers.n);
    if (state.peers.rank > 0)
        terminal_keep_errors();
    if (state.peers.n > 1)
        *peers = &state.peers;
    return true;
}

void peers_close(void) {
    int begun = 0;
    MPI_Initialized(&begun);
    if (begun && state.lost)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (begun)
        MPI_Finalize();
}
