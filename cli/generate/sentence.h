/* Finds where a sentence ends in a text that comes piece by piece: at . ! ? or an ellipsis and the
 * closing quotes and brackets behind it, after at least two words; not at the full stop of a title,
 * such as Mr., or of an initial. */
#ifndef CLI_SENTENCE_H
#define CLI_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
