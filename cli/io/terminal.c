/* Messages and progress on standard error.  Before any other line, a bar on the terminal is
 * erased. */
#include "terminal.h"

#include "clean.h"
#include "lib/base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct fixed_line fixed_line(char *text, size_t size) {
    text[0] = '\0';
    return (struct fixed_line){.text = text, .size = size};
}

void fixed_line_add(struct fixed_line *line, const char *format, ...) {
    size_t room = line->size - line->length;
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line->text + line->length, room, format, arguments);
    va_end(arguments);
    line->length += smaller(n < 0 ? 0 : (size_t)n, room - 1);
}

enum { BAR_WIDTH = 24, LEAST_BAR_WIDTH = 4, LEAST_NAME_WIDTH = 6, LINE_MAX_COLUMNS = 200 };
enum { LINE_BYTES = 16384 };

static const double BAR_SECONDS = 0.1, LINE_SECONDS = 10, FIRST_SECONDS = 1;

static struct {
    const char *command;
    bool quiet, summary;
    bool bar; /* the terminal's last line is a bar */
    bool keeps;
    char last[512]; /* error */
} state;

void terminal_set_command(const char *name) {
    state.command = name;
}

void terminal_set_quiet(bool quiet) {
    state.quiet = quiet;
}

void terminal_set_summary(bool summary) {
    state.summary = summary;
}

void terminal_keep_errors(void) {
    state.keeps = state.quiet = true;
}

const char *terminal_last_error(void) {
    return state.last;
}

void progress_clear(void) {
    if (state.bar) {
        fputs("\r\033[K", stderr);
        state.bar = false;
    }
}

/* Writes the whole line at once, so that lines of several processes do not mix, and allocates
 * nothing: the message may be that memory is short.  glibc's checked vsnprintf allocates for a
 * format of more than 14 conversions, and without memory writes nothing. */
__attribute__((format(printf, 2, 0))) static void print_line(const char *label, const char *format,
                                                             va_list arguments) {
    char line[LINE_BYTES];
    if (state.keeps)
        return;
    int start = snprintf(line, sizeof line, "txl%s%s: %s", state.command ? " " : "",
                         state.command ? state.command : "", label);
    vsnprintf(line + start, sizeof line - (size_t)start, format, arguments);
    size_t length = clean_line(line);
    line[length] = '\n'; /* replaces the terminator, because the length is known */
    progress_clear();
    fwrite(line, 1, length + 1, stderr);
}

bool terminal_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!state.keeps || state.last[0] == '\0') {
        va_list again;
        va_copy(again, arguments);
        vsnprintf(state.last, sizeof state.last, format, again);
        va_end(again);
    }
    print_line("error: ", format, arguments);
    va_end(arguments);
    return false;
}

bool terminal_report(txl_status status, const txl_error *error) {
    if (status && status != TXL_STOPPED)
        terminal_error("%s", error->message);
    return !status;
}

txl_status terminal_lacks_memory(void) {
    terminal_error("out of memory");
    return TXL_MEMORY;
}

void terminal_note(const char *format, ...) {
    if (state.quiet)
        return;
    va_list arguments;
    va_start(arguments, format);
    print_line("note: ", format, arguments);
    va_end(arguments);
}

void terminal_line(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_line("", format, arguments);
    va_end(arguments);
}

void terminal_summary(const char *format, ...) {
    if (!state.summary && (state.quiet || isatty(STDERR_FILENO)))
        return;
    va_list arguments;
    va_start(arguments, format);
    print_line("", format, arguments);
    va_end(arguments);
}

void terminal_brief(const char *format, ...) {
    if (state.summary || state.quiet || !isatty(STDERR_FILENO))
        return;
    va_list arguments;
    va_start(arguments, format);
    print_line("", format, arguments);
    va_end(arguments);
}

double terminal_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct grouped grouped(double number, int decimals) {
    struct grouped to;
    char digits[40];
    size_t length = 0;
    if (!(fabs(number) < 1e15)) {
        snprintf(to.text, sizeof to.text, "%.2e", number);
        return to;
    }
    int n = snprintf(digits, sizeof digits, "%.*f", decimals, number);
    int whole = (int)strcspn(digits, ".");
    for (int i = 0; i < n; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0 && digits[i - 1] != '-')
            to.text[length++] = ',';
        to.text[length++] = digits[i];
    }
    to.text[length] = '\0';
    return to;
}

/* ---- Progress ----------------------------------------------------------------------------- */

void progress_start(struct progress *progress, const char *task, const char *unit) {
    *progress = (struct progress){.task = task, .unit = unit, .start = terminal_seconds()};
    progress->shown = progress->start;
}

