/* UTF-8 as the library reads it, which takes each maximal subpart of an invalid sequence for one
 * character (Unicode 14, section 3.9). */
#ifndef CLI_UTF8_H
#define CLI_UTF8_H

#include <stddef.h>

enum utf8_what { UTF8_CHARACTER, UTF8_INVALID, UTF8_CUT };

/* Bytes of the character that text[0, length) begins with; the length is at least 1.  `*what`:
 * whether it is one, or more bytes could make it one. */
size_t utf8_first(const char *text, size_t length, enum utf8_what *what);

/* Replaces in place the escapes of C (\\n, \\\\, \\x41, \\101 ...); others, and those of a NUL,
 * stay as they are. */
void unescape(char *text);

#endif
