/* Adds parts to a line. */
#include "fixed_line.h"

#include "lib/base/memory.h"

#include <stdarg.h>
#include <stdio.h>

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
