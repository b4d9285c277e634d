/* What strangers chose - names of files and tensors, symbols, messages, generated text - is made
 * harmless before it is printed: it must not steer a terminal, end a line that is not its own, or
 * turn the order in which a line is read.  Harmful are the control characters (C0, DEL and C1, as
 * Unicode numbers them), the bidirectional controls, and bytes that are no UTF-8, since terminals
 * differ in what they make of those. */
#ifndef CLI_CLEAN_H
#define CLI_CLEAN_H

#include <stddef.h>

/* Makes of a string one harmless line, in place: each harmful character becomes a '?'.  Returns its
 * length, which is never more than before. */
size_t clean_line(char *text);

/* Text of several lines that comes in parts: a character that a part leaves incomplete waits for
 * the next. */
struct clean_text {
    char waiting[4];
    size_t n;
};

/* Bytes that clean_text may write for `length` more bytes of text. */
#define CLEAN_TEXT_ROOM(length) (3 * ((length) + 4))

/* Writes the text to `out`, with U+FFFD in the place of each harmful character but line feed and
 * tab.  Returns the bytes written. */
size_t clean_text(struct clean_text *clean, const char *text, size_t length, char *out);

/* The same for what still waits when the text has ended. */
size_t clean_text_end(struct clean_text *clean, char *out);

/* Spells harmful characters of JSON text, which stand in its strings alone, by their numbers.
 * Takes the allocated `json` and returns it or another; NULL: out of memory, or `json` was. */
char *clean_json(char *json);

#endif
