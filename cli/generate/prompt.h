/* The prompt of txl generate: read in pieces, echoed byte for byte, fed to the session. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "cli/io/input.h"
#include "cli/model/model.h"
#include "cli/text/tokens.h"
#include "cli/texts/reading.h"
#include "lib/base/memory.h"
#include "txl.h"

struct prompt {
    const struct model *model;
    struct input input;
    const struct common_options *common; /* --binary, --unwrap */
    bool raw, ids, skip_unknown;
    bool echo;      /* print it */
    bool no_blank;  /* ids that are not echoed: so that no blank is before those that follow */
    bool blank;     /* begin with the symbol of a blank, if the model has one */
    bool ends_line; /* end with a line end, which is no part of the input */
    struct buffer *transcript; /* NULL, or receives what is shown */

    const struct reading *reading;
    const char *context, *context_text; /* a FILE, or a text, whose tokens precede the prompt's;
                                           both NULL: none */
    txl_session **session;
    txl_learner *learner; /* NULL, or learns from the prompt's full segments; the session is then
                           * made anew after these */
    uint64_t segments_learned;
    int32_t *chunk; /* [chunk_size]: ids that are read and not yet fed */
    size_t chunk_size, n_chunk;
    struct buffer held;   /* full chunks that wait, for the prompt may be so long that they do not
                             matter */
    uint64_t reach;       /* of the session; UINT64_MAX: everything is fed as it comes */
    uint64_t left_out;    /* tokens that were never fed, the first ones */
    txl_history *history; /* of the text so far */
    const txl_memory *memory; /* of the text that the prompt continues; NULL: of none */
    uint64_t tokens;          /* of the prompt alone */
    uint64_t before;          /* of the context */
    bool turns;               /* every prompt begins a new round */
    size_t round;             /* after feeding: tokens of the current round */
    struct unknown unknown;
    char line_end[2]; /* not yet echoed: it may be the one that is dropped */
    size_t n_line_end;
    char tail;           /* last byte, 0: none */
    int32_t blank_piece; /* the piece that is a blank alone, or -1 */
    uint64_t blanks; /* tokens of blanks that wait: at the end of a text of pieces they are not fed,
                      * for the next word has its blank within it */
    bool after_blank; /* the prompt ended with some */
    bool after_line;  /* it ended a line */
    bool in_line;     /* it continues a line that was begun */
    bool continues;   /* the text continues the line in which the memory ended */
};

/* Reads the prompt from its beginning and feeds it to the session, which starts new or from the
 * memory.  If neither has a token, feeds the model's first context.  TXL_STOPPED after a signal or
 * when the reader of the echo is gone; other failures have had their error printed. */
txl_status prompt_feed(struct prompt *prompt);

/* Echoes the prompt again, if it is to be echoed, before another text; also after a signal.  The
 * input must be seekable.  Fails as prompt_feed does. */
txl_status prompt_repeat(struct prompt *prompt);

#endif
