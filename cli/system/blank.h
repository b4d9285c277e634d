/* White space in ASCII and in UTF-8. */
#ifndef CLI_BLANK_H
#define CLI_BLANK_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the byte is ASCII's white space, whatever the locale. */
static inline bool blank_is_byte(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes of the white space character (as in Python's str.isspace) at the beginning of text[length];
 * 0: none. */
size_t blank_length(const char *text, size_t length);

/* Whether the last character of text[length] is white space. */
bool blank_at_end(const char *text, size_t length);

#endif
