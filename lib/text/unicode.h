/* UTF-8 and lower case, both as in Python's str, because Python made the
 * vocabularies. */
#ifndef TXL_UNICODE_H
#define TXL_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNICODE_REPLACEMENT 0xfffdu

/* The state of decoding UTF-8.  All zero is the start of a text. */
struct unicode_decoder {
    uint32_t code;           /* the bits so far */
    unsigned char missing;   /* bytes still to come */
    unsigned char low, high; /* the range of the next one */
    unsigned char taken;     /* bytes taken of an incomplete sequence */
};

/* Takes one byte of UTF-8 and returns how many code points are complete with it: none to two, in
 * `codes`.  Each maximal subpart of an ill-formed sequence (Unicode 14, section 3.9, table 3-7)
 * becomes one U+FFFD, as errors='replace' makes it. */
size_t unicode_decode(struct unicode_decoder *decoder, unsigned char byte, uint32_t codes[2]);

/* Ends the text: returns true if its last sequence is incomplete, which makes one U+FFFD. The
 * decoder is then as new. */
bool unicode_decode_end(struct unicode_decoder *decoder);

/* Bytes of the code point that begins with this byte. */
static inline size_t unicode_length(char first) {
    unsigned char byte = (unsigned char)first;
    return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/* Writes the UTF-8 of `code`, a scalar value, and returns its bytes. */
size_t unicode_encode(uint32_t code, char utf8[4]);

/* The first code point of valid UTF-8.  `*length`, above 0, holds the bytes of the text and
 * receives those of the code point. */
uint32_t unicode_first(const char *utf8, size_t *length);

/* str.lower of valid UTF-8; whether a sigma is final depends on the given text alone.  `lower` has
 * room for UNICODE_LOWER_ROOM(length) bytes; returns those written, at least length /
 * UNICODE_LOWER_SHRINK. */
#define UNICODE_LOWER_ROOM(length) ((length) + (length) / 2)
#define UNICODE_LOWER_SHRINK 3
size_t unicode_lower(const char *utf8, size_t length, char *lower);

#endif
