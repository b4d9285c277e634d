/* The processes of a run that mpirun started, one of which, the first, prints and writes. */
#ifndef CLI_PEERS_H
#define CLI_PEERS_H

#include "txl.h"

/* Joins the others.  *peers is NULL where this process is alone.  False with the error printed;
 * end with peers_close either way. */
bool peers_open(const txl_peers **peers);

/* Leaves the others, or after a loss of one of them ends them too. */
void peers_close(void);

/* ---- All of these are called by all processes in the same order --------------------------- */

/* What is to be done after each had `status`: TXL_STOPPED if one was stopped; and if one failed,
 * its own failure or TXL_IO, with the first one's error printed.  With NULL peers `status`. */
txl_status peers_agree(const txl_peers *peers, txl_status status);

/* The first process's `value`. */
double peers_first(const txl_peers *peers, double value);

/* Whether all have this value. */
bool peers_same(const txl_peers *peers, uint64_t value);

#endif
