/* The text itself on standard output, coloured by how much each token surprised the model (--heat).
 * Its bytes stay exactly what they were: colours come between them, and only where they are wanted.
 *
 * Text comes in first, then the symbols that the encoder makes of it, then their scores, each with
 * a lag.  So the text waits until its tokens are scored, each token knowing its extent in it. */
#ifndef CLI_HEAT_H
#define CLI_HEAT_H

#include "score.h"

#include <stddef.h>

/* What a token is of the text, from its begin in bytes.  Of bytes that several stand for the first
 * has the colour. */
struct extent {
    uint64_t begin, end;
};

struct heat {
    bool coloured;

    char *text; /* [text_room] waits from text_begin to text_end */
    size_t text_room, text_begin, text_end;
    uint64_t printed;       /* bytes of the text before what waits */
    struct extent *extents; /* [extent_room] of the tokens that wait, from extent_begin */
    size_t extent_room, extent_begin, extent_end;
    uint64_t next; /* index in the stream of the first of them */
    int level;     /* of surprise, that the output's colour shows */
};

/* Colours are wanted where standard output is a terminal or CLICOLOR_FORCE is set (but to 0), and
 * nowhere when NO_COLOR is; without them the text comes out as it is, and a note says so. */
void heat_open(struct heat *heat);
void heat_close(struct heat *heat);

/* The order of calls for one text.  TXL_STOPPED when nobody reads the output any more. */
txl_status heat_text(struct heat *heat, const char *text, size_t length, txl_error *error);
txl_status heat_symbol(struct heat *heat, const txl_symbol *symbol, txl_error *error);
txl_status heat_token(void *heat, const struct scored *token, txl_error *error); /* an observer */

/* Prints what is left of the text; of one that was not read to its end only the tokens. */
void heat_end_text(struct heat *heat, bool ended);

/* The line that says which colour is how many nats; without colours none. */
void heat_print_legend(struct heat *heat);

#endif
