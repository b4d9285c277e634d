/* One continuation of the prompt, token by token: from draws to what standard output is to gain. */
#ifndef CLI_SAMPLE_H
#define CLI_SAMPLE_H

#include "lib/base/buffer.h"
#include "sentence.h"
#include "stop.h"
#include "txl.h"

#include <jansson.h>
#include <stdint.h>

struct generate;

/* What <eos> does: --eos. */
enum { EOS_NEWLINE, EOS_STOP, EOS_BAN };
extern const char *const eos_ways[]; /* newline, stop, ban */

/* What belongs to one sample; what all have in common is in struct generate.  Functions that fail
 * have printed the error. */
struct sample {
    int64_t number; /* from 1 */
    txl_session *session;
    txl_history *history; /* the prompt and the sample so far */
    txl_decoder *decoder; /* NULL for ids */
    struct stop_search stops;
    txl_random random; /* of the next draw */
    int32_t id;        /* the last one drawn */
    char tail;         /* the last byte of the text as shown, 0: none */
    uint64_t made;
    struct sentence sentence; /* of an interactive text's turn */
    bool refused;             /* the id last drawn ends the turn before it, and is no part of it */
    size_t round;             /* tokens since the known ones were read afresh */
    json_t *top;              /* of the last draw, for --logprobs, until it is printed */
    double start;
    const char *done; /* why it ended; NULL: it goes on */

    struct buffer decoded; /* from the decoder, or an id, on its way to the stop strings */
    struct buffer text;    /* past them; with --json perhaps an incomplete character */
    struct buffer output;  /* for standard output, when it is the sample's turn */
};

/* A session of its own and an empty history.  End with sample_close, also after a failure. */
bool sample_open(const struct generate *g, struct sample *sample);

/* The same at the place of another one, to which the prompt has been fed. */
bool sample_copy(const struct generate *g, const struct sample *from, struct sample *copy);
void sample_close(struct sample *sample);

/* Begins behind the prompt, whose last byte as shown is `tail`. */
txl_status sample_start(const struct generate *g, struct sample *sample, int64_t number, char tail);

/* Draws the next token and appends what comes of it to `output`; the id is yet to be fed.  Ctrl-C
 * ends the sample with it, so that every byte held back belongs to a token. */
txl_status sample_token(const struct generate *g, struct sample *sample);

/* Prints why the sample has ended, and with --json its figures. */
txl_status sample_end(const struct generate *g, struct sample *sample, const char *done);

/* Copies the text's memory, with all that going on with it takes. */
bool sample_save(const struct generate *g, const struct sample *sample, txl_memory **memory);

#endif
