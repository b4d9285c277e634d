/* Standard error: errors, hints, the progress of long work, and the summary line that ends it. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* The command that every line names, and whether --quiet and --summary were given. */
void terminal_set_command(const char *name);
void terminal_set_quiet(bool quiet);
void terminal_set_summary(bool summary);

/* From here on nothing is printed: another process of the same run does that.  The first error is
 * kept. */
void terminal_keep_errors(void);
const char *terminal_kept_error(void);

/* "txl COMMAND: error: ...", and "txl COMMAND: note: ..." which --quiet leaves out.  Each is one
 * harmless line (clean.h), whatever the arguments hold, and at most 16 KiB long. */
void terminal_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "txl COMMAND: ...", printed with --quiet too. */
void terminal_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The end of a command that measures or generates.  terminal_summary prints the line of all facts,
 * a contract for programs: where standard error is no terminal, and wherever --summary asks for it.
 * terminal_brief prints what a person at a terminal wants to know instead.  --quiet leaves out
 * both, but not what --summary asks for.  A command calls both: at most one of them prints. */
void terminal_summary(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_brief(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Seconds of a clock that is never set. */
double terminal_seconds(void);

/* Progress: a bar that is redrawn where standard error is a terminal, a line every ten seconds
 * where it is not, nothing with --quiet, and nothing for work of less than a second. */
struct progress {
    const char *task; /* what is worked on */
    const char *unit; /* plural, of what is counted */
    bool off;         /* for work that shows itself */
    double before;    /* the fraction that was done before it started */
    double start, shown;
};

void progress_start(struct progress *progress, const char *task, const char *unit);

/* `fraction` of the work is done, negative when unknown; `count` units. */
void progress_update(struct progress *progress, double fraction, uint64_t count);

/* Takes the bar away. */
void progress_end(struct progress *progress);

/* Takes the bar away until the next update, for a line that standard output is to show. */
void progress_clear(void);

#endif
