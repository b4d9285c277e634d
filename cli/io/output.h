/* Standard output: the product of a command and nothing else; and streams to files that a command
 * names.  A reader that closed the pipe has what it wanted: that is an end, not an error. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "lib/base/output_file.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

/* What a command exits with.  After a signal it is signals_status (signals.h). */
enum exit_status { STATUS_OK = 0, STATUS_FAILURE = 1, STATUS_USAGE = 2 };

/* Each returns false when there is no use in going on: the reader is gone, or a write failed (the
 * first failure prints its error). */
bool output_write(const void *bytes, size_t length);
bool output_flush(void);

/* Text that a model or a stranger wrote, in parts.  On a terminal U+FFFD replaces what would steer
 * it (clean.h), unless output_set_raw: a character may then wait for its last byte. */
bool output_text(const char *text, size_t length);
void output_set_raw(bool raw);

/* Prints one line, made harmless (clean.h) because strangers' names may stand in it.  The format
 * has no line end; one is added. */
bool output_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Such lines go to standard error, because a table has standard output. */
void output_lines_to_standard_error(bool on);

/* Says that there was no memory for what was to be written.  It counts as a write that failed. */
bool output_lacks_memory(void);

/* How JSON is written, as flags of jansson: compact, and numbers with twelve digits. */
#define OUTPUT_JSON_FORM (JSON_COMPACT | JSON_REAL_PRECISION(12))

/* The text of a JSON value, harmless (clean.h), to be freed.  Takes the reference; NULL: out of
 * memory, or `object` was. */
char *output_json_text(json_t *object, size_t form);

/* The same of any value, compact; a number has the fewest digits that give it back. */
char *output_json_value(const json_t *value);

/* Writes one compact line and flushes it.  Takes the reference; NULL counts as out of memory. */
bool output_json(json_t *object);

/* The same with as many digits as give every double back. */
bool output_json_exact(json_t *object);

/* A string of any bytes: each maximal invalid UTF-8 sequence becomes one U+FFFD. */
json_t *output_json_string(const char *text);
json_t *output_json_bytes(const char *bytes, size_t length);

/* Null for a number without a meaning. */
json_t *output_json_number(double value);

/* Appends the members of a new object, whose reference it takes; NULL is one that there was no
 * memory for.  False when memory is short. */
bool output_json_append(json_t *object, json_t *members);

/* Returns the value if it is `good`; else frees it and returns NULL. */
json_t *output_json_if(bool good, json_t *value);

/* Ends the line that was begun, if standard output is a terminal. */
void output_end_line(void);

/* Ends the line that was begun, if any. */
bool output_start_line(void);

/* True where it is a regular file, in which nobody sees what is written. */
bool output_is_file(void);

/* STDOUT_FILENO or STDERR_FILENO when it is this file, else -1. */
int output_standard_handle(const struct stat *file);

/* True after the reader closed the pipe. */
bool output_closed(void);

/* True after a write failed, whose error was printed. */
bool output_failed(void);

/* Flushes; returns `status`, or STATUS_FAILURE when standard output could not be written. */
int output_finish(int status);

/* Opens a path that is no regular file of its own: standard output (also as "-") or standard error,
 * which the stream then shares; a device; or a pipe, whose reader is waited for until a signal
 * comes.
 * `*special` says whether the path is one of these.  If it is, NULL is a failure, and errno says
 * which; if not, nothing is opened. */
FILE *output_open_special(const char *path, bool *special);

/* A stream to a file that appears whole or not at all (lib/base/output_file.h).  Devices and pipes
 * are written in place, and what is standard output or error too is shared with it. */
struct outfile {
    FILE *stream;     /* NULL: not open */
    const char *name; /* as messages show it */
    bool is_whole;    /* else it is written in place, and the next member is unused */
    struct output_file whole;
    bool open; /* also after the stream is closed, until it is put in place or abandoned */
    bool failed, has_reader;
    struct file_sink *sink; /* the stream's own; NULL: it is not open */
};

/* "-" is standard output.  A pipe waits for its reader.  False with the error printed, or when a
 * signal ended the waiting.  The path must live as long as the file.  Afterwards end with
 * outfile_commit or outfile_abandon. */
bool outfile_open(struct outfile *file, const char *path);

/* The open file behind the stream. */
int outfile_handle(const struct outfile *file);

/* False when there is no use in going on: a pipe's reader is gone, which counts as standard
 * output's, or a write failed (the first failure prints its error). */
bool outfile_usable(struct outfile *file);

/* Writes what is left to files[n], closes their streams and flushes them to the disk; those that
 * are not open are passed over.  False with the error printed; that a pipe's reader is gone is no
 * error.
 */
bool outfiles_finish(struct outfile *const *files, size_t n);

/* The same; then puts all of them in place, or none if any failed.  They are closed either way. */
bool outfiles_commit(struct outfile *const *files, size_t n);
bool outfile_commit(struct outfile *file);

/* Closes the file, if it is open, without putting it in place. */
void outfile_abandon(struct outfile *file);

/* Prints {"file", "error"} for a file that cannot be used, with the message of the last error. */
bool output_json_failure(const char *file);

/* A process that puts an output into place for one that may not: a confined process writes into the
 * open file, and can neither name, rename nor remove any.  The keeper reads nothing but the one
 * byte by which it is asked. */

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
