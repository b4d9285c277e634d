/* The texts of txl train: reading, holding out, counting symbols. */
#ifndef TXL_TRAIN_TRAIN_TEXT_H
#define TXL_TRAIN_TRAIN_TEXT_H

#include "cli/options/options.h"
#include "cli/text/tokens.h"
#include "convert/converter.h"
#include "lib/base/memory.h"
#include "txl.h"

/* The texts of txl train: read once, or twice if a vocabulary is made from them, in constant memory
 * except for the ids.  The end of the text is kept back, so that a part of it can be held out. */

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

/* What messages call them. */
const char *train_text_name(const struct train_text *text);

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

/* The held-out text of txl train, and how well a model predicts it. */

struct heldout {
    const char *name; /* for messages */
    struct id_list list;
    bool letters;       /* its symbols are characters */
    txl_encoded counts; /* of the text; zero of ids */
    struct unknown unknown;
};

/* Measures as txl ppl does. */
struct heldout_score {
    uint64_t predicted;
    double nats;
};

/* Takes the held-out part of the training text, or the text in the file at `path` unless that is
 * NULL, which is read as the training text is.  False with the error printed, or at a
 * signal; end with heldout_free. */
bool heldout_read(struct heldout *heldout, const txl_model *model, const char *path,
                  const struct train_text *text, bool raw, bool skip_unknown);
void heldout_free(struct heldout *heldout);

/* Scores the text in segments with the settings, with memory.  With ext_len, up to so many tokens
 * of a segment are scored in the ones before, as in training.  TXL_STOPPED at a signal. */
txl_status heldout_score(const struct heldout *heldout, const txl_model *model,
                         const txl_settings *settings, size_t ext_len, struct heldout_score *score,
                         txl_error *error);

/* Bits a character, or for ids bits a token. */
double heldout_bits(const struct heldout *heldout, const struct heldout_score *score);

/* The symbols of a new model: counted in its text, fixed, or from a file. */

/* Makes the vocabulary that `name` asks for: characters or words that occur at least `min_count`
 * times in the text, most frequent first; bytes; text8; or the symbols in the file of that name.
 * `raw`: words of prose.  TXL_STOPPED after a signal; every other failure has printed its error.
 * The section is the caller's to free. */
txl_status train_vocabulary_make(struct convert_vocabulary *vocabulary, const char *name,
                                 int64_t min_count, bool raw, struct train_text *text);

/* Whether this counts symbols in the text, so that the text is read twice. */
bool train_vocabulary_counts(const char *name);

#endif
