/* The log of txl train: a JSON object a line, for every step and every evaluation. */
#ifndef CLI_TRAIN_LOG_H
#define CLI_TRAIN_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct train_log {
    const char *path; /* NULL: there is none */
    FILE *stream;
    bool failed; /* a write failed, with the error printed */
};

/* Begins the log, or `continues` one: all lines but those about the first `steps` steps are removed
 * if it is a regular file.  False with the error printed, or when a signal ended the waiting for a
 * pipe's reader; end with train_log_close. */
bool train_log_open(struct train_log *log, const char *path, bool continues, uint64_t steps);

/* Writes one line and flushes it.  Takes the reference; NULL counts as out of memory. */
bool train_log_write(struct train_log *log, json_t *object);

bool train_log_close(struct train_log *log);

#endif
