/* Divides UTF-8 into characters and invalid sequences. */
#include "utf8.h"

#include <stdlib.h>
#include <string.h>
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

void unescape(char *text) {
    static const char letters[] = "abefnrtv\\\"'", meant[] = "\a\b\033\f\n\r\t\v\\\"'";
    char *to = text;
    while (*text != '\0') {
        const char *letter = *text == '\\' && text[1] != '\0' ? strchr(letters, text[1]) : NULL;
        bool hex = *text == '\\' && text[1] == 'x';
        size_t digits = hex             ? strspn(text + 2, "0123456789abcdefABCDEF")
                        : *text == '\\' ? strspn(text + 1, "01234567")
                                        : 0;
        char number[4] = "";
        digits = digits < (hex ? 2 : 3) ? digits : hex ? 2 : 3;
        memcpy(number, text + 1 + hex, digits);
        const long code = digits > 0 ? strtol(number, NULL, hex ? 16 : 8) : 0;
        if (letter || (code > 0 && code < 256)) {
            *to++ = letter ? meant[letter - letters] : (char)code;
            text += letter ? 2 : 1 + hex + (int)digits;
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}
