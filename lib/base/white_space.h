/* White space, and the mark that some texts start with. */
#ifndef TXL_BASE_WHITE_SPACE_H
#define TXL_BASE_WHITE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* White space: of bytes, of code points, in UTF-8; and the mark that stands for a blank in pieces.
 */
/* isspace of ASCII, whatever the locale. */
static inline bool is_space_byte(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Python's str.isspace of one code point: bidirectional type WS, B or S, or category Zs.
 * (libunistring's White_Space property lacks U+001C to U+001F.) */
bool is_space_code(uint32_t code);

/* Bytes of the white space, as is_space_code has it, at the beginning of text[length] in UTF-8; 0:
 * none. */
size_t space_length(const char *text, size_t length);

/* Whether text[length] is nothing but white space, or nothing. */
bool is_all_space(const char *text, size_t length);

/* Bytes of the white space at the end of text[length], if its last character is white space; else
 * 0. */
size_t space_at_end(const char *text, size_t length);

/* U+2581, which begins a piece that begins a word. */
#define WORD_MARK "\xe2\x96\x81"
enum { WORD_MARK_BYTES = sizeof WORD_MARK - 1 };

/* Whether text[length] begins with the mark. */
static inline bool begins_with_word_mark(const char *text, size_t length) {
    return length >= WORD_MARK_BYTES && memcmp(text, WORD_MARK, WORD_MARK_BYTES) == 0;
}

/* U+FEFF, the byte order mark, which Windows programs begin texts with. */

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* in UTF-8 */
enum { BYTE_ORDER_MARK_CODE = 0xfeff, BYTE_ORDER_MARK_BYTES = sizeof BYTE_ORDER_MARK - 1 };

/* Bytes of the mark that text[length] begins with; 0: there is none. */
static inline size_t byte_order_mark_length(const char *text, size_t length) {
    bool marked = length >= BYTE_ORDER_MARK_BYTES &&
                  memcmp(text, BYTE_ORDER_MARK, BYTE_ORDER_MARK_BYTES) == 0;
    return marked ? BYTE_ORDER_MARK_BYTES : 0;
}

#endif