/* "1:05" or "2:03:09". */
static void format_duration(double seconds, char *text, size_t size) {
    long long s = (long long)ceil(seconds);
    if (s >= 3600)
        snprintf(text, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%lld:%02lld", s / 60, s % 60);
}

/* Formats count, speed and time left. */
static void format_figures(const struct progress *progress, double now, double fraction,
                           uint64_t count, char *text, size_t size) {
    double elapsed = now - progress->start;
    size_t n = (size_t)snprintf(text, size, "%llu %s, %.0f %.*s/s", (unsigned long long)count,
                                progress->unit, (double)count / elapsed,
                                (int)strcspn(progress->unit, " "), progress->unit);
    if (fraction > progress->before && n < size) {
        char left[32];
        double done = fraction - progress->before;
        format_duration(elapsed * (1 - fraction) / done, left, sizeof left);
        snprintf(text + n, size - n, ", %s left", left);
    }
}

/* "[####--------] ", at most `width` wide without the brackets; empty on a narrow terminal. */
static void format_bar(double fraction, int width, char *text) {
    width = width < BAR_WIDTH ? width : BAR_WIDTH;
    text[0] = '\0';
    if (fraction >= 0 && width >= LEAST_BAR_WIDTH) {
        memset(text + 1, '-', (size_t)width);
        memset(text + 1, '#', (size_t)(fraction * width));
        text[0] = '[';
        memcpy(text + 1 + width, "] ", sizeof "] ");
    }
}

/* The end of a name, which says more than its beginning. */
static const char *last_columns(const char *name, int columns) {
    size_t length = strlen(name), least = columns > 0 ? (size_t)columns : 0;
    const char *end = length > least ? name + length - least : name;
    while (((unsigned char)*end & 0xc0) == 0x80)
        end++;
    return end;
}

/* Columns for the bar.  A terminal shows Ctrl-C as ^C after it, which must not start a new line,
 * because that would not be erased. */
static int terminal_columns(void) {
    enum { ROOM = 3 };
    struct winsize window = {0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > ROOM;
    return (known ? window.ws_col : 80) - ROOM;
}

/* Leaves out the last figures where there is no room for all. */
static void fit_figures(char *figures, int columns) {
    char *comma;
    while ((int)strlen(figures) > columns && (comma = strrchr(figures, ',')))
        *comma = '\0';
}

/* The end of a name, and the bar, which gets a part of the columns. */
static const char *fit_name(const char *task, double fraction, int columns, char *bar) {
    format_bar(fraction, columns / 3, bar);
    int left = columns - (int)strlen(bar) - 2;
    return last_columns(task, left < LEAST_NAME_WIDTH ? 0 : left);
}

/* The first of the figures, and the bar, which gets what they leave. */
static const char *fit_task(char *task, double fraction, int columns, char *bar) {
    const int blanks = 2, frame = 3;
    fit_figures(task, columns - blanks);
    if ((int)strlen(task) > columns - blanks)
        task[0] = '\0';
    format_bar(fraction, columns - (int)strlen(task) - blanks - frame, bar);
    return task;
}

/* The figures of the progress come first, then the task, then the bar. */
static void draw_bar(const struct progress *progress, double fraction, char *figures) {
    char percent[16] = "", bar[BAR_WIDTH + 4], task[LINE_MAX_COLUMNS], line[2 * LINE_MAX_COLUMNS];
    int columns = terminal_columns();
    if (fraction >= 0)
        snprintf(percent, sizeof percent, "%3.0f %% ", floor(100 * fraction));
    fit_figures(figures, columns - (int)strlen(percent));
    int left = columns - (int)(strlen(percent) + strlen(figures));
    snprintf(task, sizeof task, "%s", progress->task);
    const char *name = progress->figures ? fit_task(task, fraction, left, bar)
                                         : fit_name(progress->task, fraction, left, bar);
    snprintf(line, sizeof line, "%s%s%s%s%s", name, *name != '\0' ? "  " : "", percent, bar,
             figures);
    clean_line(line);
    fprintf(stderr, "\r%.*s\033[K", columns, line);
    state.bar = true;
}

static void print_progress_line(const struct progress *progress, double fraction,
                                const char *figures) {
    char percent[16] = "";
    if (fraction >= 0)
        snprintf(percent, sizeof percent, "%.0f %%, ", floor(100 * fraction));
    terminal_line("%s: %s%s", progress->task, percent, figures);
}

void progress_update(struct progress *progress, double fraction, uint64_t count) {
    if (state.quiet || progress->off)
        return;
    bool terminal = isatty(STDERR_FILENO);
    double now = terminal_seconds();
    if (now - progress->start < FIRST_SECONDS ||
        now - progress->shown < (terminal ? BAR_SECONDS : LINE_SECONDS))
        return;
    progress->shown = now;
    fraction = fmin(fraction, 1);
    char figures[128];
    format_figures(progress, now, fraction, count, figures, sizeof figures);
    if (terminal)
        draw_bar(progress, fraction, figures);
    else
        print_progress_line(progress, fraction, figures);
}

void progress_end(struct progress *progress) {
    progress_clear();
    progress->off = true;
}
