/* Processes that mpirun started, connected by MPI. */
#include "peers.h"

#include <mpi.h>
#include <stdio.h>

static bool is_lost;

/* Elements of one call: MPI counts in ints, and its buffers stay small. */
enum { PIECE = 1 << 24 };

static txl_status fail_peers(txl_error *error) {
    is_lost = true;
    snprintf(error->message, sizeof error->message,
             "a process of the run is lost; --resume continues from the last state");
    return error->status = TXL_IO;
}

static txl_status sum_floats(void *context, float *x, size_t n, txl_error *error) {
    (void)context;
    for (size_t i = 0; i < n; i += PIECE) {
        int count = n - i < PIECE ? (int)(n - i) : PIECE;
        if (MPI_Allreduce(MPI_IN_PLACE, x + i, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) !=
            MPI_SUCCESS)
            return fail_peers(error);
    }
    return TXL_OK;
}

static txl_status sum_doubles(void *context, double *x, size_t n, txl_error *error) {
    (void)context;
    if (MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
        return fail_peers(error);
    return TXL_OK;
}

static bool join_peers(txl_peers *peers) {
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return false;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    *peers = (txl_peers){.sum = sum_floats, .sum_doubles = sum_doubles};
    MPI_Comm_rank(MPI_COMM_WORLD, &peers->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &peers->n);
    return true;
}

static void leave_peers(void) {
    int begun = 0;
    MPI_Initialized(&begun);
    if (begun && is_lost)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (begun)
        MPI_Finalize();
}

__attribute__((visibility("default")))
const struct peers_module txl_peers_module = {TXL_VERSION, join_peers, leave_peers};
