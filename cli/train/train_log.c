/* Writing the log. */
#include "train_log.h"

#include "cli/system/output.h"
#include "cli/system/signals.h"
#include "cli/system/terminal.h"
#include "lib/base/json_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fail(struct train_log *log) {
    if (!log->failed)
        terminal_error("%s: %s", log->path, strerror(errno));
    log->failed = true;
    return false;
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
    return !ferror(log->stream) && fseeko(log->stream, end, SEEK_SET) == 0 &&
           ftruncate(fileno(log->stream), end) == 0;
}

bool train_log_open(struct train_log *log, const char *path, bool continues, uint64_t steps) {
    *log = (struct train_log){.path = path};
    if (!path)
        return true;
    bool special;
    log->stream = output_open_special(path, &special);
    if (special)
        return log->stream || (!signals_stopped() && fail(log));
    log->stream = fopen(path, continues ? "r+e" : "we");
    if (!log->stream && continues && errno == ENOENT)
        log->stream = fopen(path, "w+e");
    if (!log->stream || (continues && !cut_back(log, steps)))
        return fail(log);
    return true;
}

bool train_log_write(struct train_log *log, json_t *object) {
    if (!log->path) {
        json_decref(object);
        return true;
    }
    char *text = object ? json_text(object, OUTPUT_JSON_FORM) : NULL;
    json_decref(object);
    if (!text) {
        terminal_error("out of memory");
        return false;
    }
    bool good = fprintf(log->stream, "%s\n", text) >= 0 && fflush(log->stream) == 0;
    free(text);
    return good || fail(log);
}

bool train_log_close(struct train_log *log) {
    bool good = !log->stream || fclose(log->stream) == 0;
    log->stream = NULL;
    return (good && !log->failed) || fail(log);
}
