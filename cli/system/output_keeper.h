/* A process that puts an output into place for one that may not: a confined process writes into the
 * open file, and can neither name, rename nor remove any.  The keeper reads nothing but the one
 * byte by which it is asked. */
#ifndef CLI_OUTPUT_KEEPER_H
#define CLI_OUTPUT_KEEPER_H

#include "lib/base/output_file.h"

struct output_keeper {
    int socket; /* to the keeper; -1: it has gone */
    const char *path;
};

/* Starts the keeper of an open output.  From then on this process only writes into the output and
 * closes it.  If it ends before output_keeper_commit, however that may be, nothing of the output is
 * left. */
txl_status output_keeper_start(struct output_keeper *keeper, struct output_file *out,
                               txl_error *error);

/* Has the output committed, as output_file_commit does. */
txl_status output_keeper_commit(struct output_keeper *keeper, txl_error *error);

/* Waits until the keeper has gone, and with it what was not committed.  Call it after a successful
 * start, whatever came then. */
void output_keeper_end(struct output_keeper *keeper);

#endif
