/* Divides UTF-8 into characters and invalid sequences. */
#include "utf8.h"

#include <unistr.h>

size_t utf8_first(const char *text, size_t length, enum utf8_what *what) {
    const uint8_t *bytes = (const uint8_t *)text;
    ucs4_t code;
    int used = u8_mbtoucr(&code, bytes, length);
    size_t part = 1;
    *what = used > 0 ? UTF8_CHARACTER : used == -2 ? UTF8_CUT : UTF8_INVALID;
    while (used <= 0 && part < length && u8_mbtoucr(&code, bytes, part + 1) == -2)
        part++;
    return used > 0 ? (size_t)used : part;
}
