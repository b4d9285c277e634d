/* What text needs to know of Unicode: UTF-8, white space and lower case, each as Python's str has
 * it, because the vocabularies were made by Python. */
#ifndef TXL_UNICODE_H
#define TXL_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNICODE_BYTE_ORDER_MARK 0xfeffu
#define UNICODE_REPLACEMENT 0xfffdu

/* A UTF-8 sequence under way.  All zero is the start of a text. */
struct unicode_decoder {
    uint32_t code;           /* the bits so far */
    unsigned char missing;   /* bytes still to come */
    unsigned char low, high; /* the range of the next one */
    unsigned char taken;     /* bytes of it that were taken; 0: none is under way */
};

/* Takes one byte of UTF-8 and returns how many code points are complete with it: none to two, in
 * `codes`.  Each maximal subpart of an ill-formed sequence (Unicode 14, section 3.9, table 3-7)
 * becomes one U+FFFD, as errors='replace' makes it. */
size_t unicode_decode(struct unicode_decoder *decoder, unsigned char byte, uint32_t codes[2]);

/* The text has ended: true when a sequence was cut short, which is one U+FFFD.  The decoder is then
 * at the start of a text. */
bool unicode_decode_end(struct unicode_decoder *decoder);

/* Writes the UTF-8 of `code`, a scalar value, and returns its bytes. */
size_t unicode_encode(uint32_t code, char utf8[4]);

/* The code point that valid UTF-8 begins with; `*length` (not 0) is what there is of it, and
 * receives the bytes of that code point. */
uint32_t unicode_first(const char *utf8, size_t *length);

/* str.isspace of one code point. */
bool unicode_is_space(uint32_t code);

/* str.lower of valid UTF-8, a final sigma taking its form within what is given.  `lower` has room
 * for UNICODE_LOWER_ROOM(length) bytes; returns those written, at least length /
 * UNICODE_LOWER_SHRINK. */
#define UNICODE_LOWER_ROOM(length) ((length) + (length) / 2)
#define UNICODE_LOWER_SHRINK 3
size_t unicode_lower(const char *utf8, size_t length, char *lower);

#endif
