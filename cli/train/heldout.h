/* The held-out text of txl train, and how well a model predicts it. */
#ifndef CLI_HELDOUT_H
#define CLI_HELDOUT_H

#include "cli/text/tokens.h"
#include "lib/base/memory.h"
#include "train_text.h"
#include "txl.h"

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

/* Scores the text in segments with the settings, with memory.  TXL_STOPPED at a signal. */
txl_status heldout_score(const struct heldout *heldout, const txl_model *model,
                         const txl_settings *settings, struct heldout_score *score,
                         txl_error *error);

/* Bits a character, or for ids bits a token. */
double heldout_bits(const struct heldout *heldout, const struct heldout_score *score);

#endif
