/* The regions of an item's text.
 *
 * A bar parts the text into regions, from 1, and is removed; "\|" is a bar of the text.  A token
 * belongs to the region of its first byte that is not white space, a word to that of its first
 * byte. What closes the text belongs to none. */
#ifndef CLI_SCORE_REGIONS_H
#define CLI_SCORE_REGIONS_H

#include "lib/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sum over a region's tokens. */
struct region {
    size_t end;               /* of its bytes in the text */
    uint64_t tokens, unknown; /* unknown: of these are <unk> */
    double nats, corrected;   /* corrected: as of words (words.h) */
    double nats_other, kl;    /* --compare */
    double entropy;           /* before its first token */
    double reduction; /* that less the entropy before the next region's; NAN: no token follows */
};

/* A text without its bars. */
struct regions {
    struct buffer text;
    struct region *list; /* [n]; list[0] is region 0, of no text */
    size_t n, room;
};

/* Parts the text.  False when memory is short. */
bool regions_part(struct regions *regions, const char *text, size_t length);

/* The text as one region, bars and all. */
bool regions_whole(struct regions *regions, const char *text, size_t length);
void regions_free(struct regions *regions);

/* The first byte from `at` on that is not white space. */
size_t regions_solid(const struct regions *regions, size_t at);

/* The number of the region that has this byte; the last one for those after the text. */
size_t regions_at(const struct regions *regions, uint64_t at);

/* The words that begin in text[begin .. end).  `*in_word`: whether one goes on there. */
uint64_t regions_words(const struct buffer *text, size_t begin, size_t end, bool *in_word);

#endif
