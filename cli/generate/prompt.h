/* The prompt of txl generate: read in pieces, echoed byte for byte, fed to the session. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "cli/model.h"
#include "cli/system/input.h"
#include "cli/tokens.h"
#include "cli/unknown.h"
#include "lib/base/buffer.h"
#include "reading.h"

struct prompt {
    const struct model *model;
    struct input input;
    bool raw, ids, skip_unknown;
    bool echo;      /* print it */
    bool shown;     /* what follows goes on behind it: --json does not print what it continues */
    bool blank;     /* begin with the symbol of a blank, where there is one */
    bool ends_line; /* end with a line end, which is no part of the input */
    struct buffer *transcript; /* NULL, or gains what is shown */

    const struct reading *reading;
    const char *context; /* FILE whose tokens precede the prompt's; NULL: none */
    txl_session *session;
    int32_t *chunk; /* [chunk_size]: read and not yet fed */
    size_t chunk_size, n_chunk;
    txl_history *history;     /* of the text so far */
    const txl_memory *memory; /* of the text that the prompt continues; NULL: of none */
    uint64_t tokens;          /* of the prompt alone */
    uint64_t before;          /* of the context */
    bool turns;               /* every prompt begins a round of its own */
    size_t round;             /* when it has been fed: tokens of the round at hand */
    struct unknown unknown;
    char line_end[2]; /* not yet echoed: it may be the one that is dropped */
    size_t n_line_end;
    char tail;    /* last byte shown, 0: none */
    bool in_line; /* it goes on in a line that was begun */
    bool goes_on; /* the text goes on with the line that the memory ended in */
};

/* Reads the prompt from its beginning and feeds it to the session, which starts afresh or from the
 * memory.  Without a token in either the model's first context is fed.  TXL_STOPPED after a signal
 * or when the reader of the echo is gone; other failures have had their error printed. */
txl_status prompt_feed(struct prompt *prompt);

/* Echoes it once more, if it is to be echoed, for a text that is printed behind another; also after
 * a signal.  The input must be one that can be read again.  Failures as above. */
txl_status prompt_repeat(struct prompt *prompt);

#endif
