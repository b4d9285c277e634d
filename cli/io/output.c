/* Standard output and its failures, and streams to files. */
#include "output.h"

#include "clean.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "signals.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unistr.h>

static struct {
    bool closed, failed;
    bool in_line; /* the last byte was not a line end */
    enum { UNKNOWN, YES, NO } terminal;
    bool raw; /* text goes to a terminal unchanged */
    bool lines_to_error;
    struct clean_text text;
} state;

static bool output_usable(void) {
    return !state.closed && !state.failed;
}

static bool is_terminal(void) {
    if (state.terminal == UNKNOWN)
        state.terminal = isatty(STDOUT_FILENO) ? YES : NO;
    return state.terminal == YES;
}

/* Removes a progress bar if standard output goes to a terminal too. */
static void make_room(void) {
    if (is_terminal())
        progress_clear();
}

static bool note_failure(void) {
    if (errno == EPIPE) {
        state.closed = true;
    } else {
        state.failed = true;
        terminal_error("standard output: %s", strerror(errno));
    }
    return false;
}

static bool put_bytes(const void *bytes, size_t length) {
    if (!output_usable())
        return false;
    if (length == 0)
        return true;
    make_room();
    /* Only one thread writes, and for a few bytes a lock would take most of the time. */
    if (fwrite_unlocked(bytes, 1, length, stdout) != length)
        return note_failure();
    state.in_line = ((const char *)bytes)[length - 1] != '\n';
    return true;
}

bool output_write(const void *bytes, size_t length) {
    char rest[CLEAN_TEXT_ROOM(0)];
    size_t n = clean_text_end(&state.text, rest);
    return put_bytes(rest, n) && put_bytes(bytes, length);
}

void output_set_raw(bool raw) {
    state.raw = raw;
}

bool output_text(const char *text, size_t length) {
    enum { PART = 512 };
    char cleaned[CLEAN_TEXT_ROOM(PART)];
    if (state.raw || !is_terminal())
        return output_write(text, length);
    bool good = output_usable();
    for (size_t i = 0; i < length && good; i += PART) {
        size_t part = length - i < PART ? length - i : PART;
        good = put_bytes(cleaned, clean_text(&state.text, text + i, part, cleaned));
    }
    return good;
}

bool output_line(const char *format, ...) {
    char *line;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (length < 0)
        return output_lacks_memory();
    const size_t n = clean_line(line);
    bool good = true;
    if (state.lines_to_error)
        fprintf(stderr, "%.*s\n", (int)n, line);
    else
        good = output_write(line, n) && output_write("\n", 1);
    free(line);
    return good;
}

void output_lines_to_standard_error(bool on) {
    state.lines_to_error = on;
}

bool output_flush(void) {
    if (!output_usable())
        return false;
    return fflush(stdout) == 0 || note_failure();
}

bool output_lacks_memory(void) {
    state.failed = true;
    return terminal_error("out of memory");
}

json_t *output_json_if(bool good, json_t *value) {
    if (good)
        return value;
    json_decref(value);
    return NULL;
}

char *output_json_text(json_t *object, size_t form) {
    char *text = object ? clean_json(json_text(object, form)) : NULL;
    json_decref(object);
    return text;
}

char *output_json_value(const json_t *value) {
    char *text = NULL;
    for (size_t digits = 15; digits <= 17; digits++) {
        free(text);
        text = output_json_text(json_incref((json_t *)value),
                                JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(digits));
        if (!text || !json_is_real(value) || strtod(text, NULL) == json_real_value(value))
            break;
    }
    return text;
}

static bool write_json(json_t *object, size_t form) {
    char *line = output_json_text(object, form);
    if (!line)
        return output_lacks_memory();
    bool good = output_write(line, strlen(line)) && output_write("\n", 1) && output_flush();
    free(line);
    return good;
}

bool output_json(json_t *object) {
    return write_json(object, OUTPUT_JSON_FORM);
}

