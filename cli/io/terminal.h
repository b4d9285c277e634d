/* Standard error: errors, hints, the progress of long work, and the summary line that ends it. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "txl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line in an array of fixed size, which parts are added to as long as there is room. */
struct fixed_line {
    char *text; /* [size], always ended by NUL */
    size_t size, length;
};

/* Begins an empty line in text[size]; size is at least 1. */
struct fixed_line fixed_line(char *text, size_t size);

void fixed_line_add(struct fixed_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The command that every line names, and whether --quiet and --summary were given. */
void terminal_set_command(const char *name);
void terminal_set_quiet(bool quiet);
void terminal_set_summary(bool summary);

/* From here on nothing is printed, because another process of the same run does that. */
void terminal_keep_errors(void);

/* The message of the last error, or, where errors are not printed, of the first; "": none. */
const char *terminal_last_error(void);

/* "txl COMMAND: error: ...", and "txl COMMAND: note: ..." which --quiet leaves out.  Each is one
 * harmless line (clean.h), whatever the arguments hold, and at most 16 KiB long.  terminal_error
 * returns false, for its caller to return. */
bool terminal_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether `status` is TXL_OK.  Prints the error of any other but TXL_STOPPED, which is none. */
bool terminal_report(txl_status status, const txl_error *error);

/* Prints that memory is short; returns TXL_MEMORY. */
txl_status terminal_lacks_memory(void);

/* "txl COMMAND: ...", printed with --quiet too. */
void terminal_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last line of a command that measures or generates.  terminal_summary prints the complete
 * line, a contract for programs, if standard error is no terminal or --summary is given.
 * terminal_brief prints a short line for a person at a terminal instead.  --quiet leaves out both,
 * unless --summary is given.  A command calls both: at most one of them prints. */
void terminal_summary(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_brief(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Seconds of a monotonic clock. */
double terminal_seconds(void);

/* Progress: a bar that is redrawn where standard error is a terminal, a line every ten seconds
 * where it is not, nothing with --quiet, and nothing for work of less than a second. */
struct progress {
    const char *task; /* what is being worked on */
    bool figures;     /* the task is not a name, but figures between commas: most important first */
    const char
        *unit;     /* plural, of what is counted; after a blank, what is added to the count alone */
    bool off;      /* no progress, because the work itself is visible */
    double before; /* the fraction done before the start */
    double start, shown;
};

void progress_start(struct progress *progress, const char *task, const char *unit);

/* Tells that `fraction` of the work is done (negative: unknown), and `count` units. */
void progress_update(struct progress *progress, double fraction, uint64_t count);

/* Removes the bar. */
void progress_end(struct progress *progress);

/* Removes the bar until the next update, so that standard output can show a line. */
void progress_clear(void);

/* The end of a noun after its number. */
static inline const char *plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

/* A number for people, with commas between thousands: 12,345.68; from 1e15 on, where a double has
 * no more digits, 1.82e+67. */
struct grouped {
    char text[40];
};
struct grouped grouped(double number, int decimals);

#endif
