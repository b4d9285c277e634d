/* A line in an array of fixed size, which parts are added to as long as there is room. */
#ifndef CLI_FIXED_LINE_H
#define CLI_FIXED_LINE_H

#include <stddef.h>

struct fixed_line {
    char *text; /* [size], always ended by NUL */
    size_t size, length;
};

/* Begins an empty line in text[size]; size is at least 1. */
struct fixed_line fixed_line(char *text, size_t size);

void fixed_line_add(struct fixed_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
