/* The log of txl train: a JSON object a line, for every step and every evaluation. */
#ifndef CLI_TRAIN_LOG_H
#define CLI_TRAIN_LOG_H

#include "lib/base/memory.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct train_log {
    const char *path; /* NULL: there is none */
    FILE *stream;
    struct buffer owed; /* rows that could not be written yet */
    bool behind;        /* the last write failed */
    bool gone;          /* the pipe's reader: nothing more is written */
    bool cut;           /* rows were left out, because too many are owed */
};

/* Begins the log, or `continues` one: all lines but those about the first `steps` steps are removed
 * if it is a regular file.  False with the error printed, or when a signal ended the waiting for a
 * pipe's reader; end with train_log_close. */
bool train_log_open(struct train_log *log, const char *path, bool continues, uint64_t steps);

/* Writes one line.  If that fails a note says so, and the line is owed.  Takes the reference; false
 * with the error printed for NULL, which counts as out of memory. */
bool train_log_write(struct train_log *log, json_t *object);

/* Tries to write what is owed. */
void train_log_catch_up(struct train_log *log);

/* Tries once more.  False with the error printed if lines are missing. */
bool train_log_close(struct train_log *log);

#endif
