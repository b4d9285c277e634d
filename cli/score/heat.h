/* The text itself on standard output, coloured by how much each token surprised the model (--heat).
 * Its bytes stay unchanged; colours, if wanted, come between them.
 *
 * Text comes in first, its symbols later, and their scores later still.  So the text waits until
 * its tokens are scored; each token has its extent in the text. */
#ifndef CLI_HEAT_H
#define CLI_HEAT_H

#include "lib/base/memory.h"
#include "scorer.h"

/* The bytes of the text that a token stands for.  If several tokens stand for the same bytes, the
 * first one decides the colour. */
struct extent {
    uint64_t begin, end;
};

struct heat {
    bool coloured;

    struct buffer text; /* waits from text_begin on */
    size_t text_begin;
    uint64_t printed;      /* bytes of the text before what waits */
    struct buffer extents; /* struct extent of the tokens that wait, from extent_begin on */
    size_t extent_begin;
    uint64_t next; /* index in the stream of the first of them */
    int level;     /* the level of surprise whose colour is set */
};

/* Colours are used if standard output is a terminal or CLICOLOR_FORCE is set (not to 0), unless
 * NO_COLOR is set.  Without them the text is printed unchanged, and a note says so. */
void heat_open(struct heat *heat);
void heat_close(struct heat *heat);

/* Called in this order for one text.  TXL_STOPPED when the reader of the output is gone. */
txl_status heat_text(struct heat *heat, const char *text, size_t length, txl_error *error);
txl_status heat_symbol(struct heat *heat, const txl_symbol *symbol, txl_error *error);
txl_status heat_token(void *heat, const struct scored *token, txl_error *error); /* an observer */

/* Prints the rest of the text; if it was not read to its end, only up to the last token. */
void heat_end_text(struct heat *heat, bool ended);

/* Prints the legend of the colours in nats; nothing without colours. */
void heat_print_legend(struct heat *heat);

#endif
