/* Replaces characters that would control a terminal, and divides UTF-8 into characters and invalid
 * sequences. */
#include "clean.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
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

/* ---- Harmless text ------------------------------------------------------------------------- */

static bool is_control(ucs4_t code) {
    return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

/* Unicode's Bidi_Control. */
static bool is_bidirectional(ucs4_t code) {
    return code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/* Bytes of the character that text[0 .. length) begins with, at least 1; -2: it is incomplete. */
static int next_character(const char *text, size_t length, bool *harmful) {
    ucs4_t code;
    int used = u8_mbtoucr(&code, (const uint8_t *)text, length);
    *harmful = used < 0 || is_control(code) || is_bidirectional(code);
    /* In an invalid sequence, the longest beginning of a character counts as one. */
    return used == -1 ? u8_mbtouc(&code, (const uint8_t *)text, length) : used;
}

size_t clean_line(char *text) {
    size_t length = strlen(text), n = 0;
    for (size_t i = 0; i < length;) {
        bool harmful;
        int used = next_character(text + i, length - i, &harmful);
        size_t bytes = used < 0 ? length - i : (size_t)used;
        if (harmful)
            text[n++] = '?';
        else {
            memmove(text + n, text + i, bytes);
            n += bytes;
        }
        i += bytes;
    }
    text[n] = '\0';
    return n;
}

static const char replacement[] = "\xef\xbf\xbd";

static size_t replace(char *out) {
    memcpy(out, replacement, 3);
    return 3;
}

/* Cleans text[0 .. length) except an incomplete character at its end, whose bytes it counts. */
static size_t clean_part(const char *text, size_t length, char *out, size_t *left) {
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        bool harmful;
        int used = next_character(text + i, length - i, &harmful);
        if (used < 0) {
            *left = length - i;
            return n;
        }
        if (harmful && text[i] != '\n' && text[i] != '\t')
            n += replace(out + n);
        else {
            memcpy(out + n, text + i, (size_t)used);
            n += (size_t)used;
        }
        i += (size_t)used;
    }
    *left = 0;
    return n;
}

size_t clean_text(struct clean_text *clean, const char *text, size_t length, char *out) {
    size_t n = 0, left = 0;
    while (clean->n > 0 && length > 0) {
        clean->waiting[clean->n++] = *text++;
        length--;
        n += clean_part(clean->waiting, clean->n, out + n, &left);
        memmove(clean->waiting, clean->waiting + clean->n - left, left);
        clean->n = left;
    }
    if (length == 0)
        return n;
    n += clean_part(text, length, out + n, &left);
    memcpy(clean->waiting, text + length - left, left);
    clean->n = left;
    return n;
}

size_t clean_text_end(struct clean_text *clean, char *out) {
    bool waits = clean->n > 0;
    clean->n = 0;
    return waits ? replace(out) : 0;
}

/* JSON is whole, valid UTF-8. */
static size_t next_of_json(const char *json, size_t length, bool *harmful) {
    int used = next_character(json, length, harmful);
    assert(used > 0);
    return (size_t)used;
}

char *clean_json(char *json) {
    size_t length = json ? strlen(json) : 0, n = 0;
    bool harmful;
    for (size_t i = 0; i < length; n += harmful)
        i += next_of_json(json + i, length - i, &harmful);
    if (n == 0)
        return json;
    char *cleaned = malloc(length + n * strlen("\\u0000") + 1), *at = cleaned;
    for (size_t i = 0; cleaned && i < length;) {
        size_t used = next_of_json(json + i, length - i, &harmful);
        ucs4_t code;
        u8_mbtouc(&code, (const uint8_t *)json + i, used);
        if (harmful)
            at += sprintf(at, "\\u%04x", (unsigned)code);
        else
            at = mempcpy(at, json + i, used);
        i += used;
    }
    if (cleaned)
        *at = '\0';
    free(json);
    return cleaned;
}
