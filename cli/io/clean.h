/* Makes text that strangers chose - names of files and tensors, symbols, messages, generated text -
 * harmless before it is printed: it must not control a terminal, break a line of ours, or change
 * the order in which a line is read.  Harmful are the control characters (C0, DEL and C1), the
 * bidirectional controls, and bytes that are not UTF-8, which terminals treat differently. */
#ifndef CLI_CLEAN_H
#define CLI_CLEAN_H

#include <stddef.h>

/* Makes a string one harmless line, in place: each harmful character becomes a '?'.  Returns its
 * length, which is never more than before. */
size_t clean_line(char *text);

/* Text of several lines that comes in parts: a character that is incomplete at the end of a part
 * waits for the next. */
struct clean_text {
    char waiting[4];
    size_t n;
};

/* Bytes that clean_text may write for `length` more bytes of text. */
#define CLEAN_TEXT_ROOM(length) (3 * ((length) + 4))

/* Writes the text to `out`, with U+FFFD in the place of each harmful character but line feed and
 * tab.  Returns the bytes written. */
size_t clean_text(struct clean_text *clean, const char *text, size_t length, char *out);

/* The same at the end of the text, for what still waits. */
size_t clean_text_end(struct clean_text *clean, char *out);

/* Replaces harmful characters of JSON text, which only occur in strings, by \u escapes.  Takes the
 * allocated `json` and returns it or a new text; NULL if `json` is NULL or memory is short. */
char *clean_json(char *json);

/* UTF-8 as the library reads it, which takes each maximal subpart of an invalid sequence for one
 * character (Unicode 14, section 3.9). */

enum utf8_what { UTF8_CHARACTER, UTF8_INVALID, UTF8_CUT };

/* Bytes of the character that text[0, length) begins with; the length is at least 1.  `*what`:
 * whether it is one, or more bytes could make it one. */
size_t utf8_first(const char *text, size_t length, enum utf8_what *what);

/* Replaces in place the escapes of C (\\n, \\\\, \\x41, \\101 ...); others, and those of a NUL,
 * stay as they are. */
void unescape(char *text);

#endif
