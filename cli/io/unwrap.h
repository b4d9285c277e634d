/* Text whose lines were wrapped at a width: the lines of a paragraph are joined again.
 *
 * A line ends its paragraph if the first word of the next one would have fitted into it, or if the
 * next line is blank or indented. */
#ifndef CLI_UNWRAP_H
#define CLI_UNWRAP_H

#include "txl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lines wider than this were not wrapped. */
#define WRAP_MOST 100
/* Shorter lines look like verse or a list. */
#define WRAP_LEAST 40

/* How the start of a text is wrapped. */
struct wrap {
    unsigned
        width;     /* of the longest line that is no wider than WRAP_MOST; if there is none, that */
    uint64_t line; /* the number of that line, from 1; 0: there is none */
    bool seen;     /* most line ends are those of wrapped lines, of WRAP_LEAST columns and more */
    bool doubtful; /* of many line ends within paragraphs, or what may be some, few join lines */
    bool unbroken; /* most line ends that would join lines follow lines wider than WRAP_MOST */
};

struct wrap wrap_measure(const char *text, size_t length);

struct unwrapper {
    unsigned width; /* the wrap; 0: nothing is joined */

    /* Receive the text in order: bytes as they are, and line ends that join lines, of so many bytes
     * with the white space before them.  What they return, unless it is TXL_OK, ends the call. */
    txl_status (*text)(void *context, const char *text, size_t length, txl_error *error);
    txl_status (*join)(void *context, unsigned bytes, txl_error *error);
    /* The same of line ends that stay, where blanks are before them: these are dropped. */
    txl_status (*end)(void *context, unsigned bytes, txl_error *error);
    void *context;

    size_t column;    /* of the line: its code points so far */
    bool begun;       /* it has more than white space */
    char blanks[256]; /* held white space, which may be the line's last, and its end */
    unsigned n_blanks;
    bool ended; /* the held white space ends the line */
    char word[4 * WRAP_MOST + 4];
    size_t n_word;     /* bytes of the next line's first word so far */
    size_t word_width; /* its code points */
};

txl_status unwrap_feed(struct unwrapper *unwrapper, const char *text, size_t length,
                       txl_error *error);

/* The text has ended: passes on what was held.  Another text, wrapped at `width`, may follow. */
txl_status unwrap_finish(struct unwrapper *unwrapper, unsigned width, txl_error *error);

#endif
