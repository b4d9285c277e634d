/* --sweep-memory: scores the same text with one memory length after another, as the paper's
 * ablation does. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include "result.h"

struct sweep {
    int *mem_len;
    int n;
};

/* Parses a list such as "0,64,128".  False if it is no list of lengths, or memory is short; end
 * with sweep_free. */
bool sweep_parse(struct sweep *sweep, const char *list);
void sweep_free(struct sweep *sweep);

/* The index of the longest length; of several the first. */
int sweep_longest(const struct sweep *sweep);

/* The table on standard output, a row at a time. */
bool sweep_print_header(const struct run_facts *facts, const struct result *result);
bool sweep_print_row(const struct run_facts *facts, const struct result *result, int mem_len);

#endif
