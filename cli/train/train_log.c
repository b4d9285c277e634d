/* Writing the log. */
#include "train_log.h"

#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/json_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of lines that may be owed: those of a hundred thousand steps. */
enum { MOST_OWED = 1 << 24 };

static bool fail_log(const struct train_log *log) {
    return terminal_error("%s: %s", log->path, strerror(errno));
}

/* Finds the end of the last line about the first `steps` steps. */
static bool cut_back(struct train_log *log, uint64_t steps) {
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    off_t end = 0;
    while ((n = getline(&line, &size, log->stream)) > 0 && line[n - 1] == '\n') {
        json_t *object = json_loadb(line, (size_t)n, 0, NULL);
        const json_t *number = json_object_get(object, "step");
        bool evaluation = json_object_get(object, "valid"); /* after as many steps */
        bool before = json_is_integer(number) &&
                      (uint64_t)json_integer_value(number) < steps + (evaluation ? 1 : 0);
        json_decref(object);
        if (!before)
            break;
        end += n;
    }
    free(line);
    return !ferror(log->stream) && lseek(fileno(log->stream), end, SEEK_SET) == end &&
           ftruncate(fileno(log->stream), end) == 0;
}

bool train_log_open(struct train_log *log, const char *path, bool continues, uint64_t steps) {
    *log = (struct train_log){.path = path};
    if (!path)
        return true;
    bool special;
    log->stream = output_open_special(path, &special);
    if (special)
        return log->stream || (!signals_stopped() && fail_log(log));
    log->stream = fopen(path, continues ? "r+e" : "we");
    if (!log->stream && continues && errno == ENOENT)
        log->stream = fopen(path, "w+e");
    if (!log->stream || (continues && !cut_back(log, steps)))
        return fail_log(log);
    return true;
}

/* Writes what is owed; errno says why not. */
static bool write_owed(struct train_log *log) {
    while (log->owed.length > 0) {
        ssize_t n = write(fileno(log->stream), log->owed.data, log->owed.length);
        if (n < 0 && errno == EINTR && !signals_stopped())
            continue;
        if (n < 0)
            return false;
        buffer_drop(&log->owed, (size_t)n);
    }
    return true;
}

static void try_to_write(struct train_log *log) {
    bool was_behind = log->behind;
    log->behind = !write_owed(log);
    log->gone = log->behind && errno == EPIPE;
    if (log->behind && !was_behind && !log->gone)
        terminal_note("%s: %s; trying again at the next save", log->path, strerror(errno));
}

bool train_log_write(struct train_log *log, json_t *object) {
    char *text = log->path && object ? json_text(object, OUTPUT_JSON_FORM) : NULL;
    bool lacking = !object || (log->path && !text);
    json_decref(object);
    if (lacking)
        terminal_error("out of memory");
    if (text && !log->gone) {
        size_t length = strlen(text);
        text[length] = '\n'; /* replaces the terminator, because the length is known */
        log->cut = log->cut || log->owed.length > MOST_OWED ||
                   !buffer_append(&log->owed, text, length + 1);
        if (!log->behind)
            try_to_write(log);
    }
    free(text);
    return !lacking;
}

void train_log_catch_up(struct train_log *log) {
    if (log->behind && !log->gone)
        try_to_write(log);
}

bool train_log_close(struct train_log *log) {
    bool good = !log->stream || log->gone || write_owed(log) || fail_log(log);
    if (good && log->cut && !log->gone) {
        terminal_error("%s: lines are missing, because too many could not be written", log->path);
        good = false;
    }
    if (log->stream && fclose(log->stream) != 0 && good)
        good = fail_log(log);
    buffer_free(&log->owed);
    *log = (struct train_log){.path = log->path};
    return good;
}
