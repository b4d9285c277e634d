/* Takes lines as they come, and parses them. */
#include "json_lines.h"

#include "lib/base/json_memory.h"
#include "lib/base/white_space.h"
#include "signals.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 16 };

bool json_lines_open(struct json_lines *lines, const char *path) {
    *lines = (struct json_lines){.line = 0};
    bool good = input_open_lines(&lines->input, path);
    if (!good)
        lines->input.handle = -1;
    return good;
}

void json_lines_close(struct json_lines *lines) {
    input_close(&lines->input);
    buffer_free(&lines->bytes);
}

/* ---- Lines -------------------------------------------------------------------------------- */

static enum json_line fail_memory(void) {
    terminal_error("out of memory");
    return JSON_LINE_FAILED;
}

/* Reads what is there.  JSON_LINE_OBJECT: something was read, or the end was reached. */
static enum json_line read_more(struct json_lines *lines) {
    struct buffer *bytes = &lines->bytes;
    buffer_drop(bytes, lines->at);
    lines->at = 0;
    if (lines->searched > JSON_LINE_BYTES) {
        lines->too_long = true;
        bytes->length = lines->searched = 0;
    }
    if (!buffer_reserve(bytes, READ_BYTES))
        return fail_memory();
    ssize_t n = input_read(&lines->input, bytes->data + bytes->length, READ_BYTES);
    if (n == 0 && signals_stopped())
        return JSON_LINE_END;
    if (n < 0)
        return JSON_LINE_FAILED;
    bytes->length += (size_t)n;
    lines->ended = n == 0;
    return JSON_LINE_OBJECT;
}

/* Takes the next line, without its line feed; it lives until the next call. */
static enum json_line next_line(struct json_lines *lines, bool wait, const char **text,
                                size_t *length) {
    for (;;) {
        const struct buffer *bytes = &lines->bytes;
        size_t left = bytes->length - lines->at;
        const char *begin = left > 0 ? bytes->data + lines->at : "", *end = NULL;
        if (left > lines->searched)
            end = memchr(begin + lines->searched, '\n', left - lines->searched);
        if (end || (lines->ended && (left > 0 || lines->too_long))) {
            *text = begin;
            *length = end ? (size_t)(end - begin) : left;
            lines->at += *length + !!end;
            lines->searched = 0;
            lines->line++;
            lines->used = lines->input.read - (bytes->length - lines->at);
            return JSON_LINE_OBJECT;
        }
        lines->searched = left;
        if (lines->ended)
            return JSON_LINE_END;
        if (!wait && !input_is_ready(&lines->input))
            return JSON_LINE_NOT_YET;
        enum json_line result = read_more(lines);
        if (result != JSON_LINE_OBJECT)
            return result;
    }
}

/* ---- Objects ------------------------------------------------------------------------------ */

static bool is_blank(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

json_t *json_line_object(const char *text, size_t length, char *wrong, size_t size) {
    json_error_t where;
    if (memchr(text, '\0', length)) { /* jansson passes over them */
        snprintf(wrong, size, "is no JSON object: it has a NUL byte");
        return NULL;
    }
    json_t *object = json_loadb(text, length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &where);
    *wrong = '\0';
    if (json_is_object(object))
        return object;
    if (object || !json_lacked_memory(&where))
        snprintf(wrong, size, "is no JSON object%s%s", object ? "" : ": ",
                 object ? "" : where.text);
    json_decref(object);
    return NULL;
}

static enum json_line parse_line(const struct json_lines *lines, const char *text, size_t length,
                                 json_t **object) {
    char wrong[512];
    *object = json_line_object(text, length, wrong, sizeof wrong);
    if (*object)
        return JSON_LINE_OBJECT;
    if (*wrong == '\0')
        return fail_memory();
    terminal_error("%s: line %" PRIu64 ": %s", lines->input.name, lines->line, wrong);
    return JSON_LINE_WRONG;
}

enum json_line json_lines_next(struct json_lines *lines, bool wait, json_t **object) {
    const char *text;
    size_t length;
    for (;;) {
        enum json_line result = next_line(lines, wait, &text, &length);
        if (result != JSON_LINE_OBJECT)
            return result;
        if (lines->too_long || length > JSON_LINE_BYTES) {
            lines->too_long = false;
            terminal_error("%s: line %" PRIu64 ": is longer than 1 MiB", lines->input.name,
                           lines->line);
            return JSON_LINE_WRONG;
        }
        size_t mark = lines->line == 1 ? byte_order_mark_length(text, length) : 0;
        text += mark;
        length -= mark;
        if (!is_blank(text, length))
            return parse_line(lines, text, length, object);
    }
}
