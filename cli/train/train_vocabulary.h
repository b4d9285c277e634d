/* The symbols of a new model: counted in its text, fixed, or from a file. */
#ifndef CLI_TRAIN_VOCABULARY_H
#define CLI_TRAIN_VOCABULARY_H

#include "convert/converter.h"
#include "train_text.h"

/* Makes the vocabulary that `name` asks for: characters or words that occur at least `min_count`
 * times in the text, most frequent first; bytes; text8; or the symbols in the file of that name.
 * `raw`: words of prose.  TXL_STOPPED after a signal; every other failure has printed its error.
 * The section is the caller's to free. */
txl_status train_vocabulary_make(struct convert_vocabulary *vocabulary, const char *name,
                                 int64_t min_count, bool raw, struct train_text *text);

/* Whether this counts symbols in the text, so that the text is read twice. */
bool train_vocabulary_counts(const char *name);

#endif
