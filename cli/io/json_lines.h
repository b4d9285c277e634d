/* JSON objects, a line each, from a file or from a program that waits for the answers. */
#ifndef CLI_JSON_LINES_H
#define CLI_JSON_LINES_H

#include "input.h"

#include <jansson.h>

/* The longest line. */
#define JSON_LINE_BYTES (1 << 20)

struct json_lines {
    struct input input;
    struct buffer bytes; /* what was read; from `at` on it is not yet taken */
    size_t at, searched; /* so many bytes from there on have no line end */
    bool too_long;       /* the line's begin was dropped */
    bool ended;
    uint64_t line; /* the number of the last line, from 1 */
    uint64_t used; /* bytes of the input up to its end */
};

enum json_line {
    JSON_LINE_OBJECT,
    JSON_LINE_WRONG,   /* it is no object, or too long, with the error printed */
    JSON_LINE_NOT_YET, /* to go on would be to wait */
    JSON_LINE_END,     /* there are no more, or a signal asked to stop */
    JSON_LINE_FAILED   /* reading failed, with the error printed */
};

/* Parses a line.  NULL if it is no object: `wrong` then says why, or is "" if memory is short. */
json_t *json_line_object(const char *text, size_t length, char *wrong, size_t size);

/* False with the error printed. */
bool json_lines_open(struct json_lines *lines, const char *path);
void json_lines_close(struct json_lines *lines);

/* Takes the next line that is not blank, with `wait` also if it has not come yet; a byte order mark
 * before the first is left out.  The object is the caller's. */
enum json_line json_lines_next(struct json_lines *lines, bool wait, json_t **object);

#endif
