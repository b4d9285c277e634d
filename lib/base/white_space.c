/* Recognises white space; of code points, as Python's str.isspace does. */
#include "white_space.h"

bool is_space_code(uint32_t code) {
    if (code < 0x80)
        return is_space_byte((char)code) || (code >= 0x1c && code <= 0x1f);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

/* No white space takes four bytes. */
size_t space_length(const char *text, size_t length) {
    const unsigned char *c = (const unsigned char *)text;
    uint32_t code = 0;
    size_t n = length == 0 ? 0 : c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : 3;
    if (n == 0 || n > length || c[0] >= 0xf0)
        return 0;
    if (n == 1)
        return is_space_code(c[0]);
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (c[i] & 0x3fu);
    }
    code |= (c[0] & (n == 2 ? 0x1fu : 0x0fu)) << 6 * (n - 1);
    return code >= (n == 2 ? 0x80u : 0x800u) && is_space_code(code) ? n : 0;
}

bool space_at_end(const char *text, size_t length) {
    for (size_t n = 1; n <= 3 && n <= length; n++)
        if (space_length(text + length - n, n) == n)
            return true;
    return false;
}
