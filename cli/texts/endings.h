/* --stop: finds the first of several strings in a text that comes piece by piece, and holds back
 * text that may become one of them. */
#ifndef CLI_ENDINGS_H
#define CLI_ENDINGS_H

#include "cli/options/options.h"
#include "lib/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One string, searched as by Knuth, Morris and Pratt (1977). */
struct stop {
    const char *text;
    size_t length;
    size_t *border; /* [length]: the longest proper prefix of text[0..i] that is also its suffix */
    size_t matched; /* bytes of it that end the text so far */
};

struct stop_search {
    struct stop *stops;
    size_t n;
    struct buffer held; /* the end of the text, as long as the longest partial match */
};

/* The strings must not be empty and stay in place.  False when memory is short; end with
 * stop_search_free. */
bool stop_search_new(struct stop_search *search, const struct string_list *strings);
void stop_search_free(struct stop_search *search);

/* Appends the text that cannot belong to a stop string to `out`.  When a stop string is complete,
 * sets `*found`; `out` then ends just before it, or before the longest of several.  False when
 * memory is short. */
bool stop_search_feed(struct stop_search *search, const char *text, size_t length,
                      struct buffer *out, bool *found);

/* The text ended: appends what was held back.  The search is then as new. */
bool stop_search_finish(struct stop_search *search, struct buffer *out);

/* Forgets the text so far. */
void stop_search_reset(struct stop_search *search);

/* Finds where a sentence ends in a text that comes piece by piece: at . ! ? or an ellipsis and the
 * closing quotes and brackets after it, after at least two words; not at the full stop of a title,
 * such as Mr., or of an initial. */

/* Zeroed at the beginning. */
struct sentence {
    uint64_t words;
    bool in_word, ended;
    bool abbreviated; /* the last byte is the full stop of a title or an initial */
    char letters[8];  /* the ASCII letters before: room for more than a title's */
    size_t n_letters;
    unsigned char last[2]; /* the bytes before, for three-byte characters */
};

void sentence_add(struct sentence *sentence, const char *text, size_t length);

/* True where white space would now end it. */
bool sentence_ended(const struct sentence *sentence);

#endif
