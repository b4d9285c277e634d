/* Counts the characters of a text, to compare with what an encoder says. */
#ifndef TEST_COUNT_H
#define TEST_COUNT_H

#include "lib/text/unicode.h"

struct counted {
    struct unicode_decoder utf8;
    uint64_t at, characters;
};

/* Code points of the text before `end`, which is not before the last one asked for; each maximal
 * invalid sequence is one. */
static inline uint64_t count_to(struct counted *counted, const char *text, uint64_t end) {
    uint32_t codes[2];
    for (; counted->at < end; counted->at++)
        counted->characters +=
            unicode_decode(&counted->utf8, (unsigned char)text[counted->at], codes);
    return counted->characters + (counted->utf8.taken > 0);
}

#endif
