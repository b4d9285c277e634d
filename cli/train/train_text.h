/* The texts of txl train: read once, or twice if a vocabulary is made from them, in constant memory
 * except for the ids.  The end of the text is kept back, so that a part of it can be held out. */
#ifndef CLI_TRAIN_TEXT_H
#define CLI_TRAIN_TEXT_H

#include "cli/options/options.h"
#include "cli/text/tokens.h"
#include "lib/base/memory.h"
#include "txl.h"

struct train_text {
    struct input *input; /* [n] */
    int n;
    uint64_t *begin; /* [n]: bytes of the texts before it; UINT64_MAX: it was not yet read */
    txl_kind kind;   /* of the model that is trained */
    struct common_options common; /* --binary, --unwrap */
    bool ids;                     /* decimal ids, which are never cut inside a number */
    bool holds_out;               /* a part of the text is held out; else all of it is trained on */
    bool seekable;                /* it will be read again */
    struct buffer tail;           /* after reading: the held-out part */
    uint64_t bytes;               /* of all texts */
};

/* Opens them.  False with the error printed; end with train_text_close. */
bool train_text_open(struct train_text *text, char **paths, int n);
void train_text_close(struct train_text *text);

/* Reads all texts from their start, one after the other, as one text, and passes the part to train
 * on to `take`, which ends the reading if it returns anything but TXL_OK.  TXL_STOPPED after a
 * signal; every other failure has printed its error. */
txl_status train_text_read(struct train_text *text,
                           txl_status (*take)(void *context, const char *bytes, size_t length),
                           void *context);

/* Passes bytes on to the reader that began with byte `first` of the texts; with --unwrap each text
 * is wrapped as its own begin is. */
txl_status train_text_feed(const struct train_text *text, uint64_t first,
                           struct token_reader *reader, const char *bytes, size_t length);

#endif
