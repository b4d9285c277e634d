/* --sweep-memory: scores the same text with one memory length after another, as the paper's
 * ablation does.  The lengths score the same tokens, whose nats vary far more than what a length
 * changes.  So the table has the standard error of the difference from the first length, token by
 * token. */
#ifndef CLI_PPL_SWEEP_H
#define CLI_PPL_SWEEP_H

#include "cli/score/result.h"
#include "recl.h"

#include <stdio.h>

struct sweep {
    int *mem_len;
    int n;
    FILE *nats;              /* float, of each token with the first length */
    bool first;              /* the current length is the first */
    struct score difference; /* of the current length's nats from the first's, token by token */
    bool keeps;              /* --recl: the nats of all lengths are kept in recl.nats */
    struct recl recl;
};

/* Parses a list such as "0,64,128".  False if it is no list of lengths, or memory is short; end
 * with sweep_free. */
bool sweep_parse(struct sweep *sweep, const char *list);
void sweep_free(struct sweep *sweep);

/* The index of the longest length; of several the first. */
int sweep_longest(const struct sweep *sweep);

/* Begins the text with the next length, the `first` one or another.  False with the error
 * printed. */
bool sweep_start(struct sweep *sweep, bool first);

/* An observer; `sweep` is its context. */
txl_status sweep_token(void *sweep, const struct scored *token, txl_error *error);

/* Adds the difference to the object of a result; false when memory is short. */
bool sweep_to_json(json_t *object, const struct sweep *sweep);

/* The table on standard output, a row at a time. */
bool sweep_print_header(const struct setup *setup, const struct result *result);
bool sweep_print_row(const struct setup *setup, const struct result *result, int mem_len,
                     const struct sweep *sweep);

#endif
