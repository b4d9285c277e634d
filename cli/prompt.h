/* The prompt of txl generate: read in pieces, echoed byte for byte, fed to the session. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "input.h"
#include "model.h"
#include "tokens.h"

/* The last symbols of a prompt that a decoder is told of. */
enum { PROMPT_RECENT = 64 };

struct prompt {
    const struct model *model;
    struct input input;
    bool raw, ids, skip_unknown;
    bool echo;  /* print it */
    bool shown; /* what follows goes on behind it: --json does not print what it continues */

    txl_session *session;
    int32_t *chunk; /* [chunk_size]: read and not yet fed */
    size_t chunk_size, n_chunk;
    int32_t recent[2 * PROMPT_RECENT]; /* the end of the prompt */
    size_t n_recent;
    uint64_t tokens;
    uint64_t unknown;
    char line_end[2]; /* not yet echoed: it may be the one that is dropped */
    size_t n_line_end;
    char tail; /* last byte shown, 0: none */
};

/* Reads the prompt from its beginning and feeds it to the session, which starts afresh.  Without a
 * token in it the model's first context is fed.  TXL_STOPPED after a signal or when the reader of
 * the echo is gone; other failures have had their error printed. */
txl_status prompt_feed(struct prompt *prompt);

/* The last symbols, at most PROMPT_RECENT. */
const int32_t *prompt_recent(const struct prompt *prompt, size_t *n);

#endif
