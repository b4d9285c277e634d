/* U+FEFF, the byte order mark, which Windows programs begin texts with. */
#ifndef TXL_BYTE_ORDER_MARK_H
#define TXL_BYTE_ORDER_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* in UTF-8 */
enum { BYTE_ORDER_MARK_CODE = 0xfeff, BYTE_ORDER_MARK_BYTES = sizeof BYTE_ORDER_MARK - 1 };

/* Bytes of the mark that text[length] begins with; 0: there is none. */
static inline size_t byte_order_mark_length(const char *text, size_t length) {
    bool marked = length >= BYTE_ORDER_MARK_BYTES &&
                  memcmp(text, BYTE_ORDER_MARK, BYTE_ORDER_MARK_BYTES) == 0;
    return marked ? BYTE_ORDER_MARK_BYTES : 0;
}

#endif