bool output_json_exact(json_t *object) {
    return write_json(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
}

json_t *output_json_bytes(const char *bytes, size_t length) {
    /* A byte becomes at most three, U+FFFD. */
    char *text = length > SIZE_MAX / 3 ? NULL : malloc(3 * length + 1);
    if (!text)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        ucs4_t character;
        int used = u8_mbtouc(&character, (const uint8_t *)bytes + i, length - i);
        n += (size_t)u8_uctomb((uint8_t *)text + n, character, 4);
        i += (size_t)used;
    }
    json_t *string = json_stringn(text, n);
    free(text);
    return string;
}

json_t *output_json_string(const char *text) {
    return output_json_bytes(text, strlen(text));
}

json_t *output_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

bool output_json_append(json_t *object, json_t *members) {
    int failed = json_object_update(object, members);
    json_decref(members);
    return failed == 0;
}

bool output_start_line(void) {
    return !state.in_line || output_write("\n", 1);
}

void output_end_line(void) {
    if (state.in_line && isatty(STDOUT_FILENO)) {
        output_write("\n", 1);
        output_flush();
    }
}

bool output_is_file(void) {
    struct stat about;
    return fstat(STDOUT_FILENO, &about) == 0 && S_ISREG(about.st_mode);
}

bool output_closed(void) {
    return state.closed;
}

bool output_failed(void) {
    return state.failed;
}

/* Whether the other end of the pipe is closed: errno of an earlier write is lost. */
static bool lost_reader(void) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR);
}

int output_finish(int status) {
    if (output_write("", 0) && output_flush() && ferror(stdout)) {
        errno = lost_reader() ? EPIPE : EIO; /* errors of unchecked writes, such as help */
        note_failure();
    }
    return state.failed ? STATUS_FAILURE : status;
}

/* ---- Files -------------------------------------------------------------------------------- */

int output_standard_handle(const struct stat *file) {
    for (int handle = STDOUT_FILENO; handle <= STDERR_FILENO; handle++) {
        struct stat standard;
        if (fstat(handle, &standard) == 0 && standard.st_dev == file->st_dev &&
            standard.st_ino == file->st_ino)
            return handle;
    }
    return -1;
}

/* What a stream writes to.  A write that fails may be noticed long after it, when errno tells of
 * something else, so its error is kept. */
struct file_sink {
    int handle, error;
};

