/* The held-out text of txl train, and how well a model predicts it. */
#ifndef CLI_HELDOUT_H
#define CLI_HELDOUT_H

#include "lib/base/buffer.h"
#include "lib/base/id_list.h"
#include "txl.h"

struct heldout {
    const char *name; /* for messages */
    struct id_list list;
    bool letters;       /* its symbols are characters */
    txl_encoded counts; /* of the text; zero of ids */
};

/* As ppl measures it. */
struct heldout_score {
    uint64_t predicted;
    double nats;
};

/* Takes the text of `bytes`, or of the file at `path` if that is no NULL; `raw` and `ids` as for
 * the text that is trained on.  False with the error printed, or at a signal; end with
 * heldout_free. */
bool heldout_read(struct heldout *heldout, const txl_model *model, const char *path,
                  const struct buffer *bytes, bool raw, bool ids);
void heldout_free(struct heldout *heldout);

/* Scores it in segments with the settings, each with the memory before.  TXL_STOPPED at a
 * signal. */
txl_status heldout_score(const struct heldout *heldout, const txl_model *model,
                         const txl_settings *settings, struct heldout_score *score,
                         txl_error *error);

/* Bits a character, or of ids bits a token. */
double heldout_bits(const struct heldout *heldout, const struct heldout_score *score);

#endif
