/* UTF-8 and lower case. */
#include "unicode.h"

#include <string.h>
#include <unicase.h>
#include <unictype.h>
#include <unistr.h>

/* Begins a sequence: returns 1 when the byte is a code point or an error by itself. */
static size_t begin_sequence(struct unicode_decoder *decoder, unsigned char byte, uint32_t *code) {
    if (byte < 0x80) {
        *code = byte;
        return 1;
    }
    if (byte < 0xc2 || byte > 0xf4) {
        *code = UNICODE_REPLACEMENT;
        return 1;
    }
    /* The second byte's range excludes overlong forms, surrogates and what is beyond U+10FFFF. */
    decoder->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    decoder->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    decoder->missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    decoder->code = byte & (0x3fu >> decoder->missing);
    decoder->taken = 1;
    return 0;
}

size_t unicode_decode(struct unicode_decoder *decoder, unsigned char byte, uint32_t codes[2]) {
    if (decoder->missing == 0)
        return begin_sequence(decoder, byte, codes);
    if (byte < decoder->low || byte > decoder->high) {
        decoder->missing = decoder->taken = 0;
        codes[0] = UNICODE_REPLACEMENT;
        return 1 + begin_sequence(decoder, byte, codes + 1);
    }
    decoder->code = decoder->code << 6 | (byte & 0x3fu);
    decoder->low = 0x80;
    decoder->high = 0xbf;
    decoder->taken++;
    if (--decoder->missing > 0)
        return 0;
    decoder->taken = 0;
    codes[0] = decoder->code;
    return 1;
}

bool unicode_decode_end(struct unicode_decoder *decoder) {
    bool cut = decoder->missing > 0;
    *decoder = (struct unicode_decoder){0};
    return cut;
}

size_t unicode_encode(uint32_t code, char utf8[4]) {
    return (size_t)u8_uctomb((uint8_t *)utf8, code, 4);
}

uint32_t unicode_first(const char *utf8, size_t *length) {
    ucs4_t code;
    *length = (size_t)u8_mbtouc(&code, (const uint8_t *)utf8, *length);
    return code;
}

/* Lower-cases leading ASCII and returns its length. */
static size_t lower_ascii(const char *text, size_t length, char *lower) {
    size_t i = 0;
    for (; i < length && (unsigned char)text[i] < 0x80; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i]);
    return i;
}

/* Whether a cased letter follows, apart from what case ignores. */
static bool cased_follows(const char *utf8, size_t length) {
    for (size_t i = 0; i < length;) {
        size_t bytes = length - i;
        uint32_t code = unicode_first(utf8 + i, &bytes);
        if (!uc_is_property_case_ignorable(code))
            return uc_is_property_cased(code);
        i += bytes;
    }
    return false;
}

/* u8_tolower differs from Python in one thing: it lets a letter that is both cased and
 * case-ignorable decide whether a sigma is final. */
size_t unicode_lower(const char *utf8, size_t length, char *lower) {
    if (lower_ascii(utf8, length, lower) == length)
        return length;
    size_t written = 0;
    bool after_cased = false;
    for (size_t i = 0; i < length;) {
        size_t bytes = length - i;
        uint32_t code = unicode_first(utf8 + i, &bytes);
        i += bytes;
        if (code == 0x3a3) { /* capital sigma: final after a letter and before none */
            bool final = after_cased && !cased_follows(utf8 + i, length - i);
            written += unicode_encode(final ? 0x3c2 : 0x3c3, lower + written);
        } else if (code == 0x130) { /* I with dot above: the one lower case of two code points */
            memcpy(lower + written, "i\xcc\x87", 3);
            written += 3;
        } else {
            written += unicode_encode(uc_tolower(code), lower + written);
        }
        if (!uc_is_property_case_ignorable(code))
            after_cased = uc_is_property_cased(code);
    }
    return written;
}
