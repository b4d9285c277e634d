/* Finds where a sentence ends in a text that comes piece by piece: at . ! ? or an ellipsis and the
 * closing quotes and brackets behind it, after at least two words. */
#ifndef CLI_SENTENCE_H
#define CLI_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed at the beginning. */
struct sentence {
    uint64_t words;
    bool in_word, ended;
    unsigned char last[2]; /* the bytes before, for three-byte characters */
};

void sentence_add(struct sentence *sentence, const char *text, size_t length);

/* True where white space would now end it. */
bool sentence_ended(const struct sentence *sentence);

#endif