static ssize_t sink_write(void *cookie, const char *bytes, size_t size) {
    struct file_sink *sink = cookie;
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(sink->handle, bytes + done, size - done);
        if (n < 0 && errno == EINTR && !signals_stopped())
            continue;
        if (n < 0) {
            sink->error = sink->error != 0 ? sink->error : errno;
            break; /* what is missing is an error to stdio */
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int sink_seek(void *cookie, off64_t *offset, int whence) {
    *offset = lseek(((struct file_sink *)cookie)->handle, *offset, whence);
    return *offset < 0 ? -1 : 0;
}

static int sink_close(void *cookie) {
    struct file_sink *sink = cookie;
    int closed = close(sink->handle);
    free(sink);
    return closed;
}

/* A stream to the open file, which it closes; or closes the handle. */
static FILE *open_sink(int handle, struct file_sink **sink) {
    const cookie_io_functions_t functions = {
        .write = sink_write, .seek = sink_seek, .close = sink_close};
    *sink = handle < 0 ? NULL : malloc(sizeof **sink);
    FILE *stream = NULL;
    if (*sink) {
        **sink = (struct file_sink){handle, 0};
        stream = fopencookie(*sink, "w", functions);
    }
    if (!stream && handle >= 0)
        close(handle);
    if (!stream) {
        free(*sink);
        *sink = NULL;
    }
    return stream;
}

/* Another stream to the same open file; the handle stays open when the stream is closed. */
static FILE *open_again(int handle) {
    int again = fcntl(handle, F_DUPFD_CLOEXEC, 0);
    FILE *stream = again < 0 ? NULL : fdopen(again, "w");
    if (!stream && again >= 0)
        close(again);
    return stream;
}

/* A stream that shares a standard stream with other output; it writes whole lines. */
static FILE *share(int standard) {
    FILE *stream = open_again(standard);
    if (stream)
        setvbuf(stream, NULL, _IOLBF, BUFSIZ);
    return stream;
}

FILE *output_open_special(const char *path, bool *special) {
    struct stat status;
    bool dash = strcmp(path, "-") == 0, exists = !dash && stat(path, &status) == 0;
    int standard = dash ? STDOUT_FILENO : exists ? output_standard_handle(&status) : -1;
    *special = standard >= 0 || (exists && !S_ISREG(status.st_mode));
    if (!*special)
        return NULL;
    if (standard >= 0)
        return share(standard);
    signals_end_reads(true);
    FILE *stream = signals_stopped() ? NULL : fopen(path, "we");
    signals_end_reads(false);
    return stream;
}

static void close_whole(struct outfile *file) {
    signals_drop_temporary(file->whole.temporary);
    output_file_close(&file->whole);
}

static bool open_whole(struct outfile *file) {
    txl_error error;
    if (output_file_open(&file->whole, file->name, &error)) {
        terminal_error("%s", error.message);
    } else {
        file->stream = open_sink(fcntl(file->whole.file, F_DUPFD_CLOEXEC, 0), &file->sink);
        if (!file->stream)
            terminal_error("%s: %s", file->name, strerror(errno));
    }
    if (file->stream && file->whole.temporary)
        signals_add_temporary(file->whole.temporary);
    if (!file->stream)
        output_file_close(&file->whole);
    return file->stream != NULL;
}

/* Opens what is no file to be put in place, as output_open_special does. */
static void open_special(struct outfile *file, bool *special) {
    struct stat about;
    FILE *stream = output_open_special(file->name, special);
    if (!stream)
        return;
    bool shared = fstat(fileno(stream), &about) == 0 && output_standard_handle(&about) >= 0;
    file->stream = open_sink(fcntl(fileno(stream), F_DUPFD_CLOEXEC, 0), &file->sink);
    if (file->stream && shared)
        setvbuf(file->stream, NULL, _IOLBF, BUFSIZ);
    fclose(stream);
}

bool outfile_open(struct outfile *file, const char *path) {
    bool special;
    *file = (struct outfile){.name = path, .has_reader = true};
    open_special(file, &special);
    file->is_whole = !special;
    file->open = special ? file->stream != NULL : open_whole(file);
    if (special && !file->stream && !signals_stopped())
        terminal_error("%s: %s", path, strerror(errno));
    return file->open;
}

int outfile_handle(const struct outfile *file) {
    return file->sink->handle;
}

/* Reports the first failure, with the error of the write that failed. */
static bool note_file_failure(struct outfile *file) {
    if (file->sink && file->sink->error != 0)
        errno = file->sink->error;
    if (!file->failed && errno == EPIPE) {
        state.closed = true;
        file->has_reader = false;
    } else if (!file->failed) {
        state.failed = true;
        terminal_error("%s: %s", file->name, strerror(errno));
    }
    file->failed = true;
    return false;
}

bool outfile_usable(struct outfile *file) {
    return ferror(file->stream) == 0 || note_file_failure(file);
}

static bool note_whole(txl_status status, const txl_error *error) {
    state.failed = state.failed || status;
    return terminal_report(status, error);
}

static bool finish(struct outfile *file) {
    bool written = fflush(file->stream) == 0 && outfile_usable(file);
    written = written || note_file_failure(file);
    file->sink = NULL; /* closing frees it */
    written = (fclose(file->stream) == 0 || note_file_failure(file)) && written;
    file->stream = NULL;
    if (!written || !file->is_whole)
        return written || !file->has_reader;
    txl_error error;
    bool had_name = file->whole.temporary;
    bool good = note_whole(output_file_finish(&file->whole, &error), &error);
    if (!had_name && file->whole.temporary)
        signals_add_temporary(file->whole.temporary);
    return good;
}

bool outfiles_finish(struct outfile *const *files, size_t n) {
    bool good = true;
    for (size_t i = 0; i < n; i++)
        good = (!files[i]->stream || finish(files[i])) && good;
    return good;
}

bool outfiles_commit(struct outfile *const *files, size_t n) {
    bool good = outfiles_finish(files, n);
    for (size_t i = 0; i < n; i++) {
        struct outfile *file = files[i];
        txl_error error;
        if (good && file->open && file->is_whole)
            good = note_whole(output_file_commit(&file->whole, &error), &error);
        if (file->open && file->is_whole)
            close_whole(file);
        file->open = false;
    }
    return good;
}

bool outfile_commit(struct outfile *file) {
    return outfiles_commit(&file, 1);
}

void outfile_abandon(struct outfile *file) {
    if (!file->open)
        return;
    if (file->stream)
        fclose(file->stream);
    if (file->is_whole)
        close_whole(file);
    *file = (struct outfile){0};
}

bool output_json_failure(const char *file) {
    return output_json(json_pack("{s:o, s:o}", "file", output_json_string(file), "error",
                                 output_json_string(terminal_last_error())));
}

/* ---- The keeper of an output ----------------------------------------------------------- */

/* The keeper of an output: it waits for a byte, or for the end of its socket.  The system calls of
 * the other process are those that a confined one may make. */

/* Any other byte asks it to go. */
static const char commit_byte = 'c', go_byte = 'g';

/* Reads `size` bytes; false when the other side has gone. */
static bool read_all(int socket, void *data, size_t size) {
    char *bytes = data;
    while (size > 0) {
        ssize_t n = read(socket, bytes, size);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        if (n > 0) {
            bytes += n;
            size -= (size_t)n;
        }
    }
    return true;
}

/* Signals are for the process that works: the keeper ends when its socket does. */
static _Noreturn void keep(struct output_file *out, int socket) {
    const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE};
    txl_error answer = {.status = TXL_OK};
    char byte;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    bool asked = read_all(socket, &byte, sizeof byte) && byte == commit_byte;
    if (asked)
        output_file_commit(out, &answer);
    output_file_close(out);
    /* The socket takes so few bytes at once. */
    bool answered = !asked || write(socket, &answer, sizeof answer) == sizeof answer;
    _exit(answered ? 0 : 1);
}

static txl_status fail_keeper(const char *path, txl_error *error) {
    return txl_fail(error, errno == ENOMEM ? TXL_MEMORY : TXL_IO,
                    "%s: the process that puts it into place cannot be started: %s", path,
                    strerror(errno));
}

txl_status output_keeper_start(struct output_keeper *keeper, struct output_file *out,
                               txl_error *error) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_keeper(out->path, error);
    signal(SIGCHLD, SIG_IGN); /* nobody waits for its status */
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        keep(out, ends[1]);
    }
    txl_status status = child < 0 ? fail_keeper(out->path, error) : TXL_OK;
    close(ends[1]);
    if (status) {
        close(ends[0]);
        return status;
    }
    *keeper = (struct output_keeper){.socket = ends[0], .path = out->path};
    free(out->temporary); /* the name is the keeper's now */
    out->temporary = NULL;
    return TXL_OK;
}

txl_status output_keeper_commit(struct output_keeper *keeper, txl_error *error) {
    txl_error answer;
    bool answered = write(keeper->socket, &commit_byte, 1) == 1 &&
                    read_all(keeper->socket, &answer, sizeof answer);
    close(keeper->socket);
    keeper->socket = -1;
    if (!answered)
        return txl_fail(error, TXL_IO, "%s: the process that puts it into place was ended",
                        keeper->path);
    return answer.status ? txl_fail(error, answer.status, "%s", answer.message) : TXL_OK;
}

void output_keeper_end(struct output_keeper *keeper) {
    char byte;
    if (keeper->socket < 0)
        return;
    if (write(keeper->socket, &go_byte, 1) == 1)
        read_all(keeper->socket, &byte, sizeof byte);
    close(keeper->socket);
}
