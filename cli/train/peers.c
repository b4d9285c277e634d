/* What the processes of a run agree on: sums of what each contributes. */
#include "peers.h"

#include "cli/io/terminal.h"

#include <stdlib.h>
#include <string.h>

bool peers_launched(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (getenv(sizes[i]))
            return atoi(getenv(sizes[i])) > 1;
    return getenv("PMIX_RANK"); /* which says no size */
}

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
