/* The spellings of a vocabulary, as its section of the weights file has them (vocabulary.h). */
#ifndef TXL_TEXT_SPELLINGS_H
#define TXL_TEXT_SPELLINGS_H

#include "lib/base/numbers.h"

#include <stddef.h>

struct spellings {
    const unsigned char *ends; /* [n] of uint32: where each ends in `text` */
    const char *text;
    int32_t n;
};

/* Where the spelling of `id`, -1 <= id < n, ends in the text; -1 ends where the first one begins.
 */
static inline uint32_t spelling_end(const struct spellings *spellings, int32_t id) {
    return id < 0 ? 0 : read_u32(spellings->ends + (size_t)id * 4);
}

/* The spelling of `id`, 0 <= id < n, not NUL-terminated. */
static inline const char *spelling_at(const struct spellings *spellings, int32_t id,
                                      size_t *length) {
    uint32_t begin = spelling_end(spellings, id - 1);
    *length = spelling_end(spellings, id) - begin;
    return spellings->text + begin;
}

#endif
