/* Recognises white space; of code points, as Python's str.isspace does. */
#include "white_space.h"

#include <unistr.h>

bool is_space_code(uint32_t code) {
    if (code < 0x80)
        return is_space_byte((char)code) || (code >= 0x1c && code <= 0x1f);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

size_t space_length(const char *text, size_t length) {
    ucs4_t code;
    int n = length > 0 ? u8_mbtoucr(&code, (const uint8_t *)text, length) : 0;
    return n > 0 && is_space_code(code) ? (size_t)n : 0;
}

bool is_all_space(const char *text, size_t length) {
    size_t at = 0, n = 1;
    for (; at < length && n > 0; at += n)
        n = space_length(text + at, length - at);
    return n > 0;
}

size_t space_at_end(const char *text, size_t length) {
    for (size_t n = 1; n <= 3 && n <= length; n++)
        if (space_length(text + length - n, n) == n)
            return n;
    return 0;
}
