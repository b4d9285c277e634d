/* Recognises white space in UTF-8. */
#include "blank.h"

size_t blank_length(const char *text, size_t length) {
    const unsigned char *c = (const unsigned char *)text;
    if (length == 0)
        return 0;
    if (blank_is_byte(text[0]) || (c[0] >= 0x1c && c[0] <= 0x1f))
        return 1;
    if (length >= 2 && c[0] == 0xc2 && (c[1] == 0x85 || c[1] == 0xa0))
        return 2;
    if (length < 3)
        return 0;
    bool is = (c[0] == 0xe1 && c[1] == 0x9a && c[2] == 0x80) ||
              (c[0] == 0xe2 && c[1] == 0x80 && c[2] >= 0x80 && c[2] <= 0x8a) ||
              (c[0] == 0xe2 && c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9 || c[2] == 0xaf)) ||
              (c[0] == 0xe2 && c[1] == 0x81 && c[2] == 0x9f) ||
              (c[0] == 0xe3 && c[1] == 0x80 && c[2] == 0x80);
    return is ? 3 : 0;
}

bool blank_at_end(const char *text, size_t length) {
    for (size_t n = 1; n <= 3 && n <= length; n++)
        if (blank_length(text + length - n, n) == n)
            return true;
    return false;
}
